/* tools/train/step.c - one step: the pipeline calls, the stages compute.
 *
 * The pipeline runs always, also over one rank and one stage, so there is one way through a step. A slot of the
 * pipeline is a tape and, where a stage begins or ends the model, the ids of its microbatch. Between stages activations
 * travel as they are - [tokens, hidden], with sequence parallelism this rank's tokens - and are copied once, into the
 * buffer that is sent; what arrives is read in place.
 *
 * Gradients are those of the mean over all tokens of the step: the loss is scaled by one over their number, which is
 * known before (no target is left out), and everything after that is a sum.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <stdlib.h>

/* A rank that failed sends nothing more to those that share its layers: they are told, or they would wait. */
static kith_status or_abort(const train_engine *engine, kith_status status)
{
    if (status != KITH_OK) {
        kith_group_abort(engine->job->tp);
        kith_group_abort(engine->job->data);
        kith_group_abort(engine->job->ep);
    }
    return status;
}

/* ---- what a microbatch is ---- */

static int64_t first_sample(const train_engine *engine, int64_t microbatch)
{
    return train_layout_sample(&engine->job->layout, engine->job->data_rank, microbatch);
}

static train_slot *slot_of(const train_engine *engine, const kith_stage_call *call)
{
    return &engine->slots[call->chunk][call->slot];
}

static kith_status read_batch(const train_engine *engine, int64_t microbatch, int32_t *inputs, int32_t *targets)
{
    const train_layout *layout = &engine->job->layout;
    int64_t first = first_sample(engine, microbatch), samples = layout->micro_batch;
    char *error = NULL;
    int result;
    if (engine->is_evaluating)
        result = train_data_validation(engine->data, engine->batch * train_layout_samples(layout) + first, samples,
                                       inputs, targets, &error);
    else
        result = train_data_batch(engine->data, engine->step, first, samples, inputs, targets, &error);
    if (result == 0)
        return KITH_OK;
    train_wrong(engine->job, "%s", error != NULL ? error : "the data cannot be read");
    free(error);
    return or_abort(engine, KITH_ERR_IO);
}

/* A stage that is first and last gets both at its LOAD_INPUT. */
static kith_status load(void *user, const kith_stage_call *call)
{
    const train_engine *engine = user;
    const train_slot *slot = slot_of(engine, call);
    if (call->type == KITH_ACTION_LOAD_INPUT)
        return read_batch(engine, call->microbatch, slot->inputs,
                          slot->targets != NULL ? slot->targets : engine->spare);
    return call->is_first ? KITH_OK : read_batch(engine, call->microbatch, engine->spare, slot->targets);
}

static kith_status begin_tape(const train_engine *engine, const kith_stage_call *call)
{
    const train_layout *layout = &engine->job->layout;
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = layout->sequence;
    batch.batch = layout->micro_batch;
    batch.first_sample =
        (uint64_t)(engine->step * train_layout_samples(layout) + first_sample(engine, call->microbatch));
    batch.is_training = !engine->is_evaluating;
    return kith_tape_begin(slot_of(engine, call)->tape, &batch);
}

/* ---- tensors ---- */

static kith_tensor ids_view(const train_engine *engine, int32_t *ids)
{
    const int64_t shape[] = { engine->job->layout.sequence, engine->job->layout.micro_batch };
    return kith_tensor_view(ids, KITH_INT32, 2, shape);
}

/* An activation between stages, as the layers know it. */
static kith_tensor message_view(const train_engine *engine, void *data)
{
    const train_job *job = engine->job;
    bool is_split = job->options.is_sequence_parallel && job->layout.tp > 1;
    int64_t first, positions = job->layout.sequence;
    if (is_split)
        kith_split_range(job->layout.sequence, job->layout.tp, kith_group_rank(job->tp), &first, &positions);
    const int64_t shape[] = { positions * job->layout.micro_batch, job->config.hidden };
    kith_tensor view = kith_tensor_view(data, job->options.dtype, 2, shape);
    view.layout = is_split ? KITH_SPLIT : KITH_REPLICATED;
    view.split_dim = 0;
    return view;
}

static size_t nbytes_of(const kith_tensor *tensor)
{
    return (size_t)kith_tensor_count(tensor) * kith_dtype_nbytes(tensor->dtype);
}

/* Into the buffer that travels; the tensor is given back. */
static kith_status hand_over(const train_engine *engine, kith_tensor *tensor, kith_pipeline_buffer *buffer)
{
    buffer->nbytes = nbytes_of(tensor);
    kith_tensor there = kith_tensor_view(buffer->data, tensor->dtype, tensor->dim_count, tensor->shape);
    kith_status status = kith_tensor_copy(engine->model->layers, tensor, &there);
    kith_tensor_release(tensor);
    return status;
}

/* Stages only put work into the device's stream; who wants to know how long it takes waits for it. */
static kith_status wait_for_device(const train_engine *engine, kith_status status)
{
    if (status != KITH_OK || !engine->waits_for_device)
        return status;
    return kith_layers_synchronize(engine->model->layers);
}

/* ---- stages ---- */

static kith_status forward(void *user, const kith_stage_call *call)
{
    train_engine *engine = user;
    train_slot *slot = slot_of(engine, call);
    kith_tensor input = call->is_first ? ids_view(engine, slot->inputs) : message_view(engine, call->input->data);
    kith_tensor targets = { 0 }, y = { 0 };
    if (call->is_last)
        targets = ids_view(engine, slot->targets);
    kith_transformer_loss loss;
    kith_status status = begin_tape(engine, call);
    if (status == KITH_OK)
        status = kith_transformer_forward(engine->model->transformers[call->chunk], slot->tape, &input,
                                          call->is_last ? &targets : NULL, call->is_last ? NULL : &y, &loss);
    if (status != KITH_OK)
        return or_abort(engine, status);
    engine->auxiliary += loss.auxiliary;
    engine->dropped += loss.dropped;
    if (call->is_last)
        engine->losses[call->microbatch] = loss.sum;
    else
        status = hand_over(engine, &y, call->output);
    return or_abort(engine, wait_for_device(engine, status));
}

static kith_status backward_inputs(const train_engine *engine, const kith_stage_call *call)
{
    const train_layout *layout = &engine->job->layout;
    kith_tape *tape = slot_of(engine, call)->tape;
    double scale = engine->scale.scale;
    double tokens = (double)train_layout_samples(layout) * (double)layout->sequence;
    kith_tensor dy = { 0 }, dx = { 0 };
    if (!call->is_last)
        dy = message_view(engine, call->output_grad->data);
    kith_status status = kith_tape_set_split_backward(tape, call->type == KITH_ACTION_I);
    if (status == KITH_OK)
        status = kith_transformer_backward(engine->model->transformers[call->chunk], tape, call->is_last ? NULL : &dy,
                                           scale / tokens, scale / (double)layout->microbatches,
                                           call->is_first ? NULL : &dx);
    if (status == KITH_OK && !call->is_first)
        status = hand_over(engine, &dx, call->input_grad);
    return status;
}

static kith_status backward(void *user, const kith_stage_call *call)
{
    const train_engine *engine = user;
    kith_status status = call->type == KITH_ACTION_W ? kith_tape_weight_grads(slot_of(engine, call)->tape)
                                                     : backward_inputs(engine, call);
    return or_abort(engine, wait_for_device(engine, status));
}

/* ---- around them ---- */

static kith_status zero_grad(void *user)
{
    const train_engine *engine = user;
    return or_abort(engine, kith_optim_begin(engine->model->optim, (int)engine->job->layout.microbatches));
}

/* The norm is that of the true gradient, whatever the loss was multiplied by. */
static kith_status optimizer_step(void *user)
{
    train_engine *engine = user;
    double scale = engine->scale.scale, start_s = train_now_s();
    engine->reduced_from_s = start_s;
    kith_status status = kith_optim_reduce(engine->model->optim, &engine->grad_norm);
    double reduced_s = train_now_s();
    engine->grad_norm /= scale;
    if (status == KITH_OK && engine->job->options.loss_scale == 0)
        kith_loss_scale_update(&engine->scale, engine->grad_norm);
    if (status == KITH_OK)
        status = kith_optim_update(engine->model->optim, engine->rate, 1 / scale, &engine->optim_result);
    engine->reduce_s = reduced_s - start_s;
    engine->update_s = train_now_s() - reduced_s;
    return or_abort(engine, status);
}

kith_status train_engine_step(train_engine *engine)
{
    engine->is_evaluating = false;
    engine->rate = kith_rate_at(&engine->job->options.rate, engine->step);
    engine->auxiliary = 0, engine->dropped = 0;
    kith_layers_reset_traffic(engine->model->layers);
    kith_optim_reset_traffic(engine->model->optim);
    if (engine->trace != NULL)
        train_trace_begin(engine->trace);
    engine->start_s = train_now_s();
    kith_status status = kith_pipeline_step(engine->pipeline);
    engine->step_s = train_now_s() - engine->start_s;
    engine->step += status == KITH_OK;
    if (engine->trace != NULL)
        train_trace_end(engine->trace);
    return status;
}

kith_status train_engine_evaluate(train_engine *engine, int64_t index)
{
    engine->is_evaluating = true;
    engine->batch = index;
    return kith_pipeline_step(engine->evaluation);
}

/* ---- making ---- */

static kith_status make_pipelines(train_engine *engine)
{
    const train_job *job = engine->job;
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = engine;
    callbacks.load = load, callbacks.forward = forward, callbacks.backward = backward;
    callbacks.zero_grad = zero_grad, callbacks.optimizer_step = optimizer_step;
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    kith_tensor message = message_view(engine, NULL);
    options.message_nbytes = nbytes_of(&message);
    options.is_poisoned = job->options.is_debug;
    options.keeps_times = 1;
    options.device = job->device;
    options.stream = kith_layers_stream(engine->model->layers);
    kith_status status = kith_pipeline_create(job->schedule, job->pp, &callbacks, &options, &engine->pipeline);
    options.keeps_times = 0;
    return status != KITH_OK
               ? status
               : kith_pipeline_create(job->evaluation, job->pp, &callbacks, &options, &engine->evaluation);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static bool make_ids(train_engine *engine, int32_t **ids)
{
    const train_layout *layout = &engine->job->layout;
    *ids = calloc((size_t)layout->sequence * (size_t)layout->micro_batch, sizeof **ids);
    return *ids != NULL || train_no_memory(engine->job, "the ids of a microbatch");
}

static bool make_slots(train_engine *engine, int chunk)
{
    train_job *job = engine->job;
    int stage = engine->model->stages[chunk];
    int count = larger(kith_pipeline_slots(engine->pipeline, stage), kith_pipeline_slots(engine->evaluation, stage));
    engine->slots[chunk] = calloc((size_t)count, sizeof *engine->slots[chunk]);
    if (engine->slots[chunk] == NULL)
        return train_no_memory(job, "%d microbatches", count);
    engine->slot_counts[chunk] = count;
    for (int i = 0; i < count; i++) {
        train_slot *slot = &engine->slots[chunk][i];
        if (!train_check(job, kith_tape_create(engine->model->layers, &slot->tape)) ||
            (stage == 0 && !make_ids(engine, &slot->inputs)) ||
            (stage == job->layout.stages - 1 && !make_ids(engine, &slot->targets)))
            return false;
    }
    return true;
}

bool train_engine_make(train_job *job, train_model *model, train_data *data, train_engine *engine)
{
    *engine = (train_engine){ .job = job, .model = model, .data = data };
    engine->scale = (kith_loss_scale)KITH_LOSS_SCALE_INIT;
    engine->waits_for_device = job->device != NULL && (job->options.trace != NULL || job->options.timeline != NULL);
    if (job->options.loss_scale == TRAIN_UNSCALED)
        engine->scale.scale = 1;
    else if (job->options.loss_scale > 0)
        engine->scale.scale = job->options.loss_scale;
    engine->losses = calloc((size_t)job->layout.microbatches, sizeof *engine->losses);
    bool is_fine = train_check(job, make_pipelines(engine));
    if (is_fine && engine->losses == NULL)
        is_fine = train_no_memory(job, "the losses of the microbatches");
    is_fine = is_fine && train_costs_make(job, &engine->costs) && make_ids(engine, &engine->spare);
    for (int chunk = 0; is_fine && chunk < model->stage_count; chunk++)
        is_fine = make_slots(engine, chunk);
    return is_fine;
}

void train_engine_fini(train_engine *engine)
{
    for (int chunk = 0; chunk < TRAIN_CHUNKS; chunk++) {
        for (int i = 0; i < engine->slot_counts[chunk]; i++) {
            kith_tape_destroy(engine->slots[chunk][i].tape);
            free(engine->slots[chunk][i].inputs);
            free(engine->slots[chunk][i].targets);
        }
        free(engine->slots[chunk]);
    }
    kith_pipeline_destroy(engine->pipeline);
    kith_pipeline_destroy(engine->evaluation);
    train_costs_fini(&engine->costs);
    free(engine->losses);
    free(engine->spare);
}
