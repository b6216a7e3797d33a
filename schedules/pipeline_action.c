/* schedules/pipeline_action.c - one action of the list: gather what it needs, call the trainer, pass on the result.
 *
 * A result goes to its stage at once: by message, or from hand to hand when that stage is on this rank. When the
 * step has failed, everything happens but the call: buffers are taken and given back as always, and messages go out
 * empty, so that every rank comes to the end of its list.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/clock.h"
#include "core/base/error.h"

typedef struct work {
    size_t at;
    const kith_action *action;
    ki_pipe_pair *pair;
    ki_pipe_buffer *result; /* NULL: it fills none */
    ki_pipe_ordered_grad *grad;
    kith_stage_call call;
} work;

typedef kith_status (*stage_fn)(void *user, const kith_stage_call *call);

static const kith_pipeline_buffer *view_of(const ki_pipe_buffer *buffer)
{
    return buffer != NULL ? &buffer->view : NULL;
}

static void describe_call(const kith_pipeline *p, work *w)
{
    const kith_action *a = w->action;
    bool is_backward = ki_action_is_backward(a->type);
    w->call = (kith_stage_call){ .type = a->type,
                                 .stage = a->stage,
                                 .chunk = a->chunk,
                                 .microbatch = a->microbatch,
                                 .is_first = a->stage == 0,
                                 .is_last = a->stage == p->stages - 1,
                                 .slot = w->pair->slot };
    w->call.input = view_of(w->pair->in[KI_UP]);
    w->call.output_grad = is_backward ? view_of(w->pair->in[KI_DOWN]) : NULL;
    if (w->result != NULL && is_backward)
        w->call.input_grad = &w->result->view;
    else if (w->result != NULL)
        w->call.output = &w->result->view;
    w->call.grads = w->grad != NULL ? w->grad->grads : NULL;
}

static kith_status missing(const kith_action *a, const char *what)
{
    char text[32];
    return ki_fail(KITH_ERR_INTERNAL, "%s comes before its %s", kith_action_text(a, text, sizeof text), what);
}

/* Waits for the messages that the action needs. */
static kith_status await_needs(kith_pipeline *p, const kith_action *a, ki_pipe_pair *pair)
{
    bool needs_input = a->stage > 0 && a->type != KITH_ACTION_LOAD_TARGET;
    bool needs_grad = ki_action_is_backward(a->type) && a->stage + 1 < p->stages;
    kith_status status = needs_input ? ki_pipe_message_wait(p, pair, KI_UP) : KITH_OK;
    if (status == KITH_OK && needs_grad)
        status = ki_pipe_message_wait(p, pair, KI_DOWN);
    if (status == KITH_OK && needs_input && pair->in[KI_UP] == NULL)
        status = missing(a, "input");
    if (status == KITH_OK && needs_grad && pair->in[KI_DOWN] == NULL)
        status = missing(a, "gradient");
    return status;
}

static void count_held(kith_pipeline *p, const work *w)
{
    if (w->action->type != KITH_ACTION_F)
        return;
    p->in_flight++;
    p->stats.in_flight = p->in_flight > p->stats.in_flight ? p->in_flight : p->stats.in_flight;
    if (w->pair->in[KI_UP] != NULL)
        p->live_nbytes += w->pair->in[KI_UP]->view.nbytes;
    p->stats.live_nbytes = p->live_nbytes > p->stats.live_nbytes ? p->live_nbytes : p->stats.live_nbytes;
}

static kith_status prepare(kith_pipeline *p, size_t at, work *w)
{
    *w = (work){ .at = at, .action = &p->actions[at], .pair = ki_pipe_pair_at(p, &p->actions[at]) };
    kith_status status = await_needs(p, w->action, w->pair);
    int boundary = ki_pipe_fills(p, w->action);
    if (status == KITH_OK && boundary >= 0)
        status = ki_pipe_message_take(p, boundary, &w->result);
    if (status != KITH_OK)
        return status;
    w->grad = ki_pipe_ordered_take(p, w->action);
    describe_call(p, w);
    count_held(p, w);
    return KITH_OK;
}

/* ---- calls ---- */

static stage_fn function_of(const kith_pipeline *p, kith_action_type type)
{
    const kith_pipeline_callbacks *c = &p->callbacks;
    if (type == KITH_ACTION_LOAD_INPUT || type == KITH_ACTION_LOAD_TARGET)
        return c->load;
    if (type == KITH_ACTION_RECOMPUTE)
        return c->recompute != NULL ? c->recompute : c->forward;
    return type == KITH_ACTION_F ? c->forward : c->backward;
}

static const char *name_of(kith_action_type type)
{
    if (type == KITH_ACTION_LOAD_INPUT || type == KITH_ACTION_LOAD_TARGET)
        return "load";
    if (type == KITH_ACTION_RECOMPUTE)
        return "recompute";
    return type == KITH_ACTION_F ? "forward" : "backward";
}

static void call_loss(kith_pipeline *p, const work *w)
{
    if (p->is_failed || p->callbacks.loss == NULL || w->action->type != KITH_ACTION_F || !w->call.is_last)
        return;
    double loss = 0;
    ki_pipe_fail_watch(p);
    kith_status status = p->callbacks.loss(p->callbacks.user, &w->call, &loss);
    if (p->next_losses != NULL)
        p->next_losses[w->action->microbatch] = loss;
    ki_pipe_fail_callback(p, status, "loss", &w->call);
}

static void call_alone(kith_pipeline *p, work *w)
{
    stage_fn function = function_of(p, w->action->type);
    if (p->is_failed || function == NULL)
        return;
    bool computes = function != p->callbacks.load;
    int64_t start = ki_now_ns();
    ki_pipe_note_start(p, w->at);
    ki_pipe_fail_watch(p);
    ki_pipe_fail_callback(p, function(p->callbacks.user, &w->call), name_of(w->action->type), &w->call);
    call_loss(p, w);
    ki_pipe_note_end(p, w->at);
    p->stats.compute_ns += computes ? ki_now_ns() - start : 0;
}

static void call_overlapped(kith_pipeline *p, work *forward, work *backward)
{
    if (p->is_failed)
        return;
    int64_t start = ki_now_ns();
    ki_pipe_note_start(p, forward->at);
    ki_pipe_note_start(p, backward->at);
    ki_pipe_fail_watch(p);
    kith_status status = p->callbacks.overlapped(p->callbacks.user, &forward->call, &backward->call);
    ki_pipe_fail_callback(p, status, "overlapped", &forward->call);
    call_loss(p, forward);
    ki_pipe_note_end(p, forward->at);
    ki_pipe_note_end(p, backward->at);
    p->stats.compute_ns += ki_now_ns() - start;
}

/* ---- afterwards ---- */

/* The view is the trainer's to write: what may travel is looked at, the rest is put back. */
static void check_result(kith_pipeline *p, const work *w)
{
    kith_pipeline_buffer *view = &w->result->view;
    size_t capacity_nbytes = w->result->pool->capacity_nbytes;
    bool is_good = view->nbytes <= capacity_nbytes && view->dim_count >= 0 && view->dim_count <= KITH_SHAPE_DIMS;
    if (!p->is_failed && !is_good) {
        kith_status status = ki_fail(
            KITH_ERR_INVALID_ARG,
            "stage %d, microbatch %d: a result of %zu bytes and %d dimensions; valid are 0 to %zu and 0 to %d",
            w->action->stage, w->action->microbatch, view->nbytes, view->dim_count, capacity_nbytes, KITH_SHAPE_DIMS);
        ki_pipe_fail_note(p, status);
    }
    kith_pipeline_buffer as_filled = *view;
    ki_pipe_message_attach(w->result, w->result->memory, capacity_nbytes);
    if (is_good) {
        view->nbytes = as_filled.nbytes;
        view->dim_count = as_filled.dim_count;
        for (int i = 0; i < as_filled.dim_count; i++)
            view->shape[i] = as_filled.shape[i];
    }
}

static kith_status pass_on(kith_pipeline *p, work *w)
{
    if (w->result == NULL)
        return KITH_OK;
    check_result(p, w);
    ki_pipe_direction direction = w->action->type == KITH_ACTION_F ? KI_UP : KI_DOWN;
    int next = w->action->stage + (direction == KI_UP ? 1 : -1);
    ki_pipe_buffer *result = w->result;
    w->result = NULL;
    if (ki_pipe_has_stage(p, next)) {
        ki_pipe_pair_of(p, next, w->action->microbatch)->in[direction] = result;
        return KITH_OK;
    }
    if (w->pair->sent_at[direction] == KI_NO_ACTION)
        return missing(w->action, "SEND");
    if (ki_space_is_host(&p->space))
        return ki_pipe_message_send(p, w->pair->sent_at[direction], result);
    w->pair->out[direction] = result; // until its SEND: on a device messages go in the order of the list
    return KITH_OK;
}

static void release(kith_pipeline *p, ki_pipe_pair *pair)
{
    if (pair->in[KI_UP] != NULL)
        p->live_nbytes -= pair->in[KI_UP]->view.nbytes;
    for (int direction = 0; direction < KI_DIRECTIONS; direction++) {
        ki_pipe_pool_give(p, pair->in[direction]);
        pair->in[direction] = NULL;
    }
}

static kith_status complete(kith_pipeline *p, work *w)
{
    kith_status status = pass_on(p, w);
    if (w->grad != NULL)
        ki_pipe_ordered_add(p, w->action, w->grad);
    p->in_flight -= w->action->type == KITH_ACTION_B || w->action->type == KITH_ACTION_I;
    if (w->action->type == KITH_ACTION_F && !p->schedule->has_backward)
        p->in_flight--;
    if (p->is_last_call[w->at])
        release(p, w->pair);
    return status;
}

static kith_status compute(kith_pipeline *p, size_t at)
{
    work w;
    kith_status status = prepare(p, at, &w);
    if (status != KITH_OK)
        return status;
    call_alone(p, &w);
    return complete(p, &w);
}

static kith_status compute_overlapped(kith_pipeline *p, size_t at)
{
    work forward, backward;
    kith_status status = prepare(p, at, &forward);
    if (status == KITH_OK)
        status = prepare(p, at + 1, &backward);
    if (status != KITH_OK)
        return status;
    call_overlapped(p, &forward, &backward);
    status = complete(p, &forward);
    return status == KITH_OK ? complete(p, &backward) : status;
}

/* ---- what is not a computation ---- */

static void call_zero_grad(kith_pipeline *p)
{
    if (p->is_failed || p->callbacks.zero_grad == NULL)
        return;
    ki_pipe_fail_watch(p);
    ki_pipe_fail_callback(p, p->callbacks.zero_grad(p->callbacks.user), "zero_grad", NULL);
}

/* Other ranks may be in the same collective: failed or not, it is called. */
static void call_shard(kith_pipeline *p, int stage, int is_gathered)
{
    if (p->callbacks.shard == NULL)
        return;
    ki_pipe_fail_watch(p);
    ki_pipe_fail_callback(p, p->callbacks.shard(p->callbacks.user, stage, is_gathered), "shard", NULL);
}

static void call_optimizer(kith_pipeline *p)
{
    if (p->is_failed || p->callbacks.optimizer_step == NULL)
        return;
    ki_pipe_fail_watch(p);
    ki_pipe_fail_callback(p, p->callbacks.optimizer_step(p->callbacks.user), "optimizer_step", NULL);
}

static kith_status settle(kith_pipeline *p)
{
    kith_status status = ki_pipe_reduce_finish(p);
    if (status == KITH_OK)
        status = ki_pipe_fail_agree(p);
    if (status != KITH_OK)
        return status;
    p->is_settled = true;
    p->is_failed = p->agreed.status != KITH_OK;
    call_optimizer(p);
    return KITH_OK;
}

static kith_status run_other(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    kith_status status = KITH_OK;
    ki_pipe_note_start(p, at);
    switch (a->type) {
    case KITH_ACTION_ZERO_GRAD:
        call_zero_grad(p);
        break;
    case KITH_ACTION_UNSHARD:
    case KITH_ACTION_RESHARD:
        call_shard(p, a->stage, a->type == KITH_ACTION_UNSHARD);
        break;
    case KITH_ACTION_REDUCE_GRAD:
        status = ki_pipe_reduce_start(p, a->stage);
        break;
    case KITH_ACTION_REDUCE_TIED:
        status = ki_pipe_reduce_tied_start(p, a->stage);
        break;
    case KITH_ACTION_OPTIMIZER_STEP:
        status = settle(p);
        break;
    default: /* IDLE */
        break;
    }
    ki_pipe_note_end(p, at);
    return status;
}

kith_status ki_pipe_action_run(kith_pipeline *p, size_t *at)
{
    size_t here = *at;
    kith_action_type type = p->actions[here].type;
    *at = here + 1;
    if (ki_pipe_is_call(type) && p->callbacks.overlapped != NULL && ki_pipe_is_paired(p, here)) {
        *at = here + 2;
        return compute_overlapped(p, here);
    }
    if (ki_pipe_is_call(type))
        return compute(p, here);
    if (type == KITH_ACTION_RECV_F || type == KITH_ACTION_RECV_B)
        return ki_pipe_message_pass_receive(p, here);
    if (ki_action_is_send(type)) /* on the host it was started when its data was ready */
        return ki_space_is_host(&p->space) ? KITH_OK : ki_pipe_device_send(p, here);
    return run_other(p, here);
}
