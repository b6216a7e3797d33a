/* tests/layers/layer_memory.c - what a block keeps for its backward pass, to the byte, and what it needs in a dry run.
 *
 * Korthikanti et al. (2022, table 2) count bytes of a block per layer in 16 bits with masks of one byte:
 *     tp            s b h (10 + 24 / t + 5 a s / (h t))
 *     tp + sp       s b h / t (34 + 5 a s / h)
 *     selective     the same without 5 a s / h
 *     full          2 s b h
 * Kith keeps the same tensors but for these: no masks of dropout (2 s b h), as masks come back from coordinates;
 * nothing of size s * s, as softmax is computed in blocks, with 4 a s b / t bytes for the logarithms of its sums in
 * exchange; 16 s b bytes for mean and deviation of two layer norms, which the paper leaves out as small. Selective
 * recomputation computes the input of the output projection again, too: 2 s b h / t less.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <kith/transformer.h>

typedef struct shape {
    const char *name;
    int64_t s, b, h, a, t;
} shape;

static const shape shapes[] = {
    { "22B", 2048, 4, 6144, 64, 8 },
    { "175B", 2048, 1, 12288, 96, 8 },
    { "530B", 2048, 1, 20480, 128, 8 },
    { "tiny", 8, 2, 16, 4, 2 },
};

static kith_layers *dry_layers(int tp, int is_sequence_parallel)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_BF16;
    options.dry_tp = tp;
    options.is_sequence_parallel = is_sequence_parallel;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    return layers;
}

static uint64_t live_nbytes(kith_layers *layers)
{
    kith_layers_memory memory;
    kith_layers_get_memory(layers, &memory);
    return memory.tensors;
}

/* Bytes on the tape after the forward pass of one block of a GPT, its input included, its output not. */
static uint64_t block_nbytes(const shape *sh, int is_sequence_parallel, kith_recompute recompute)
{
    kith_layers *layers = dry_layers((int)sh->t, is_sequence_parallel);
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_gpt2(&config, sh->h, 1, sh->a, 51200, sh->s);
    config.dropout = config.attention_dropout = 0.1;
    kith_tape *tape = tape_of(layers, sh->s, sh->b);
    int64_t rows = sh->s * sh->b / (is_sequence_parallel ? sh->t : 1);
    kith_tensor x, y, dx;
    REQUIRE_OK(kith_tensor_create(layers, KITH_BF16, 2, (const int64_t[]){ rows, sh->h }, &x));
    uint64_t nbytes;
    if (recompute == KITH_RECOMPUTE_FULL) {
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        options.config = &config;
        options.has_embedding = options.has_head = 0;
        options.recompute = recompute;
        options.recompute_run = 1;
        kith_transformer *transformer;
        REQUIRE_OK(kith_transformer_create(layers, &options, &transformer));
        REQUIRE_OK(kith_transformer_forward(transformer, tape, &x, NULL, &y, NULL));
        nbytes = live_nbytes(layers) - (uint64_t)(rows * sh->h * 2);
        REQUIRE_OK(kith_transformer_backward(transformer, tape, &y, 1, 1, &dx));
    } else {
        kith_block *block;
        REQUIRE_OK(kith_block_create(layers, &config, 0, recompute, NULL, &block));
        REQUIRE_OK(kith_block_forward(block, tape, &x, &y, NULL));
        nbytes = live_nbytes(layers) - (uint64_t)(rows * sh->h * 2);
        REQUIRE_OK(kith_block_backward(block, tape, &y, 1, &dx));
    }
    kith_tensor_release(&x), kith_tensor_release(&y), kith_tensor_release(&dx);
    REQUIRE(live_nbytes(layers) == 0);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
    return nbytes;
}

static void require_nbytes(const char *shape_name, const char *what, uint64_t got, int64_t wanted)
{
    if (got != (uint64_t)wanted)
        rank_fail(__FILE__, __LINE__, "%s, %s: %llu bytes are kept, the formula has %lld", shape_name, what,
                  (unsigned long long)got, (long long)wanted);
}

void case_memory(rank_info *info)
{
    (void)info;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *sh = &shapes[i];
        int64_t sbh = sh->s * sh->b * sh->h, sums = 4 * sh->a * sh->s * sh->b / sh->t, norms = 16 * sh->s * sh->b;
        require_nbytes(sh->name, "tp", block_nbytes(sh, 0, KITH_RECOMPUTE_NONE),
                       sbh * 8 + 24 * sbh / sh->t + sums + norms);
        require_nbytes(sh->name, "tp + sp", block_nbytes(sh, 1, KITH_RECOMPUTE_NONE),
                       32 * sbh / sh->t + sums + norms / sh->t);
        require_nbytes(sh->name, "tp, selective", block_nbytes(sh, 0, KITH_RECOMPUTE_SELECTIVE),
                       sbh * 8 + 22 * sbh / sh->t + norms);
        require_nbytes(sh->name, "tp + sp, selective", block_nbytes(sh, 1, KITH_RECOMPUTE_SELECTIVE),
                       30 * sbh / sh->t + norms / sh->t);
        require_nbytes(sh->name, "tp, full", block_nbytes(sh, 0, KITH_RECOMPUTE_FULL), 2 * sbh);
    }
    /* The paper's headline: with everything at most 18.5 % of tp alone, 10 + 24 / t + 5 a s / (h t). */
    const shape *gpt3 = &shapes[1];
    double baseline = (double)(gpt3->s * gpt3->b * gpt3->h) * (10 + 24.0 / 8 + 5.0 * 96 * 2048 / (12288.0 * 8));
    REQUIRE((double)block_nbytes(gpt3, 1, KITH_RECOMPUTE_SELECTIVE) <= 0.185 * baseline);
}
