/* topology/cost_memory.c - many prices on the same nodes: paths and the messages of plans are made once.
 *
 * A search prices the same algorithms over other GPUs again and again. Which messages a plan has depends on the size of
 * the group, its bytes and which ranks share a host, not on the GPUs; so the last short plans are kept.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include <string.h>

static void rounds_memory_fini(ki_rounds_memory *memory)
{
    for (int i = 0; i < KI_ROUNDS_REMEMBERED; i++)
        ki_rounds_fini(&memory->plans[i].rounds);
}

const ki_rounds *ki_rounds_recall(const ki_cost_case *c, const ki_algo *algo, const int *hosts)
{
    for (int i = 0; i < KI_ROUNDS_REMEMBERED && c->size <= KI_MOST_RANKS_REMEMBERED; i++)
        if (c->rounds->plans[i].algo == algo && c->rounds->plans[i].size == c->size &&
            !(c->rounds->plans[i].nbytes < c->nbytes || c->rounds->plans[i].nbytes > c->nbytes) &&
            memcmp(c->rounds->plans[i].node_of, hosts, (size_t)c->size * sizeof *hosts) == 0)
            return &c->rounds->plans[i].rounds;
    return NULL;
}

bool ki_rounds_remember(const ki_cost_case *c, const ki_algo *algo, const int *hosts, const ki_rounds *rounds)
{
    if (c->size > KI_MOST_RANKS_REMEMBERED)
        return false;
    int at = c->rounds->next;
    c->rounds->next = (at + 1) % KI_ROUNDS_REMEMBERED;
    ki_rounds_fini(&c->rounds->plans[at].rounds);
    c->rounds->plans[at].algo = algo;
    c->rounds->plans[at].size = c->size;
    c->rounds->plans[at].nbytes = c->nbytes;
    c->rounds->plans[at].rounds = *rounds;
    memcpy(c->rounds->plans[at].node_of, hosts, (size_t)c->size * sizeof *hosts);
    return true;
}

kith_status ki_cost_session_init(ki_cost_session *session, const kith_topology *t, const int *gpus, size_t count)
{
    *session = (ki_cost_session){ .t = t };
    kith_status status = ki_paths_create(t, gpus, count, &session->paths);
    return status == KITH_OK ? ki_flows_create(session->paths, &session->flows) : status;
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
