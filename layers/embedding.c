/* layers/embedding.c - words to vectors, with the table split by words.
 *
 *     y = sum over ranks of (the row of a word, where a rank has it; else 0)  [+ the row of its position]  [dropout]
 *
 * A rank gives zeros for the words of others, so one all-reduce (a reduce-scatter with sequence parallelism) makes the
 * embedding, to the bit whatever tp is: each sum has one summand that is not zero. Positions are added by every rank to
 * what it has after that. Backward, a rank adds the gradients of its own words, for which it needs those of all
 * positions: with sequence parallelism they are gathered. Positions of a rank are its own, so the gradient of their
 * table is a summand then (kith_layers_finish_grads()).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "dropout.h"
#include "vocabulary.h"

struct kith_embedding {
    kith_layers *layers;
    const char *name;
    kith_embedding_options options;
    kith_param *weight, *positions; /* [words of this rank, features]; [positions, features] or NULL */
    int64_t first;                  /* this rank's first word */
    kith_tensor words, words_grad;  /* of weight, without padding */
};

#define POSITIONS_MOST ((int64_t)1 << 31)

static kith_status check_options(const kith_embedding *embedding)
{
    const kith_embedding_options *o = &embedding->options;
    if (o->positions < 0 || o->positions > POSITIONS_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %lld positions, wanted 0 (none) to 2^31", embedding->name,
                       (long long)o->positions);
    return ki_dropout_check(embedding->name, o->dropout, o->site);
}

static kith_status make_positions(kith_embedding *embedding)
{
    kith_layers *layers = embedding->layers;
    ki_param_spec spec = { .prefix = embedding->name,
                           .suffix = "positions",
                           .dim_count = 2,
                           .global_shape = { embedding->options.positions, embedding->options.features },
                           .split_dim = -1,
                           .copies = layers->tp_size,
                           .is_grad_partial = layers->options.is_sequence_parallel != 0,
                           .is_matrix = true };
    kith_status status = ki_param_create(layers, &spec, &embedding->positions);
    return status == KITH_OK ? ki_block_use(layers, ki_block_of(embedding->positions), NULL, NULL) : status;
}

static kith_status make(void *layer)
{
    kith_embedding *embedding = layer;
    const kith_embedding_options *o = &embedding->options;
    ki_vocabulary vocabulary;
    kith_status status = check_options(embedding);
    if (status == KITH_OK)
        status =
            ki_vocabulary_deal(embedding->layers, embedding->name, o->vocabulary, o->padding_multiple, &vocabulary);
    if (status == KITH_OK)
        status = ki_vocabulary_table(embedding->layers, embedding->name, &vocabulary, o->features, &embedding->weight);
    if (status == KITH_OK && o->positions > 0)
        status = make_positions(embedding);
    if (status != KITH_OK)
        return status;
    embedding->first = vocabulary.first;
    embedding->words = ki_words_of(embedding->weight, &embedding->weight->value);
    embedding->words_grad = ki_words_of(embedding->weight, &embedding->weight->grad);
    return ki_block_use(embedding->layers, ki_block_of(embedding->weight), &embedding->words, &embedding->words_grad);
}

kith_status kith_embedding_create(kith_layers *layers, const kith_embedding_options *options,
                                  kith_embedding **embedding)
{
    static const kith_embedding_options defaults = KITH_EMBEDDING_OPTIONS_INIT;
    static const ki_layer_type type = { "kith_embedding_create",
                                        "embedding",
                                        "KITH_EMBEDDING_OPTIONS_INIT",
                                        sizeof(kith_embedding),
                                        sizeof defaults,
                                        &defaults,
                                        make };
    return ki_layer_create(layers, &type, options, embedding);
}

kith_param *kith_embedding_weight(const kith_embedding *embedding)
{
    return embedding == NULL ? NULL : embedding->weight;
}

kith_param *kith_embedding_positions(const kith_embedding *embedding)
{
    return embedding == NULL ? NULL : embedding->positions;
}

static bool is_split(const kith_embedding *embedding)
{
    return embedding->layers->options.is_sequence_parallel != 0;
}

/* The rows of one sample among rows of tokens: they are `batch` apart. */
static ki_mat rows_of_sample(const kith_tape *tape, const kith_tensor *tokens, int64_t sample)
{
    ki_mat rows = ki_mat_rows(ki_mat_of(tokens), sample, tape->positions);
    rows.stride *= tape->batch.batch;
    return rows;
}

static ki_mat rows_of_positions(const kith_tape *tape, const kith_tensor *table)
{
    return ki_mat_rows(ki_mat_of(table), tape->first_position, tape->positions);
}

static kith_status add_positions(kith_embedding *embedding, kith_tape *tape, const kith_tensor *y)
{
    ki_compute *compute = embedding->layers->compute;
    kith_status status = KITH_OK;
    for (int64_t s = 0; embedding->positions != NULL && s < tape->batch.batch && status == KITH_OK; s++)
        status = compute->ops->add(compute, 1, rows_of_positions(tape, &embedding->positions->value),
                                   rows_of_sample(tape, y, s));
    return status;
}

static kith_status add_positions_grad(kith_embedding *embedding, kith_tape *tape, const kith_tensor *dy)
{
    ki_compute *compute = embedding->layers->compute;
    kith_status status = KITH_OK;
    for (int64_t s = 0; embedding->positions != NULL && s < tape->batch.batch && status == KITH_OK; s++)
        status = compute->ops->add(compute, 1, rows_of_sample(tape, dy, s),
                                   rows_of_positions(tape, &embedding->positions->grad));
    if (status == KITH_OK && embedding->positions != NULL)
        ki_grad_added(embedding->layers, ki_block_of(embedding->positions));
    return status;
}

/* Rows of words, summed over the ranks. */
static kith_status look_up(kith_embedding *embedding, kith_tape *tape, const int32_t *ids, kith_tensor *y)
{
    kith_layers *layers = embedding->layers;
    ki_compute *compute = layers->compute;
    kith_tensor own = { 0 };
    kith_status status;
    KI_OR_GOTO(end,
               ki_tensor_create_2d(layers, layers->dtype, ki_tape_tokens(tape), embedding->options.features, &own));
    KI_OR_GOTO(
        end, compute->ops->gather_rows(compute, ids, embedding->first, ki_mat_of(&embedding->words), ki_mat_of(&own)));
    own = ki_with_layout(own, KITH_PARTIAL, 0);
    if (is_split(embedding)) {
        KI_OR_GOTO(end, ki_tape_scatter(tape, &own, y));
    } else {
        KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_tp(layers), own.data, kith_tensor_count(&own),
                                           own.dtype, KITH_SUM));
        own = ki_with_layout(own, KITH_REPLICATED, 0);
        KI_OR_GOTO(end, kith_tensor_retain(&own, y));
    }
end:
    kith_tensor_release(&own);
    return status;
}

/* Of this rank's positions. */
static kith_status make_mask(const kith_embedding *embedding, const kith_tape *tape, const char *function,
                             ki_dropout *mask)
{
    const kith_embedding_options *o = &embedding->options;
    kith_status status = ki_dropout_make(tape, function, o->dropout, o->site, mask);
    mask->first_position = (uint32_t)tape->first_position;
    return status;
}

static kith_status drop(kith_embedding *embedding, const ki_dropout *mask, const kith_tensor *y)
{
    ki_compute *compute = embedding->layers->compute;
    if (mask->probability == 0)
        return KITH_OK;
    return compute->ops->dropout_add(compute, mask, ki_mat_of(y), ki_no_mat(), ki_no_mat(), ki_mat_of(y));
}

static kith_status check_sequence(const kith_embedding *embedding, const kith_tape *tape)
{
    int64_t positions = embedding->options.positions, sequence = tape->batch.sequence;
    if (positions == 0 || sequence <= positions)
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "kith_embedding_forward: a sequence of %lld positions, %s has %lld",
                   (long long)sequence, embedding->positions->name, (long long)positions);
}

kith_status kith_embedding_forward(kith_embedding *embedding, kith_tape *tape, const kith_tensor *ids, kith_tensor *y)
{
    if (embedding == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_embedding_forward: embedding and y must not be NULL");
    kith_status status = ki_tape_enter(tape, embedding->layers, "kith_embedding_forward", KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    kith_tensor made = { 0 }, there = { 0 };
    ki_saved saved = { .owner = embedding, .name = embedding->name };
    ki_dropout mask = { 0 };
    KI_OR_GOTO(end, check_sequence(embedding, tape));
    KI_OR_GOTO(end, make_mask(embedding, tape, "kith_embedding_forward", &mask));
    KI_OR_GOTO(end, ki_ids_check(tape, "kith_embedding_forward: ids", ids, embedding->options.vocabulary, NULL, NULL));
    KI_OR_GOTO(end, ki_ids_bring_in(tape, ids, &there));
    KI_OR_GOTO(end, look_up(embedding, tape, (const int32_t *)there.data, &made));
    KI_OR_GOTO(end, add_positions(embedding, tape, &made));
    KI_OR_GOTO(end, drop(embedding, &mask, &made));
    KI_OR_GOTO(end, ki_saved_keep(&saved, 0, &there));
    KI_OR_GOTO(end, ki_tape_push(tape, &saved));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    kith_tensor_release(&made);
    kith_tensor_release(&there);
    return status;
}

/* The gradient before dropout, as a tensor that may be sent. */
static kith_status undrop(kith_embedding *embedding, kith_tape *tape, const kith_tensor *dy, kith_tensor *dropped)
{
    ki_compute *compute = embedding->layers->compute;
    ki_dropout mask = { 0 };
    kith_status status = make_mask(embedding, tape, "kith_embedding_backward", &mask);
    if (status == KITH_OK && mask.probability == 0 && kith_tensor_is_contiguous(dy))
        return kith_tensor_retain(dy, dropped);
    if (status == KITH_OK)
        status = ki_tensor_create_like(embedding->layers, dy, ki_features(dy), dropped);
    if (status != KITH_OK)
        return status;
    return mask.probability == 0 ? compute->ops->copy(compute, ki_mat_of(dy), ki_mat_of(dropped))
                                 : compute->ops->dropout_grad(compute, &mask, ki_mat_of(dy), ki_mat_of(dropped));
}

static kith_status backward(kith_embedding *embedding, kith_tape *tape, const kith_tensor *ids, const kith_tensor *dy)
{
    ki_compute *compute = embedding->layers->compute;
    kith_tensor own = { 0 }, whole = { 0 };
    ki_started gather = { 0 };
    kith_status status;
    KI_OR_GOTO(end, undrop(embedding, tape, dy, &own));
    if (is_split(embedding))
        KI_OR_GOTO(end, ki_tape_gather_start(tape, &own, &whole, &gather));
    else
        KI_OR_GOTO(end, kith_tensor_retain(&own, &whole));
    KI_OR_GOTO(end, add_positions_grad(embedding, tape, &own));
    KI_OR_GOTO(end, ki_comm_wait(&gather));
    KI_OR_GOTO(end, compute->ops->scatter_rows(compute, (const int32_t *)ids->data, embedding->first, ki_mat_of(&whole),
                                               ki_mat_of(&embedding->words_grad)));
    ki_grad_added(embedding->layers, ki_block_of(embedding->weight));
end:
    ki_comm_settle(&gather);
    kith_tensor_release(&own);
    kith_tensor_release(&whole);
    return status;
}

kith_status kith_embedding_backward(kith_embedding *embedding, kith_tape *tape, const kith_tensor *dy)
{
    if (embedding == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_embedding_backward: embedding must not be NULL");
    kith_status status = ki_tape_enter(tape, embedding->layers, "kith_embedding_backward", KITH_PHASE_BACKWARD);
    if (status != KITH_OK)
        return status;
    ki_expected how = { ki_tape_local_tokens(tape), embedding->options.features, embedding->layers->dtype,
                        is_split(embedding) ? KITH_SPLIT : KITH_REPLICATED, 0 };
    status = ki_expect(embedding->layers, "kith_embedding_backward: dy", dy, &how);
    ki_saved saved = { 0 };
    if (status == KITH_OK)
        status = ki_tape_pop(tape, embedding, embedding->name, &saved);
    if (status != KITH_OK)
        return status;
    status = backward(embedding, tape, &saved.tensors[0], dy);
    ki_saved_release(&saved);
    return status;
}
