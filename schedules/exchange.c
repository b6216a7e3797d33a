/* schedules/exchange.c - kith_schedule_write(): brings a plan into the shape that a form needs, and writes it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "core/base/error.h"

typedef enum shape { COMPUTE_ONLY, WITH_MESSAGES } shape;

static const struct {
    const char *name;
    kith_status (*write)(const kith_schedule *schedule, ki_text *out, size_t *dropped);
    shape shape;
    bool is_plain; /* one stage a rank, no I and W, no overlap */
} forms[] = {
    [KITH_FORM_TORCH_COMPUTE] = { "PyTorch's file of computation", ki_write_torch, COMPUTE_ONLY, false },
    [KITH_FORM_TORCH_COMMS] = { "PyTorch's file with messages", ki_write_torch, WITH_MESSAGES, false },
    [KITH_FORM_DEEPSPEED] = { "DeepSpeed's listing", ki_write_deepspeed, COMPUTE_ONLY, true },
    [KITH_FORM_SHALLOWSPEED] = { "shallowspeed's listing", ki_write_shallowspeed, COMPUTE_ONLY, true },
};

/* The listings have words for F and B of one stage a rank, and the stages must lie in order. */
static kith_status check_plain(const kith_schedule *s, const char *form)
{
    if (s->chunks > 1)
        return ki_fail(KITH_ERR_UNSUPPORTED, "%s has one stage on each rank, and this plan has %d", form, s->chunks);
    for (int stage = 0; stage < s->stages; stage++)
        if (s->rank_of_stage[stage] != stage)
            return ki_fail(KITH_ERR_UNSUPPORTED, "%s has stage %d on rank %d, and this plan has it on rank %d", form,
                           stage, stage, s->rank_of_stage[stage]);
    for (int rank = 0; rank < s->ranks; rank++) {
        for (size_t i = 0; i < s->lists[rank].count; i++) {
            const kith_action *a = &s->lists[rank].actions[i];
            if (a->type == KITH_ACTION_I || a->type == KITH_ACTION_W)
                return ki_fail(KITH_ERR_UNSUPPORTED, "%s has no backward in two parts, and this plan has (rank %d)",
                               form, rank);
            if (a->is_overlapped)
                return ki_fail(KITH_ERR_UNSUPPORTED, "%s has no overlapped actions, and this plan has (rank %d)", form,
                               rank);
        }
    }
    return kith_schedule_check(s, NULL, NULL);
}

/* PyTorch's files of computation have no word for anything else; idle cells are theirs. */
static bool has_more_than_computation(const kith_schedule *s)
{
    for (int rank = 0; rank < s->ranks; rank++)
        for (size_t i = 0; i < s->lists[rank].count; i++) {
            kith_action_type type = s->lists[rank].actions[i].type;
            if (!ki_action_is_compute(type) && type != KITH_ACTION_IDLE)
                return true;
        }
    return false;
}

/* What a plan has of a step without having messages is made anew with them. */
static kith_status add_messages(const kith_schedule *s, kith_schedule **with_messages)
{
    kith_lower_options lower = KITH_LOWER_MESSAGES_INIT;
    lower.has_reduce = s->has_backward;
    if (!s->has_step_actions)
        return kith_schedule_lower(s, &lower, with_messages);
    kith_schedule *computation;
    kith_status status = kith_schedule_compute_only(s, &computation);
    if (status != KITH_OK)
        return status;
    status = kith_schedule_lower(computation, &lower, with_messages);
    kith_schedule_destroy(computation);
    return status;
}

/* *shaped is the plan itself or one made for the form; destroy it when it is not the plan. */
static kith_status bring_into_shape(const kith_schedule *s, shape wanted, size_t *dropped, const kith_schedule **shaped)
{
    kith_schedule *made = NULL;
    kith_status status = KITH_OK;
    *shaped = s;
    /* without neighbours on other ranks there is nothing to add, and a file that was read is written as it was */
    if (wanted == WITH_MESSAGES && !s->has_messages && ki_schedule_needs_messages(s)) {
        status = add_messages(s, &made);
    } else if (wanted == COMPUTE_ONLY && has_more_than_computation(s)) {
        status = kith_schedule_compute_only(s, &made);
    }
    if (status != KITH_OK || made == NULL)
        return status;
    for (int rank = 0; rank < s->ranks && wanted == COMPUTE_ONLY; rank++)
        *dropped += s->lists[rank].count - made->lists[rank].count;
    *shaped = made;
    return KITH_OK;
}

kith_status kith_schedule_write(const kith_schedule *schedule, kith_schedule_form form, char **text, size_t *dropped)
{
    if (schedule == NULL || text == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_write(): %s is NULL",
                       schedule == NULL ? "schedule" : "text");
    if ((unsigned)form >= sizeof forms / sizeof forms[0])
        return ki_fail(KITH_ERR_INVALID_ARG, "%d is no form of a plan: valid are 0 to %d", (int)form,
                       (int)(sizeof forms / sizeof forms[0]) - 1);
    kith_status status = forms[form].is_plain ? check_plain(schedule, forms[form].name) : KITH_OK;
    if (status != KITH_OK)
        return status;
    const kith_schedule *shaped;
    size_t lost = 0, unsaid = 0;
    status = bring_into_shape(schedule, forms[form].shape, &lost, &shaped);
    if (status != KITH_OK)
        return status;
    ki_text out = { NULL, 0, 0, false };
    status = forms[form].write(shaped, &out, &unsaid);
    if (shaped != schedule)
        kith_schedule_destroy((kith_schedule *)shaped);
    if (status == KITH_OK && (out.is_failed || out.chars == NULL))
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory for %s", forms[form].name);
    if (status != KITH_OK) {
        ki_text_fini(&out);
        return status;
    }
    *text = out.chars;
    if (dropped != NULL)
        *dropped = lost + unsaid;
    return KITH_OK;
}
