/* layers/linear_backward.c - dx = dy W, dW += dy^T x, db += dy, and what overlaps with what.
 *
 * The input's gradient is computed first and its collective started; while it travels, the weight's gradient is
 * computed in pieces, with a look at the messages after each, since nothing else moves them on. With sequence
 * parallelism x is gathered again, beside the GEMM of dx, rather than kept.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "linear.h"

#define PIECES 8
#define PIECE_ROWS_LEAST 32

static kith_status add_bias_grad(kith_linear *linear, ki_mat dy)
{
    if (!linear->options.has_bias)
        return KITH_OK;
    ki_compute *compute = linear->layers->compute;
    kith_status status = compute->ops->bias_grad(compute, dy, ki_mat_of(&linear->bias_grad));
    if (status == KITH_OK)
        ki_grad_added(linear->layers, linear->bias_block);
    return status;
}

/* dW += dy^T x, by rows of dW. */
static kith_status add_weight_grad(kith_linear *linear, ki_mat dy, ki_mat x, ki_started *beside)
{
    ki_compute *compute = linear->layers->compute;
    ki_mat grad = ki_mat_of(&linear->weight_grad);
    int64_t rows = linear->out;
    if (beside->request != NULL)
        rows = linear->out / PIECES > PIECE_ROWS_LEAST ? (linear->out + PIECES - 1) / PIECES : PIECE_ROWS_LEAST;
    kith_status status = KITH_OK;
    for (int64_t at = 0; at < linear->out && status == KITH_OK; at += rows) {
        int64_t count = at + rows < linear->out ? rows : linear->out - at;
        status = compute->ops->gemm(compute, KI_TRANSPOSED, KI_AS_IS, 1, ki_mat_cols(dy, at, count), x, 1,
                                    ki_mat_rows(grad, at, count));
        if (status == KITH_OK)
            status = ki_comm_poll(beside);
    }
    if (status == KITH_OK)
        ki_grad_added(linear->layers, linear->weight_block);
    return status;
}

static kith_status input_grad(kith_linear *linear, ki_mat dy, kith_tensor *dx)
{
    ki_compute *compute = linear->layers->compute;
    return compute->ops->gemm(compute, KI_AS_IS, KI_AS_IS, 1, dy, ki_mat_of(&linear->weight), 0, ki_mat_of(dx));
}

static ki_mat own_input(const kith_linear *linear, const kith_tensor *x)
{
    ki_mat own = ki_mat_of(x);
    return linear->options.is_input_whole ? ki_mat_cols(own, linear->first_in, linear->in) : own;
}

/* The later half of a backward that was split. */
static kith_status run_later(kith_tape *tape, const ki_weight_work *work)
{
    kith_linear *linear = (kith_linear *)work->layer;
    kith_tensor whole = { 0 };
    ki_started nothing = { 0 };
    kith_status status;
    if (linear->options.kind == KITH_LINEAR_COLUMN && linear->is_sequence_split)
        KI_OR_GOTO(end, ki_tape_gather(tape, &work->x, &whole));
    else
        KI_OR_GOTO(end, kith_tensor_retain(&work->x, &whole));
    KI_OR_GOTO(end, add_weight_grad(linear, ki_mat_of(&work->dy), own_input(linear, &whole), &nothing));
end:
    kith_tensor_release(&whole);
    return status;
}

static kith_status note(kith_linear *linear, kith_tape *tape, const kith_tensor *x, const kith_tensor *dy)
{
    ki_weight_work work = { run_later, linear, *x, *dy };
    return ki_tape_note_weights(tape, &work);
}

/* dx NULL: not wanted. */
static kith_status backward_column(kith_linear *linear, kith_tape *tape, const kith_tensor *x, const kith_tensor *dy,
                                   kith_tensor *dx)
{
    kith_layers *layers = linear->layers;
    bool is_split = linear->is_sequence_split, is_later = tape->is_split_backward;
    kith_tensor whole_x = { 0 }, partial = { 0 }, shard = { 0 };
    ki_started gather = { 0 }, sum = { 0 };
    kith_status status;
    ki_mat rows = ki_mat_of(dy);
    if (is_split && !is_later)
        KI_OR_GOTO(end, ki_tape_gather_start(tape, x, &whole_x, &gather));
    else
        KI_OR_GOTO(end, kith_tensor_retain(x, &whole_x));
    if (dx != NULL) {
        KI_OR_GOTO(end, ki_tensor_create_like(layers, dy, linear->in, &partial));
        KI_OR_GOTO(end, input_grad(linear, rows, &partial));
        KI_OR_GOTO(end, ki_comm_wait(&gather));
        if (is_split)
            KI_OR_GOTO(end, ki_tape_scatter_start(tape, &partial, &shard, &sum));
        else
            KI_OR_GOTO(end, ki_comm_all_reduce_start(layers, tape->phase, ki_comm_tp(layers), partial.data,
                                                     kith_tensor_count(&partial), partial.dtype, KITH_SUM, &sum));
    }
    KI_OR_GOTO(end, ki_comm_wait(&gather));
    KI_OR_GOTO(end, add_bias_grad(linear, rows));
    if (is_later)
        KI_OR_GOTO(end, note(linear, tape, x, dy));
    else
        KI_OR_GOTO(end, add_weight_grad(linear, rows, ki_mat_of(&whole_x), &sum));
    KI_OR_GOTO(end, ki_comm_wait(&sum));
    if (dx != NULL && is_split)
        KI_OR_GOTO(end, kith_tensor_retain(&shard, dx));
    else if (dx != NULL) {
        partial = ki_with_layout(partial, KITH_REPLICATED, 0);
        KI_OR_GOTO(end, kith_tensor_retain(&partial, dx));
    }
end:
    ki_comm_settle(&gather);
    ki_comm_settle(&sum);
    kith_tensor_release(&whole_x);
    kith_tensor_release(&partial);
    kith_tensor_release(&shard);
    return status;
}

static kith_status backward_row(kith_linear *linear, kith_tape *tape, const kith_tensor *x, const kith_tensor *dy,
                                kith_tensor *dx)
{
    kith_layers *layers = linear->layers;
    kith_tensor whole = { 0 }, made = { 0 };
    ki_started gather = { 0 }, nothing = { 0 };
    kith_status status;
    if (linear->is_sequence_split)
        KI_OR_GOTO(end, ki_tape_gather_start(tape, dy, &whole, &gather));
    else
        KI_OR_GOTO(end, kith_tensor_retain(dy, &whole));
    KI_OR_GOTO(end, add_bias_grad(linear, ki_mat_of(dy)));
    KI_OR_GOTO(end, ki_comm_wait(&gather));
    if (dx != NULL) {
        KI_OR_GOTO(end, ki_tensor_create_like(layers, &whole, linear->in, &made));
        KI_OR_GOTO(end, input_grad(linear, ki_mat_of(&whole), &made));
        made = ki_with_layout(made, KITH_SPLIT, made.dim_count - 1);
    }
    if (tape->is_split_backward)
        KI_OR_GOTO(end, note(linear, tape, x, &whole));
    else
        KI_OR_GOTO(end, add_weight_grad(linear, ki_mat_of(&whole), own_input(linear, x), &nothing));
    if (dx != NULL && linear->options.is_input_whole) {
        int64_t unit = linear->options.in_unit > 0 ? linear->options.in_unit : 1;
        KI_OR_GOTO(end, kith_tensor_all_gather(layers, tape->phase, made.dim_count - 1, unit,
                                               linear->options.in_features, &made, dx));
    } else if (dx != NULL) {
        KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
    }
end:
    ki_comm_settle(&gather);
    kith_tensor_release(&whole);
    kith_tensor_release(&made);
    return status;
}

static kith_status backward_whole(kith_linear *linear, kith_tape *tape, const kith_tensor *x, const kith_tensor *dy,
                                  kith_tensor *dx)
{
    kith_tensor made = { 0 };
    ki_started nothing = { 0 };
    kith_status status;
    KI_OR_GOTO(end, add_bias_grad(linear, ki_mat_of(dy)));
    if (dx != NULL) {
        KI_OR_GOTO(end, ki_tensor_create_like(linear->layers, dy, linear->in, &made));
        KI_OR_GOTO(end, input_grad(linear, ki_mat_of(dy), &made));
    }
    if (tape->is_split_backward)
        KI_OR_GOTO(end, note(linear, tape, x, dy));
    else
        KI_OR_GOTO(end, add_weight_grad(linear, ki_mat_of(dy), ki_mat_of(x), &nothing));
    if (dx != NULL)
        KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
end:
    kith_tensor_release(&made);
    return status;
}

/* The columns of a gathered output's gradient that are this rank's, as a tensor of its own. */
static kith_status own_columns(kith_linear *linear, const kith_tensor *dy, kith_tensor *own)
{
    if (linear->options.kind != KITH_LINEAR_COLUMN || !linear->options.is_output_gathered)
        return kith_tensor_retain(dy, own);
    return kith_tensor_split(linear->layers, dy->dim_count - 1, 1, dy, own);
}

static kith_status backward(kith_linear *linear, kith_tape *tape, const kith_tensor *x, const kith_tensor *dy,
                            kith_tensor *dx)
{
    if (linear->options.kind == KITH_LINEAR_COLUMN)
        return backward_column(linear, tape, x, dy, dx);
    if (linear->options.kind == KITH_LINEAR_ROW)
        return backward_row(linear, tape, x, dy, dx);
    return backward_whole(linear, tape, x, dy, dx);
}

/* Where rows are whatever the caller gave, dy has those of x. */
static kith_status check_rows(const kith_linear *linear, const kith_tensor *dy, const kith_tensor *x)
{
    bool is_free = !linear->is_sequence_split || linear->options.kind == KITH_LINEAR_WHOLE;
    if (!is_free || ki_rows(dy) == ki_rows(x))
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "kith_linear_backward: dy has %lld rows, x of %s had %lld",
                   (long long)ki_rows(dy), linear->name, (long long)ki_rows(x));
}

kith_status kith_linear_backward(kith_linear *linear, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx)
{
    if (linear == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_linear_backward: linear must not be NULL");
    kith_status status = ki_tape_enter(tape, linear->layers, "kith_linear_backward", KITH_PHASE_BACKWARD);
    if (status != KITH_OK)
        return status;
    ki_expected output = ki_linear_output(linear, tape);
    status = ki_expect(linear->layers, "kith_linear_backward: dy", dy, &output);
    ki_saved saved = { 0 };
    if (status == KITH_OK)
        status = ki_tape_pop(tape, linear, linear->name, &saved);
    if (status != KITH_OK)
        return status;
    kith_tensor own = { 0 }, made = { 0 };
    status = own_columns(linear, dy, &own);
    if (status == KITH_OK)
        status = check_rows(linear, &own, &saved.tensors[0]);
    if (status == KITH_OK)
        status = backward(linear, tape, &saved.tensors[0], &own, dx == NULL ? NULL : &made);
    kith_tensor_release(&own);
    ki_saved_release(&saved);
    if (status == KITH_OK && dx != NULL)
        *dx = made;
    else
        kith_tensor_release(&made);
    return status;
}
