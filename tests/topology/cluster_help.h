/* tests/topology/cluster_help.h - what the tests of switch trees, fabrics and synthetic machines share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef CLUSTER_HELP_H
#define CLUSTER_HELP_H

#include "topology/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A text that must be read; the topology must hold together. */
static inline kith_topology *read_text_with(const char *text, const kith_topology_options *options)
{
    kith_topology *t = NULL;
    kith_status status = kith_topology_parse("text", text, strlen(text), options, &t);
    if (status != KITH_OK)
        fail_msg("wanted: read; got: %s\n%.300s", kith_error_detail(), text);
    if (ki_topology_check(t) != KITH_OK)
        fail_msg("%s\n%.300s", kith_error_detail(), text);
    return t;
}

static inline kith_topology *read_text(const char *text)
{
    return read_text_with(text, NULL);
}

/* A text that must be refused, with these words in the reason. */
static inline void expect_refused(const char *text, const char *reason)
{
    kith_topology *t = NULL;
    kith_status status = kith_topology_parse("text", text, strlen(text), NULL, &t);
    if (status == KITH_OK)
        fail_msg("wanted: refused with '%s'; got: read\n%.300s", reason, text);
    if (status != KITH_ERR_INVALID_ARG || strstr(kith_error_detail(), reason) == NULL)
        fail_msg("wanted: '%s'; got %s: %s\n%.300s", reason, kith_status_name(status), kith_error_detail(), text);
    assert_null(t);
}

static inline const kith_doubt *find_doubt(const kith_topology *t, const char *code)
{
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        if (strcmp(kith_topology_doubt(t, i)->code, code) == 0)
            return kith_topology_doubt(t, i);
    return NULL;
}

/* Its text must have these words. */
static inline void expect_doubt(const kith_topology *t, const char *code, const char *words)
{
    const kith_doubt *doubt = find_doubt(t, code);
    if (doubt == NULL)
        fail_msg("wanted: doubt %s; got: none", code);
    else if (strstr(doubt->text, words) == NULL)
        fail_msg("wanted: doubt %s with '%s'; got: %s", code, words, doubt->text);
}

static inline void expect_no_doubt(const kith_topology *t, const char *code)
{
    const kith_doubt *doubt = find_doubt(t, code);
    if (doubt != NULL)
        fail_msg("wanted: no doubt %s; got: %s", code, doubt->text);
}

static inline int find_switch(const kith_topology *t, const char *name)
{
    for (int i = 0; i < kith_topology_switch_count(t); i++)
        if (strcmp(kith_topology_switch(t, i)->name, name) == 0)
            return i;
    fail_msg("wanted: switch %s; got: none of %d", name, kith_topology_switch_count(t));
    return -1;
}

static inline const kith_node *find_node(const kith_topology *t, const char *name)
{
    for (int i = 0; i < kith_topology_node_count(t); i++)
        if (strcmp(kith_topology_node(t, i)->name, name) == 0)
            return kith_topology_node(t, i);
    fail_msg("wanted: node %s; got: none of %d", name, kith_topology_node_count(t));
    return NULL;
}

/* The switch of that name has this parent ("": a root) and level. */
static inline void expect_switch(const kith_topology *t, const char *name, const char *parent, int level)
{
    const kith_switch *s = kith_topology_switch(t, find_switch(t, name));
    assert_string_equal(s->parent < 0 ? "" : kith_topology_switch(t, s->parent)->name, parent);
    assert_int_equal(s->level, level);
}

static inline void expect_leaf(const kith_topology *t, const char *node, const char *leaf)
{
    const kith_node *n = find_node(t, node);
    assert_string_equal(n->leaf < 0 ? "" : kith_topology_switch(t, n->leaf)->name, leaf);
}

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* One random damage to text[0..*length), for which there is room for one more byte. */
static inline void damage(char *text, size_t *length, uint64_t *state)
{
    static const char likely[] = "[]{}(),:=\"'#\\- \n\t0129azS";
    if (*length == 0)
        return;
    size_t at = next_random(state) % *length, rest = *length - at;
    size_t span = 1 + next_random(state) % (rest < 40 ? rest : 40);
    switch (next_random(state) % 6) {
    case 0: /* another byte */
        text[at] = (char)next_random(state);
        break;
    case 1: /* a byte that means something */
        text[at] = likely[next_random(state) % (sizeof likely - 1)];
        break;
    case 2: /* some bytes are gone */
        memmove(text + at, text + at + span, rest - span);
        *length -= span;
        break;
    case 3: /* one more byte */
        memmove(text + at + 1, text + at, rest);
        text[at] = likely[next_random(state) % (sizeof likely - 1)];
        ++*length;
        break;
    case 4: /* the end is gone */
        if (next_random(state) % 4 == 0)
            *length = at;
        break;
    default: { /* bytes from elsewhere */
        size_t from = next_random(state) % (*length - span + 1);
        memmove(text + at, text + from, span < rest ? span : rest);
    }
    }
}

/* Damages a text again and again. Whatever comes of it is read into something that holds together, or is refused with a
 * reason; the sanitizers see to the rest. */
static inline void damage_and_read(const char *text, int tries, uint64_t seed)
{
    size_t room = strlen(text) + 64;
    char *copy = (char *)malloc(room);
    int read = 0;
    for (int i = 0; i < tries; i++) {
        size_t length = strlen(text);
        memcpy(copy, text, length);
        for (uint64_t n = 1 + next_random(&seed) % 4; n > 0; n--)
            damage(copy, &length, &seed);
        kith_topology *t = NULL;
        if (kith_topology_parse("text", copy, length, NULL, &t) != KITH_OK) {
            assert_null(t);
            assert_true(strlen(kith_error_detail()) > 0);
            continue;
        }
        read++;
        if (ki_topology_check(t) != KITH_OK)
            fail_msg("%s, after reading\n%.*s", kith_error_detail(), (int)length, copy);
        kith_topology_destroy(t);
    }
    free(copy);
    assert_true(read < tries);
}

#endif
