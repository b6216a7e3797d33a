/* layers/transformer.c - a transformer, or a stage of it: creation and starting values.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transformer.h"

#include <math.h>

/* By their names stages on the same layers find the weight that they share. */
#define EMBEDDING_WEIGHT "embedding.weight"
#define HEAD_WEIGHT "head.weight"

static kith_status make_embedding(kith_transformer *transformer)
{
    const kith_transformer_config *config = &transformer->config;
    if (config->is_tied && kith_layers_find_param(transformer->layers, HEAD_WEIGHT) != NULL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: a stage with the head is there already, with a weight of its own: "
                       "of stages on the same layers the one with the embedding is created first");
    kith_embedding_options options = KITH_EMBEDDING_OPTIONS_INIT;
    options.name = "embedding";
    options.vocabulary = config->vocabulary;
    options.features = config->hidden;
    options.padding_multiple = transformer->options.vocabulary_multiple;
    options.positions = config->positions;
    options.dropout = config->dropout;
    options.site = 0;
    return kith_embedding_create(transformer->layers, &options, &transformer->embedding);
}

static kith_status make_blocks(kith_transformer *transformer)
{
    const kith_transformer_options *options = &transformer->options;
    transformer->block_count =
        options->block_count > 0 ? options->block_count : transformer->config.blocks - options->first_block;
    kith_recompute inside =
        options->recompute == KITH_RECOMPUTE_SELECTIVE ? KITH_RECOMPUTE_SELECTIVE : KITH_RECOMPUTE_NONE;
    size_t room = (size_t)(transformer->block_count > 0 ? transformer->block_count : 1);
    kith_status status = ki_layers_own(transformer->layers, room * sizeof(kith_block *), NULL, &transformer->blocks);
    for (int64_t i = 0; i < transformer->block_count && status == KITH_OK; i++)
        status = kith_block_create(transformer->layers, &transformer->config, options->first_block + i, inside, NULL,
                                   &transformer->blocks[i]);
    if (options->recompute == KITH_RECOMPUTE_FULL) {
        transformer->run = options->recompute_run;
        if (transformer->run == 0)
            transformer->run = (int64_t)ceil(sqrt((double)transformer->block_count));
        if (options->is_from_start || transformer->run < 1)
            transformer->run = 1;
    }
    return status;
}

static kith_status make_head(kith_transformer *transformer)
{
    const kith_transformer_config *config = &transformer->config;
    kith_norm_options norm = KITH_NORM_OPTIONS_INIT;
    norm.name = "norm";
    norm.kind = config->norm;
    norm.features = config->hidden;
    norm.epsilon = config->norm_epsilon;
    kith_status status = kith_norm_create(transformer->layers, &norm, &transformer->norm);
    if (status != KITH_OK)
        return status;
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.name = "head";
    options.vocabulary = config->vocabulary;
    options.features = config->hidden;
    options.padding_multiple = transformer->options.vocabulary_multiple;
    options.is_gathered = transformer->options.is_head_gathered;
    options.label_smoothing = config->label_smoothing;
    if (config->is_tied) // NULL: it is in another process
        options.tied = kith_layers_find_param(transformer->layers, EMBEDDING_WEIGHT);
    return kith_head_create(transformer->layers, &options, &transformer->head);
}

static kith_status make(kith_layers *layers, const kith_transformer_options *options,
                        const kith_transformer_config *config, kith_transformer **out)
{
    kith_transformer *transformer;
    kith_status status;
    KI_OR_GOTO(end, ki_transformer_check(options, config));
    KI_OR_GOTO(end, ki_layers_own(layers, sizeof *transformer, NULL, &transformer));
    transformer->layers = layers;
    transformer->options = *options;
    transformer->config = *config;
    transformer->options.config = &transformer->config; // the caller's may go
    transformer->first_param = layers->param_count;
    if (options->has_embedding)
        KI_OR_GOTO(end, make_embedding(transformer));
    KI_OR_GOTO(end, make_blocks(transformer));
    if (options->has_head)
        KI_OR_GOTO(end, make_head(transformer));
    transformer->end_param = layers->param_count;
    *out = transformer;
end:
    return status;
}

/* The caller's options and configuration, of whatever version of the header. */
static kith_status take(const kith_transformer_options *options, kith_transformer **transformer,
                        kith_transformer_options *taken, kith_transformer_config *config)
{
    if (options == NULL || transformer == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_create: options and transformer must not be NULL");
    if (!ki_options_copy(taken, sizeof *taken, options, sizeof options->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: options were not made with KITH_TRANSFORMER_OPTIONS_INIT");
    if (taken->config == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_create: options.config must not be NULL");
    if (!ki_options_copy(config, sizeof *config, taken->config, sizeof config->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: the configuration was not made with KITH_TRANSFORMER_CONFIG_INIT");
    return KITH_OK;
}

kith_status kith_transformer_create(kith_layers *layers, const kith_transformer_options *options,
                                    kith_transformer **transformer)
{
    kith_transformer_options taken = KITH_TRANSFORMER_OPTIONS_INIT;
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    if (layers == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_create: layers must not be NULL");
    ki_mark mark = ki_layers_mark(layers);
    kith_transformer *made = NULL;
    kith_status status = take(options, transformer, &taken, &config);
    if (status == KITH_OK)
        status = make(layers, &taken, &config, &made);
    status = ki_transformer_agree(layers, &taken, &config, status); // up to here all was local
    if (status == KITH_OK)
        status = ki_layers_make_copies(layers, mark.param_count);
    if (status == KITH_OK)
        *transformer = made;
    else
        ki_layers_take_back(layers, &mark);
    return status;
}

/* attention.out and mlp.down, whose sums over the blocks make up the residual stream. */
static bool is_projection(const kith_param *param)
{
    static const char *const ends[] = { ".out.weight", ".down.weight" };
    size_t nbytes = strlen(param->name);
    for (int i = 0; i < 2; i++) {
        size_t end = strlen(ends[i]);
        if (nbytes > end && strcmp(param->name + nbytes - end, ends[i]) == 0)
            return true;
    }
    return false;
}

kith_status kith_transformer_init(kith_transformer *transformer, uint64_t seed, double deviation)
{
    if (transformer == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_init: transformer must not be NULL");
    int64_t blocks = transformer->config.blocks;
    double projection = deviation / sqrt(2.0 * (double)(blocks > 0 ? blocks : 1));
    kith_status status = KITH_OK;
    for (size_t i = transformer->first_param; i < transformer->end_param && status == KITH_OK; i++) {
        kith_param *param = kith_layers_param(transformer->layers, i);
        if (param->is_matrix)
            status = kith_param_set_normal(param, seed, is_projection(param) ? projection : deviation);
    }
    return status;
}
