/* tests/schedules/toy_trainer.c - see toy.h: the callbacks. They trust nothing: slots, sizes, shapes, alignment and the
 * life of buffers are looked at in every call.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "toy.h"

#include <kith/pipeline.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

kith_schedule *toy_plan(kith_schedule_kind kind, int ranks, int microbatches, int chunks, bool is_forward_only)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    o.chunks = chunks;
    o.is_forward_only = is_forward_only;
    kith_schedule *plan = NULL;
    return kith_schedule_create(&o, &plan) == KITH_OK ? plan : NULL;
}

/* ---- what every call does ---- */

static void nap(toy *t)
{
    if (t->random == 0)
        return;
    t->random ^= t->random << 13; /* xorshift */
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    struct timespec time = { 0, (long)(t->random % (uint64_t)(t->delay_us + 1)) * 1000 };
    if (t->random >> 32 & 1)
        nanosleep(&time, NULL);
}

static void maybe_die(toy *t)
{
    if (t->die_at > 0 && --t->die_at == 0)
        kill(getpid(), SIGKILL);
}

static bool is_fault(toy *t, toy_fault fault, int microbatch)
{
    if (t->fault != fault || microbatch < t->fault_microbatch || t->has_failed)
        return false;
    t->has_failed = true;
    return true;
}

static toy_stage *stage_of(toy *t, const kith_stage_call *call)
{
    REQUIRE(call->chunk >= 0 && call->chunk < t->stage_count);
    toy_stage *s = &t->stages[call->chunk];
    REQUIRE(s->stage == call->stage);
    REQUIRE(call->is_first == (call->stage == 0));
    REQUIRE(call->is_last == (call->stage == kith_schedule_stages(t->plan) - 1));
    REQUIRE(call->slot >= 0 && call->slot < s->slot_count);
    return s;
}

static int number_of(const toy *t, int microbatch)
{
    return t->replica * t->options.microbatches + microbatch;
}

static toy_slot *slot_of(toy *t, toy_stage *s, const kith_stage_call *call)
{
    toy_slot *slot = &s->slots[call->slot];
    if (slot->microbatch < 0) {
        slot->microbatch = call->microbatch;
        slot->rows = toy_rows(number_of(t, call->microbatch));
    }
    if (slot->microbatch != call->microbatch)
        rank_fail(__FILE__, __LINE__, "stage %d: slot %d of microbatch %d is given to microbatch %d", s->stage,
                  call->slot, slot->microbatch, call->microbatch);
    return slot;
}

/* What is in a buffer; on a device through one of the two places of staging. */
static const double *bring(toy *t, const kith_pipeline_buffer *b, int rows, int place)
{
    if (t->stream == NULL)
        return (const double *)b->data;
    REQUIRE_OK(kith_stream_copy(t->stream, t->staging[place], b->data, (size_t)rows * HIDDEN * sizeof(double)));
    REQUIRE_OK(kith_stream_synchronize(t->stream));
    return t->staging[place];
}

static const double *numbers_in(toy *t, const kith_pipeline_buffer *b, int rows, const char *what)
{
    size_t wanted = t->message_nbytes > TOY_MESSAGE_NBYTES ? t->message_nbytes : (size_t)rows * HIDDEN * sizeof(double);
    if (b == NULL || b->nbytes != wanted || b->dim_count != 2 || b->shape[0] != rows || b->shape[1] != HIDDEN)
        rank_fail(__FILE__, __LINE__, "%s: wanted %zu bytes as %d x %d, got %zu as %lld x %lld", what, wanted, rows,
                  HIDDEN, b != NULL ? b->nbytes : 0, b != NULL ? (long long)b->shape[0] : 0,
                  b != NULL ? (long long)b->shape[1] : 0);
    REQUIRE((uintptr_t)b->data % 64 == 0);
    const double *x = bring(t, b, rows, strcmp(what, "input") == 0 ? 0 : 1);
    for (int i = 0; i < rows * HIDDEN; i++)
        if (isnan(x[i]))
            rank_fail(__FILE__, __LINE__, "%s: element %d is NaN: the buffer was released or never received", what, i);
    return x;
}

static void numbers_out(toy *t, kith_pipeline_buffer *b, int rows, const double *from)
{
    REQUIRE(b != NULL && b->capacity_nbytes == t->message_nbytes && b->nbytes == b->capacity_nbytes);
    REQUIRE((uintptr_t)b->data % 64 == 0 && b->dim_count == 0);
    if (t->is_poisoned) {
        double was[WIDE];
        memcpy(was, bring(t, b, rows, 1), (size_t)rows * HIDDEN * sizeof *was);
        REQUIRE(isnan(was[0]) && isnan(was[rows * HIDDEN - 1]));
    }
    if (t->stream != NULL)
        REQUIRE_OK(kith_stream_copy(t->stream, b->data, from, (size_t)rows * HIDDEN * sizeof *from));
    else
        memcpy(b->data, from, (size_t)rows * HIDDEN * sizeof *from);
    b->nbytes = t->message_nbytes > TOY_MESSAGE_NBYTES ? t->message_nbytes : (size_t)rows * HIDDEN * sizeof(double);
    b->dim_count = 2;
    b->shape[0] = rows;
    b->shape[1] = HIDDEN;
}

/* ---- the callbacks ---- */

static kith_status load(void *user, const kith_stage_call *call)
{
    toy *t = (toy *)user;
    toy_stage *s = stage_of(t, call);
    toy_slot *slot = slot_of(t, s, call);
    if (is_fault(t, FAULT_LOAD, call->microbatch))
        return t->fault_status;
    if (call->type == KITH_ACTION_LOAD_INPUT) {
        REQUIRE(call->is_first);
        toy_input(&t->options, number_of(t, call->microbatch), slot->input);
    } else {
        REQUIRE(call->is_last && call->type == KITH_ACTION_LOAD_TARGET);
        toy_target(&t->options, number_of(t, call->microbatch), slot->target);
    }
    return KITH_OK;
}

static const double *input_of(toy *t, const kith_stage_call *call, const toy_slot *slot)
{
    REQUIRE((call->input == NULL) == (call->stage == 0));
    return call->input == NULL ? slot->input : numbers_in(t, call->input, slot->rows, "input");
}

static const double *result_of(const toy_stage *s, const toy_slot *slot, const double *x)
{
    return s->layer_count > 0 ? slot->y[s->layer_count - 1] : x;
}

static kith_status forward(void *user, const kith_stage_call *call)
{
    toy *t = (toy *)user;
    toy_stage *s = stage_of(t, call);
    toy_slot *slot = slot_of(t, s, call);
    nap(t);
    maybe_die(t);
    if (is_fault(t, FAULT_FORWARD, call->microbatch))
        return t->fault_status;
    const double *x = input_of(t, call, slot), *from = x;
    for (int l = 0; l < s->layer_count; l++) {
        toy_layer_forward(&t->options, s->parameters + l * LAYER_PARAMETERS, slot->rows, from, slot->y[l]);
        from = slot->y[l];
    }
    bool has_output = call->type == KITH_ACTION_F && !call->is_last;
    REQUIRE((call->output != NULL) == has_output);
    if (has_output)
        numbers_out(t, call->output, slot->rows, from);
    if (has_output && is_fault(t, FAULT_RESULT, call->microbatch))
        call->output->nbytes = call->output->capacity_nbytes + 1;
    if (kith_schedule_is_forward_only(t->plan) && !call->is_last)
        slot->microbatch = -1;
    return KITH_OK;
}

static kith_status loss(void *user, const kith_stage_call *call, double *value)
{
    toy *t = (toy *)user;
    toy_stage *s = stage_of(t, call);
    toy_slot *slot = slot_of(t, s, call);
    REQUIRE(call->is_last);
    if (is_fault(t, FAULT_LOSS, call->microbatch))
        return t->fault_status;
    *value = toy_loss(slot->rows, result_of(s, slot, input_of(t, call, slot)), slot->target, NULL);
    if (kith_schedule_is_forward_only(t->plan))
        slot->microbatch = -1;
    return KITH_OK;
}

static double *grads_of(const toy_stage *s, const kith_stage_call *call)
{
    double *grads = call->grads != NULL ? (double *)call->grads[0] : s->grads;
    for (int i = 0; call->grads != NULL && i < s->layer_count * LAYER_PARAMETERS; i++)
        REQUIRE(grads[i] == 0);
    return grads;
}

static kith_status backward(void *user, const kith_stage_call *call)
{
    toy *t = (toy *)user;
    toy_stage *s = stage_of(t, call);
    toy_slot *slot = slot_of(t, s, call);
    nap(t);
    maybe_die(t);
    if (is_fault(t, call->type == KITH_ACTION_W ? FAULT_WEIGHTS : FAULT_BACKWARD, call->microbatch))
        return t->fault_status;
    const double *x = input_of(t, call, slot);
    double dy[WIDE], dz[WIDE];
    REQUIRE((call->output_grad == NULL) == (call->is_last != 0));
    if (call->is_last)
        toy_loss(slot->rows, result_of(s, slot, x), slot->target, dy);
    else
        memcpy(dy, numbers_in(t, call->output_grad, slot->rows, "output_grad"),
               (size_t)slot->rows * HIDDEN * sizeof *dy);
    double *grads = call->type != KITH_ACTION_I ? grads_of(s, call) : NULL;
    for (int l = s->layer_count - 1; l >= 0; l--) {
        toy_layer_before(&t->options, slot->rows, slot->y[l], dy, dz);
        if (grads != NULL)
            toy_layer_add_grad(slot->rows, l > 0 ? slot->y[l - 1] : x, dz, grads + l * LAYER_PARAMETERS);
        toy_layer_input_grad(s->parameters + l * LAYER_PARAMETERS, slot->rows, dz, dy);
    }
    bool has_result = call->type != KITH_ACTION_W && call->stage > 0;
    REQUIRE((call->input_grad != NULL) == has_result);
    if (has_result)
        numbers_out(t, call->input_grad, slot->rows, dy);
    if (call->type != KITH_ACTION_I)
        slot->microbatch = -1;
    return KITH_OK;
}

static kith_status overlapped(void *user, const kith_stage_call *f, const kith_stage_call *b)
{
    ((toy *)user)->overlapped_calls++;
    REQUIRE(f->type == KITH_ACTION_F && b->type != KITH_ACTION_F);
    kith_status status = forward(user, f);
    return status == KITH_OK ? backward(user, b) : status;
}

static kith_status zero_grad(void *user)
{
    toy *t = (toy *)user;
    if (is_fault(t, FAULT_ZERO_GRAD, t->fault_microbatch))
        return t->fault_status;
    for (int i = 0; i < t->stage_count; i++) {
        toy_stage *s = &t->stages[i];
        memset(s->grads, 0, (size_t)s->layer_count * LAYER_PARAMETERS * sizeof *s->grads);
        for (int j = 0; j < s->slot_count; j++) /* a step that failed left them */
            s->slots[j].microbatch = -1;
    }
    return KITH_OK;
}

static kith_status reduce(void *user, int stage)
{
    toy *t = (toy *)user;
    REQUIRE(kith_schedule_rank_of_stage(t->plan, stage) == t->rank);
    t->reduce_calls++;
    return is_fault(t, FAULT_REDUCE, t->fault_microbatch) ? t->fault_status : KITH_OK;
}

static kith_status reduce_finish(void *user)
{
    toy *t = (toy *)user;
    REQUIRE(t->reduce_calls > 0);
    t->reduce_calls = 0;
    return is_fault(t, FAULT_REDUCE_FINISH, t->fault_microbatch) ? t->fault_status : KITH_OK;
}

static kith_status shard(void *user, int stage, int is_gathered)
{
    toy *t = (toy *)user;
    REQUIRE(kith_schedule_rank_of_stage(t->plan, stage) == t->rank);
    t->gathered += is_gathered ? 1 : -1;
    return is_fault(t, FAULT_SHARD, t->fault_microbatch) ? t->fault_status : KITH_OK;
}

static kith_status optimizer_step(void *user)
{
    toy *t = (toy *)user;
    if (is_fault(t, FAULT_OPTIMIZER, t->fault_microbatch))
        return t->fault_status;
    t->steps++;
    for (int i = 0; i < t->stage_count; i++)
        toy_learn(t->stages[i].parameters, t->stages[i].grads, (size_t)t->stages[i].layer_count * LAYER_PARAMETERS);
    return KITH_OK;
}

kith_pipeline_callbacks toy_callbacks(toy *t)
{
    kith_pipeline_callbacks c = KITH_PIPELINE_CALLBACKS_INIT;
    c.user = t;
    c.load = load;
    c.forward = forward;
    c.loss = loss;
    c.backward = backward;
    c.overlapped = overlapped;
    c.zero_grad = zero_grad;
    c.reduce = reduce;
    c.reduce_finish = reduce_finish;
    c.shard = shard;
    c.optimizer_step = optimizer_step;
    return c;
}

/* ---- life ---- */

static void make_stage(toy *t, toy_stage *s, int stage, const double *parameters)
{
    int stages = kith_schedule_stages(t->plan);
    s->stage = stage;
    s->first_layer = stage * LAYERS / stages;
    s->layer_count = (stage + 1) * LAYERS / stages - s->first_layer;
    size_t count = (size_t)s->layer_count * LAYER_PARAMETERS;
    s->parameters = (double *)calloc(count + 1, sizeof(double));
    s->grads = (double *)calloc(count + 1, sizeof(double));
    REQUIRE(s->parameters != NULL && s->grads != NULL);
    memcpy(s->parameters, parameters + s->first_layer * LAYER_PARAMETERS, count * sizeof(double));
    if (count > 0)
        t->buckets[t->bucket_count++] = (kith_grad_bucket){ stage, s->grads, count, KITH_F64 };
}

void toy_create(toy *t, const toy_options *o, const kith_schedule *plan, int rank)
{
    memset(t, 0, sizeof *t);
    t->options = *o;
    t->plan = plan;
    t->rank = rank;
    t->message_nbytes = TOY_MESSAGE_NBYTES;
    t->is_poisoned = true;
    double parameters[PARAMETERS];
    toy_parameters(o, parameters);
    int chunks = kith_schedule_chunks(plan);
    t->stages = (toy_stage *)calloc((size_t)chunks, sizeof *t->stages);
    t->buckets = (kith_grad_bucket *)calloc((size_t)chunks, sizeof *t->buckets);
    REQUIRE(t->stages != NULL && t->buckets != NULL);
    for (int chunk = 0; kith_schedule_stage_of_chunk(plan, rank, chunk) >= 0; chunk++)
        make_stage(t, &t->stages[t->stage_count++], kith_schedule_stage_of_chunk(plan, rank, chunk), parameters);
}

kith_pipeline_options toy_pipeline_options(const toy *t)
{
    kith_pipeline_options o = KITH_PIPELINE_OPTIONS_INIT;
    o.message_nbytes = t->message_nbytes;
    o.buckets = t->buckets;
    o.bucket_count = t->bucket_count;
    o.is_poisoned = t->is_poisoned;
    return o;
}

void toy_attach(toy *t, const kith_pipeline *pipeline)
{
    for (int i = 0; i < t->stage_count; i++) {
        toy_stage *s = &t->stages[i];
        free(s->slots);
        s->slot_count = kith_pipeline_slots(pipeline, s->stage);
        s->slots = (toy_slot *)calloc((size_t)s->slot_count, sizeof *s->slots);
        REQUIRE(s->slots != NULL);
        for (int j = 0; j < s->slot_count; j++)
            s->slots[j].microbatch = -1;
    }
}

void toy_reset(toy *t)
{
    double parameters[PARAMETERS];
    toy_parameters(&t->options, parameters);
    for (int i = 0; i < t->stage_count; i++)
        memcpy(t->stages[i].parameters, parameters + t->stages[i].first_layer * LAYER_PARAMETERS,
               (size_t)t->stages[i].layer_count * LAYER_PARAMETERS * sizeof(double));
}

void toy_destroy(toy *t)
{
    for (int i = 0; i < t->stage_count; i++) {
        free(t->stages[i].parameters);
        free(t->stages[i].grads);
        free(t->stages[i].slots);
    }
    free(t->stages);
    free(t->buckets);
}

/* ---- what came out ---- */

static void expect_same(const toy_stage *s, const double *got, const double *wanted, const char *what)
{
    wanted += s->first_layer * LAYER_PARAMETERS;
    for (int i = 0; i < s->layer_count * LAYER_PARAMETERS; i++)
        if (got[i] != wanted[i])
            rank_fail(__FILE__, __LINE__, "%s: stage %d, element %d: wanted %.17g, got %.17g", what, s->stage, i,
                      wanted[i], got[i]);
}

void toy_expect_grads(const toy *t, const double *wanted, const char *what)
{
    for (int i = 0; i < t->stage_count; i++)
        expect_same(&t->stages[i], t->stages[i].grads, wanted, what);
}

void toy_expect_parameters(const toy *t, const double *wanted, const char *what)
{
    for (int i = 0; i < t->stage_count; i++)
        expect_same(&t->stages[i], t->stages[i].parameters, wanted, what);
}

void toy_expect_losses(const toy *t, const kith_pipeline *pipeline, const double *wanted, const char *what)
{
    for (int k = 0; k < t->options.microbatches; k++) {
        double got = 0;
        REQUIRE_OK(kith_pipeline_loss(pipeline, k, &got));
        if (got != wanted[number_of(t, k)])
            rank_fail(__FILE__, __LINE__, "%s: loss of microbatch %d: wanted %.17g, got %.17g", what, k,
                      wanted[number_of(t, k)], got);
    }
}
