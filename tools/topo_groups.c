/* tools/topo_groups.c - who is in which group, and which hop of each group's ring is the slowest.
 *
 * The placement names the worst hop of an axis; a picture shows that of every group, so it is found here again from the
 * rings and the links.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include <stdlib.h>

static bool is_narrower(const kith_link *a, const kith_link *b)
{
    if (a->gbps > 0 && b->gbps > 0 && a->gbps != b->gbps)
        return a->gbps < b->gbps;
    if (a->type != b->type)
        return a->type < b->type;
    return a->count < b->count;
}

static void look_at_ring(const kith_topology *topology, ki_group *group, int size)
{
    group->from = group->to = -1;
    group->is_even = true;
    group->worst = (kith_link){ .type = KITH_LINK_SELF };
    for (int i = 0; i < size && size > 1; i++) {
        int from = group->ring[i], to = group->ring[(i + 1) % size];
        kith_link link = kith_topology_link(topology, from, to);
        bool is_first = group->from < 0;
        bool is_worse = !is_first && is_narrower(&link, &group->worst);
        if (is_worse || (!is_first && is_narrower(&group->worst, &link)))
            group->is_even = false;
        if (!is_first && !is_worse)
            continue;
        group->worst = link;
        group->from = from;
        group->to = to;
    }
}

static const kith_axis_report *shown_axis(const kith_placement *placement)
{
    static const char *const names[KITH_PLACEMENT_AXES] = { "tp", "cp", "ep", "dp", "pp" };
    const kith_axis_report *first = NULL;
    for (int i = 0; placement != NULL && i < KITH_PLACEMENT_AXES; i++) {
        const kith_axis_report *axis = kith_placement_axis(placement, names[i]);
        if (axis == NULL)
            continue;
        if (first == NULL)
            first = axis;
        if (axis->size > 1)
            return axis;
    }
    return first;
}

static void note_stages(ki_groups *self, const kith_axis_report *pp)
{
    self->stage_count = pp != NULL ? pp->size : 1;
    for (int i = 0; pp != NULL && i < pp->group_count * pp->size; i++)
        if (pp->groups[i] >= 0 && pp->groups[i] < self->gpu_count)
            self->stage_of[pp->groups[i]] = i % pp->size;
}

bool ki_groups_create(const kith_topology *topology, const kith_placement *placement, ki_groups *self)
{
    const kith_axis_report *axis = shown_axis(placement);
    *self = (ki_groups){ .gpu_count = kith_topology_gpu_count(topology) };
    if (axis == NULL)
        return true;
    size_t room = (size_t)self->gpu_count + 1;
    self->rank_of = malloc(room * sizeof(int));
    self->group_of = malloc(room * sizeof(int));
    self->stage_of = malloc(room * sizeof(int));
    self->groups = calloc((size_t)axis->group_count + 1, sizeof(*self->groups));
    if (self->rank_of == NULL || self->group_of == NULL || self->stage_of == NULL || self->groups == NULL) {
        ki_groups_destroy(self);
        return false;
    }
    self->axis = axis->name;
    self->size = axis->size;
    self->count = axis->group_count;
    for (int i = 0; i < self->gpu_count; i++)
        self->rank_of[i] = self->group_of[i] = self->stage_of[i] = -1;
    for (int rank = 0; rank < kith_placement_rank_count(placement); rank++) {
        int gpu = kith_placement_gpu(placement, rank);
        if (gpu >= 0 && gpu < self->gpu_count)
            self->rank_of[gpu] = rank;
    }
    for (int g = 0; g < self->count; g++) {
        self->groups[g].ring = axis->rings + (size_t)g * (size_t)axis->size;
        for (int i = 0; i < axis->size; i++) {
            int gpu = self->groups[g].ring[i];
            if (gpu >= 0 && gpu < self->gpu_count)
                self->group_of[gpu] = g;
        }
        look_at_ring(topology, &self->groups[g], self->size);
    }
    note_stages(self, kith_placement_axis(placement, "pp"));
    return true;
}

void ki_groups_destroy(ki_groups *self)
{
    free(self->groups);
    free(self->rank_of);
    free(self->group_of);
    free(self->stage_of);
    *self = (ki_groups){ 0 };
}

static int look_up(const ki_groups *self, const int *table, int global_gpu)
{
    return table == NULL || global_gpu < 0 || global_gpu >= self->gpu_count ? -1 : table[global_gpu];
}

int ki_groups_rank(const ki_groups *self, int global_gpu)
{
    return look_up(self, self->rank_of, global_gpu);
}

int ki_groups_group(const ki_groups *self, int global_gpu)
{
    return look_up(self, self->group_of, global_gpu);
}

int ki_groups_stage(const ki_groups *self, int global_gpu)
{
    return look_up(self, self->stage_of, global_gpu);
}
