/* bench/layers/attention.c - how fast attention is on the host, and what share of it its matrix products are.
 *
 *     bench-layers-attention                                      f32, 1024 tokens, 12 heads of 64: all and causal
 *     bench-layers-attention --sequence 2048 --heads 8 --head-dim 128 --dtype bf16 --dropout 0.1
 *
 * Prints a row for each of full and causal: milliseconds forward, and forward and backward together (the fastest of
 * the rounds, processor time of one thread), the same in GFLOP/s of the products that are needed (causal: of what is
 * seen), and forward in parts of the time that its products take when they alone are made, with the same shapes. With
 * --line it prints one line of numbers for scripts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/attention.h"

#include <kith/context.h>
#include <kith/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    int64_t sequence, heads, head_dim, rounds;
    double dropout;
    kith_dtype dtype;
    bool is_line;
} options;

typedef struct tensors {
    ki_mat q, k, v, out, lse, dout, dq, dk, dv;
} tensors;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench-layers-attention: %s: %s\n", what, kith_error_detail());
    return 1;
}

/* Values in [-1, 1) from a linear congruence, through f32. */
static ki_mat tensor(ki_compute *c, int64_t rows, int64_t cols, kith_dtype dtype, uint32_t seed)
{
    const size_t count = (size_t)(rows * cols);
    ki_mat m = { malloc(count * kith_dtype_nbytes(dtype)), rows, cols, cols, dtype };
    ki_mat f = { malloc(count * sizeof(float)), rows, cols, cols, KITH_F32 };
    if (m.data == NULL || f.data == NULL)
        exit(fail("no memory"));
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)f.data)[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
    if (c->ops->copy(c, f, m) != KITH_OK)
        exit(fail("copy"));
    free(f.data);
    return m;
}

static tensors allocate(ki_compute *c, const options *o)
{
    const int64_t cols = o->heads * o->head_dim;
    return (tensors){
        .q = tensor(c, o->sequence, cols, o->dtype, 1),
        .k = tensor(c, o->sequence, cols, o->dtype, 2),
        .v = tensor(c, o->sequence, cols, o->dtype, 3),
        .out = tensor(c, o->sequence, cols, o->dtype, 4),
        .lse = tensor(c, o->sequence, o->heads, ki_accumulator_of(o->dtype), 5),
        .dout = tensor(c, o->sequence, cols, o->dtype, 6),
        .dq = tensor(c, o->sequence, cols, o->dtype, 7),
        .dk = tensor(c, o->sequence, cols, o->dtype, 8),
        .dv = tensor(c, o->sequence, cols, o->dtype, 9),
    };
}

static void release(const tensors *t)
{
    const ki_mat all[] = { t->q, t->k, t->v, t->out, t->lse, t->dout, t->dq, t->dk, t->dv };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i].data);
}

/* The products of a forward pass over blocks, and nothing else: the floor. A. */
static double products_ms(ki_compute *c, const options *o, bool is_causal)
{
    const ki_attention how = { .batch = 1,
                               .sequence = o->sequence,
                               .kv_sequence = o->sequence,
                               .heads = o->heads,
                               .kv_heads = o->heads,
                               .head_dim = o->head_dim,
                               .is_causal = is_causal };
    const ki_attention_work work = ki_attention_begin(c, &how, o->dtype);
    const size_t nbytes = work.real_nbytes;
    char *a = (char *)calloc((size_t)(o->sequence * o->head_dim), nbytes);
    char *b = (char *)calloc((size_t)(o->sequence * o->head_dim), nbytes);
    char *s = (char *)calloc(KI_QUERY_BLOCK * KI_KEY_BLOCK, nbytes);
    if (a == NULL || b == NULL || s == NULL)
        exit(fail("no memory"));
    double start = now_ms();
    for (int64_t head = 0; head < o->heads; head++)
        for (int64_t query = 0; query < o->sequence; query += KI_QUERY_BLOCK) {
            int64_t keys;
            const ki_score_block queries = ki_attention_queries(&how, 0, head, query, &keys);
            for (int64_t key = 0; key < keys; key += KI_KEY_BLOCK) {
                const ki_score_block block = ki_attention_block(&queries, keys, key);
                const ki_mat x = ki_attention_packed(&work, a, query, block.rows, o->head_dim);
                const ki_mat y = ki_attention_packed(&work, b, key, block.cols, o->head_dim);
                const ki_mat scores = ki_attention_packed(&work, s, 0, block.rows, block.cols);
                if (c->ops->gemm(c, KI_AS_IS, KI_TRANSPOSED, 1, x, y, 0, scores) != KITH_OK ||
                    c->ops->gemm(c, KI_AS_IS, KI_AS_IS, 1, scores, y, 1, x) != KITH_OK)
                    exit(fail("gemm"));
            }
        }
    double spent = now_ms() - start;
    free(a);
    free(b);
    free(s);
    return spent;
}

static int measure(ki_compute *c, const options *o, bool is_causal)
{
    const tensors t = allocate(c, o);
    const ki_attention how = {
        .batch = 1,
        .sequence = o->sequence,
        .kv_sequence = o->sequence,
        .heads = o->heads,
        .kv_heads = o->heads,
        .head_dim = o->head_dim,
        .scale = 1 / sqrt((double)o->head_dim),
        .is_causal = is_causal,
        .dropout = { .probability = o->dropout, .seed = 1, .batch = 1 },
    };
    double forward = HUGE_VAL, both = HUGE_VAL, products = HUGE_VAL;
    for (int64_t round = 0; round < o->rounds; round++) {
        double start = now_ms();
        if (c->ops->attention(c, &how, t.q, t.k, t.v, t.out, t.lse) != KITH_OK)
            return fail("attention");
        double middle = now_ms();
        if (c->ops->attention_grad(c, &how, t.q, t.k, t.v, t.out, t.lse, t.dout, t.dq, t.dk, t.dv) != KITH_OK)
            return fail("attention_grad");
        both = fmin(both, now_ms() - start);
        forward = fmin(forward, middle - start);
        products = fmin(products, products_ms(c, o, is_causal));
    }
    const double pairs = (double)o->sequence * (double)(is_causal ? o->sequence + 1 : 2 * o->sequence) / 2;
    const double gflop = 4e-9 * pairs * (double)(o->head_dim * o->heads);
    if (o->is_line)
        printf("%s %.3f %.3f %.3f\n", is_causal ? "causal" : "full", forward, both, products);
    else
        printf("%-7s forward %8.2f ms %6.1f GFLOP/s, products alone %8.2f ms (%2.0f %%); forward and backward %8.2f ms "
               "%6.1f GFLOP/s\n",
               is_causal ? "causal" : "full", forward, gflop / forward * 1e3, products, 100 * products / forward, both,
               3.5 * gflop / both * 1e3);
    fflush(stdout);
    release(&t);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench-layers-attention [--sequence N] [--heads N] [--head-dim N] [--dtype f32|f64|bf16] "
                    "[--dropout P] [--rounds N] [--line]\n");
    return 2;
}

int main(int argc, char **argv)
{
    options o = { .sequence = 1024, .heads = 12, .head_dim = 64, .rounds = 10, .dtype = KITH_F32 };
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--line") == 0) {
            o.is_line = true;
            continue;
        }
        if (value == NULL)
            return usage();
        if (strcmp(argv[i], "--sequence") == 0)
            o.sequence = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--heads") == 0)
            o.heads = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--head-dim") == 0)
            o.head_dim = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            o.rounds = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--dropout") == 0)
            o.dropout = strtod(value, NULL);
        else if (strcmp(argv[i], "--dtype") != 0 || kith_dtype_parse(value, &o.dtype) != KITH_OK)
            return usage();
        i++;
    }
    if (o.sequence < 1 || o.heads < 1 || o.head_dim < 1 || o.rounds < 1 || !(o.dropout >= 0 && o.dropout < 1))
        return usage();
    ki_compute *compute;
    if (ki_compute_open_host(1, &compute) != KITH_OK)
        return fail("host");
    int failed = measure(compute, &o, false);
    if (failed == 0)
        failed = measure(compute, &o, true);
    ki_compute_close(compute);
    return failed;
}
