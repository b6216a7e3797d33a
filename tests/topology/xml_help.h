/* tests/topology/xml_help.h - what the tests of readers share: fixtures, doubts, links as text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_XML_HELP_H
#define KITH_TESTS_XML_HELP_H

#include <kith/kith.h>
#include <kith/topology.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/model.h"

static inline const char *fixture_path(const char *name)
{
    static char path[4096];
    const char *source = getenv("KITH_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/topology/fixtures/%s", source != NULL ? source : ".", name);
    return path;
}

static inline kith_topology *load_file(const char *path)
{
    kith_topology *t = NULL;
    const char *paths[] = { path };
    if (kith_topology_load(paths, 1, NULL, &t) != KITH_OK)
        fail_msg("%s: %s", path, kith_error_detail());
    if (ki_topology_check(t) != KITH_OK)
        fail_msg("%s: %s", path, kith_error_detail());
    return t;
}

static inline kith_topology *load_fixture(const char *name)
{
    return load_file(fixture_path(name));
}

static inline kith_topology *parse_text(const char *text)
{
    kith_topology *t = NULL;
    if (kith_topology_parse("text.xml", text, strlen(text), NULL, &t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    assert_int_equal(ki_topology_check(t), KITH_OK);
    return t;
}

/* The reading fails with that status, and its reason has the words. */
static inline void expect_refusal(const char *text, kith_status wanted, const char *words)
{
    kith_topology *t = NULL;
    kith_status got = kith_topology_parse("text.xml", text, strlen(text), NULL, &t);
    if (got != wanted || strstr(kith_error_detail(), words) == NULL)
        fail_msg("wanted status %d and '%s', got %d and '%s'", wanted, words, got,
                 got != KITH_OK ? kith_error_detail() : "");
}

static inline const kith_doubt *find_doubt(const kith_topology *t, const char *code)
{
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        if (strcmp(kith_topology_doubt(t, i)->code, code) == 0)
            return kith_topology_doubt(t, i);
    return NULL;
}

static inline void expect_doubt(const kith_topology *t, const char *code, const char *words)
{
    const kith_doubt *doubt = find_doubt(t, code);
    if (doubt == NULL || strstr(doubt->text, words) == NULL)
        fail_msg("wanted doubt %s with '%s', got '%s'", code, words, doubt != NULL ? doubt->text : "none");
}

static inline void expect_no_doubt(const kith_topology *t, const char *code)
{
    const kith_doubt *doubt = find_doubt(t, code);
    if (doubt != NULL)
        fail_msg("wanted no doubt %s, got '%s'", code, doubt->text);
}

/* One row of the matrix as "X NV6 PIX", and for NICs. */
static inline void expect_row(const kith_node_kind *kind, int gpu, const char *wanted)
{
    char row[4096] = "", name[16];
    for (int j = 0; j < kind->gpu_count; j++)
        snprintf(row + strlen(row), sizeof row - strlen(row), "%s%s", j > 0 ? " " : "",
                 kith_link_name(&kind->links[gpu * kind->gpu_count + j], name, sizeof name));
    for (int j = 0; j < kind->nic_count; j++)
        snprintf(row + strlen(row), sizeof row - strlen(row), " %s",
                 kith_link_name(&kind->nic_links[gpu * kind->nic_count + j], name, sizeof name));
    assert_string_equal(row, wanted);
}

static inline void expect_gpu(const kith_gpu *gpu, int index, const char *pci, const char *numas)
{
    char text[24];
    assert_int_equal(gpu->index, index);
    assert_string_equal(kith_pci_text(&gpu->pci, text, sizeof text), pci);
    assert_string_equal(gpu->numa_text != NULL ? gpu->numa_text : "?", numas);
}

/* A double that went through a few products. */
static inline void expect_gbps(double got, double wanted)
{
    if (got < wanted * 0.999 || got > wanted * 1.001)
        fail_msg("wanted %g GB/s, got %g", wanted, got);
}

#endif
