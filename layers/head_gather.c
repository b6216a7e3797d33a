/* layers/head_gather.c - the logits of all words on every rank.
 *
 * A collective joins the ranks' parts one after the other in memory; they are then copied to their columns. With a
 * padded vocabulary all parts have the same size: a rank with fewer words sends columns of zeros that nobody reads.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "head.h"

static bool is_padded(const kith_head *head)
{
    return head->vocabulary.padded > head->vocabulary.words;
}

/* What this rank sends: its logits, or a copy of them with padding. */
static kith_status pad(kith_head *head, const kith_tensor *own, kith_tensor *part)
{
    const ki_vocabulary *v = &head->vocabulary;
    if (v->rows == v->count)
        return kith_tensor_retain(own, part);
    ki_compute *compute = head->layers->compute;
    kith_status status = ki_tensor_create_like(head->layers, own, v->rows, part);
    if (status == KITH_OK)
        status = compute->ops->fill(compute, ki_mat_of(part), 0);
    if (status == KITH_OK)
        status = compute->ops->copy(compute, ki_mat_of(own), ki_mat_cols(ki_mat_of(part), 0, v->count));
    return status;
}

/* From [tokens, part of rank 0], [tokens, part of rank 1], ... to columns. */
static kith_status put_together(kith_head *head, const kith_tensor *parts, const kith_tensor *all)
{
    const ki_vocabulary *v = &head->vocabulary;
    ki_compute *compute = head->layers->compute;
    ki_mat to = ki_mat_of(all), from = { parts->data, to.rows, 0, 0, parts->dtype };
    kith_status status = KITH_OK;
    for (int r = 0; r < head->layers->tp_size && status == KITH_OK; r++) {
        int64_t first, rows;
        kith_split_range(v->padded, head->layers->tp_size, r, &first, &rows);
        int64_t words = first >= v->words ? 0 : first + rows > v->words ? v->words - first : rows;
        from.cols = from.stride = rows;
        if (words > 0)
            status = compute->ops->copy(compute, ki_mat_cols(from, 0, words), ki_mat_cols(to, first, words));
        if (from.data != NULL)
            from.data = (char *)from.data + from.rows * rows * (int64_t)kith_dtype_nbytes(from.dtype);
    }
    return status;
}

kith_status ki_head_gather(kith_head *head, kith_tape *tape, const kith_tensor *own, kith_tensor *all)
{
    kith_layers *layers = head->layers;
    const ki_vocabulary *v = &head->vocabulary;
    if (layers->tp_size == 1 && !is_padded(head))
        return kith_tensor_retain(own, all);
    int64_t tokens = ki_rows(own);
    kith_tensor part = { 0 }, parts = { 0 }, made = { 0 };
    ki_started started = { 0 };
    kith_status status;
    KI_OR_GOTO(end, pad(head, own, &part));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, own, v->padded, &parts));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, own, v->words, &made));
    KI_OR_GOTO(end, ki_comm_all_gather_start(layers, tape->phase, ki_comm_tp(layers), part.data, parts.data, v->padded,
                                             tokens, own->dtype, &started));
    KI_OR_GOTO(end, ki_comm_wait(&started));
    KI_OR_GOTO(end, put_together(head, &parts, &made));
    made = ki_with_layout(made, KITH_REPLICATED, 0);
    KI_OR_GOTO(end, kith_tensor_retain(&made, all));
end:
    ki_comm_settle(&started);
    kith_tensor_release(&part);
    kith_tensor_release(&parts);
    kith_tensor_release(&made);
    return status;
}
