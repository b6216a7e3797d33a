/* tests/layers/layer_head_counts.c - what heads send and how much memory they take, in real and in dry runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_vocabulary.h"

typedef struct form {
    int is_sequence_parallel, is_gathered;
    int64_t multiple;
    double smoothing;
} form;

/* Runs forward and backward; *added: bytes that backward took beyond what forward had left. */
static void run(kith_layers *layers, const form *how, int is_dry, uint64_t *added)
{
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.vocabulary = WORDS, options.features = FEATURES;
    options.padding_multiple = how->multiple;
    options.is_gathered = how->is_gathered, options.label_smoothing = how->smoothing;
    kith_head *head;
    REQUIRE_OK(kith_head_create(layers, &options, &head));
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    kith_tensor targets = some_ids(1, WORDS), x = numbers(KITH_F32, TOKENS, FEATURES, 2, fraction), losses, dx;
    kith_tensor mine = shard_of(layers, &x, SEQUENCE, SAMPLES, how->is_sequence_parallel);
    if (is_dry)
        mine.data = targets.data = NULL;
    double sum;
    int64_t count;
    REQUIRE_OK(kith_head_forward(head, tape, &mine, &targets, &losses, &sum, &count));
    REQUIRE(count == TOKENS && losses.shape[0] == TOKENS);
    kith_tensor_release(&losses);
    kith_layers_memory before, after;
    kith_layers_get_memory(layers, &before);
    REQUIRE(kith_tape_depth(tape) == 2); // the head's logits and the linear layer's x
    REQUIRE_OK(kith_head_backward(head, tape, 1, &dx));
    kith_layers_get_memory(layers, &after);
    *added = after.tensors_peak - before.tensors;
    kith_tensor_release(&dx);
    REQUIRE(kith_tape_depth(tape) == 0);
    kith_tape_destroy(tape);
    free(x.data);
}

static void require_fused(const kith_layers_traffic *t, const form *how, uint64_t some)
{
    uint64_t numbers_of_token = how->smoothing != 0 ? 1 + 3 : 1 + 2, split = how->is_sequence_parallel != 0;
    REQUIRE(t->ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == some * 2);
    REQUIRE(t->elements[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == some * numbers_of_token * TOKENS);
    REQUIRE(t->ops[KITH_PHASE_FORWARD][KITH_ALL_GATHER] == some * split);
}

static void require_gathered(const kith_layers_traffic *t, const form *how, int64_t padded, uint64_t some)
{
    uint64_t split = how->is_sequence_parallel != 0;
    REQUIRE(t->ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == 0);
    REQUIRE(t->ops[KITH_PHASE_FORWARD][KITH_ALL_GATHER] == some * (1 + split));
    REQUIRE(t->elements[KITH_PHASE_FORWARD][KITH_ALL_GATHER] ==
            some * (uint64_t)(TOKENS * padded + (how->is_sequence_parallel ? TOKENS * FEATURES : 0)));
}

/* Backward is that of the column-parallel layer, whatever the form. */
static void require_backward(const kith_layers_traffic *t, const form *how, uint64_t some)
{
    uint64_t plain = some && !how->is_sequence_parallel, split = some && how->is_sequence_parallel;
    REQUIRE(t->ops[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == plain);
    REQUIRE(t->elements[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == plain * TOKENS * FEATURES);
    REQUIRE(t->ops[KITH_PHASE_BACKWARD][KITH_REDUCE_SCATTER] == split);
    REQUIRE(t->ops[KITH_PHASE_BACKWARD][KITH_ALL_GATHER] == split);
    REQUIRE(t->elements[KITH_PHASE_BACKWARD][KITH_REDUCE_SCATTER] == split * TOKENS * FEATURES);
}

void case_head_traffic(rank_info *info)
{
    for (int i = 0; i < 8; i++) {
        form how = { i & 1, i >> 1 & 1, i >> 2 ? 4 : 0, i >> 2 ? 0.1 : 0 };
        kith_layers *layers = layers_over(info, info->size, KITH_F32, how.is_sequence_parallel);
        kith_layers *dry = dry_layers(info->size, KITH_F32, how.is_sequence_parallel);
        uint64_t added, added_dry, some = info->size > 1;
        run(layers, &how, 0, &added);
        run(dry, &how, 1, &added_dry);
        kith_layers_traffic t;
        kith_layers_get_traffic(layers, &t);
        if (how.is_gathered)
            require_gathered(&t, &how, how.multiple > 0 ? kith_vocabulary_padded(WORDS, 4, info->size) : WORDS, some);
        else
            require_fused(&t, &how, some);
        require_backward(&t, &how, some);
        REQUIRE_SAME_COUNTS(layers, dry);
        REQUIRE_OK(kith_layers_destroy(layers));
        REQUIRE_OK(kith_layers_destroy(dry));
    }
}

/* Backward writes the logits' gradient over the logits: beyond what forward left it takes dx alone. */
void case_head_memory(rank_info *info)
{
    enum { MANY = 1000, LONG = 64, WIDE = 8 };
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0);
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.vocabulary = MANY, options.features = WIDE;
    kith_head *head;
    REQUIRE_OK(kith_head_create(layers, &options, &head));
    kith_tape *tape = tape_of(layers, LONG, 1);
    kith_tensor x = numbers(KITH_F32, LONG, WIDE, 1, fraction), dx;
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = i * 7;
    kith_tensor targets = kith_tensor_view(ids, KITH_INT32, 1, (const int64_t[]){ LONG });
    REQUIRE_OK(kith_head_forward(head, tape, &x, &targets, NULL, NULL, NULL));
    kith_layers_memory after_forward, after_backward;
    kith_layers_get_memory(layers, &after_forward);
    int64_t first, words;
    kith_split_range(MANY, info->size, info->rank, &first, &words);
    REQUIRE(after_forward.tensors == (uint64_t)(LONG * (words + 1 + 2)) * sizeof(float)); // logits, top, two sums
    kith_layers_reset_memory_peak(layers);
    REQUIRE_OK(kith_head_backward(head, tape, 1, &dx));
    kith_layers_get_memory(layers, &after_backward);
    REQUIRE(after_backward.tensors_peak <= after_forward.tensors + LONG * WIDE * sizeof(float));
    kith_tensor_release(&dx);
    end_layers(layers, tape);
    free(x.data);
}
