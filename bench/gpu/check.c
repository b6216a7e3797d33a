/* bench/gpu/check.c - each function of the device's table beside the host's, on the same numbers.
 *
 * tests/layers has the strict tests; this one needs no test library, so it runs wherever the benchmark does. Everything
 * that a function may have written is compared: sums may be formed in another order, so what is asked for is nearness,
 * and how many functions gave equal bits is told. Sizes are odd, so that ends of rows are taken, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../layers/cases.h"
#include "gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    bench_data host, card;
    void *copy; /* of the host, as large as the largest matrix */
    double largest, limit;
    const char *worst;
    int equal, wrong;
} pair;

static void *host_alloc(bench_data *b, size_t nbytes)
{
    (void)b;
    return aligned_alloc(64, (nbytes + 63) / 64 * 64);
}

static kith_status host_put(bench_data *b, void *to, const void *from, size_t nbytes)
{
    (void)b;
    memcpy(to, from, nbytes);
    return KITH_OK;
}

static size_t nbytes_of(const ki_mat *m)
{
    return (size_t)(m->rows * m->cols) * kith_dtype_nbytes(m->dtype);
}

/* The card's matrices as the host's, with the same numbers. */
static void make_card(gpu *g, pair *p)
{
    ki_mat *from[BENCH_MATRICES], *to[BENCH_MATRICES];
    const size_t ids_nbytes = (size_t)p->host.rows * sizeof(int32_t);
    p->card = p->host;
    p->card.compute = gpu_compute(g);
    bench_matrices(&p->host, from);
    for (size_t i = 0, count = bench_matrices(&p->card, to); i < count; i++)
        to[i]->data = gpu_alloc(g, nbytes_of(from[i]));
    p->card.ids = (int32_t *)gpu_alloc(g, ids_nbytes);
    p->card.columns = (int32_t *)gpu_alloc(g, 2 * ids_nbytes);
    gpu_put(g, p->card.ids, p->host.ids, ids_nbytes);
}

static void send_all(gpu *g, pair *p)
{
    ki_mat *from[BENCH_MATRICES], *to[BENCH_MATRICES];
    bench_matrices(&p->host, from);
    for (size_t i = 0, count = bench_matrices(&p->card, to); i < count; i++)
        gpu_put(g, to[i]->data, from[i]->data, nbytes_of(from[i]));
    gpu_put(g, p->card.columns, p->host.columns, 2 * (size_t)p->host.rows * sizeof(int32_t));
}

static double number(const void *data, kith_dtype dtype, int64_t i)
{
    if (dtype == KITH_F64)
        return ((const double *)data)[i];
    if (dtype == KITH_F32)
        return (double)((const float *)data)[i];
    const uint32_t wide = (uint32_t)((const uint16_t *)data)[i] << 16; /* bf16 */
    float x;
    memcpy(&x, &wide, sizeof x);
    return (double)x;
}

/* Largest difference, beside numbers of 1 and more as a share of them. */
static double compare(const void *host, const void *card, kith_dtype dtype, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double h = number(host, dtype, i), c = number(card, dtype, i);
        const double difference = fabs(h - c) / fmax(1, fabs(h));
        if (h == c || (isnan(h) && isnan(c)))
            continue;
        largest = difference <= largest ? largest : difference;
        if (isnan(difference))
            return INFINITY;
    }
    return largest;
}

static double compare_all(gpu *g, pair *p)
{
    ki_mat *host[BENCH_MATRICES], *card[BENCH_MATRICES];
    const size_t columns_nbytes = 2 * (size_t)p->host.rows * sizeof(int32_t);
    double largest = 0;
    bench_matrices(&p->host, host);
    for (size_t i = 0, count = bench_matrices(&p->card, card); i < count; i++) {
        gpu_get(g, p->copy, card[i]->data, nbytes_of(host[i]));
        if (memcmp(p->copy, host[i]->data, nbytes_of(host[i])) != 0)
            largest = fmax(largest, compare(host[i]->data, p->copy, host[i]->dtype, host[i]->rows * host[i]->cols));
    }
    gpu_get(g, p->copy, p->card.columns, columns_nbytes);
    if (memcmp(p->copy, p->host.columns, columns_nbytes) != 0)
        return INFINITY;
    return fmax(largest, compare(&p->host.sum, &p->card.sum, KITH_F64, 1));
}

static void check_case(gpu *g, pair *p, const bench_case *which)
{
    send_all(g, p);
    p->card.sum = p->host.sum;
    must(which->run(&p->host), which->name);
    must(which->run(&p->card), which->name);
    const double difference = compare_all(g, p);
    p->equal += difference == 0;
    if (!(difference <= p->limit)) {
        p->wrong++;
        report(which->name, words("differs by %.2g", difference), words("at most %.2g", p->limit), "WRONG");
    }
    if (difference > p->largest) {
        p->largest = difference;
        p->worst = which->name;
    }
}

static void free_all(gpu *g, pair *p)
{
    ki_mat *host[BENCH_MATRICES], *card[BENCH_MATRICES];
    bench_matrices(&p->host, host);
    for (size_t i = 0, count = bench_matrices(&p->card, card); i < count; i++) {
        free(host[i]->data);
        gpu_free(g, card[i]->data);
    }
    free(p->host.ids);
    free(p->host.columns);
    free(p->copy);
    gpu_free(g, p->card.ids);
    gpu_free(g, p->card.columns);
    ki_compute_close(p->host.compute);
}

void bench_check(gpu *g)
{
    pair p = { .limit = g->dtype == KITH_BF16 ? 1.0 / 64 : g->dtype == KITH_F64 ? 1e-12 : 1e-5 };
    p.host = (bench_data){ .dtype = g->dtype,
                           .rows = g->is_quick ? 35 : 1027,
                           .cols = g->is_quick ? 77 : 1531,
                           .alloc = host_alloc,
                           .put = host_put };
    const kith_status status = ki_compute_open_host(0, &p.host.compute);
    if (status == KITH_ERR_UNSUPPORTED)
        cannot_run("the host cannot compute: %s", kith_error_detail());
    must(status, "the host's arithmetic");
    must(bench_make_data(&p.host), "matrices");
    p.copy = calloc((size_t)(p.host.rows * p.host.cols), 8);
    must(p.copy != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    memset(p.host.columns, 0, 2 * (size_t)p.host.rows * sizeof(int32_t));
    make_card(g, &p);
    report_part("device = host, %s", kith_dtype_name(g->dtype));
    for (size_t i = 0; i < bench_case_count; i++)
        check_case(g, &p, &bench_cases[i]);
    report(words("%zu functions", bench_case_count), words("equal bits in %d", p.equal),
           p.worst == NULL ? "no difference" : words("largest difference %.2g (%s)", p.largest, p.worst),
           p.wrong == 0 ? "right" : words("%d WRONG", p.wrong));
    free_all(g, &p);
    if (p.wrong != 0)
        give_up("%d functions of the device are not near the host's", p.wrong);
}
