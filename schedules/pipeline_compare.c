/* schedules/pipeline_compare.c - what all ranks must bring alike, looked at when a pipeline is made.
 *
 * Each rank gathers the facts of all, so all come to the same sentence. Compared is whatever decides what is exchanged
 * or what comes out of it; options that are a rank's own - prefetch, is_poisoned, keeps_times - may differ.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/mem.h"
#include "core/op.h"

#include <kith/coll.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum fact {
    FACT_PLAN,
    FACT_MESSAGES,
    FACT_ORDERED,
    FACT_SHARES_LOSS,
    FACT_DEVICE,
    FACT_DP_SIZE,
    FACT_DP_OP,
    FACT_TIED_COUNT, /* from here on a matter of some ranks: see below */
    FACT_TIED_DTYPE,
    FACT_BUCKETS,
    FACT_COUNT
} fact;

static const char *const fact_names[FACT_COUNT] = {
    [FACT_PLAN] = "plans",
    [FACT_MESSAGES] = "message sizes",
    [FACT_ORDERED] = "options: is_ordered",
    [FACT_SHARES_LOSS] = "options: shares_loss",
    [FACT_DEVICE] = "options: device on some of them",
    [FACT_DP_SIZE] = "options: dp_group, or its size",
    [FACT_DP_OP] = "options: dp_op",
    [FACT_TIED_COUNT] = "options: the count of tied",
    [FACT_TIED_DTYPE] = "options: the dtype of tied",
    [FACT_BUCKETS] = "gradient buckets",
};

static uint64_t hash_plan(const kith_schedule *s)
{
    int sizes[] = { s->ranks, s->stages, s->microbatches };
    uint64_t hash = ki_hash(KI_HASH_INIT, sizes, sizeof sizes);
    hash = ki_hash(hash, s->rank_of_stage, (size_t)s->stages * sizeof *s->rank_of_stage);
    for (int rank = 0; rank < s->ranks; rank++)
        hash = ki_hash(hash, s->lists[rank].actions, s->lists[rank].count * sizeof *s->lists[rank].actions);
    return hash;
}

static uint64_t hash_messages(const kith_pipeline *p)
{
    uint64_t hash = KI_HASH_INIT;
    for (int boundary = 0; boundary + 1 < p->stages; boundary++) {
        uint64_t nbytes = ki_pipe_program_boundary_nbytes(p, boundary);
        hash = ki_hash(hash, &nbytes, sizeof nbytes);
    }
    return hash;
}

static uint64_t hash_buckets(const kith_pipeline *p)
{
    uint64_t hash = KI_HASH_INIT;
    for (size_t i = 0; i < p->options.bucket_count; i++) {
        const kith_grad_bucket *b = &p->options.buckets[i];
        uint64_t values[] = { (uint64_t)b->stage, b->count, (uint64_t)b->dtype };
        hash = ki_hash(hash, values, sizeof values);
    }
    return hash;
}

/* facts: [FACT_COUNT] of this rank. */
static void gather_own(const kith_pipeline *p, uint64_t *facts)
{
    const kith_pipeline_options *o = &p->options;
    bool is_replicated = o->dp_group != NULL;
    facts[FACT_PLAN] = hash_plan(p->schedule);
    facts[FACT_MESSAGES] = hash_messages(p);
    facts[FACT_ORDERED] = o->is_ordered != 0;
    facts[FACT_SHARES_LOSS] = o->shares_loss != 0;
    facts[FACT_DEVICE] = o->device != NULL;
    facts[FACT_DP_SIZE] = is_replicated ? (uint64_t)kith_group_size(o->dp_group) : 0;
    facts[FACT_DP_OP] = is_replicated ? ki_op_hash(p->ctx, o->dp_op) : 0;
    facts[FACT_TIED_COUNT] = o->tied != NULL ? o->tied->count : 0;
    facts[FACT_TIED_DTYPE] = o->tied != NULL ? (uint64_t)o->tied->dtype : 0;
    facts[FACT_BUCKETS] = hash_buckets(p);
}

static void mismatch(kith_group *group, int rank, fact which, ki_pipe_verdict *v)
{
    ki_pipe_verdict_share(v, group, KITH_ERR_MISMATCH,
                          "ranks 0 and %d of group '%s' came to a pipeline with different %s", rank,
                          kith_group_name(group), fact_names[which]);
}

/* The first `count` facts of all ranks with those of the first. all: [ranks * FACT_COUNT]. */
static void compare(kith_group *group, const uint64_t *all, int count, ki_pipe_verdict *v)
{
    for (int rank = 1; rank < kith_group_size(group) && v->status == KITH_OK; rank++)
        for (int i = 0; i < count && v->status == KITH_OK; i++)
            if (all[rank * FACT_COUNT + i] != all[i])
                mismatch(group, rank, (fact)i, v);
}

static void compare_tied(const kith_pipeline *p, const uint64_t *all, ki_pipe_verdict *v)
{
    int first = p->schedule->rank_of_stage[0], last = p->schedule->rank_of_stage[p->stages - 1];
    const uint64_t *a = all + first * FACT_COUNT, *b = all + last * FACT_COUNT;
    bool is_same = a[FACT_TIED_COUNT] == b[FACT_TIED_COUNT] && a[FACT_TIED_DTYPE] == b[FACT_TIED_DTYPE];
    if (first == last || is_same || v->status != KITH_OK)
        return;
    ki_pipe_verdict_share(v, p->group, KITH_ERR_MISMATCH,
                          "options.tied: rank %d of group '%s' has %llu elements of %s, rank %d has %llu of %s", first,
                          kith_group_name(p->group), (unsigned long long)a[FACT_TIED_COUNT],
                          kith_dtype_name((kith_dtype)a[FACT_TIED_DTYPE]), last, (unsigned long long)b[FACT_TIED_COUNT],
                          kith_dtype_name((kith_dtype)b[FACT_TIED_DTYPE]));
}

static kith_status gather(kith_group *group, const uint64_t *mine, uint64_t *all)
{
    return kith_all_gather(group, mine, all, FACT_COUNT, KITH_UINT64);
}

kith_status ki_pipe_compare_allocate(kith_pipeline *p)
{
    size_t ranks = (size_t)kith_group_size(p->group), replicas = 0;
    if (p->options.dp_group != NULL)
        replicas = (size_t)kith_group_size(p->options.dp_group);
    p->facts = ki_pipe_zeroed(ranks > replicas ? ranks : replicas, FACT_COUNT * sizeof *p->facts);
    return p->facts != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "no memory to compare %zu ranks", ranks);
}

kith_status ki_pipe_compare_ranks(kith_pipeline *p, ki_pipe_verdict *v)
{
    uint64_t mine[FACT_COUNT];
    gather_own(p, mine);
    kith_status status = gather(p->group, mine, p->facts);
    if (status != KITH_OK)
        return status;
    compare(p->group, p->facts, FACT_TIED_COUNT, v);
    compare_tied(p, p->facts, v);
    return KITH_OK;
}

kith_status ki_pipe_compare_replicas(kith_pipeline *p, ki_pipe_verdict *v)
{
    uint64_t mine[FACT_COUNT];
    gather_own(p, mine);
    kith_status status = gather(p->options.dp_group, mine, p->facts);
    if (status == KITH_OK)
        compare(p->options.dp_group, p->facts, FACT_COUNT, v);
    return status;
}
