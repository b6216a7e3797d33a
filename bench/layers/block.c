/* bench/layers/block.c - a block of a transformer: on one rank, split over several, and its matrix products alone.
 *
 *     kith run -n 2 -- bench-layers-block                                   GPT-2's block, 512 tokens, f32
 *     kith run -n 2 -- bench-layers-block --hidden 1024 --heads 16 --sequence 1024 --sp
 *     bench-layers-block --line                                             one line for each word on standard input
 *
 * Each round measures, one after the other: the block over all ranks (slowest rank), the block on rank 0 alone while
 * the others sleep, and on rank 0 the products of a block and nothing else, with the same shapes. Forward and backward
 * together, wall time, one thread a rank; medians of the rounds. Printed: milliseconds, how many times faster the ranks
 * are together, and what share of the one rank's time its products are.
 *
 * With --line it is one rank's half of a comparison with another library (block_torch.py): for each line on standard
 * input it runs one round of the block alone and prints the milliseconds.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/compute.h"

#include <kith/kith.h>
#include <kith/transformer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    int64_t hidden, heads, sequence, batch, rounds;
    int is_sequence_parallel, is_line;
} options;

typedef struct block {
    kith_layers *layers;
    kith_block *block;
    kith_tape *tape;
    kith_tensor x, dy;
} block;

static void must(kith_status status, const char *what)
{
    if (status == KITH_OK)
        return;
    fprintf(stderr, "bench-layers-block: %s: %s\n", what, kith_error_detail());
    exit(1);
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void fill(kith_tensor *tensor, uint32_t seed)
{
    float *values = tensor->data;
    for (int64_t i = 0; i < kith_tensor_count(tensor); i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

static block make_block(const options *o, kith_group *tp)
{
    block made = { .layers = NULL };
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.tp = tp;
    place.is_sequence_parallel = tp != NULL && o->is_sequence_parallel;
    place.blas_threads = 1;
    must(kith_layers_create(&place, &made.layers), "kith_layers_create");
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_gpt2(&config, o->hidden, 1, o->heads, 50257, 1024);
    must(kith_block_create(made.layers, &config, 0, KITH_RECOMPUTE_NONE, NULL, &made.block), "kith_block_create");
    for (size_t i = 0; i < kith_layers_param_count(made.layers); i++)
        if (kith_layers_param(made.layers, i)->is_matrix)
            must(kith_param_set_normal(kith_layers_param(made.layers, i), 1, 0.02), "kith_param_set_normal");
    must(kith_tape_create(made.layers, &made.tape), "kith_tape_create");
    int64_t first = 0, positions = o->sequence;
    if (place.is_sequence_parallel)
        kith_split_range(o->sequence, kith_group_size(tp), kith_group_rank(tp), &first, &positions);
    int64_t shape[2] = { positions * o->batch, o->hidden };
    must(kith_tensor_create(made.layers, KITH_F32, 2, shape, &made.x), "kith_tensor_create");
    must(kith_tensor_create(made.layers, KITH_F32, 2, shape, &made.dy), "kith_tensor_create");
    fill(&made.x, 1), fill(&made.dy, 2);
    return made;
}

static double run_block(block *b, const options *o)
{
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = o->sequence, batch.batch = o->batch;
    kith_tensor y, dx;
    double start = now_ms();
    must(kith_tape_begin(b->tape, &batch), "kith_tape_begin");
    must(kith_block_forward(b->block, b->tape, &b->x, &y, NULL), "kith_block_forward");
    must(kith_block_backward(b->block, b->tape, &b->dy, 1, &dx), "kith_block_backward");
    double ms = now_ms() - start;
    kith_tensor_release(&y), kith_tensor_release(&dx);
    return ms;
}

/* ---- products alone ---- */

static ki_mat matrix(int64_t rows, int64_t cols)
{
    ki_mat m = { malloc((size_t)(rows * cols) * sizeof(float)), rows, cols, cols, KITH_F32 };
    kith_tensor view = kith_tensor_view(m.data, KITH_F32, 2, (const int64_t[]){ rows, cols });
    fill(&view, (uint32_t)(rows + cols));
    return m;
}

static void product(ki_compute *c, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat y)
{
    must(c->ops->gemm(c, of_a, of_b, 1, a, b, 0, y), "gemm");
}

/* y = x W^T, dx = dy W, dW = dy^T x */
static double linear_ms(ki_compute *c, int64_t tokens, int64_t in, int64_t out)
{
    ki_mat x = matrix(tokens, in), y = matrix(tokens, out), w = matrix(out, in);
    double start = now_ms();
    product(c, KI_AS_IS, KI_TRANSPOSED, x, w, y);
    product(c, KI_AS_IS, KI_AS_IS, y, w, x);
    product(c, KI_TRANSPOSED, KI_AS_IS, y, x, w);
    double ms = now_ms() - start;
    free(x.data), free(y.data), free(w.data);
    return ms;
}

/* Of one head, causal: two forward, five backward, over the blocks that are seen. */
static double head_ms(ki_compute *c, const options *o)
{
    enum { QUERIES = 128, KEYS = 256 };
    int64_t dim = o->hidden / o->heads;
    ki_mat q = matrix(QUERIES, dim), k = matrix(KEYS, dim), s = matrix(QUERIES, KEYS);
    double start = now_ms();
    for (int64_t first = 0; first < o->sequence; first += QUERIES)
        for (int64_t key = 0; key < first + QUERIES && key < o->sequence; key += KEYS) {
            product(c, KI_AS_IS, KI_TRANSPOSED, q, k, s);
            product(c, KI_AS_IS, KI_AS_IS, s, k, q);
            product(c, KI_AS_IS, KI_TRANSPOSED, q, k, s);
            product(c, KI_AS_IS, KI_TRANSPOSED, q, k, s);
            product(c, KI_TRANSPOSED, KI_AS_IS, s, q, k);
            product(c, KI_TRANSPOSED, KI_AS_IS, s, q, k);
            product(c, KI_AS_IS, KI_AS_IS, s, k, q);
        }
    double ms = now_ms() - start;
    free(q.data), free(k.data), free(s.data);
    return ms;
}

static double products_ms(ki_compute *c, const options *o)
{
    int64_t tokens = o->sequence * o->batch, h = o->hidden;
    double ms = linear_ms(c, tokens, h, 3 * h) + linear_ms(c, tokens, h, h) + linear_ms(c, tokens, h, 4 * h) +
                linear_ms(c, tokens, 4 * h, h);
    return ms + (double)(o->heads * o->batch) * head_ms(c, o);
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The other ranks wait without using a core. */
static void until_rank_0(kith_group *world)
{
    int32_t word = 0;
    kith_request *request = NULL;
    must(kith_broadcast_start(world, &word, 1, KITH_INT32, 0, &request), "kith_broadcast_start");
    for (int is_done = 0; is_done == 0;) {
        must(kith_test(&request, &is_done), "kith_test");
        if (is_done == 0)
            nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
}

static void compare(kith_ctx *ctx, const options *o)
{
    kith_group *world = kith_world(ctx);
    block together = make_block(o, world), alone = { .layers = NULL };
    ki_compute *compute = NULL;
    if (kith_rank(ctx) == 0) {
        alone = make_block(o, NULL);
        must(ki_compute_open_host(1, &compute), "ki_compute_open_host");
    }
    double *ms[3];
    for (int i = 0; i < 3; i++)
        ms[i] = calloc((size_t)o->rounds, sizeof(double));
    for (int64_t round = -1; round < o->rounds; round++) { // one for warming up
        double got[3] = { 0, 0, 0 };
        must(kith_barrier(world), "kith_barrier");
        got[0] = run_block(&together, o);
        must(kith_all_reduce_scalar(world, &got[0], KITH_MAX), "kith_all_reduce_scalar");
        if (kith_rank(ctx) == 0) {
            got[1] = run_block(&alone, o);
            got[2] = products_ms(compute, o);
        }
        until_rank_0(world);
        for (int i = 0; i < 3 && round >= 0; i++)
            ms[i][round] = got[i];
    }
    double split = median(ms[0], o->rounds), one = median(ms[1], o->rounds), products = median(ms[2], o->rounds);
    if (kith_rank(ctx) == 0)
        printf("hidden %lld, %lld heads, %lld x %lld tokens, f32: %d ranks %.2f ms, one rank %.2f ms (%.2f times), its "
               "products alone %.2f ms (%.1f %%)\n",
               (long long)o->hidden, (long long)o->heads, (long long)o->sequence, (long long)o->batch, kith_size(ctx),
               split, one, one / split, products, 100 * products / one);
}

static void serve_lines(const options *o)
{
    block alone = make_block(o, NULL);
    char line[64];
    run_block(&alone, o);
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%.4f\n", run_block(&alone, o));
        fflush(stdout);
    }
}

static int64_t number(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 1 || value > 1 << 20) {
        fprintf(stderr, "bench-layers-block: '%s' is no number from 1 to 2^20\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    options o = { .hidden = 768, .heads = 12, .sequence = 512, .batch = 1, .rounds = 15 };
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(option, "--sp") == 0)
            o.is_sequence_parallel = 1;
        else if (strcmp(option, "--line") == 0)
            o.is_line = 1;
        else if (strcmp(option, "--hidden") == 0)
            o.hidden = number(value), i++;
        else if (strcmp(option, "--heads") == 0)
            o.heads = number(value), i++;
        else if (strcmp(option, "--sequence") == 0)
            o.sequence = number(value), i++;
        else if (strcmp(option, "--batch") == 0)
            o.batch = number(value), i++;
        else if (strcmp(option, "--rounds") == 0)
            o.rounds = number(value), i++;
        else {
            fprintf(stderr,
                    "usage: bench-layers-block [--hidden N] [--heads N] [--sequence N] [--batch N] [--rounds N] "
                    "[--sp] [--line]\n");
            return 2;
        }
    }
    if (o.is_line) {
        serve_lines(&o);
        return 0;
    }
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    compare(ctx, &o);
    kith_finalize(ctx);
    return 0;
}
