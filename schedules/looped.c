/* schedules/looped.c - see looped.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "looped.h"

#include "core/base/error.h"

kith_status ki_looped_group(const kith_schedule_options *o, kith_schedule *s, int *group)
{
    const char *name = kith_schedule_kind_name(o->kind);
    if (o->group_size < 0 || (o->group_size > 0 && o->group_size < o->ranks))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s with groups of %d microbatches on %d ranks: valid are %d and more",
                       name, o->group_size, o->ranks, o->ranks);
    *group = o->group_size > 0 ? o->group_size : o->ranks;
    if (s->chunks == 1 || o->microbatches % *group == 0)
        return KITH_OK;
    return ki_schedule_add_note(s, "%d microbatch%s in groups of %d: bubble is larger than with a multiple of %d",
                                o->microbatches, o->microbatches == 1 ? "" : "es", *group, *group);
}

/* What stands at a place of the order of groups and chunks. */
static void look_up(const kith_schedule *s, int group, int64_t place, bool is_backward, int *chunk, int *microbatch)
{
    int64_t before = place / ((int64_t)group * s->chunks);
    int64_t within = place % ((int64_t)group * s->chunks);
    int64_t left = s->microbatches - before * group;
    int64_t count = left < group ? left : group;
    *chunk = (int)(within / count);
    *chunk = is_backward ? s->chunks - 1 - *chunk : *chunk;
    *microbatch = (int)(before * group + within % count);
}

static kith_status add(kith_schedule *s, const ki_looped *looped, int rank, kith_action_type type, int64_t place)
{
    if (place < 0 || place >= (int64_t)s->microbatches * s->chunks)
        return KITH_OK;
    int chunk, microbatch;
    look_up(s, looped->group, place, ki_action_is_backward(type), &chunk, &microbatch);
    return ki_schedule_add(s, rank, type, s->stage_of_chunk[rank * s->chunks + chunk], microbatch);
}

kith_status ki_looped_add(kith_schedule *s, const ki_looped *looped, int rank, int64_t ahead, int64_t lag)
{
    int64_t all = (int64_t)s->microbatches * s->chunks;
    ahead = ahead < all ? ahead : all;
    lag = lag < all ? lag : all;
    kith_status status = KITH_OK;
    for (int64_t step = 0; step < all + ahead + lag && status == KITH_OK; step++) {
        status = add(s, looped, rank, KITH_ACTION_F, step);
        if (status == KITH_OK)
            status = add(s, looped, rank, looped->is_split ? KITH_ACTION_I : KITH_ACTION_B, step - ahead);
        if (status == KITH_OK && looped->is_split)
            status = add(s, looped, rank, KITH_ACTION_W, step - ahead - lag);
    }
    return status;
}
