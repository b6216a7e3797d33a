/* schedules/generate.c - kith_schedule_create(): what holds for all kinds is checked here, then the kind's generator
 * runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stddef.h>

typedef struct kind_row {
    ki_generate_fn generate;
    int chunks_default, chunks_min, chunks_max; /* stages a rank */
    kith_stage_layout layout;
} kind_row;

static const kind_row kind_rows[] = {
    [KITH_SCHEDULE_NAIVE] = { ki_generate_naive, 1, 1, KI_STAGES_MAX, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_GPIPE] = { ki_generate_gpipe, 1, 1, 1, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_1F1B] = { ki_generate_1f1b, 1, 1, 1, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_INTERLEAVED] = { ki_generate_interleaved, 2, 1, KI_STAGES_MAX, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_ZB_H1] = { ki_generate_zb_h, 1, 1, 1, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_ZB_H2] = { ki_generate_zb_h, 1, 1, 1, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_ZB_V] = { ki_generate_zb_v, 2, 2, 2, KITH_STAGES_V },
    [KITH_SCHEDULE_LOOPED_BFS] = { ki_generate_gpipe, 2, 1, KI_STAGES_MAX, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_INTERLEAVED_ZB] = { ki_generate_interleaved_zb, 2, 1, KI_STAGES_MAX, KITH_STAGES_LOOP },
    [KITH_SCHEDULE_DUALPIPE_V] = { ki_generate_dualpipe_v, 2, 2, 2, KITH_STAGES_V },
    [KITH_SCHEDULE_AUTO] = { ki_generate_auto, 1, 1, 1, KITH_STAGES_LOOP },
};

static const kind_row *row_of(kith_schedule_kind kind)
{
    bool is_known = (unsigned)kind < sizeof kind_rows / sizeof kind_rows[0] && kind_rows[kind].generate != NULL;
    return is_known ? &kind_rows[kind] : NULL;
}

/* The one number of chunks where a kind has one, else the range, for the sentence. */
static kith_status check_chunks(const kith_schedule_options *o, const kind_row *row)
{
    if (o->chunks >= row->chunks_min && o->chunks <= row->chunks_max)
        return KITH_OK;
    const char *name = kith_schedule_kind_name(o->kind);
    if (row->chunks_min == row->chunks_max)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s with %d chunks a rank: it has %d", name, o->chunks, row->chunks_min);
    return ki_fail(KITH_ERR_INVALID_ARG, "%s with %d chunks a rank: valid are %d to %d", name, o->chunks,
                   row->chunks_min, row->chunks_max);
}

static kith_status take_options(const kith_schedule_options *given, kith_schedule_options *o)
{
    *o = (kith_schedule_options)KITH_SCHEDULE_OPTIONS_INIT;
    if (!ki_options_copy(o, sizeof *o, given, offsetof(kith_schedule_options, chunks)))
        return ki_fail(KITH_ERR_INVALID_ARG, "schedule options were not filled with KITH_SCHEDULE_OPTIONS_INIT");
    const kind_row *row = row_of(o->kind);
    if (row == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d is no kind of schedule that can be made: see KITH_SCHEDULE_KIND_TABLE",
                       (int)o->kind);
    o->chunks = o->chunks == 0 ? row->chunks_default : o->chunks;
    return check_chunks(o, row);
}

kith_status kith_schedule_create(const kith_schedule_options *options, kith_schedule **schedule)
{
    if (options == NULL || schedule == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_create(): %s is NULL",
                       options == NULL ? "options" : "schedule");
    kith_schedule_options o;
    kith_status status = take_options(options, &o);
    if (status != KITH_OK)
        return status;
    const kind_row *row = row_of(o.kind);
    int stages;
    if (__builtin_mul_overflow(o.ranks, o.chunks, &stages))
        return ki_fail(KITH_ERR_INVALID_ARG, "%d ranks with %d chunks: at most %d stages", o.ranks, o.chunks,
                       KI_STAGES_MAX);
    kith_schedule *s;
    status = ki_schedule_new(o.kind, o.ranks, stages, NULL, row->layout, o.microbatches, &s);
    if (status != KITH_OK)
        return status;
    status = o.is_forward_only ? ki_generate_forward(&o, s) : row->generate(&o, s);
    if (status != KITH_OK) {
        kith_schedule_destroy(s);
        return status;
    }
    *schedule = s;
    return KITH_OK;
}
