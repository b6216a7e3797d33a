/* tools/train/model.c - this rank's stages on one place for layers, their weights, and the optimizer.
 *
 * All stages of a rank are on the same layers, made in ascending order, so that the one with the embedding comes first
 * and a tied head beside it finds its weight. Blocks are dealt to the stages of the whole pipeline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <string.h>

#define WEIGHT_DEVIATION 0.02 /* of GPT-2's random start */

kith_status train_model_stages(const train_job *job, int pp_rank, kith_layers *layers, train_model *model)
{
    const train_layout *layout = &job->layout;
    kith_status status = KITH_OK;
    model->stage_count = 0;
    for (int chunk = 0; chunk < TRAIN_CHUNKS && status == KITH_OK; chunk++) {
        int stage = kith_schedule_stage_of_chunk(job->schedule, pp_rank, chunk);
        if (stage < 0)
            break;
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        options.config = &job->config;
        kith_split_range(job->config.blocks, layout->stages, stage, &options.first_block, &options.block_count);
        options.has_embedding = stage == 0;
        options.has_head = stage == layout->stages - 1;
        options.recompute = job->options.recompute;
        model->stages[chunk] = stage;
        status = kith_transformer_create(layers, &options, &model->transformers[chunk]);
        model->stage_count += status == KITH_OK;
    }
    return status;
}

static kith_status make_layers(const train_job *job, kith_layers **layers)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = job->options.dtype;
    options.tp = job->tp, options.ep = job->ep, options.data = job->data;
    options.is_sequence_parallel = job->options.is_sequence_parallel && job->layout.tp > 1;
    options.is_debug = job->options.is_debug;
    options.seed = job->options.seed;
    options.blas_threads = job->options.threads;
    options.progress = kith_size(job->ctx) > 1 ? job->ctx : NULL;
    options.device = job->device;
    options.allows_tf32 = job->options.allows_tf32 && job->device != NULL;
    return kith_layers_create(&options, layers);
}

kith_checkpoint_place train_model_place(const train_job *job, const train_model *model)
{
    kith_checkpoint_place place = KITH_CHECKPOINT_PLACE_INIT;
    place.group = job->world;
    place.data = job->data;
    place.expert_data = job->dp;
    place.layers = model->layers;
    place.config = &job->config;
    place.optim = model->optim;
    return place;
}

static kith_status set_weights(const train_job *job, const train_model *model)
{
    if (job->options.weights != NULL) {
        kith_checkpoint_place place = train_model_place(job, model);
        return kith_weights_load(&place, job->options.weights);
    }
    kith_status status = KITH_OK;
    for (int i = 0; i < model->stage_count && status == KITH_OK; i++)
        status = kith_transformer_init(model->transformers[i], job->options.seed, WEIGHT_DEVIATION);
    return status;
}

/* Embedding and head share a weight, and live on different ranks. */
static kith_status tie(const train_job *job, train_model *model)
{
    int last = job->layout.stages - 1;
    bool is_apart = kith_schedule_rank_of_stage(job->schedule, 0) != kith_schedule_rank_of_stage(job->schedule, last);
    if (!job->config.is_tied || !is_apart || job->embed == NULL)
        return KITH_OK;
    model->tied = kith_layers_find_param(model->layers, job->pp_rank == 0 ? "embedding.weight" : "head.weight");
    return kith_param_tie(model->tied, job->embed);
}

bool train_model_make(train_job *job, train_model *model)
{
    return train_check(job, make_layers(job, &model->layers));
}

bool train_model_build(train_job *job, train_model *model)
{
    return train_check(job, train_model_stages(job, job->pp_rank, model->layers, model));
}

bool train_model_fill(train_job *job, train_model *model)
{
    return train_check(job, set_weights(job, model));
}

bool train_model_tie(train_job *job, train_model *model)
{
    return train_check(job, tie(job, model));
}

bool train_model_optimize(train_job *job, train_model *model)
{
    kith_optim_options options = job->options.optim;
    options.data = job->data;
    options.expert_data = job->dp;
    options.all = job->world;
    options.tied = model->tied;
    options.tied_group = model->tied != NULL ? job->embed : NULL;
    options.is_sharded = job->options.is_sharded;
    return train_check(job, kith_optim_create(model->layers, &options, &model->optim));
}

void train_model_fini(train_model *model)
{
    kith_optim_destroy(model->optim);
    kith_layers_destroy(model->layers);
}
