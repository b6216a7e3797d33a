/* core/seats.c - kith_group_check_placement(): does each rank run where the placement has it? See kith/mesh.h.
 *
 * Each rank compares itself with the placement, so that what goes round is small: a fingerprint of the placement and
 * one bit. When a rank runs elsewhere, the first such rank tells its sentence in a second round, and it becomes
 * everybody's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "base/mem.h"
#include "exchange.h"
#include "group.h"
#include "progress.h"
#include "topology/place.h"
#include <kith/mesh.h>
#include <kith/placement.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_NBYTES 256

static const char function[] = "kith_group_check_placement";

typedef struct seat_fact {
    uint64_t placement;
    uint64_t is_elsewhere;
} seat_fact;

static uint64_t hash_placement(const kith_placement *placement)
{
    uint64_t hash = KI_HASH_INIT;
    for (int i = 0; i < kith_placement_rank_count(placement); i++) {
        int gpu = kith_placement_gpu(placement, i);
        hash = ki_hash(hash, &gpu, sizeof gpu);
    }
    return hash;
}

static kith_status find_host(const char *given, char *host)
{
    if (given != NULL && (given[0] == '\0' || strlen(given) >= HOST_NBYTES))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the name of the host has %zu characters; valid: 1 to %d",
                             function, strlen(given), HOST_NBYTES - 1);
    host[HOST_NBYTES - 1] = '\0';
    if (given != NULL)
        memcpy(host, given, strlen(given) + 1);
    else if (gethostname(host, HOST_NBYTES - 1) != 0)
        return ki_fail(KITH_ERR_NO_RESOURCE, "%s: the system does not tell the host's name", function);
    return KITH_OK;
}

static kith_status check(const kith_group *base, const kith_topology *topology, const kith_placement *placement,
                         const char *pci)
{
    if (topology == NULL || placement == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the topology or the placement is NULL", function);
    if (kith_placement_rank_count(placement) != base->size)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the placement has %d ranks, the group %d", function,
                             kith_placement_rank_count(placement), base->size);
    if (pci != NULL && !ki_placement_is_address(pci))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: '%.40s' is no PCI address; valid: like 0000:1b:00.0", function,
                             pci);
    return ki_placement_check_topology(placement, topology, function);
}

typedef struct seat_claim {
    const kith_topology *topology;
    const kith_placement *placement;
    const char *host, *pci; /* of the calling rank */
} seat_claim;

/* All ranks know that some run elsewhere; the first of them says where. */
static kith_status tell(kith_group *base, const seat_claim *claim, int first, int count)
{
    char seat[128];
    kith_status status = KITH_OK;
    if (base->rank == first)
        status = ki_fail_quiet(
            KITH_ERR_MISMATCH, "rank %d runs on %.64s%s%.24s, the placement has it on %s; %d of %d ranks run elsewhere",
            first, claim->host, claim->pci != NULL ? ", GPU " : "", claim->pci != NULL ? claim->pci : "",
            ki_placement_seat_text(claim->placement, claim->topology, first, seat, sizeof seat), count, base->size);
    return ki_group_exchange(base, function, status, NULL, 0, NULL);
}

/* -1: all are where they should be. */
static int count_elsewhere(const kith_group *base, const seat_fact *all, int *count)
{
    int first = -1;
    *count = 0;
    for (int i = 0; i < base->size; i++)
        if (all[i].is_elsewhere != 0 && (*count)++ == 0)
            first = i;
    return first;
}

kith_status kith_group_check_placement(kith_group *base, const kith_topology *topology, const kith_placement *placement,
                                       const char *host, const char *pci)
{
    char name[HOST_NBYTES];
    KI_CHECK_GROUP(base, function);
    kith_status status = ki_group_refuse(base, function);
    if (status != KITH_OK)
        return status;
    seat_fact own = { 0, 0 }, *all = (seat_fact *)calloc((size_t)base->size, sizeof *all);
    if (all == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory", function);
    if (status == KITH_OK)
        status = check(base, topology, placement, pci);
    if (status == KITH_OK)
        status = find_host(host, name);
    if (status == KITH_OK)
        own =
            (seat_fact){ hash_placement(placement), !ki_placement_is_seat(placement, topology, base->rank, name, pci) };
    status = ki_group_exchange(base, function, status, &own, sizeof own, all);
    for (int i = 0; status == KITH_OK && i < base->size; i++)
        if (all[i].placement != all[0].placement)
            status = ki_fail(KITH_ERR_MISMATCH, "%s: ranks 0 and %d have different placements", function, i);
    int count = 0, first = status == KITH_OK ? count_elsewhere(base, all, &count) : -1;
    free(all);
    return first >= 0 ? tell(base, &(seat_claim){ topology, placement, name, pci }, first, count) : status;
}
