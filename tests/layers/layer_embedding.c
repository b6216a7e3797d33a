/* tests/layers/layer_embedding.c - embeddings: every layout gives the bits of a plain lookup.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_vocabulary.h"

#include <string.h>

typedef struct trial {
    kith_dtype dtype;
    int is_sequence_parallel;
    int64_t multiple, positions;
    double dropout;
} trial;

static kith_embedding *make_embedding(kith_layers *layers, const trial *how)
{
    kith_embedding_options options = KITH_EMBEDDING_OPTIONS_INIT;
    options.name = "words";
    options.vocabulary = WORDS, options.features = FEATURES;
    options.padding_multiple = how->multiple;
    options.positions = how->positions;
    options.dropout = how->dropout;
    options.site = 3;
    kith_embedding *embedding;
    REQUIRE_OK(kith_embedding_create(layers, &options, &embedding));
    return embedding;
}

/* y[token] = table[id] (+ positions[position]); dtable[id] += dy[token], dpositions[position] += dy[token]. */
typedef struct plain {
    double y[TOKENS * FEATURES], dtable[WORDS * FEATURES], dpositions[SEQUENCE * FEATURES];
} plain;

static void run_plain(const double *table, const double *positions, const int32_t *ids, const double *dy, plain *p)
{
    memset(p, 0, sizeof *p);
    for (int t = 0; t < TOKENS; t++)
        for (int f = 0; f < FEATURES; f++) {
            int place = t / SAMPLES * FEATURES + f, word = ids[t] * FEATURES + f, at = t * FEATURES + f;
            p->y[at] = table[word] + (positions != NULL ? positions[place] : 0);
            p->dtable[word] += dy[at];
            p->dpositions[place] += dy[at];
        }
}

/* This rank's rows of [TOKENS, FEATURES]. */
static void require_rows(const kith_layers *layers, const char *what, const kith_tensor *got, const double *wanted,
                         int is_sequence_parallel)
{
    int64_t first = 0, count = SEQUENCE;
    if (is_sequence_parallel)
        kith_split_range(SEQUENCE, kith_layers_tp_size(layers), kith_layers_tp_rank(layers), &first, &count);
    REQUIRE(got->shape[0] == count * SAMPLES && got->shape[1] == FEATURES);
    double *own = doubles_of(got);
    REQUIRE_NUMBERS(what, own, wanted + first * SAMPLES * FEATURES, count * SAMPLES * FEATURES, 0);
    free(own);
}

static void try_exact(rank_info *info, const trial *how)
{
    kith_layers *layers = layers_over(info, info->size, how->dtype, how->is_sequence_parallel);
    kith_embedding *embedding = make_embedding(layers, how);
    load_params(layers, whole_number);
    kith_param *table = kith_embedding_weight(embedding), *positions = kith_embedding_positions(embedding);
    REQUIRE((positions != NULL) == (how->positions > 0));
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    kith_tensor ids = some_ids(1, WORDS), dy = numbers(how->dtype, TOKENS, FEATURES, 2, whole_number), y;
    double *table_values = whole_of(table, KITH_PARAM_VALUE), *dy_values = doubles_of(&dy);
    double *position_values = positions != NULL ? whole_of(positions, KITH_PARAM_VALUE) : NULL;
    plain wanted;
    run_plain(table_values, position_values, (const int32_t *)ids.data, dy_values, &wanted);
    REQUIRE_OK(kith_embedding_forward(embedding, tape, &ids, &y));
    require_rows(layers, "y", &y, wanted.y, how->is_sequence_parallel);
    kith_tensor mine = shard_of(layers, &dy, SEQUENCE, SAMPLES, how->is_sequence_parallel);
    REQUIRE_OK(kith_embedding_backward(embedding, tape, &mine));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    double *dtable = whole_of(table, KITH_PARAM_GRAD);
    REQUIRE_NUMBERS("gradient of the table", dtable, wanted.dtable, WORDS * FEATURES, 0);
    free(dtable);
    if (positions != NULL) {
        double *dpositions = whole_of(positions, KITH_PARAM_GRAD);
        REQUIRE_NUMBERS("gradient of the positions", dpositions, wanted.dpositions, SEQUENCE * FEATURES, 0);
        free(dpositions);
    }
    kith_tensor_release(&y);
    end_layers(layers, tape);
    free(dy.data), free(table_values), free(position_values), free(dy_values);
}

/* Whole numbers, repeated ids, an uneven vocabulary (7 words on 2, 3, 4 ranks), padded or not. */
void case_embedding(rank_info *info)
{
    static const trial trials[] = {
        { KITH_F64, 0, 0, 0, 0 },        { KITH_F64, 1, 0, SEQUENCE, 0 }, { KITH_F32, 0, 1, SEQUENCE, 0 },
        { KITH_F32, 1, 4, SEQUENCE, 0 }, { KITH_BF16, 0, 4, 0, 0 },       { KITH_BF16, 1, 1, SEQUENCE, 0 },
    };
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        try_exact(info, &trials[i]);
}

/* The mask of a rank is that of one rank's rows, forward and backward. */
void case_embedding_dropout(rank_info *info)
{
    for (int sp = 0; sp < 2; sp++) {
        trial how = { KITH_F64, sp, 0, SEQUENCE, 0.5 };
        kith_layers *layers[2] = { layers_over(info, info->size, KITH_F64, sp), layers_alone(KITH_F64) };
        kith_tensor ids = some_ids(1, WORDS), dy = numbers(KITH_F64, TOKENS, FEATURES, 2, whole_number), y[2];
        kith_tape *tapes[2];
        for (int i = 0; i < 2; i++) {
            int is_split = i == 0 && sp;
            kith_embedding *embedding = make_embedding(layers[i], &how);
            load_params(layers[i], whole_number);
            tapes[i] = tape_of(layers[i], SEQUENCE, SAMPLES);
            REQUIRE_OK(kith_embedding_forward(embedding, tapes[i], &ids, &y[i]));
            kith_tensor mine = shard_of(layers[i], &dy, SEQUENCE, SAMPLES, is_split);
            REQUIRE_OK(kith_embedding_backward(embedding, tapes[i], &mine));
            REQUIRE_OK(kith_layers_finish_grads(layers[i]));
        }
        int dropped = 0;
        for (int i = 0; i < TOKENS * FEATURES; i++)
            dropped += element(&y[1], i) == 0;
        REQUIRE(dropped > 5 && dropped < 25); // of 30, some of which are 0 anyway
        kith_tensor mine = shard_of(layers[0], &y[1], SEQUENCE, SAMPLES, sp);
        REQUIRE_EQUAL("y", &y[0], &mine, 0);
        REQUIRE_SAME_GRADS(layers[0], layers[1], 0);
        kith_tensor_release(&y[0]), kith_tensor_release(&y[1]);
        end_layers(layers[0], tapes[0]), end_layers(layers[1], tapes[1]);
        free(dy.data);
    }
}

static void run_counted(kith_layers *layers, const trial *how, int is_dry)
{
    kith_embedding *embedding = make_embedding(layers, how);
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    kith_tensor ids = some_ids(1, WORDS), dy = numbers(how->dtype, TOKENS, FEATURES, 2, whole_number), y;
    kith_tensor mine = shard_of(layers, &dy, SEQUENCE, SAMPLES, how->is_sequence_parallel);
    void *memory = dy.data;
    if (is_dry)
        ids.data = mine.data = NULL;
    REQUIRE_OK(kith_embedding_forward(embedding, tape, &ids, &y));
    REQUIRE_OK(kith_embedding_backward(embedding, tape, &mine));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    kith_tensor_release(&y);
    REQUIRE(kith_tape_depth(tape) == 0);
    kith_tape_destroy(tape);
    free(memory);
}

/* One all-reduce forward; with sequence parallelism one reduce-scatter forward, one all-gather backward, and the sum of
 * the positions' gradients. */
void case_embedding_traffic(rank_info *info)
{
    for (int sp = 0; sp < 2; sp++) {
        trial how = { KITH_F32, sp, 4, SEQUENCE, 0.5 };
        kith_layers *layers = layers_over(info, info->size, KITH_F32, sp), *dry = dry_layers(info->size, KITH_F32, sp);
        run_counted(layers, &how, 0);
        run_counted(dry, &how, 1);
        kith_layers_traffic t;
        kith_layers_get_traffic(layers, &t);
        uint64_t plain_ops = info->size > 1 && !sp, split_ops = info->size > 1 && sp, elements = TOKENS * FEATURES;
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == plain_ops);
        REQUIRE(t.elements[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == plain_ops * elements);
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_REDUCE_SCATTER] == split_ops);
        REQUIRE(t.elements[KITH_PHASE_FORWARD][KITH_REDUCE_SCATTER] == split_ops * elements);
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == 0);
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_GATHER] == split_ops);
        REQUIRE(t.elements[KITH_PHASE_BACKWARD][KITH_ALL_GATHER] == split_ops * elements);
        REQUIRE(t.ops[KITH_PHASE_FINISH][KITH_ALL_REDUCE] == split_ops);
        REQUIRE_SAME_COUNTS(layers, dry);
        REQUIRE_OK(kith_layers_destroy(layers));
        REQUIRE_OK(kith_layers_destroy(dry));
    }
}

static void refuse_options(kith_layers *layers, const kith_embedding_options *options, const char *text)
{
    kith_embedding *embedding;
    REQUIRE_STATUS(kith_embedding_create(layers, options, &embedding), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL(text);
}

static void refuse_creation(kith_layers *layers)
{
    kith_embedding_options good = KITH_EMBEDDING_OPTIONS_INIT, o;
    good.vocabulary = WORDS, good.features = FEATURES;
    o = good, o.vocabulary = 0;
    refuse_options(layers, &o, "a vocabulary of 0 words, wanted 1 to 2^31");
    o = good, o.vocabulary = ((int64_t)1 << 31) + 1;
    refuse_options(layers, &o, "wanted 1 to 2^31");
    o = good, o.features = 0;
    refuse_options(layers, &o, "0 features");
    o = good, o.padding_multiple = -1;
    refuse_options(layers, &o, "cannot be padded");
    o = good, o.positions = -1;
    refuse_options(layers, &o, "-1 positions");
    o = good, o.dropout = 1;
    refuse_options(layers, &o, "dropout");
    o = good, o.struct_size = 0;
    refuse_options(layers, &o, "KITH_EMBEDDING_OPTIONS_INIT");
}

/* Wrong calls are found on all ranks, and leave nothing behind. */
void case_embedding_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    refuse_creation(layers);
    trial how = { KITH_F64, 0, 4, SEQUENCE, 0 };
    kith_embedding *embedding = make_embedding(layers, &how);
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    kith_tensor ids = some_ids(1, WORDS), y = { 0 };
    int32_t *id = (int32_t *)ids.data + 3, kept = *id;
    *id = WORDS; // a row of padding, on some rank
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &ids, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("ids: 7 at position 1 of sample 1; wanted 0 to 6");
    *id = -1;
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &ids, &y), KITH_ERR_INVALID_ARG);
    *id = kept;
    kith_tensor few = kith_tensor_narrow(&ids, 0, 0, SEQUENCE - 1), turned = kith_tensor_transpose(&ids, 0, 1);
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &few, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("wanted [10] or [5, 2]");
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &turned, &y), KITH_ERR_INVALID_ARG);
    kith_tensor wide = ids;
    wide.dtype = KITH_INT64;
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &wide, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("are of int64, wanted int32");
    kith_batch longer = KITH_BATCH_INIT;
    longer.sequence = SEQUENCE + 1, longer.batch = 1;
    REQUIRE_OK(kith_tape_begin(tape, &longer));
    REQUIRE_STATUS(kith_embedding_forward(embedding, tape, &ids, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("a sequence of 6 positions, words.positions has 5");
    kith_batch evaluation = KITH_BATCH_INIT; // keeps nothing, and has no backward
    evaluation.sequence = SEQUENCE, evaluation.batch = SAMPLES, evaluation.is_training = 0;
    REQUIRE_OK(kith_tape_begin(tape, &evaluation));
    REQUIRE(y.dim_count == 0);
    REQUIRE_OK(kith_embedding_forward(embedding, tape, &ids, &y));
    REQUIRE(kith_tape_depth(tape) == 0);
    REQUIRE_STATUS(kith_embedding_backward(embedding, tape, &y), KITH_ERR_INVALID_ARG);
    kith_tensor_release(&y);
    end_layers(layers, tape);
}

/* A padded table loads from and gathers to the table of words alone, whatever tp it is padded for. */
void case_vocabulary_padding(rank_info *info)
{
    enum { MANY = 65535 };
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0), *alone = layers_alone(KITH_F32);
    kith_embedding_options options = KITH_EMBEDDING_OPTIONS_INIT;
    options.name = "many", options.vocabulary = MANY, options.features = 2, options.padding_multiple = 128;
    kith_embedding *padded, *single;
    REQUIRE_OK(kith_embedding_create(layers, &options, &padded));
    REQUIRE_OK(kith_embedding_create(alone, &options, &single));
    kith_param *param = kith_embedding_weight(padded);
    int64_t rows = kith_vocabulary_padded(MANY, 128, info->size);
    REQUIRE(param->padded == rows && param->value.shape[0] == rows / info->size);
    REQUIRE(param->global_shape[0] == MANY);
    REQUIRE(param->padding == (info->rank == info->size - 1 ? rows - MANY : 0));
    REQUIRE_OK(kith_param_set_normal(param, 7, 1));
    kith_tensor saved = kith_tensor_view(calloc(MANY * 2, 4), KITH_F32, 2, (const int64_t[]){ MANY, 2 });
    REQUIRE_OK(kith_param_gather(param, KITH_PARAM_VALUE, &saved));
    REQUIRE_OK(kith_param_load(kith_embedding_weight(single), &saved)); // tp 1
    kith_tensor again = kith_tensor_view(calloc(MANY * 2, 4), KITH_F32, 2, (const int64_t[]){ MANY, 2 });
    REQUIRE_OK(kith_param_gather(kith_embedding_weight(single), KITH_PARAM_VALUE, &again));
    REQUIRE(memcmp(saved.data, again.data, MANY * 2 * 4) == 0);
    kith_tensor padding = kith_tensor_narrow(&param->value, 0, param->value.shape[0] - param->padding, param->padding);
    for (int64_t i = 0; i < kith_tensor_count(&padding); i++)
        REQUIRE(element(&padding, i) == 0);
    free(saved.data), free(again.data);
    REQUIRE_OK(kith_layers_destroy(layers));
    REQUIRE_OK(kith_layers_destroy(alone));
}
