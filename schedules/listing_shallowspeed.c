/* schedules/listing_shallowspeed.c - a plan as shallowspeed's instructions, one a line.
 *
 * shallowspeed receives right before it computes, sends right after, and both block; it has one buffer at work. So a
 * plan can be said in it when it runs with each message at its computation and sends that wait for their receives,
 * which naive and GPipe do and 1F1B does not: two neighbours would send to each other at once. Whether a plan does
 * is tried, by checking the list that results.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "core/base/error.h"

/* Appends a computation between its messages, as shallowspeed has them. */
static kith_status add_at_once(kith_schedule *tight, int rank, const kith_action *a)
{
    bool is_forward = a->type == KITH_ACTION_F;
    int last = tight->stages - 1;
    bool receives = is_forward ? a->stage > 0 : a->stage < last;
    bool sends = is_forward ? a->stage < last : a->stage > 0;
    kith_status status = KITH_OK;
    if (receives)
        status =
            ki_schedule_add(tight, rank, is_forward ? KITH_ACTION_RECV_F : KITH_ACTION_RECV_B, a->stage, a->microbatch);
    if (status == KITH_OK)
        status = ki_schedule_add(tight, rank, a->type, a->stage, a->microbatch);
    if (sends && status == KITH_OK)
        status =
            ki_schedule_add(tight, rank, is_forward ? KITH_ACTION_SEND_F : KITH_ACTION_SEND_B, a->stage, a->microbatch);
    return status;
}

static kith_status tighten(const kith_schedule *s, kith_schedule **tight)
{
    kith_schedule *made;
    kith_status status = ki_schedule_new(KITH_SCHEDULE_CUSTOM, s->ranks, s->stages, s->rank_of_stage, KITH_STAGES_LOOP,
                                         s->microbatches, &made);
    if (status != KITH_OK)
        return status;
    for (int rank = 0; rank < s->ranks && status == KITH_OK; rank++)
        for (size_t i = 0; i < s->lists[rank].count && status == KITH_OK; i++)
            if (ki_action_is_compute(s->lists[rank].actions[i].type))
                status = add_at_once(made, rank, &s->lists[rank].actions[i]);
    if (status != KITH_OK) {
        kith_schedule_destroy(made);
        return status;
    }
    *tight = made;
    return KITH_OK;
}

/* backwards: how many were written before this one; the last one reduces. */
static void write_compute(const kith_schedule *s, const kith_action *a, int backwards, ki_text *out)
{
    const char *arguments = "(buffer_id=0, mubatch_id=%d)\n";
    if (a->type == KITH_ACTION_F && a->stage == 0) {
        ki_text_add(out, "LoadMuBatchInput");
        ki_text_add(out, arguments, a->microbatch);
    }
    if (a->type == KITH_ACTION_B && a->stage + 1 == s->stages) {
        ki_text_add(out, "LoadMuBatchTarget");
        ki_text_add(out, arguments, a->microbatch);
    }
    const char *backward = backwards + 1 == s->microbatches ? "BackwardGradAllReduce" : "BackwardGradAcc";
    ki_text_add(out, "%s", a->type == KITH_ACTION_F ? "Forward" : backward);
    ki_text_add(out, arguments, a->microbatch);
}

static void write_rank(const kith_schedule *tight, int rank, ki_text *out)
{
    int backwards = 0;
    if (tight->has_backward)
        ki_text_add(out, "ZeroGrad()\n");
    for (size_t i = 0; i < tight->lists[rank].count; i++) {
        const kith_action *a = &tight->lists[rank].actions[i];
        if (a->type == KITH_ACTION_RECV_F)
            ki_text_add(out, "RecvActivations(buffer_id=0)\n");
        else if (a->type == KITH_ACTION_SEND_F)
            ki_text_add(out, "SendActivations(buffer_id=0)\n");
        else if (a->type == KITH_ACTION_RECV_B)
            ki_text_add(out, "RecvOutputGrad(buffer_id=0)\n");
        else if (a->type == KITH_ACTION_SEND_B)
            ki_text_add(out, "SendInputGrad(buffer_id=0)\n");
        else
            write_compute(tight, a, backwards, out);
        backwards += a->type == KITH_ACTION_B;
    }
    if (tight->has_backward)
        ki_text_add(out, "OptimizerStep()\n");
}

kith_status ki_write_shallowspeed(const kith_schedule *s, ki_text *out, size_t *dropped)
{
    *dropped = 0; /* what is no computation is said by the listing's own rules */
    kith_schedule *tight;
    kith_status status = tighten(s, &tight);
    if (status != KITH_OK)
        return status;
    status = kith_schedule_check(tight, NULL, NULL);
    if (status == KITH_ERR_INVALID_ARG)
        status =
            ki_fail(KITH_ERR_UNSUPPORTED, "shallowspeed sends and receives at each computation, and waits for both: "
                                          "this plan would not run so");
    for (int rank = 0; rank < tight->ranks && status == KITH_OK; rank++) {
        ki_text_add(out, "# stage %d of %d\n", rank, tight->stages);
        write_rank(tight, rank, out);
    }
    kith_schedule_destroy(tight);
    return status;
}
