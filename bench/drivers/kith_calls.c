/* bench/drivers/kith_calls.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kith_calls.h"

#include "ordinary.h"

#include <stdio.h>
#include <stdlib.h>

#define TAG_THERE 1
#define TAG_BACK 2

void bench_kith_complain(const char *what, kith_status status)
{
    fprintf(stderr, "kith-bench: %s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
}

static kith_dtype kith_type(bench_dtype dtype)
{
    switch (dtype) {
    case BENCH_F64:
        return KITH_F64;
    case BENCH_BF16:
        return KITH_BF16;
    case BENCH_INT32:
        return KITH_INT32;
    default:
        return KITH_F32;
    }
}

static kith_status ping_pong(kith_group *group, const bench_call *call, kith_dtype type, int partner)
{
    size_t count = call->shape->count;
    kith_status status;
    if (call->shape->rank == 0) {
        status = kith_send(group, call->send, count, type, partner, TAG_THERE);
        return status != KITH_OK ? status : kith_recv(group, call->recv, count, type, partner, TAG_BACK, NULL);
    }
    status = kith_recv(group, call->recv, count, type, partner, TAG_THERE, NULL);
    return status != KITH_OK ? status : kith_send(group, call->send, count, type, partner, TAG_BACK);
}

static kith_status call_kith(kith_group *group, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    kith_dtype type = kith_type(call->dtype);
    int partner = bench_shape_partner(shape);
    switch (shape->op) {
    case BENCH_ALL_REDUCE:
        return kith_all_reduce(group, call->send, call->recv, shape->count, type, KITH_SUM);
    case BENCH_REDUCE_SCATTER:
        return kith_reduce_scatter(group, call->send, call->recv, shape->block, type, KITH_SUM);
    case BENCH_ALL_GATHER:
        return kith_all_gather(group, call->send, call->recv, shape->block, type);
    case BENCH_ALL_TO_ALL:
        return kith_all_to_all(group, call->send, call->recv, shape->block, type);
    case BENCH_BROADCAST:
        return kith_broadcast(group, shape->rank == 0 ? call->send : call->recv, shape->count, type, 0);
    case BENCH_REDUCE:
        return kith_reduce(group, call->send, call->recv, shape->count, type, KITH_SUM, 0);
    case BENCH_BARRIER:
        return kith_barrier(group);
    case BENCH_PING_PONG:
        return partner < 0 ? KITH_OK : ping_pong(group, call, type, partner);
    default:
        return partner < 0 ? KITH_OK
                           : kith_sendrecv(group, call->send, shape->count, partner, TAG_THERE, call->recv,
                                           shape->count, partner, TAG_THERE, type);
    }
}

static bool run(void *self, const bench_call *call)
{
    bench_kith *kith = self;
    kith_status status = call_kith(kith->group, call);
    if (status != KITH_OK) {
        bench_kith_complain(bench_op_name(call->shape->op), status);
    }
    return status == KITH_OK;
}

static bool allocate_mapped(kith_group *group, size_t nbytes, void **send, void **recv)
{
    kith_status status = kith_mem_alloc(group, nbytes, send);
    status = status != KITH_OK ? status : kith_mem_alloc(group, nbytes, recv);
    if (status != KITH_OK) {
        bench_kith_complain("kith_mem_alloc", status);
    }
    return status == KITH_OK;
}

static bool allocate_registered(kith_group *group, size_t nbytes, void **send, void **recv)
{
    nbytes = (nbytes + BENCH_BUFFER_ALIGNMENT - 1) / BENCH_BUFFER_ALIGNMENT * BENCH_BUFFER_ALIGNMENT;
    kith_status mine = bench_allocate_ordinary(NULL, nbytes, send, recv) ? KITH_OK : KITH_ERR_NO_MEMORY;
    kith_status status = kith_agree(group, mine);
    status = status != KITH_OK ? status : kith_mem_register(group, *send, nbytes);
    status = status != KITH_OK ? status : kith_mem_register(group, *recv, nbytes);
    if (status != KITH_OK) {
        bench_kith_complain("kith_mem_register", status);
    }
    return status == KITH_OK;
}

static bool allocate(void *self, size_t nbytes, void **send, void **recv)
{
    bench_kith *kith = self;
    switch (kith->buffers) {
    case BENCH_KITH_MAPPED:
        return allocate_mapped(kith->group, nbytes, send, recv);
    case BENCH_KITH_REGISTERED:
        return allocate_registered(kith->group, nbytes, send, recv);
    default:
        return bench_allocate_ordinary(NULL, nbytes, send, recv);
    }
}

void bench_kith_variants(kith_group *group, bench_kith selves[BENCH_KITH_VARIANTS],
                         bench_variant variants[BENCH_KITH_VARIANTS])
{
    static const char *const names[BENCH_KITH_VARIANTS] = { "ordinary", "mapped", "registered" };
    for (int i = 0; i < BENCH_KITH_VARIANTS; i++) {
        selves[i] = (bench_kith){ group, (bench_kith_buffers)i };
        variants[i] = (bench_variant){ .name = names[i], .self = &selves[i], .allocate = allocate, .run = run };
    }
}

bool bench_kith_meet(kith_group *group, bench_segment **segment)
{
    char name[64] = "";
    int rank = kith_group_rank(group);
    kith_status mine = KITH_OK;
    if (rank == 0 && !bench_segment_create(name, segment)) {
        mine = KITH_ERR_NO_RESOURCE;
    }
    kith_status status = kith_broadcast(group, name, sizeof(name), KITH_INT8, 0);
    if (status == KITH_OK && rank != 0 && !bench_segment_open(name, segment)) {
        mine = KITH_ERR_NO_RESOURCE;
    }
    status = status != KITH_OK ? status : kith_agree(group, mine);
    if (rank == 0) {
        bench_segment_forget(name);
    }
    if (status != KITH_OK) {
        bench_kith_complain("meeting in shared memory", status);
    }
    return status == KITH_OK;
}
