/* tools/bench/look.c - whether points can be measured here, and the buffers that they need.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "job.h"

#include <stdarg.h>

bool bench_refuse(bench_job *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->sentence, sizeof job->sentence, format, arguments);
    va_end(arguments);
    return false;
}

bool bench_point_shape(const bench_point *point, int group, bench_shape *shape)
{
    kith_group *members = point->target->groups[group];
    int root = bench_op_is_rooted(point->op) ? point->root : 0;
    if (!bench_shape_make(shape, point->op, point->nbytes, kith_dtype_nbytes(point->dtype), kith_group_rank(members),
                          kith_group_size(members), root))
        return false;
    if (point->op == BENCH_ALL_PAIRS)
        bench_shape_pair(shape, point->src, point->dst);
    return true;
}

/* Bytes that both buffers of a point need on this rank; false where they do not fit an address. */
static bool find_needs(const bench_point *point, int group, size_t *send_nbytes, size_t *recv_nbytes)
{
    bench_shape shape;
    size_t element = kith_dtype_nbytes(point->dtype), limit;
    int ranks = kith_group_size(point->target->groups[group]);
    if (__builtin_mul_overflow(point->nbytes, (size_t)ranks + 1, &limit) ||
        __builtin_add_overflow(limit, element * (size_t)ranks, &limit) || !bench_point_shape(point, group, &shape))
        return false;
    bench_call_needs(&shape, point->is_in_place, send_nbytes, recv_nbytes);
    *send_nbytes *= element;
    *recv_nbytes *= element;
    bench_shape_free(&shape);
    return true;
}

static bool check_memory(bench_job *job, const bench_point *point, size_t nbytes)
{
    char size[40];
    size_t ranks = (size_t)kith_local_size(job->ctx), all, available = bench_memory_available();
    bench_size_print(point->nbytes, size, sizeof size);
    if (point->memory == BENCH_DEVICE) {
        kith_device_info info = KITH_DEVICE_INFO_INIT;
        if (kith_device_describe(kith_ctx_device(job->ctx), &info) == KITH_OK && nbytes > info.free_nbytes)
            return bench_refuse(job, "%s of %s needs %zu MiB of memory of the device, which has %llu MiB free",
                                bench_op_name(point->op), size, nbytes >> 20,
                                (unsigned long long)info.free_nbytes >> 20);
        return true;
    }
    if (__builtin_mul_overflow(nbytes, ranks, &all) || all > available)
        return bench_refuse(
            job, "%s of %s needs %zu MiB of memory on each of %zu ranks of this host, which has %zu MiB free",
            bench_op_name(point->op), size, nbytes >> 20, ranks, available >> 20);
    return true;
}

bool bench_look(bench_job *job, const bench_point *point)
{
    size_t sum = 0;
    job->point_count++;
    for (int g = 0; g < point->target->count; g++) {
        kith_group *group = point->target->groups[g];
        size_t send, recv;
        if (bench_op_is_rooted(point->op) && point->root >= kith_group_size(group))
            return bench_refuse(job, "--root %d: group %s has ranks 0 to %d", point->root, point->target->name,
                                kith_group_size(group) - 1);
        if (!bench_op_is_pattern(point->op) &&
            kith_coll_query(group, (kith_coll_kind)point->op, point->dtype, point->redop) != KITH_OK)
            return bench_refuse(job, "%s", kith_error_detail());
        if (!find_needs(point, g, &send, &recv) || __builtin_add_overflow(sum, send, &sum) ||
            __builtin_add_overflow(sum, recv, &sum))
            return bench_refuse(job, "%s of %zu bytes on %d ranks does not fit an address", bench_op_name(point->op),
                                point->nbytes, kith_group_size(group));
    }
    return check_memory(job, point, sum);
}

/* ---- buffers ---- */

typedef struct bench_needs {
    size_t send[KITH_MESH_MAX_AXES], recv[KITH_MESH_MAX_AXES];
} bench_needs;

static bench_needs needs; /* of the walk that is under way */

static bool grow_needs(bench_job *job, const bench_point *point)
{
    if (point->target != job->made_for || point->memory != job->made_memory)
        return true;
    for (int g = 0; g < point->target->count; g++) {
        size_t send, recv;
        if (!find_needs(point, g, &send, &recv))
            return bench_refuse(job, "no memory");
        needs.send[g] = send > needs.send[g] ? send : needs.send[g];
        needs.recv[g] = recv > needs.recv[g] ? recv : needs.recv[g];
    }
    return true;
}

void bench_job_free_buffers(bench_job *job)
{
    for (int i = 0; i < job->buffer_count; i++)
        bench_buffers_free(&job->buffers[i]);
    job->buffer_count = 0;
    job->made_for = NULL;
}

/* Makes the largest buffers that points of this target and kind of memory want, once for all of them. */
kith_status bench_job_buffers(bench_job *job, const bench_point *point)
{
    if (job->made_for == point->target && job->made_memory == point->memory)
        return KITH_OK;
    bench_job_free_buffers(job);
    job->made_for = point->target;
    job->made_memory = point->memory;
    needs = (bench_needs){ { 0 }, { 0 } };
    kith_status status = bench_visit_all(job, grow_needs) ? KITH_OK : KITH_ERR_NO_MEMORY;
    for (int g = 0; status == KITH_OK && g < point->target->count; g++) {
        job->buffer_count = g + 1;
        status =
            bench_buffers_make(&job->buffers[g], point->memory, point->target->groups[g], needs.send[g], needs.recv[g]);
    }
    return kith_agree(job->targets.control, status);
}
