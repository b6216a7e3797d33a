/* tools/bench/ops.c - the operations as a table.
 *
 * Bus factors are those of nccl-tests (its doc/PERFORMANCE.md): what has to cross a rank's link, over the size that the
 * row gives. A v-form moves as many bytes in all as its even form, and has its factor.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <string.h>

typedef enum factor {
    FACTOR_NONE,   /* nothing has a size */
    FACTOR_ONE,    /* the whole size crosses a link once */
    FACTOR_PARTS,  /* all parts but the own: (n - 1) / n */
    FACTOR_TWICE,  /* there and back: 2 (n - 1) / n */
    FACTOR_OTHERS, /* one message from each other rank: n - 1 */
} factor;

enum { REDUCES = 1, ROOTED = 2, UNEVEN = 4, PLACED = 8, IN_TURNS = 16 };

typedef struct op_row {
    const char *name; /* NULL: the collective's */
    factor factor;
    unsigned flags;
} op_row;

static const op_row rows[BENCH_OP_COUNT] = {
    [KITH_ALL_REDUCE] = { NULL, FACTOR_TWICE, REDUCES | PLACED },
    [KITH_REDUCE_SCATTER] = { NULL, FACTOR_PARTS, REDUCES | PLACED },
    [KITH_REDUCE_SCATTER_V] = { NULL, FACTOR_PARTS, REDUCES | PLACED | UNEVEN },
    [KITH_ALL_GATHER] = { NULL, FACTOR_PARTS, PLACED },
    [KITH_ALL_GATHER_V] = { NULL, FACTOR_PARTS, PLACED | UNEVEN },
    [KITH_BROADCAST] = { NULL, FACTOR_ONE, ROOTED },
    [KITH_REDUCE] = { NULL, FACTOR_ONE, REDUCES | PLACED | ROOTED },
    [KITH_GATHER] = { NULL, FACTOR_PARTS, PLACED | ROOTED },
    [KITH_SCATTER] = { NULL, FACTOR_PARTS, PLACED | ROOTED },
    [KITH_GATHER_V] = { NULL, FACTOR_PARTS, PLACED | ROOTED | UNEVEN },
    [KITH_SCATTER_V] = { NULL, FACTOR_PARTS, PLACED | ROOTED | UNEVEN },
    [KITH_ALL_TO_ALL] = { NULL, FACTOR_PARTS, PLACED },
    [KITH_ALL_TO_ALL_V] = { NULL, FACTOR_PARTS, UNEVEN },
    [KITH_BARRIER] = { NULL, FACTOR_NONE, 0 },
    [BENCH_PING_PONG] = { "ping_pong", FACTOR_ONE, IN_TURNS },
    [BENCH_BIDIRECTIONAL] = { "bidirectional", FACTOR_ONE, 0 },
    [BENCH_MANY_TO_ONE] = { "many_to_one", FACTOR_OTHERS, ROOTED },
    [BENCH_RING_EXCHANGE] = { "ring_exchange", FACTOR_ONE, 0 },
    [BENCH_ALL_PAIRS] = { "all_pairs", FACTOR_ONE, IN_TURNS },
};

const char *bench_op_name(bench_op op)
{
    return rows[op].name != NULL ? rows[op].name : kith_coll_name((kith_coll_kind)op);
}

bool bench_op_parse(const char *name, bench_op *op)
{
    for (int i = 0; i < BENCH_OP_COUNT; i++) {
        if (strcmp(name, bench_op_name((bench_op)i)) == 0) {
            *op = (bench_op)i;
            return true;
        }
    }
    return false;
}

bool bench_op_is_pattern(bench_op op)
{
    return op >= KITH_COLL_COUNT;
}

bool bench_op_is_reduction(bench_op op)
{
    return (rows[op].flags & REDUCES) != 0;
}

bool bench_op_is_rooted(bench_op op)
{
    return (rows[op].flags & ROOTED) != 0;
}

bool bench_op_is_uneven(bench_op op)
{
    return (rows[op].flags & UNEVEN) != 0;
}

bool bench_op_is_sizeless(bench_op op)
{
    return rows[op].factor == FACTOR_NONE;
}

bool bench_op_has_place(bench_op op)
{
    return (rows[op].flags & PLACED) != 0;
}

bool bench_op_takes_turns(bench_op op)
{
    return (rows[op].flags & IN_TURNS) != 0;
}

double bench_op_bus_factor(bench_op op, int ranks)
{
    double n = ranks;
    switch (rows[op].factor) {
    case FACTOR_NONE:
        break;
    case FACTOR_ONE:
        return 1;
    case FACTOR_PARTS:
        return (n - 1) / n;
    case FACTOR_TWICE:
        return 2 * (n - 1) / n;
    case FACTOR_OTHERS:
        return n - 1;
    }
    return 0;
}
