/* layers/attention_core.c - from q, k, v to the heads' outputs and back: this rank's heads, whole sequences, nothing
 * communicated.
 *
 * Without head norms q and k are rotated where the GEMM left them: backward needs them rotated, and the gradient of a
 * rotation needs only its angle. With norms, what the GEMM left is kept, because their gradient needs it, and normed
 * and rotated q and k are computed again in backward: two cheap passes instead of a third more memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"

static int64_t q_features(const kith_attention *attention)
{
    return attention->heads * attention->options.head_dim;
}

static int64_t k_features(const kith_attention *attention)
{
    return attention->kv_heads * attention->options.head_dim;
}

/* Columns of q, k and v in fused, or in its gradient. */
static void find_columns(const kith_attention *attention, const kith_tensor *fused, ki_mat *q, ki_mat *k, ki_mat *v)
{
    ki_mat rows = ki_mat_of(fused);
    int64_t nq = q_features(attention), nk = k_features(attention);
    *q = ki_mat_cols(rows, 0, nq);
    *k = ki_mat_cols(rows, nq, nk);
    *v = ki_mat_cols(rows, nq + nk, nk);
}

/* Heads of q and of k lie side by side, so one call turns both. */
static kith_status rotate(const kith_attention *attention, const kith_tape *tape, bool is_inverse,
                          const kith_tensor *q_and_k)
{
    const kith_attention_options *o = &attention->options;
    if (o->rotary_base == 0)
        return KITH_OK;
    ki_compute *compute = attention->layers->compute;
    ki_mat heads = ki_mat_cols(ki_mat_of(q_and_k), 0, q_features(attention) + k_features(attention));
    return compute->ops->rotary(compute, o->rotary_base, o->head_dim, tape->batch.batch, is_inverse, heads);
}

static kith_status normalize(const kith_attention *attention, const kith_tensor *fused, ki_attention_inputs *inputs)
{
    kith_status status;
    int64_t nq = q_features(attention), nk = k_features(attention), rows = ki_rows(fused);
    KI_OR_GOTO(end, ki_tensor_create_like(attention->layers, fused, nq + nk, &inputs->normed));
    KI_OR_GOTO(end, ki_norm_statistics_create(attention->q_norm, rows, attention->heads, &inputs->q_statistics));
    KI_OR_GOTO(end, ki_norm_statistics_create(attention->k_norm, rows, attention->kv_heads, &inputs->k_statistics));
    ki_mat q = ki_mat_cols(ki_mat_of(&inputs->normed), 0, nq), k = ki_mat_cols(ki_mat_of(&inputs->normed), nq, nk);
    KI_OR_GOTO(end, ki_norm_rows(attention->q_norm, inputs->q, q, &inputs->q_statistics));
    KI_OR_GOTO(end, ki_norm_rows(attention->k_norm, inputs->k, k, &inputs->k_statistics));
    inputs->q = q;
    inputs->k = k;
end:
    return status;
}

kith_status ki_attention_inputs_make(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                                     bool is_forward, ki_attention_inputs *inputs)
{
    find_columns(attention, fused, &inputs->q, &inputs->k, &inputs->v);
    if (attention->q_norm == NULL)
        return is_forward ? rotate(attention, tape, false, fused) : KITH_OK;
    kith_status status = normalize(attention, fused, inputs);
    return status == KITH_OK ? rotate(attention, tape, false, &inputs->normed) : status;
}

void ki_attention_inputs_release(ki_attention_inputs *inputs)
{
    kith_tensor_release(&inputs->normed);
    ki_norm_statistics_release(&inputs->q_statistics);
    ki_norm_statistics_release(&inputs->k_statistics);
}

static kith_status describe(const kith_attention *attention, const kith_tape *tape, ki_attention *how)
{
    const kith_attention_options *o = &attention->options;
    memset(how, 0, sizeof *how);
    how->batch = tape->batch.batch;
    how->sequence = how->kv_sequence = tape->batch.sequence;
    how->heads = attention->heads;
    how->kv_heads = attention->kv_heads;
    how->head_dim = o->head_dim;
    how->scale = o->scale;
    how->is_causal = !o->is_bidirectional;
    how->first_head = (uint32_t)attention->first_head;
    return ki_dropout_make(tape, attention->name, o->dropout, o->site, &how->dropout);
}

kith_status ki_attention_core(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                              const ki_attention_inputs *inputs, kith_tensor *out, kith_tensor *lse)
{
    kith_layers *layers = attention->layers;
    ki_attention how;
    kith_status status;
    KI_OR_GOTO(end, describe(attention, tape, &how));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, fused, q_features(attention), out));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, ki_rows(fused), attention->heads, lse));
    KI_OR_GOTO(end, layers->compute->ops->attention(layers->compute, &how, inputs->q, inputs->k, inputs->v,
                                                    ki_mat_of(out), ki_mat_of(lse)));
end:
    return status;
}

/* Through rotation and norms, in place. */
static kith_status inputs_grad(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                               const ki_attention_inputs *inputs, const kith_tensor *dfused)
{
    kith_status status = rotate(attention, tape, true, dfused);
    if (attention->q_norm == NULL || status != KITH_OK)
        return status;
    ki_mat q, k, v, dq, dk, dv;
    find_columns(attention, fused, &q, &k, &v);
    find_columns(attention, dfused, &dq, &dk, &dv);
    status = ki_norm_rows_grad(attention->q_norm, q, &inputs->q_statistics, dq, dq);
    return status == KITH_OK ? ki_norm_rows_grad(attention->k_norm, k, &inputs->k_statistics, dk, dk) : status;
}

kith_status ki_attention_core_grad(const kith_attention *attention, const kith_tape *tape, const kith_tensor *fused,
                                   const ki_attention_inputs *inputs, const kith_tensor *out, const kith_tensor *lse,
                                   const kith_tensor *dout, kith_tensor *dfused)
{
    kith_layers *layers = attention->layers;
    ki_attention how;
    ki_mat dq, dk, dv;
    kith_status status;
    KI_OR_GOTO(end, describe(attention, tape, &how));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, fused, ki_features(fused), dfused));
    find_columns(attention, dfused, &dq, &dk, &dv);
    KI_OR_GOTO(end, layers->compute->ops->attention_grad(layers->compute, &how, inputs->q, inputs->k, inputs->v,
                                                         ki_mat_of(out), ki_mat_of(lse), ki_mat_of(dout), dq, dk, dv));
    KI_OR_GOTO(end, inputs_grad(attention, tape, fused, inputs, dfused));
end:
    return status;
}
