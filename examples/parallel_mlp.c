/* examples/parallel_mlp.c - a trainer of a small network in plain C, and what it takes to split it over ranks.
 *
 *     kith run -n 4 -- parallel_mlp
 *
 * y = relu(x A^T) B^T with A [INNER, IN], B [OUT, INNER], squared error, gradient descent: loops as one writes them.
 * The lines marked "tp" make it tensor parallel: each rank has some rows of A and the same columns of B, what the
 * second product lacks is a sum over the ranks. Everything else is as it was, the loops
 * run over `mine` instead of INNER.
 *
 * Data and learning rate are powers of two and small whole numbers, so that all sums are exact and any number of ranks
 * must end with the same loss to the bit; the loss of one rank is computed beside it and compared.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

#include <kith/layers.h>

enum { TOKENS = 4, IN = 3, INNER = 10, OUT = 2, STEPS = 2 };

typedef struct network {
    int first, mine; /* this rank's inner features; of one rank: 0 and INNER */
    double a[INNER][IN], b[OUT][INNER];
    kith_layers *tp; /* NULL: all on one rank */
} network;

static double x_of(int t, int i)
{
    return (t * 3 + i * 5) % 4 - 1;
}

static double target_of(int t, int o)
{
    return (t + 2 * o) % 3;
}

static void start(network *n)
{
    for (int j = 0; j < INNER; j++) {
        for (int i = 0; i < IN; i++)
            n->a[j][i] = (j * 7 + i * 3) % 3 - 1;
        for (int o = 0; o < OUT; o++)
            n->b[o][j] = (j * 5 + o) % 3 - 1;
    }
}

/* Adds up what every rank has a summand of. */
static void sum_over_ranks(network *n, double *data, int rows, int cols)
{
    if (n->tp == NULL)
        return;
    kith_tensor partial = kith_tensor_view(data, KITH_F64, 2, (const int64_t[]){ rows, cols }), sum; /* tp */
    must(kith_tensor_all_reduce(n->tp, KITH_PHASE_FORWARD, &partial, &sum), "all_reduce");           /* tp */
    for (int i = 0; i < rows * cols; i++)
        data[i] = ((const double *)sum.data)[i];
    kith_tensor_release(&sum); /* tp */
}

static void forward(network *n, double (*inner)[INNER], double (*y)[OUT])
{
    for (int t = 0; t < TOKENS; t++) {
        for (int j = n->first; j < n->first + n->mine; j++) {
            double sum = 0;
            for (int i = 0; i < IN; i++)
                sum += x_of(t, i) * n->a[j][i];
            inner[t][j] = sum > 0 ? sum : 0;
        }
        for (int o = 0; o < OUT; o++) {
            y[t][o] = 0;
            for (int j = n->first; j < n->first + n->mine; j++)
                y[t][o] += inner[t][j] * n->b[o][j];
        }
    }
    sum_over_ranks(n, &y[0][0], TOKENS, OUT); /* tp */
}

/* Gradients of A and B need no other rank: each has what belongs to its own part. */
static void backward_and_step(network *n, double (*inner)[INNER], double (*dy)[OUT])
{
    const double rate = 1.0 / 64;
    for (int j = n->first; j < n->first + n->mine; j++) {
        double da[IN] = { 0 }, db[OUT] = { 0 };
        for (int t = 0; t < TOKENS; t++) {
            double dinner = 0;
            for (int o = 0; o < OUT; o++) {
                dinner += dy[t][o] * n->b[o][j];
                db[o] += dy[t][o] * inner[t][j];
            }
            for (int i = 0; i < IN && inner[t][j] > 0; i++)
                da[i] += dinner * x_of(t, i);
        }
        for (int i = 0; i < IN; i++)
            n->a[j][i] -= rate * da[i];
        for (int o = 0; o < OUT; o++)
            n->b[o][j] -= rate * db[o];
    }
}

static double step(network *n)
{
    double inner[TOKENS][INNER], y[TOKENS][OUT], dy[TOKENS][OUT], loss = 0;
    forward(n, inner, y);
    for (int t = 0; t < TOKENS; t++)
        for (int o = 0; o < OUT; o++) {
            dy[t][o] = y[t][o] - target_of(t, o);
            loss += dy[t][o] * dy[t][o] / 2;
        }
    backward_and_step(n, inner, dy);
    return loss;
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    static network alone = { .mine = INNER }, split;
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;              /* tp */
    options.tp = kith_world(ctx), options.dtype = KITH_F64;              /* tp */
    must(kith_layers_create(&options, &split.tp), "kith_layers_create"); /* tp */
    int64_t first, mine;
    kith_split_range(INNER, kith_size(ctx), kith_rank(ctx), &first, &mine); /* tp */
    split.first = (int)first, split.mine = (int)mine;
    start(&alone), start(&split);

    int wrong = 0;
    for (int s = 0; s < STEPS; s++) {
        double loss = step(&split), wanted = step(&alone);
        wrong += loss != wanted;
        if (kith_rank(ctx) == 0)
            printf("step %d: loss %.10g on %d ranks, %.10g on one\n", s, loss, kith_size(ctx), wanted);
    }
    must(kith_layers_destroy(split.tp), "kith_layers_destroy");
    kith_finalize(ctx);
    return wrong != 0;
}
