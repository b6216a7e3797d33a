/* topology/cost_memory.c - many prices on the same nodes: paths and the messages of plans are made once.
 *
 * A search prices the same algorithms over other GPUs again and again. Which messages a plan has depends on the size of
 * the group, its bytes and which ranks share a host, not on the GPUs; so short plans are kept.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"
#include <string.h>

enum { FEW_PLANS = 32, MANY_PLANS = 1024 }; /* remembered for one price, for many */

static void rounds_memory_fini(ki_rounds_memory *memory)
{
    for (size_t i = 0; memory->plans != NULL && i < memory->room; i++)
        ki_rounds_fini(&memory->plans[i].rounds);
    ki_free(NULL, memory->plans);
    memory->plans = NULL;
}

/* What is asked for; the place where it is, if it is known. NULL: too large to be. */
static struct ki_remembered_plan *place_of(const ki_cost_case *c, const ki_algo *algo, const int *hosts,
                                           struct ki_remembered_plan *wanted)
{
    *wanted = (struct ki_remembered_plan){ .algo = algo, .size = c->size, .nbytes = c->nbytes };
    if (c->size > KI_MOST_RANKS_REMEMBERED)
        return NULL;
    for (int i = 0; i < c->size; i++)
        wanted->node_of[i] = (unsigned char)hosts[i];
    uint64_t hash = ki_hash(KI_HASH_INIT, wanted->node_of, sizeof wanted->node_of);
    hash = ki_hash(hash, algo->name, strlen(algo->name));
    hash = ki_hash(hash, &algo->kind, sizeof algo->kind);
    hash = ki_hash(hash, &wanted->size, sizeof wanted->size);
    hash = ki_hash(hash, &wanted->nbytes, sizeof wanted->nbytes);
    return &c->rounds->plans[hash % c->rounds->room];
}

const ki_rounds *ki_rounds_recall(const ki_cost_case *c, const ki_algo *algo, const int *hosts)
{
    struct ki_remembered_plan wanted;
    const struct ki_remembered_plan *found = place_of(c, algo, hosts, &wanted);
    bool is_it = found != NULL && found->algo == algo && found->size == c->size &&
                 !(found->nbytes < c->nbytes || found->nbytes > c->nbytes) &&
                 memcmp(found->node_of, wanted.node_of, sizeof wanted.node_of) == 0;
    return is_it ? &found->rounds : NULL;
}

bool ki_rounds_remember(const ki_cost_case *c, const ki_algo *algo, const int *hosts, const ki_rounds *rounds)
{
    struct ki_remembered_plan plan, *at = place_of(c, algo, hosts, &plan);
    if (at == NULL)
        return false;
    ki_rounds_fini(&at->rounds);
    *at = plan;
    at->rounds = *rounds;
    return true;
}

static kith_status init(ki_cost_session *session, const kith_topology *t, const int *gpus, size_t count, size_t plans)
{
    *session = (ki_cost_session){ .t = t };
    kith_status status = ki_paths_create(t, gpus, count, &session->paths);
    if (status == KITH_OK)
        status = ki_flows_create(session->paths, 2 * count, &session->flows);
    if (status != KITH_OK)
        return status;
    session->rounds.room = plans;
    session->rounds.plans = (struct ki_remembered_plan *)ki_calloc(NULL, plans, sizeof *session->rounds.plans);
    return session->rounds.plans != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

kith_status ki_cost_session_init(ki_cost_session *session, const kith_topology *t, const int *gpus, size_t count)
{
    return init(session, t, gpus, count, FEW_PLANS);
}

void ki_cost_session_fini(ki_cost_session *session)
{
    ki_flows_destroy(session->flows);
    ki_paths_destroy(session->paths);
    rounds_memory_fini(&session->rounds);
    ki_ring_sets_destroy(session->ring_sets);
    session->ring_sets = NULL;
    session->flows = NULL;
    session->paths = NULL;
}

void ki_cost_session_destroy(ki_cost_session *session)
{
    if (session != NULL)
        ki_cost_session_fini(session);
    ki_free(NULL, session);
}

kith_status ki_cost_session_create(const kith_topology *t, ki_cost_session **session)
{
    int count = kith_topology_gpu_count(t), *all = (int *)ki_calloc(NULL, (size_t)count + 1, sizeof *all);
    ki_cost_session *made = (ki_cost_session *)ki_calloc(NULL, 1, sizeof *made);
    kith_status status = all != NULL && made != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    for (int i = 0; status == KITH_OK && i < count; i++)
        all[i] = i;
    if (status == KITH_OK)
        status = init(made, t, all, (size_t)count, MANY_PLANS);
    if (status == KITH_OK && (made->ring_sets = ki_ring_sets_create()) == NULL)
        status = KITH_ERR_NO_MEMORY;
    ki_free(NULL, all);
    if (status == KITH_OK)
        *session = made;
    else
        ki_cost_session_destroy(made);
    return status;
}
