/* tools/bench/targets.c - the groups in which operations run.
 *
 * "world"; an axis of the mesh, in all of whose groups the operation runs at once, as each rank is in one of them;
 * "all": every rank in its groups of all axes at the same time, as training does. Axes of size 1 have nobody to talk to
 * and are left out of "each" and "all".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <string.h>

static bench_target *add_target(bench_targets *targets, const char *name)
{
    if (targets->count == BENCH_LIST_MAX)
        return NULL;
    bench_target *target = &targets->list[targets->count++];
    *target = (bench_target){ .ranks = 1 };
    snprintf(target->name, sizeof target->name, "%s", name);
    return target;
}

static void add_group(bench_target *target, kith_group *group, int world)
{
    int ranks = kith_group_size(group);
    target->groups[target->count++] = group;
    target->group_count += world / ranks;
    if (ranks > target->ranks)
        target->ranks = ranks;
}

static bool add_axis(bench_targets *targets, const char *name, int world)
{
    bench_target *target = add_target(targets, name);
    if (target != NULL)
        add_group(target, kith_mesh_group(targets->mesh, name), world);
    return target != NULL;
}

/* "each", and "all" when is_at_once. */
static bool add_axes(bench_targets *targets, const bench_options *options, int world, bool is_at_once)
{
    bench_target *all = is_at_once ? add_target(targets, "all") : NULL;
    if (is_at_once && all == NULL)
        return false;
    for (int a = 0; a < options->axis_count; a++) {
        const char *name = options->axis_names[a];
        if (kith_mesh_size(targets->mesh, name) == 1)
            continue;
        if (is_at_once)
            add_group(all, kith_mesh_group(targets->mesh, name), world);
        else if (!add_axis(targets, name, world))
            return false;
    }
    return !is_at_once || all->count > 0;
}

static bool add_named(bench_targets *targets, kith_ctx *ctx, const bench_options *options, const char *name)
{
    int world = kith_size(ctx);
    if (strcmp(name, "each") == 0 || strcmp(name, "all") == 0)
        return add_axes(targets, options, world, name[0] == 'a');
    if (strcmp(name, "world") != 0)
        return add_axis(targets, name, world);
    bench_target *target = add_target(targets, name);
    if (target != NULL)
        add_group(target, kith_world(ctx), world);
    return target != NULL;
}

/* Inside a host the control group is over shared memory whatever is measured: its barrier lets all ranks go within less
 * than a microsecond, and does not depend on what is under test. */
static kith_status make_control(kith_ctx *ctx, kith_group **control)
{
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.name = "bench";
    options.backend = "shm";
    if (kith_node_count(ctx) == 1 && kith_group_dup(kith_world(ctx), &options, control) == KITH_OK)
        return KITH_OK;
    options.backend = NULL;
    return kith_group_dup(kith_world(ctx), &options, control);
}

bool bench_targets_make(bench_targets *targets, kith_ctx *ctx, const bench_options *options, char *sentence,
                        size_t nbytes)
{
    *targets = (bench_targets){ .mesh = NULL };
    kith_status status = make_control(ctx, &targets->control);
    if (status == KITH_OK && options->axis_count > 0)
        status = kith_mesh_create(kith_world(ctx), options->axes, (size_t)options->axis_count, NULL, &targets->mesh);
    if (status != KITH_OK) {
        snprintf(sentence, nbytes, "%s", kith_error_detail());
        return false;
    }
    for (int i = 0; i < options->group_count; i++) {
        if (!add_named(targets, ctx, options, options->groups[i])) {
            snprintf(sentence, nbytes,
                     "--group %s: no axis of the mesh has more than one rank, or there are too many groups",
                     options->groups[i]);
            return false;
        }
    }
    if (targets->count == 0)
        snprintf(sentence, nbytes, "--group each: no axis of the mesh has more than one rank");
    return targets->count > 0;
}

void bench_targets_free(bench_targets *targets)
{
    kith_mesh_destroy(targets->mesh);
    kith_group_destroy(targets->control);
}
