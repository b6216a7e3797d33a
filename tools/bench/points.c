/* tools/bench/points.c - all points of a job, one after the other: each combination of what was asked for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "job.h"

static bool visit_places(bench_job *job, bench_point *point, bench_visit_fn visit)
{
    bench_place place = bench_op_has_place(point->op) ? job->options->place : BENCH_PLACE_OUT;
    if (place != BENCH_PLACE_IN) {
        point->is_in_place = false;
        if (!visit(job, point))
            return false;
    }
    point->is_in_place = true;
    return place == BENCH_PLACE_OUT || visit(job, point);
}

static bool visit_pairs(bench_job *job, bench_point *point, bench_visit_fn visit)
{
    int ranks = point->target->ranks;
    if (point->op != BENCH_ALL_PAIRS || ranks == 1)
        return visit_places(job, point, visit);
    for (point->src = 0; point->src < ranks; point->src++)
        for (point->dst = point->src + 1; point->dst < ranks; point->dst++)
            if (!visit_places(job, point, visit))
                return false;
    return true;
}

/* What a size becomes: whole elements, as many for each rank where there are parts. */
static size_t rounded(const bench_point *point, size_t nbytes)
{
    bench_shape shape;
    size_t element = kith_dtype_nbytes(point->dtype), count = 0;
    if (bench_shape_make(&shape, point->op, nbytes, element, 0, point->target->ranks, point->root))
        count = shape.count;
    bench_shape_free(&shape);
    return count * element;
}

/* Two sizes may become the same one, which is measured once. */
static bool is_measured(const bench_point *point, const size_t *sizes, int index)
{
    size_t nbytes = rounded(point, sizes[index]);
    for (int i = 0; nbytes > 0 && i < index; i++)
        if (rounded(point, sizes[i]) == nbytes)
            return true;
    return false;
}

static bool visit_sizes(bench_job *job, bench_point *point, bench_visit_fn visit)
{
    int count = bench_op_is_sizeless(point->op) ? 1 : job->options->size_count;
    for (int s = 0; s < count; s++) {
        if (!bench_op_is_sizeless(point->op) && is_measured(point, job->options->sizes, s))
            continue;
        point->nbytes = bench_op_is_sizeless(point->op) ? 0 : job->options->sizes[s];
        point->src = 0;
        point->dst = point->target->ranks > 1 ? 1 : 0;
        if (!visit_pairs(job, point, visit))
            return false;
    }
    return true;
}

static bool visit_redops(bench_job *job, bench_point *point, bench_visit_fn visit)
{
    int count = bench_op_is_reduction(point->op) ? job->options->redop_count : 1;
    for (int r = 0; r < count; r++) {
        point->redop = job->options->redops[r];
        if (!visit_sizes(job, point, visit))
            return false;
    }
    return true;
}

static bool visit_ops(bench_job *job, bench_point *point, bench_visit_fn visit)
{
    const bench_options *options = job->options;
    for (int o = 0; o < options->op_count; o++) {
        point->op = options->ops[o];
        int dtypes = bench_op_is_sizeless(point->op) ? 1 : options->dtype_count;
        for (int d = 0; d < dtypes; d++) {
            point->dtype = options->dtypes[d];
            if (!visit_redops(job, point, visit))
                return false;
        }
    }
    return true;
}

bool bench_visit_all(bench_job *job, bench_visit_fn visit)
{
    const bench_options *options = job->options;
    bench_point point = { .root = options->root };
    for (int t = 0; t < job->targets.count; t++) {
        point.target = &job->targets.list[t];
        point.mode = options->is_overlapped                                ? BENCH_OVERLAP
                     : options->is_non_blocking || point.target->count > 1 ? BENCH_NON_BLOCKING
                                                                           : BENCH_BLOCKING;
        for (int m = 0; m < options->memory_count; m++) {
            point.memory = options->memories[m];
            if (!visit_ops(job, &point, visit))
                return false;
        }
    }
    return true;
}
