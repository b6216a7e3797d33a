/* tests/fuzz/fuzz_topology.c - libFuzzer: any bytes through every reader of machines.
 *
 * What is accepted must hold together (ki_topology_check), print, read back to the same text, and be placed or refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "must.h"

#include "topology/reader.h"
#include <kith/context.h>
#include <kith/placement.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void place(const kith_topology *t)
{
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    char *text = NULL;
    if (kith_topology_gpu_count(t) > 64 || kith_place(t, &options, &p) != KITH_OK)
        return;
    MUST(kith_placement_rank_count(p) + kith_placement_leftover_count(p) == kith_topology_gpu_count(t));
    MUST(kith_placement_print(t, p, KITH_FORMAT_JSON, &text) == KITH_OK);
    kith_free(text);
    for (int form = KITH_EXPORT_RANKFILE; form <= KITH_EXPORT_KITH; form++)
        if (kith_placement_export(t, p, (kith_export)form, &text) == KITH_OK)
            kith_free(text);
    kith_placement_destroy(p);
}

static void look_through(const kith_topology *t)
{
    kith_topology *again = NULL;
    char *once = NULL, *twice = NULL;
    MUST(ki_topology_check(t) == KITH_OK);
    MUST(kith_topology_print(t, KITH_FORMAT_TEXT, &once) == KITH_OK);
    kith_free(once);
    MUST(kith_topology_print(t, KITH_FORMAT_JSON, &once) == KITH_OK);
    if (strlen(once) < 4u << 20) {
        MUST(kith_topology_parse("fuzz", once, strlen(once), NULL, &again) == KITH_OK);
        MUST(kith_topology_print(again, KITH_FORMAT_JSON, &twice) == KITH_OK);
        MUST(strcmp(once, twice) == 0);
        kith_free(twice);
        kith_topology_destroy(again);
    }
    kith_free(once);
    place(t);
}

/* Two descriptions together: what stands before and behind a form feed, with a choice of nodes behind a second one. */
static void join_parts(const char *text, size_t nbytes)
{
    const char *split = (const char *)memchr(text, '\f', nbytes);
    if (split == NULL)
        return;
    size_t first = (size_t)(split - text), second = nbytes - first - 1;
    const char *third = (const char *)memchr(split + 1, '\f', second);
    char nodes[64] = "";
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    if (third != NULL) {
        second = (size_t)(third - split - 1);
        snprintf(nodes, sizeof nodes, "%.*s",
                 (int)(nbytes - first - second - 2 < 63 ? nbytes - first - second - 2 : 63), third + 1);
        options.nodes = nodes;
    }
    const ki_source sources[] = { { "first", text, first }, { "second", split + 1, second } };
    kith_topology *t = NULL;
    if (ki_topology_read_sources(sources, 2, &options, &t) != KITH_OK)
        return;
    look_through(t);
    kith_topology_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    kith_topology *t = NULL;
    join_parts((const char *)data, nbytes);
    if (kith_topology_parse("fuzz", (const char *)data, nbytes, NULL, &t) != KITH_OK)
        return 0;
    look_through(t);
    kith_topology_destroy(t);
    return 0;
}
