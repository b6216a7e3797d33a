/* topology/place_climb.c - swaps that lower the cost of a step.
 *
 * The rules of place_local.c and place_cluster.c look at classes of links, one axis after another; what a step costs
 * depends on all axes together and on what they share. So from what the rules found, two GPUs of a kind of node change
 * places (in all nodes of the kind, so that rails still match), or two equal blocks of ranks, or two unlike islands, as
 * long as the step gets cheaper. Then some GPUs are exchanged at random and it begins again, until the budget of prices
 * is used up. Units stay inside their islands whatever is exchanged.
 *
 * Positions are exchanged, not numbers, and the random numbers are always the same: from one order of GPUs, whatever
 * their names, the same comes out. GPUs that nothing tells apart are not exchanged.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"
#include "model.h"

#include <math.h>
#include <string.h>

enum {
    MOST_PRICED_RANKS = 1000, /* in groups whose price was not known, from one start: 5 ms */
    LEAST_PRICES = 12         /* of all ranks: with fewer it is not worth to begin */
};

typedef struct climb {
    ki_search *w;
    int unit;
    int axes[KI_AXES], axis_count; /* those that cost something, inner ones first */
    unsigned char **twins;         /* [kind][gpu_count squared]; NULL: not in use */
    unsigned char *is_used;        /* [kind] */
    ki_price_memory memory;
    double cost; /* of what stands in w */
    int *saved;  /* the cheapest so far: orders of all kinds, then the sequence */
    double saved_cost;
    uint64_t random;
} climb;

/* ---- prices ---- */

/* Of what stands in w; INFINITY as soon as it is not below `limit`. */
static kith_status price_all(climb *c, double limit, double *cost)
{
    double sum = 0;
    kith_status status = ki_search_assign(c->w, &c->w->trial, c->w->sequence, c->unit);
    for (int i = 0; status == KITH_OK && i < c->axis_count && sum < limit; i++) {
        int axis = c->axes[i], size = c->w->sizes.size[axis];
        double step_s = 0;
        ki_axis_groups(&c->w->sizes, axis, c->w->trial.gpus, c->w->scratch);
        status = ki_memory_price(c->w, &c->memory, axis, c->w->scratch, size, c->w->sizes.world / size, limit - sum,
                                 &step_s);
        sum += step_s;
    }
    *cost = sum < limit ? sum : INFINITY;
    return status;
}

/* ---- swaps ---- */

static void swap_blocks(int *a, int *b, int size)
{
    for (int i = 0; i < size; i++) {
        int other = a[i];
        a[i] = b[i];
        b[i] = other;
    }
}

/* Two blocks of an array have changed places: stays so when the step got cheaper. */
static kith_status judge_swap(climb *c, int *a, int *b, int size, bool *has_changed)
{
    double cost;
    kith_status status = price_all(c, c->cost * (1 - 1e-9), &cost);
    if (status == KITH_OK && isfinite(cost)) {
        c->cost = cost;
        *has_changed = true;
    } else {
        swap_blocks(a, b, size);
    }
    return status;
}

/* A MIG parent is not taken while another GPU is left over. */
static bool takes_mig(const kith_node_kind *kind, const ki_local *local, int i, int j)
{
    return j >= local->gpu_count && kind->gpus[local->gpus[j]].is_mig && !kind->gpus[local->gpus[i]].is_mig;
}

static bool may_swap_blocks(const climb *c, int kind, int i, int j, int size)
{
    const kith_node_kind *k = kith_topology_kind(c->w->t, kind);
    const ki_local *local = &c->w->locals[kind];
    bool are_twins = true;
    for (int m = 0; m < size; m++) {
        const int *a = &local->gpus[i + m], *b = &local->gpus[j + m];
        are_twins = are_twins && c->twins[kind][*a * k->gpu_count + *b];
        if (takes_mig(k, local, i + m, j + m))
            return false;
    }
    return !are_twins;
}

static kith_status swap_gpus(climb *c, int kind, bool *has_changed)
{
    ki_local *local = &c->w->locals[kind];
    kith_status status = KITH_OK;
    for (int i = 0; i < local->gpu_count; i++)
        for (int j = i + 1; j < c->w->islands.usable_count[kind] && status == KITH_OK && c->memory.ranks_left > 0;
             j++) {
            if (!may_swap_blocks(c, kind, i, j, 1))
                continue;
            swap_blocks(local->gpus + i, local->gpus + j, 1);
            status = judge_swap(c, local->gpus + i, local->gpus + j, 1, has_changed);
        }
    return status;
}

/* Blocks as large as the groups of each axis inside the unit. */
static kith_status swap_groups(climb *c, int kind, bool *has_changed)
{
    ki_local *local = &c->w->locals[kind];
    kith_status status = KITH_OK;
    int64_t last = 1;
    int usable = c->w->islands.usable_count[kind];
    for (int a = 0; a < KI_AXES && status == KITH_OK; a++) {
        int64_t size = c->w->sizes.stride[c->w->sizes.order[a]];
        if (size == last || size > local->gpu_count / 2 || local->gpu_count % size != 0)
            continue;
        last = size;
        int block = (int)size;
        for (int i = 0; i < local->gpu_count; i += block)
            for (int j = i + block; j + block <= usable && status == KITH_OK && c->memory.ranks_left > 0; j += block) {
                if (!may_swap_blocks(c, kind, i, j, block))
                    continue;
                swap_blocks(local->gpus + i, local->gpus + j, block);
                status = judge_swap(c, local->gpus + i, local->gpus + j, block, has_changed);
            }
    }
    return status;
}

/* GPUs go to groups by turns, as cards are dealt: groups that took neighbours share what neighbours share, a NIC or a
 * switch, and no single exchange takes them apart. size: of a group. */
static kith_status deal(climb *c, int kind, int size, bool *has_changed)
{
    int *gpus = c->w->locals[kind].gpus, before[KI_MAX_GPUS], count = c->w->locals[kind].gpu_count;
    double cost;
    memcpy(before, gpus, (size_t)count * sizeof *gpus);
    for (int i = 0; i < count; i++)
        gpus[i] = before[i % size * (count / size) + i / size];
    kith_status status = price_all(c, c->cost * (1 - 1e-9), &cost);
    if (status == KITH_OK && isfinite(cost)) {
        c->cost = cost;
        *has_changed = true;
    } else {
        memcpy(gpus, before, (size_t)count * sizeof *gpus);
    }
    return status;
}

static kith_status deal_groups(climb *c, int kind, bool *has_changed)
{
    const ki_local *local = &c->w->locals[kind];
    kith_status status = KITH_OK;
    int64_t last = 1;
    for (int a = 0; a < KI_AXES && status == KITH_OK && c->memory.ranks_left > 0; a++) {
        int64_t size = c->w->sizes.stride[c->w->sizes.order[a]];
        if (size == last || size > local->gpu_count / 2 || local->gpu_count % size != 0)
            continue;
        last = size;
        status = deal(c, kind, (int)size, has_changed);
    }
    return status;
}

/* Of one kind and on one switch: then which of them comes first is place_cluster.c's. */
static bool are_alike(const ki_islands *islands, int a, int b)
{
    const ki_island *x = &islands->islands[a], *y = &islands->islands[b];
    return x->kind == y->kind && x->gpu_count == y->gpu_count &&
           ki_island_leaf(islands, a) == ki_island_leaf(islands, b);
}

static kith_status swap_islands(climb *c, bool *has_changed)
{
    const ki_islands *islands = &c->w->islands;
    int *sequence = c->w->sequence, used = c->w->position_of_rank[c->w->sizes.world - 1] + 1;
    kith_status status = KITH_OK;
    for (int p = 0; p < used; p++)
        for (int q = p + 1; q < islands->count && status == KITH_OK && c->memory.ranks_left > 0; q++) {
            if (islands->islands[sequence[q]].gpu_count < c->unit || are_alike(islands, sequence[p], sequence[q]))
                continue;
            swap_blocks(sequence + p, sequence + q, 1);
            status = judge_swap(c, sequence + p, sequence + q, 1, has_changed);
        }
    return status;
}

static kith_status climb_up(climb *c)
{
    kith_status status = KITH_OK;
    bool has_changed = true;
    while (status == KITH_OK && has_changed && c->memory.ranks_left > 0) {
        has_changed = false;
        status = swap_islands(c, &has_changed);
        for (int k = 0; k < kith_topology_kind_count(c->w->t) && status == KITH_OK; k++) {
            if (!c->is_used[k])
                continue;
            status = deal_groups(c, k, &has_changed);
            if (status == KITH_OK)
                status = swap_groups(c, k, &has_changed);
            if (status == KITH_OK)
                status = swap_gpus(c, k, &has_changed);
        }
    }
    return status;
}

/* ---- again from elsewhere ---- */

static void copy_state(climb *c, bool is_saving)
{
    int *at = c->saved;
    for (int k = 0; k < kith_topology_kind_count(c->w->t); k++) {
        size_t nbytes = (size_t)c->w->islands.usable_count[k] * sizeof(int);
        if (c->w->locals[k].gpus == NULL)
            continue;
        memcpy(is_saving ? at : c->w->locals[k].gpus, is_saving ? c->w->locals[k].gpus : at, nbytes);
        at += c->w->islands.usable_count[k];
    }
    size_t nbytes = (size_t)c->w->islands.count * sizeof(int);
    memcpy(is_saving ? at : c->w->sequence, is_saving ? c->w->sequence : at, nbytes);
    if (is_saving)
        c->saved_cost = c->cost;
}

static int next_random(climb *c, int below)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (int)((c->random >> 11) % (uint64_t)below);
}

/* Ranks that an axis keeps together: 1, the groups of the innermost axis, and so on. */
static int random_block(climb *c)
{
    int axis = c->w->sizes.order[next_random(c, KI_AXES)];
    int64_t size = c->w->sizes.stride[axis];
    return size <= c->unit ? (int)size : 1;
}

/* Some exchanges of GPUs, or of blocks of one size; false where all GPUs are alike. */
static bool kick(climb *c)
{
    enum { MOST_TRIES = 64 };
    int done = 0, wanted = 2 + next_random(c, 4), kinds = kith_topology_kind_count(c->w->t), size = random_block(c);
    for (int try = 0; try < MOST_TRIES && done < wanted; try++) {
        int kind = next_random(c, kinds), used = c->is_used[kind] ? c->w->locals[kind].gpu_count / size : 0;
        if (used == 0)
            continue;
        int i = next_random(c, used) * size, j = next_random(c, c->w->islands.usable_count[kind] / size) * size;
        int low = i < j ? i : j, high = i < j ? j : i;
        if (low == high || !may_swap_blocks(c, kind, low, high, size))
            continue;
        swap_blocks(c->w->locals[kind].gpus + low, c->w->locals[kind].gpus + high, size);
        done++;
    }
    return done > 0;
}

static bool is_done(const climb *c)
{
    return c->memory.ranks_left <= 0 || c->saved_cost <= c->w->lower_bound * (1 + 1e-6);
}

static kith_status climb_once(climb *c)
{
    kith_status status = climb_up(c);
    copy_state(c, true);
    return status;
}

static kith_status climb_again(climb *c)
{
    kith_status status = climb_once(c);
    /* What was priced before costs nothing, so a small machine ends when rounds bring nothing new. */
    for (int idle = 0; status == KITH_OK && !is_done(c) && idle < 60 && kick(c); idle++) {
        int left = c->memory.ranks_left;
        status = price_all(c, INFINITY, &c->cost);
        if (status == KITH_OK)
            status = climb_up(c);
        if (c->cost < c->saved_cost * (1 - 1e-9))
            copy_state(c, true);
        copy_state(c, false);
        c->cost = c->saved_cost;
        idle = c->memory.ranks_left < left ? -1 : idle;
    }
    return status;
}

/* ---- beginning ---- */

static kith_status find_twins(climb *c)
{
    const ki_islands *islands = &c->w->islands;
    kith_status status = KITH_OK;
    for (int i = 0; i < islands->count; i++)
        for (int n = 0; n < islands->islands[i].node_count; n++)
            c->is_used[kith_topology_node(c->w->t, islands->nodes[islands->islands[i].node_from + n])->kind] = 1;
    for (int k = 0; k < kith_topology_kind_count(c->w->t) && status == KITH_OK; k++) {
        size_t gpus = (size_t)kith_topology_kind(c->w->t, k)->gpu_count;
        if (!c->is_used[k] || c->w->locals[k].gpus == NULL)
            continue;
        c->twins[k] = (unsigned char *)ki_calloc(NULL, gpus * gpus, 1);
        status = c->twins[k] == NULL ? KITH_ERR_NO_MEMORY
                                     : ki_twins_find(kith_topology_kind(c->w->t, k), islands->count > 1, c->twins[k]);
    }
    for (int k = 0; k < kith_topology_kind_count(c->w->t); k++)
        c->is_used[k] = c->is_used[k] && c->twins[k] != NULL;
    return status;
}

static kith_status begin(climb *c)
{
    ki_search *w = c->w;
    size_t kinds = (size_t)kith_topology_kind_count(w->t), room = (size_t)w->islands.count;
    c->axis_count = ki_search_axes(w, c->axes);
    for (size_t k = 0; k < kinds; k++)
        room += (size_t)w->islands.usable_count[k];
    c->twins = (unsigned char **)ki_calloc(NULL, kinds, sizeof *c->twins);
    c->is_used = (unsigned char *)ki_calloc(NULL, kinds, 1);
    c->saved = (int *)ki_calloc(NULL, room, sizeof *c->saved);
    if (c->twins == NULL || c->is_used == NULL || c->saved == NULL)
        return KITH_ERR_NO_MEMORY;
    kith_status status = ki_memory_init(&c->memory, MOST_PRICED_RANKS);
    return status == KITH_OK ? find_twins(c) : status;
}

static void end(climb *c)
{
    for (int k = 0; c->twins != NULL && k < kith_topology_kind_count(c->w->t); k++)
        ki_free(NULL, c->twins[k]);
    ki_free(NULL, c->twins);
    ki_free(NULL, c->is_used);
    ki_memory_fini(&c->memory);
    ki_free(NULL, c->saved);
}

kith_status ki_search_climb(ki_search *w, int unit, bool is_thorough)
{
    climb c = { .w = w, .unit = unit, .random = 88172645463325252u };
    if (w->sizes.world > MOST_PRICED_RANKS / LEAST_PRICES)
        return KITH_OK;
    kith_status status = begin(&c);
    if (status == KITH_OK)
        status = price_all(&c, INFINITY, &c.cost);
    if (status == KITH_OK && isfinite(c.cost) && c.axis_count > 0)
        status = is_thorough ? climb_again(&c) : climb_once(&c);
    if (status == KITH_OK)
        status = ki_search_assign(w, &w->trial, w->sequence, unit);
    w->trial.is_climbed = true;
    if (status == KITH_OK)
        status = ki_search_keep(w);
    end(&c);
    return status;
}
