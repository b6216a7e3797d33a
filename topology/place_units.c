/* topology/place_units.c - whole tp groups change places, over nodes too.
 *
 * Every other rule fills nodes of one kind in one way and in sequence. A pipeline that shares nodes with another, or
 * two groups that should not use one switch, need units that lie elsewhere: so from the best that is known, the GPUs of
 * two tp groups change places, or those of one with GPUs that are left over, as long as a step gets cheaper; then again
 * from a few random swaps of the best, until the budget of prices is used up. What is inside a tp group stays as it is.
 * Without tp a unit is one GPU; a tp group that no node can hold is exchanged in parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum {
    MOST_RANKS = 83,           /* of a job: for larger ones the orders of place_orders.c must do */
    MOST_PRICED_RANKS = 12000, /* in groups whose price was not known: 60 ms */
    MOST_IDLE = 24,            /* climbs without gain */
    HASTY_PRICED_RANKS = 1500  /* where layouts are only compared */
};

typedef struct units {
    ki_search *w;
    ki_price_memory memory;
    int axes[KI_AXES], axis_count;
    int size, used, count; /* ranks of a unit; units with ranks, and with those that are left over */
    int *gpus, *islands;   /* [count * size]; islands: of each GPU */
    size_t room;           /* of each of the two arrays; the best so far follows them */
    double cost;
    uint64_t random;
} units;

/* ---- what there is ---- */

static int64_t rank_of(const units *u, int unit, int i)
{
    const ki_sizes *sizes = &u->w->sizes;
    int parts = sizes->size[KI_TP] / u->size;
    return ki_sizes_group_base(sizes, KI_TP, unit / parts) + (unit % parts * u->size + i) * sizes->stride[KI_TP];
}

static void read_candidate(units *u, const ki_candidate *from)
{
    for (int g = 0; g < u->used; g++) {
        for (int i = 0; i < u->size; i++) {
            int64_t rank = rank_of(u, g, i);
            u->gpus[g * u->size + i] = from->gpus[rank];
            u->islands[g * u->size + i] = from->island_of_rank[rank];
        }
    }
}

static void write_trial(const units *u)
{
    for (int g = 0; g < u->used; g++) {
        for (int i = 0; i < u->size; i++) {
            int64_t rank = rank_of(u, g, i);
            u->w->trial.gpus[rank] = u->gpus[g * u->size + i];
            u->w->trial.island_of_rank[rank] = u->islands[g * u->size + i];
        }
    }
}

/* Whole units of what is left over in a node, in the order in which ranks would take its GPUs. */
static void add_spare_of_node(units *u, int island, int node, const unsigned char *is_taken)
{
    int kind = kith_topology_node(u->w->t, node)->kind, first = kith_topology_first_gpu(u->w->t, node);
    const int *order = u->w->locals[kind].gpus;
    int filled = 0, *to = u->gpus + u->count * u->size, *home = u->islands + u->count * u->size;
    for (int i = 0; order != NULL && i < u->w->islands.usable_count[kind]; i++) {
        if (is_taken[first + order[i]])
            continue;
        to[filled] = first + order[i];
        home[filled] = island;
        filled++;
    }
    u->count += filled / u->size;
}

static kith_status add_spare(units *u)
{
    const ki_islands *islands = &u->w->islands;
    unsigned char *is_taken = (unsigned char *)ki_calloc(NULL, (size_t)kith_topology_gpu_count(u->w->t), 1);
    if (is_taken == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int i = 0; i < u->used * u->size; i++)
        is_taken[u->gpus[i]] = 1;
    for (int i = 0; i < islands->count; i++)
        for (int n = 0; n < islands->islands[i].node_count; n++)
            add_spare_of_node(u, i, islands->nodes[islands->islands[i].node_from + n], is_taken);
    ki_free(NULL, is_taken);
    return KITH_OK;
}

/* ---- swaps ---- */

static kith_status price_all(units *u, double limit, double *cost)
{
    ki_search *w = u->w;
    kith_status status = KITH_OK;
    double sum = 0;
    write_trial(u);
    for (int i = 0; status == KITH_OK && i < u->axis_count && sum < limit; i++) {
        int axis = u->axes[i], size = w->sizes.size[axis];
        double step_s = 0;
        ki_axis_groups(&w->sizes, axis, w->trial.gpus, w->scratch);
        status = ki_memory_price(w, &u->memory, axis, w->scratch, size, w->sizes.world / size, limit - sum, &step_s);
        sum += step_s;
    }
    *cost = sum < limit ? sum : INFINITY;
    return status;
}

static void swap_units(units *u, int a, int b)
{
    for (int i = 0; i < u->size; i++) {
        int from = a * u->size + i, to = b * u->size + i, gpu = u->gpus[from], island = u->islands[from];
        u->gpus[from] = u->gpus[to];
        u->islands[from] = u->islands[to];
        u->gpus[to] = gpu;
        u->islands[to] = island;
    }
}

/* A MIG parent is not taken while another GPU is left over. */
static bool takes_mig(const units *u, int spare)
{
    for (int i = 0; spare >= u->used && i < u->size; i++) {
        int node, position;
        if (!kith_topology_locate(u->w->t, u->gpus[spare * u->size + i], &node, &position) ||
            kith_topology_kind(u->w->t, kith_topology_node(u->w->t, node)->kind)->gpus[position].is_mig)
            return true;
    }
    return false;
}

static kith_status try_swap(units *u, int a, int b, bool *has_changed)
{
    double cost;
    if (takes_mig(u, b))
        return KITH_OK;
    swap_units(u, a, b);
    kith_status status = price_all(u, u->cost * (1 - 1e-9), &cost);
    if (status == KITH_OK && isfinite(cost)) {
        u->cost = cost;
        *has_changed = true;
    } else {
        swap_units(u, a, b);
    }
    return status;
}

static kith_status climb_up(units *u)
{
    kith_status status = KITH_OK;
    bool has_changed = true;
    while (status == KITH_OK && has_changed) {
        has_changed = false;
        for (int a = 0; a < u->used; a++)
            for (int b = a + 1; b < u->count && status == KITH_OK && u->memory.ranks_left > 0; b++)
                status = try_swap(u, a, b, &has_changed);
        has_changed = has_changed && u->memory.ranks_left > 0;
    }
    return status;
}

/* ---- again from elsewhere ---- */

static int next_random(units *u, int below)
{
    u->random ^= u->random << 13;
    u->random ^= u->random >> 7;
    u->random ^= u->random << 17;
    return (int)((u->random >> 11) % (uint64_t)below);
}

static void kick(units *u)
{
    for (int wanted = 2 + next_random(u, 3); wanted > 0; wanted--) {
        int a = next_random(u, u->used), b = next_random(u, u->count);
        if (a != b && !takes_mig(u, b))
            swap_units(u, a, b);
    }
}

static void copy_state(const units *u, int *to, const int *from)
{
    memcpy(to, from, 2 * u->room * sizeof *to);
}

/* The best of some climbs, each from a few random swaps of the best before. */
static kith_status climb_again(units *u)
{
    int *saved = u->gpus + 2 * u->room;
    kith_status status = climb_up(u);
    double best = u->cost;
    copy_state(u, saved, u->gpus);
    for (int idle = 0; status == KITH_OK && idle < MOST_IDLE && u->count > 2 && u->memory.ranks_left > 0 &&
                       best > u->w->lower_bound * (1 + 1e-6);
         idle++) {
        kick(u);
        status = price_all(u, INFINITY, &u->cost);
        if (status == KITH_OK)
            status = climb_up(u);
        if (u->cost < best * (1 - 1e-9)) {
            best = u->cost;
            idle = -1;
            copy_state(u, saved, u->gpus);
        }
        copy_state(u, u->gpus, saved);
    }
    return status;
}

/* ---- the whole ---- */

/* A tp group that no island can hold is exchanged in the parts that islands hold. */
static int size_of_unit(const ki_search *w)
{
    int possible[KI_AXES + 1], tp = w->sizes.size[KI_TP];
    if (tp <= w->islands.most)
        return tp;
    int count = ki_sizes_units(&w->sizes, &w->islands, possible);
    return count > 0 && tp % possible[0] == 0 ? possible[0] : 1;
}

static kith_status begin(units *u)
{
    const ki_sizes *sizes = &u->w->sizes;
    u->room = (size_t)sizes->world + (size_t)u->w->islands.total;
    u->random = 88172645463325252u;
    u->size = size_of_unit(u->w);
    u->used = u->count = sizes->world / u->size;
    u->axis_count = ki_search_axes(u->w, u->axes);
    u->gpus = (int *)ki_calloc(NULL, 4 * u->room, sizeof *u->gpus);
    u->islands = u->gpus != NULL ? u->gpus + u->room : NULL;
    return u->gpus != NULL ? ki_memory_init(&u->memory, u->w->is_hasty ? HASTY_PRICED_RANKS : MOST_PRICED_RANKS)
                           : KITH_ERR_NO_MEMORY;
}

kith_status ki_search_units(ki_search *w)
{
    units u = { .w = w };
    if (w->sizes.world > MOST_RANKS)
        return KITH_OK;
    bool is_identity = !w->has_candidate || !ki_candidate_is_better(&w->best, &w->identity);
    kith_status status = begin(&u);
    if (status == KITH_OK) {
        read_candidate(&u, is_identity ? &w->identity : &w->best);
        status = add_spare(&u);
    }
    if (status == KITH_OK)
        status = price_all(&u, INFINITY, &u.cost);
    if (status == KITH_OK && isfinite(u.cost) && u.axis_count > 0)
        status = climb_again(&u);
    if (status == KITH_OK) {
        write_trial(&u);
        w->trial.is_climbed = true;
        status = ki_search_keep(w);
    }
    ki_memory_fini(&u.memory);
    ki_free(NULL, u.gpus);
    return status;
}
