/* kith/transformer.h - decoder-only transformers made of the layers of kith/layers.h: whole, or a pipeline's stage.
 *
 *     kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
 *     kith_transformer_gpt2(&config, 768, 12, 12, 50257, 1024);
 *     kith_transformer_options o = KITH_TRANSFORMER_OPTIONS_INIT;
 *     o.config = &config;
 *     kith_transformer *transformer;
 *     kith_transformer_create(layers, &o, &transformer);
 *     kith_transformer_init(transformer, 1234, 0.02);
 *     ...
 *     kith_tape_begin(tape, &batch);
 *     kith_transformer_forward(transformer, tape, &ids, &targets, NULL, &loss);
 *     kith_transformer_backward(transformer, tape, NULL, 1.0 / global_token_count, 1, NULL);
 *     kith_layers_finish_grads(layers);
 *
 * examples/transformer.c is a whole trainer.
 *
 * A block is x + dropout(attention(norm(x))), then h + dropout(mlp(norm(h))): the form of GPT-2 and of LLaMA, which
 * differ in norm, activation, biases and positions. Stages hand each other x after a block: [tokens, hidden], or this
 * rank's positions of it with sequence parallelism.
 *
 * Parameters have the names
 *     embedding.weight  embedding.positions
 *     blocks.<i>.norm1.weight .bias   blocks.<i>.attention.{q,k,v,out}.{weight,bias}
 *     blocks.<i>.norm2.weight .bias   blocks.<i>.mlp.{up,gate,down}.{weight,bias}, or blocks.<i>.moe...
 *     norm.weight .bias   head.weight
 * with i the number of the block in the whole model.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TRANSFORMER_H
#define KITH_TRANSFORMER_H

#include <kith/layers.h>
#include <kith/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a transformer computes. Fill with KITH_TRANSFORMER_CONFIG_INIT. */
typedef struct kith_transformer_config {
    size_t struct_size;
    int64_t hidden, inner, blocks, heads;
    int64_t kv_heads; /* 0: heads */
    int64_t head_dim; /* 0: hidden / heads */
    int64_t vocabulary;
    int64_t positions;  /* learned ones; 0: none */
    double rotary_base; /* 0: no rotary positions */
    kith_norm_kind norm;
    double norm_epsilon; /* 0: 1e-5 */
    kith_activation activation;
    int is_gated;
    int has_bias;       /* of linear layers */
    int has_qkv_bias;   /* of q, k, v alone, where has_bias is 0 (Qwen2) */
    int has_head_norms; /* of q and k (Qwen3) */
    int is_tied;        /* the head's weight is the embedding's: one parameter where both are on the same kith_layers,
                           be it in two stages. On different ranks each has one, embedding.weight and head.weight, and
                           the caller ties them: kith_param_tie(), kith_param_sum_tied() */
    double dropout;     /* of embeddings and of what is added to the residual */
    double attention_dropout;
    double label_smoothing; /* as in kith_head_options */
    int64_t experts;        /* 0: dense */
    int64_t top_k;
    int is_router_normalized;
    double capacity_factor, auxiliary_weight;
} kith_transformer_config;

#define KITH_TRANSFORMER_CONFIG_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(kith_transformer_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, KITH_LAYER_NORM, 0, KITH_GELU, 0, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0                                                                                        \
    }

/* Fill in a config that was made with KITH_TRANSFORMER_CONFIG_INIT; fields that a family does not speak of stay.
 * Learned positions, layer norms, tanh GeLU of 4 * hidden, biases, tied head, dropout 0. */
KITH_API kith_status kith_transformer_gpt2(kith_transformer_config *config, int64_t hidden, int64_t blocks,
                                           int64_t heads, int64_t vocabulary, int64_t positions);
/* Rotary positions, RMS norms, SwiGLU, no biases, a head of its own. */
KITH_API kith_status kith_transformer_llama(kith_transformer_config *config, int64_t hidden, int64_t inner,
                                            int64_t blocks, int64_t heads, int64_t kv_heads, int64_t vocabulary);

/* Fill with KITH_TRANSFORMER_OPTIONS_INIT. */
typedef struct kith_transformer_options {
    size_t struct_size;
    const kith_transformer_config *config; /* needed for creation only */
    int64_t first_block, block_count;      /* of this stage; block_count 0: to the end */
    int has_embedding, has_head;           /* of this stage; the head comes with the last norm */
    int64_t vocabulary_multiple;           /* padding, as in kith_embedding_options */
    int is_head_gathered;                  /* not fused, for comparison */
    kith_recompute recompute; /* SELECTIVE: of attention what lies between q, k, v and the output projection's input;
                                 FULL: runs of blocks, of which the input alone is kept */
    int64_t recompute_run;    /* FULL: blocks of a run; 1: every block by itself; 0: the square root of the stage's
                                 blocks, rounded up */
    int is_from_start;        /* FULL: not even that is kept, each block of the backward pass begins at the stage's
                                 input. O(1) memory and O(blocks^2) work, for comparison */
} kith_transformer_options;

#define KITH_TRANSFORMER_OPTIONS_INIT                                                                                  \
    {                                                                                                                  \
        sizeof(kith_transformer_options), NULL, 0, 0, 1, 1, 0, 0, KITH_RECOMPUTE_NONE, 0, 0                            \
    }

typedef struct kith_transformer kith_transformer;

/* Made on layers, and lives as long as they do. KITH_ERR_INVALID_ARG says which size does not fit, and which would;
 * KITH_ERR_MISMATCH which value of config or options is not the same on all ranks of tp and ep. Several stages of one
 * model may be made on the same layers, the one with the embedding first. Collective over tp and ep, blocks; all get
 * the same status: a rank that failed has its own detail, the others get its sentence. */
KITH_API kith_status kith_transformer_create(kith_layers *layers, const kith_transformer_options *options,
                                             kith_transformer **transformer);

/* Weights of linear layers and embeddings: normal, of this deviation; those of output projections (attention out, mlp
 * down) divided by the square root of 2 * blocks, as GPT-2 has it. Biases 0, weights of norms 1. Only what belongs to
 * this transformer is set. Local. */
KITH_API kith_status kith_transformer_init(kith_transformer *transformer, uint64_t seed, double deviation);

typedef struct kith_transformer_loss {
    double sum;       /* of the tokens' losses, on the stage with the head */
    int64_t count;    /* of tokens that are not ignored */
    double auxiliary; /* of the experts of this stage */
    int64_t dropped;  /* token choices that no expert took */
} kith_transformer_loss;

/* input: ids (KITH_INT32, [sequence, batch]) where the stage has the embedding, else what the stage before gave.
 * targets: ids, where it has the head; else NULL. y: the stage's output, where it has no head; else NULL. loss may be
 * NULL. */
KITH_API kith_status kith_transformer_forward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *input,
                                              const kith_tensor *targets, kith_tensor *y, kith_transformer_loss *loss);

/* The gradient of grad_scale * sum + auxiliary_scale * auxiliary. dy: of y, where there is one; else NULL. dx: of
 * input, where that is not ids; else NULL. */
KITH_API kith_status kith_transformer_backward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                               double grad_scale, double auxiliary_scale, kith_tensor *dx);

/* Logits on all ranks of a stage with the head, [tokens, vocabulary]; saves nothing. */
KITH_API kith_status kith_transformer_logits(kith_transformer *transformer, kith_tape *tape, const kith_tensor *input,
                                             kith_tensor *logits);

/* ---- one block ---- */

typedef struct kith_block kith_block;

/* Block `index` of a model of this configuration, by itself. recompute: NONE or SELECTIVE. name NULL:
 * "blocks.<index>". Local. */
KITH_API kith_status kith_block_create(kith_layers *layers, const kith_transformer_config *config, int64_t index,
                                       kith_recompute recompute, const char *name, kith_block **block);
/* loss: auxiliary and dropped are added to; NULL: not wanted. */
KITH_API kith_status kith_block_forward(kith_block *block, kith_tape *tape, const kith_tensor *x, kith_tensor *y,
                                        kith_transformer_loss *loss);
KITH_API kith_status kith_block_backward(kith_block *block, kith_tape *tape, const kith_tensor *dy,
                                         double auxiliary_scale, kith_tensor *dx);

#ifdef __cplusplus
}
#endif
#endif
