/* layers/attention.h - what an attention layer is inside; shared by attention*.c alone.
 *
 *     attention.c          creation: which ranks have which heads
 *     attention_core.c     from q, k, v to the heads' outputs and back, without communication
 *     attention_pass.c     forward and backward of the whole layer
 *
 * q, k and v of a token lie side by side in one row, this rank's heads of each, as the one GEMM leaves them ("fused").
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_ATTENTION_LAYER_H
#define KI_LAYERS_ATTENTION_LAYER_H

#include "dropout.h"
#include "linear.h"
#include "norm.h"

struct kith_attention {
    kith_layers *layers;
    const char *name;
    kith_attention_options options; /* zeros that stand for something else are that */
    kith_linear *qkv, *out;
    kith_norm *q_norm, *k_norm; /* NULL: none */
    int64_t first_head, heads;  /* of this rank */
    int64_t first_kv_head, kv_heads;
};

/* What the core works on: columns of fused or, with head norms, of a tensor of its own. */
typedef struct ki_attention_inputs {
    ki_mat q, k, v;
    kith_tensor normed; /* [tokens, q | k] after norms and rotation; no tensor without norms */
    ki_norm_statistics q_statistics, k_statistics;
} ki_attention_inputs;

/* Forward: normalises and rotates q and k, in place where there are no norms. Backward: finds them again; norms, whose
 * inputs fused still has, are computed once more. (attention_core.c) */
kith_status ki_attention_inputs_make(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                                     bool is_forward, ki_attention_inputs *inputs);
void ki_attention_inputs_release(ki_attention_inputs *inputs);

/* out: [tokens, heads * head_dim]; lse: A, [tokens, heads]. New tensors. */
kith_status ki_attention_core(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                              const ki_attention_inputs *inputs, kith_tensor *out, kith_tensor *lse);

/* dfused: a new tensor. Gradients of head norms are added to. */
kith_status ki_attention_core_grad(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                                   const ki_attention_inputs *inputs, const kith_tensor *out, const kith_tensor *lse,
                                   const kith_tensor *dout, kith_tensor *dfused);

#endif
