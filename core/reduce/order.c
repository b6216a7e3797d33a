/* core/reduce/order.c - the tree of kith/coll.h as a stack program.
 *
 * span() is the rule: of n items, with q the largest power of two <= n and e = n - q, the 2e lowest are merged in
 * pairs, and the q values that result by a balanced tree over neighbours. Items are ranks, or hosts whose value is the
 * span over their ranks. Programs are written left operand first, so merging the two top entries keeps the order of
 * operands.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../base/mem.h"
#include "reduce.h"
#include <string.h>

typedef struct writer {
    int *program;
    int length;
    const int *ranks; /* [size] by host, then by rank */
    const int *first; /* [hosts + 1] where each host's ranks begin in ranks; NULL: items are ranks */
} writer;

static void span(writer *w, const int *first, int begin, int count);

static void item(writer *w, const int *first, int index)
{
    if (first != NULL)
        span(w, NULL, first[index], first[index + 1] - first[index]);
    else
        w->program[w->length++] = w->ranks[index];
}

/* The balanced tree over values [low, high) of a span that begins at item `begin` and has `pairs` pairs. */
static void values(writer *w, const int *first, int begin, int pairs, int low, int high)
{
    if (high - low > 1) {
        int middle = low + (high - low) / 2;
        values(w, first, begin, pairs, low, middle);
        values(w, first, begin, pairs, middle, high);
    } else if (low < pairs) {
        item(w, first, begin + 2 * low);
        item(w, first, begin + 2 * low + 1);
    } else {
        item(w, first, begin + low + pairs);
        return;
    }
    w->program[w->length++] = -1;
}

static void span(writer *w, const int *first, int begin, int count)
{
    int power = 1;
    while (power <= count / 2)
        power *= 2;
    values(w, first, begin, count - power, 0, power);
}

static int program_depth(const int *program, int length)
{
    int depth = 0, most = 0;
    for (int i = 0; i < length; i++) {
        depth += program[i] >= 0 ? 1 : -1;
        if (depth > most) most = depth;
    }
    return most;
}

/* Sorts ranks by host. work: [3 * size + 1]: ranks, first (hosts + 1), host of each rank. Returns the number of hosts.
 */
static int sort_by_host(int size, const int *node_of, int *ranks, int *first, int *host_of)
{
    int hosts = 0;
    for (int r = 0; r < size; r++) { /* first[h] holds host h's index in node_of's numbers for now */
        int h = 0;
        while (h < hosts && first[h] != node_of[r])
            h++;
        if (h == hosts) first[hosts++] = node_of[r];
        host_of[r] = h;
    }
    int count = 0;
    for (int h = 0; h < hosts; h++) {
        first[h] = count;
        for (int r = 0; r < size; r++) {
            if (host_of[r] == h) ranks[count++] = r;
        }
    }
    first[hosts] = count;
    return hosts;
}

static void write_program(int size, const int *node_of, int *work, ki_order *order)
{
    int *ranks = work, *first = work + size, *host_of = first + size + 1;
    writer w = { order->program, 0, ranks, NULL };
    if (node_of == NULL) {
        for (int r = 0; r < size; r++)
            ranks[r] = r;
        span(&w, NULL, 0, size);
    } else {
        int hosts = sort_by_host(size, node_of, ranks, first, host_of);
        span(&w, first, 0, hosts);
    }
}

kith_status ki_order_create(int size, const int *node_of, ki_order *order)
{
    kith_allocator allocator;
    ki_allocator_init(&allocator, NULL);
    if (size < 1)
        return ki_fail(KITH_ERR_INVALID_ARG, "order of reduction over %d ranks: a group has at least 1", size);
    size_t length = 2 * (size_t)size - 1;
    ki_order made = { .size = size, .length = (int)length };
    int *work = ki_calloc(&allocator, 3 * (size_t)size + 1 + length, sizeof *work);
    made.program = ki_calloc(&allocator, length, sizeof *made.program);
    if (work == NULL || made.program == NULL) {
        ki_free(&allocator, work);
        ki_free(&allocator, made.program);
        return KITH_ERR_NO_MEMORY;
    }
    int *flat = work + 3 * (size_t)size + 1;
    ki_order plain = { .size = size, .program = flat };
    write_program(size, NULL, work, &plain);
    write_program(size, node_of, work, &made);
    made.is_flat = memcmp(flat, made.program, length * sizeof *flat) == 0;
    made.depth = program_depth(made.program, made.length);
    ki_free(&allocator, work);
    *order = made;
    return KITH_OK;
}

void ki_order_destroy(ki_order *order)
{
    if (order == NULL) return;
    kith_allocator allocator;
    ki_allocator_init(&allocator, NULL);
    ki_free(&allocator, order->program);
    order->program = NULL;
    order->length = 0;
}
