/* topology/ibnet_nodes.c - nodes out of the channel adapters (CAs) of an InfiniBand fabric.
 *
 * A CA tells its host and its own name ("gpu001 mlx5_0"); CAs with one host are one node. Its rails are its CAs in the
 * order of their names, numbers by value. Where a node lacks some of the CAs that most nodes have (mlx5_0, mlx5_1,
 * mlx5_4 where the others have mlx5_3, too), the places of the others' CAs count, so that equal positions stay equal
 * rails.
 *
 * CAs that tell no host (their card's name instead, or "localhost") are left out, and so are hosts that seem to have
 * two CAs of one name: they are several machines. A doubt tells how many and where.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ibnet.h"

#include "core/text.h"
#include "grow.h"
#include "node_book.h"
#include <ctype.h>
#include <string.h>

enum { MOST_EXAMPLES = 8 };

/* The CAs cas[from .. from + count) of one host. */
typedef struct host {
    int from, count;
} host;

/* A list of CA names that nodes have, and how many nodes. */
typedef struct pattern {
    const char *text; /* "mlx5_0 mlx5_1" */
    int host;         /* one that has it */
    int node_count;
} pattern;

typedef struct book {
    ki_ib_fabric *f;
    const ki_ib_device **cas; /* that have a host, by host and name */
    int ca_count;
    host *hosts;
    int host_count;
    pattern *patterns;
    int pattern_count;
    ki_name_map pattern_names;
    ki_name_map stems; /* to the pattern that most nodes with this sort of names have */
    int *usual;        /* the same by number of the stem */
} book;

static void no_memory(const book *bk)
{
    ki_topology_set_status(bk->f->t, ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for nodes", bk->f->file));
}

/* ---- order ---- */

static int compare_chars(char a, char b)
{
    return (unsigned char)a < (unsigned char)b ? -1 : (unsigned char)a > (unsigned char)b;
}

/* Like strcmp, but runs of digits compare as numbers: mlx5_2 comes before mlx5_10. */
static int compare_natural(ki_ib_text a, ki_ib_text b)
{
    size_t i = 0, j = 0;
    while (i < a.length && j < b.length) {
        if (!isdigit((unsigned char)a.chars[i]) || !isdigit((unsigned char)b.chars[j])) {
            if (a.chars[i] != b.chars[j])
                return compare_chars(a.chars[i], b.chars[j]);
            i++, j++;
            continue;
        }
        while (i < a.length && a.chars[i] == '0')
            i++;
        while (j < b.length && b.chars[j] == '0')
            j++;
        size_t from_i = i, from_j = j;
        while (i < a.length && isdigit((unsigned char)a.chars[i]))
            i++;
        while (j < b.length && isdigit((unsigned char)b.chars[j]))
            j++;
        if (i - from_i != j - from_j)
            return i - from_i < j - from_j ? -1 : 1;
        int order = memcmp(a.chars + from_i, b.chars + from_j, i - from_i);
        if (order != 0)
            return order;
    }
    return (int)(i < a.length) - (int)(j < b.length);
}

/* A total order: names that differ in leading zeros only are told apart by their length, then byte by byte. */
static int compare_texts(ki_ib_text a, ki_ib_text b)
{
    int order = compare_natural(a, b);
    if (order != 0)
        return order;
    if (a.length != b.length)
        return a.length < b.length ? -1 : 1;
    return memcmp(a.chars, b.chars, a.length);
}

static int compare_cas(const void *a, const void *b)
{
    const ki_ib_device *x = *(const ki_ib_device *const *)a, *y = *(const ki_ib_device *const *)b;
    int order = compare_texts(x->host, y->host);
    if (order == 0)
        order = compare_texts(x->ca, y->ca);
    return order != 0 ? order : compare_texts(x->id, y->id);
}

static bool is_same(ki_ib_text a, ki_ib_text b)
{
    return a.length == b.length && memcmp(a.chars, b.chars, a.length) == 0;
}

/* ---- hosts ---- */

static void collect(book *bk)
{
    ki_ib_fabric *f = bk->f;
    for (int d = 0; d < f->device_count; d++)
        if (ki_ib_is_host(&f->devices[d]) && f->devices[d].host.length > 0)
            bk->cas[bk->ca_count++] = &f->devices[d];
    if (bk->ca_count > 0)
        qsort(bk->cas, (size_t)bk->ca_count, sizeof(void *), compare_cas);
    for (int c = 0; c < bk->ca_count; c++) {
        if (c == 0 || !is_same(bk->cas[c]->host, bk->cas[c - 1]->host))
            bk->hosts[bk->host_count++] = (host){ .from = c };
        bk->hosts[bk->host_count - 1].count++;
    }
}

static bool has_a_name_twice(const book *bk, const host *h)
{
    for (int c = h->from + 1; c < h->from + h->count; c++)
        if (is_same(bk->cas[c]->ca, bk->cas[c - 1]->ca))
            return true;
    return false;
}

static void drop_ambiguous(book *bk)
{
    ki_text list = { 0 };
    int kept = 0, dropped = 0;
    for (int i = 0; i < bk->host_count; i++) {
        const host *h = &bk->hosts[i];
        if (!has_a_name_twice(bk, h)) {
            bk->hosts[kept++] = *h;
            continue;
        }
        const ki_ib_device *ca = bk->cas[h->from];
        if (++dropped <= MOST_EXAMPLES)
            ki_text_add(&list, "%s%.*s", dropped > 1 ? ", " : "", (int)ca->host.length, ca->host.chars);
    }
    bk->host_count = kept;
    if (dropped > 0)
        ki_topology_doubt(bk->f->t, -1, -1, bk->f->file, 0, "ca-name-twice",
                          "%d host names belong to several machines (a channel adapter's name is there twice), which "
                          "are left out: %s%s",
                          dropped, ki_text_chars(&list), dropped > MOST_EXAMPLES ? ", ..." : "");
    ki_text_fini(&list);
}

static void tell_nameless(const book *bk)
{
    ki_text list = { 0 };
    int count = 0, line = 0;
    for (int d = 0; d < bk->f->device_count; d++) {
        const ki_ib_device *ca = &bk->f->devices[d];
        if (!ki_ib_is_host(ca) || ca->host.length > 0)
            continue;
        line = line == 0 ? ca->line : line;
        if (++count > MOST_EXAMPLES / 2)
            continue;
        const ki_ib_port *port = ca->port_count > 0 ? &bk->f->ports[ca->first_port] : NULL;
        int leaf = port != NULL ? bk->f->devices[port->peer].leaf : -1;
        ki_text_add(&list, "%s%.*s on %s", count > 1 ? ", " : "", (int)ca->id.length, ca->id.chars,
                    leaf >= 0 ? bk->f->t->switches[leaf].name : "no leaf");
    }
    if (count > 0)
        ki_topology_doubt(bk->f->t, -1, -1, bk->f->file, line, "ca-without-host",
                          "%d channel adapters do not tell their host and are left out of the nodes: %s%s", count,
                          ki_text_chars(&list), count > MOST_EXAMPLES / 2 ? ", ..." : "");
    ki_text_fini(&list);
}

/* ---- patterns of names ---- */

static void count_pattern(book *bk, int number)
{
    const host *h = &bk->hosts[number];
    ki_text text = { 0 };
    for (int c = h->from; c < h->from + h->count; c++)
        ki_text_add(&text, "%s%.*s", c > h->from ? " " : "", (int)bk->cas[c]->ca.length, bk->cas[c]->ca.chars);
    int found = ki_name_map_get(&bk->pattern_names, ki_text_chars(&text), text.length);
    if (found < 0) {
        const char *copy = ki_topology_dup_n(bk->f->t, ki_text_chars(&text), text.length);
        found = bk->pattern_count++;
        bk->patterns[found] = (pattern){ .text = copy, .host = number };
        if (text.is_failed || !ki_name_map_put(&bk->pattern_names, copy, text.length, found))
            no_memory(bk);
    }
    bk->patterns[found].node_count++;
    ki_text_fini(&text);
}

/* "mlx5_" of "mlx5_10": what all CAs of one driver begin with. */
static ki_ib_text stem_of(const book *bk, int number)
{
    ki_ib_text stem = bk->cas[bk->hosts[number].from]->ca;
    while (stem.length > 0 && isdigit((unsigned char)stem.chars[stem.length - 1]))
        stem.length--;
    return stem;
}

/* Places of a's CAs among b's, or false when b lacks one of them. Both are sorted. */
static bool places_in(const book *bk, const host *a, const host *b, int *places)
{
    int at = 0;
    for (int i = 0; i < a->count; i++) {
        while (at < b->count && !is_same(bk->cas[a->from + i]->ca, bk->cas[b->from + at]->ca))
            at++;
        if (at == b->count)
            return false;
        places[i] = at++;
    }
    return true;
}

/* For each stem, the pattern that most nodes have. */
static void find_usual(book *bk)
{
    for (int p = 0; p < bk->pattern_count; p++) {
        ki_ib_text stem = stem_of(bk, bk->patterns[p].host);
        int number = ki_name_map_get(&bk->stems, stem.chars, stem.length);
        if (number < 0) {
            number = (int)bk->stems.count;
            bk->usual[number] = p;
            if (!ki_name_map_put(&bk->stems, stem.chars, stem.length, number))
                no_memory(bk);
        }
        if (bk->patterns[p].node_count > bk->patterns[bk->usual[number]].node_count)
            bk->usual[number] = p;
    }
}

static const host *usual_host(const book *bk, int number)
{
    ki_ib_text stem = stem_of(bk, number);
    int s = ki_name_map_get(&bk->stems, stem.chars, stem.length);
    return &bk->hosts[s >= 0 ? bk->patterns[bk->usual[s]].host : number];
}

/* ---- nodes ---- */

static int leaf_of(const book *bk, const ki_ib_device *ca)
{
    return ca->port_count > 0 ? bk->f->devices[bk->f->ports[ca->first_port].peer].leaf : -1;
}

static void count_two_leaves(const book *bk, const host *h, int *count)
{
    for (int c = h->from; c < h->from + h->count; c++) {
        const ki_ib_device *ca = bk->cas[c];
        bool is_split = false;
        for (int p = 1; p < ca->port_count; p++)
            is_split = is_split || bk->f->devices[bk->f->ports[ca->first_port + p].peer].leaf != leaf_of(bk, ca);
        *count += is_split;
    }
}

static kith_status place(book *bk, ki_node_book *nodes, const host *h, const int *places, int rail_count)
{
    kith_topology *t = bk->f->t;
    const ki_ib_device *first = bk->cas[h->from];
    int n = ki_node_book_add(nodes, ki_topology_dup_n(t, first->host.chars, first->host.length));
    int *rails = (int *)ki_topology_alloc(t, (size_t)rail_count, sizeof *rails);
    if (n < 0 || rails == NULL)
        return t->status;
    kith_node *node = &t->nodes[n];
    if (node->leaf >= 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: node %s is on switch %s already, as another file says",
                             bk->f->file, first->line, node->name, t->switches[node->leaf].name);
    for (int i = 0; i < rail_count; i++)
        rails[i] = -1;
    for (int i = h->count - 1; i >= 0; i--) {
        rails[places[i]] = leaf_of(bk, bk->cas[h->from + i]);
        node->leaf = rails[places[i]] >= 0 ? rails[places[i]] : node->leaf;
    }
    node->rails = rails;
    node->rail_count = rail_count;
    return KITH_OK;
}

/* The places of a host's CAs, and how many rails its node has: its own, or those of the usual node, of which it must
 * have more than half. True when it lacks some. */
static bool choose_places(const book *bk, int number, int *places, int *rail_count)
{
    const host *h = &bk->hosts[number];
    const host *usual = usual_host(bk, number);
    *rail_count = h->count;
    if (h->count < usual->count && 2 * h->count > usual->count && places_in(bk, h, usual, places)) {
        *rail_count = usual->count;
        return true;
    }
    for (int i = 0; i < h->count; i++)
        places[i] = i;
    return false;
}

static void tell_missing(const book *bk, ki_text *list, int count)
{
    if (count > 0)
        ki_topology_doubt(bk->f->t, -1, -1, bk->f->file, 0, "nic-missing",
                          "%d nodes lack channel adapters that most nodes have: %s%s", count, ki_text_chars(list),
                          count > MOST_EXAMPLES ? ", ..." : "");
    ki_text_fini(list);
}

/* Nodes that are no compute nodes, or NICs that are down: which count is usual, and who differs. */
static void tell_counts(const book *bk, const int *rail_counts)
{
    int usual = 0, most = 0, differing = 0;
    ki_text list = { 0 };
    int *nodes_with = (int *)ki_array((size_t)bk->ca_count + 1, sizeof *nodes_with);
    if (nodes_with == NULL) {
        no_memory(bk);
        return;
    }
    for (int i = 0; i < bk->host_count; i++)
        if (++nodes_with[rail_counts[i]] > most) {
            most = nodes_with[rail_counts[i]];
            usual = rail_counts[i];
        }
    free(nodes_with);
    for (int i = 0; i < bk->host_count; i++) {
        const ki_ib_device *ca = bk->cas[bk->hosts[i].from];
        if (rail_counts[i] != usual && ++differing <= MOST_EXAMPLES)
            ki_text_add(&list, "%s%.*s (%d)", differing > 1 ? ", " : "", (int)ca->host.length, ca->host.chars,
                        rail_counts[i]);
    }
    if (differing > 0)
        ki_topology_doubt(bk->f->t, -1, -1, bk->f->file, 0, "nic-count",
                          "%d nodes do not have %d channel adapters in this fabric as most have: %s%s", differing,
                          usual, ki_text_chars(&list), differing > MOST_EXAMPLES ? ", ..." : "");
    ki_text_fini(&list);
}

static kith_status add_nodes(book *bk, ki_node_book *nodes, int *places, int *rail_counts)
{
    ki_text missing = { 0 };
    int missing_count = 0, split_count = 0;
    kith_status status = KITH_OK;
    for (int i = 0; status == KITH_OK && i < bk->host_count; i++) {
        const host *h = &bk->hosts[i];
        const ki_ib_device *ca = bk->cas[h->from];
        if (choose_places(bk, i, places, &rail_counts[i]) && ++missing_count <= MOST_EXAMPLES)
            ki_text_add(&missing, "%s%.*s has %d of %d", missing_count > 1 ? ", " : "", (int)ca->host.length,
                        ca->host.chars, h->count, rail_counts[i]);
        count_two_leaves(bk, h, &split_count);
        status = place(bk, nodes, h, places, rail_counts[i]);
    }
    tell_missing(bk, &missing, missing_count);
    if (status == KITH_OK)
        tell_counts(bk, rail_counts);
    if (split_count > 0)
        ki_topology_doubt(bk->f->t, -1, -1, bk->f->file, 0, "ca-two-leaves",
                          "%d channel adapters have ports on several leaves; the leaf of the first port counts",
                          split_count);
    return status;
}

static kith_status build(book *bk, ki_node_book *nodes, int *places, int *rail_counts)
{
    collect(bk);
    drop_ambiguous(bk);
    tell_nameless(bk);
    for (int i = 0; i < bk->host_count; i++)
        count_pattern(bk, i);
    find_usual(bk);
    kith_status status = ki_node_book_open(nodes, bk->f->t);
    return status == KITH_OK ? add_nodes(bk, nodes, places, rail_counts) : status;
}

kith_status ki_ib_add_nodes(ki_ib_fabric *f)
{
    size_t count = (size_t)f->device_count + 1;
    book bk = { .f = f };
    ki_node_book nodes = { 0 };
    bk.cas = (const ki_ib_device **)ki_array(count, sizeof(void *));
    bk.hosts = (host *)ki_array(count, sizeof *bk.hosts);
    bk.patterns = (pattern *)ki_array(count, sizeof *bk.patterns);
    bk.usual = (int *)ki_array(count, sizeof *bk.usual);
    int *places = (int *)ki_array(count, sizeof(int)), *rail_counts = (int *)ki_array(count, sizeof(int));
    kith_status status = KITH_OK;
    if (bk.cas != NULL && bk.hosts != NULL && bk.patterns != NULL && bk.usual != NULL && places != NULL &&
        rail_counts != NULL)
        status = build(&bk, &nodes, places, rail_counts);
    else
        no_memory(&bk);
    ki_node_book_close(&nodes);
    ki_name_map_fini(&bk.pattern_names);
    ki_name_map_fini(&bk.stems);
    free(rail_counts);
    free(places);
    free(bk.usual);
    free(bk.patterns);
    free(bk.hosts);
    free(bk.cas);
    return status != KITH_OK ? status : f->t->status;
}
