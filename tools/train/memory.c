/* tools/train/memory.c - bytes of a rank, as a dry run counts them and as they were.
 *
 * A dry run makes this rank's stages, and sends one microbatch through each of them and back: nothing is allocated or
 * computed. That gives what a microbatch in flight keeps and what its way needs on top; the plan of the pipeline says
 * how many are in flight at once. What several stages of a rank keep is averaged, and the rows that experts get are
 * taken to be evenly dealt: activations are exact where a rank has one stage, backward is in one piece and the model is
 * dense.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <math.h>

typedef struct passage {
    double kept;   /* by a microbatch between its forward and its backward */
    double on_top; /* more than that while it moves */
} passage;

static uint64_t alive(const kith_layers *layers)
{
    kith_layers_memory memory;
    kith_layers_get_memory(layers, &memory);
    return memory.tensors;
}

static kith_tensor nothing(kith_dtype dtype, int64_t rows, int64_t cols)
{
    const int64_t shape[] = { rows, cols };
    return kith_tensor_view(NULL, dtype, 2, shape);
}

/* One microbatch through a stage and back. */
static kith_status pass_through(const train_job *job, kith_layers *layers, kith_tape *tape,
                                kith_transformer *transformer, int stage, passage *found)
{
    const train_layout *layout = &job->layout;
    bool is_first = stage == 0, is_last = stage == layout->stages - 1;
    int64_t first, positions = layout->sequence;
    if (job->options.is_sequence_parallel)
        kith_split_range(layout->sequence, layout->tp, 0, &first, &positions);
    kith_tensor ids = nothing(KITH_INT32, layout->sequence, layout->micro_batch);
    kith_tensor message = nothing(job->options.dtype, positions * layout->micro_batch, job->config.hidden);
    kith_tensor y = { 0 }, dx = { 0 };
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = layout->sequence, batch.batch = layout->micro_batch;
    kith_layers_reset_memory_peak(layers);
    kith_status status = kith_tape_begin(tape, &batch);
    if (status == KITH_OK)
        status = kith_transformer_forward(transformer, tape, is_first ? &ids : &message, is_last ? &ids : NULL,
                                          is_last ? NULL : &y, NULL);
    kith_tensor_release(&y);
    found->kept = (double)alive(layers);
    if (status == KITH_OK)
        status = kith_transformer_backward(transformer, tape, is_last ? NULL : &message, 1, 1, is_first ? NULL : &dx);
    kith_tensor_release(&dx);
    kith_layers_memory memory;
    kith_layers_get_memory(layers, &memory);
    found->on_top = fmax((double)memory.tensors_peak - found->kept, 0);
    return status;
}

static kith_status count_passages(const train_job *job, kith_layers *layers, const train_model *model,
                                  train_memory *memory)
{
    passage sum = { 0, 0 };
    kith_tape *tape;
    kith_in_flight in_flight;
    kith_status status = kith_tape_create(layers, &tape);
    if (status != KITH_OK)
        return status;
    for (int i = 0; i < model->stage_count && status == KITH_OK; i++) {
        passage one;
        status = pass_through(job, layers, tape, model->transformers[i], model->stages[i], &one);
        sum.kept += one.kept;
        sum.on_top = fmax(sum.on_top, one.on_top);
    }
    kith_tape_destroy(tape);
    if (status == KITH_OK)
        status = kith_schedule_in_flight(job->schedule, job->pp_rank, &in_flight);
    if (status == KITH_OK)
        memory->activations = in_flight.held * sum.kept / model->stage_count + sum.on_top;
    return status;
}

/* Of numbers that a rank has `whole` of, its part when the optimizer is sharded: experts have copies on dp alone, the
 * rest on all ranks with other data. */
static double shard_of(const train_job *job, const kith_layers *layers, double whole)
{
    double elements = 0, parts = 0;
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        const kith_param *param = kith_layers_param(layers, i);
        double count = (double)kith_tensor_count(&param->value);
        elements += count;
        parts += count / (param->is_expert ? job->layout.dp : job->layout.dp * job->layout.ep);
    }
    return elements > 0 ? whole * parts / elements : 0;
}

static kith_status count_optimizer(const train_job *job, kith_layers *layers, train_memory *memory)
{
    kith_optim_options options = job->options.optim;
    kith_optim *optim;
    options.is_sharded = 0;
    kith_status status = kith_optim_create(layers, &options, &optim);
    if (status != KITH_OK)
        return status;
    double whole = (double)kith_optim_memory(optim);
    memory->optimizer = job->options.is_sharded ? shard_of(job, layers, whole) : whole;
    kith_optim_destroy(optim);
    return KITH_OK;
}

bool train_memory_predict(train_job *job, train_memory *memory)
{
    *memory = (train_memory){ 0 };
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = job->options.dtype;
    options.is_sequence_parallel = job->options.is_sequence_parallel && job->layout.tp > 1;
    options.dry_tp = job->layout.tp, options.dry_ep = job->layout.ep;
    kith_layers *layers;
    train_model model = { 0 };
    kith_status status = kith_layers_create(&options, &layers);
    if (status != KITH_OK)
        return train_check(job, status);
    status = train_model_stages(job, job->pp_rank, layers, &model);
    kith_layers_memory counted;
    kith_layers_get_memory(layers, &counted);
    memory->parameters = (double)counted.parameters, memory->grads = (double)counted.grads;
    if (status == KITH_OK)
        status = count_passages(job, layers, &model, memory);
    if (status == KITH_OK)
        status = count_optimizer(job, layers, memory);
    bool is_fine = train_check(job, status);
    kith_layers_destroy(layers);
    return is_fine;
}

void train_memory_measure(const train_engine *engine, train_memory *memory)
{
    kith_layers_memory counted;
    kith_pipeline_stats stats = { 0 };
    kith_layers_get_memory(engine->model->layers, &counted);
    kith_pipeline_last_stats(engine->pipeline, &stats);
    *memory = (train_memory){ .parameters = (double)counted.parameters,
                              .grads = (double)counted.grads,
                              .optimizer = (double)kith_optim_memory(engine->model->optim),
                              .activations = (double)counted.tensors_peak,
                              .messages = (double)stats.pool_nbytes };
}
