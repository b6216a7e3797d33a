/* layers/tape.c - what forward leaves for backward: a stack.
 *
 * Layers of a model run backward in the reverse order of forward, so what they need lies on top when their turn comes.
 * Each entry names the layer that left it; a backward function that finds another's refuses, which turns a wrong order
 * of calls into a sentence.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/fault.h"
#include <stdlib.h>

kith_status kith_tape_create(kith_layers *layers, kith_tape **tape)
{
    if (layers == NULL || tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tape_create: layers and tape must not be NULL");
    kith_tape *made = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(1, sizeof *made);
    if (made == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_tape_create: no memory for a tape");
    made->layers = layers;
    layers->live_tapes++;
    *tape = made;
    return KITH_OK;
}

static kith_status check_batch(const kith_tape *tape, const kith_batch *batch)
{
    if (batch == NULL || batch->struct_size < sizeof(size_t) + 2 * sizeof(int64_t))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tape_begin: batch is NULL or was not made with KITH_BATCH_INIT");
    int64_t tokens;
    if (batch->sequence < 1 || batch->batch < 1 || __builtin_mul_overflow(batch->sequence, batch->batch, &tokens) ||
        tokens > INT32_MAX)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_tape_begin: a microbatch of %lld positions and %lld samples: both must be at least 1, their "
            "product at most 2^31 - 1",
            (long long)batch->sequence, (long long)batch->batch);
    const kith_layers *layers = tape->layers;
    if (layers->options.is_sequence_parallel && batch->sequence < layers->tp_size)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_tape_begin: sequence parallelism needs at least one position for each of the %d "
                       "tensor-parallel ranks, the sequence has %lld",
                       layers->tp_size, (long long)batch->sequence);
    if (tape->work_count > 0)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_tape_begin: the gradients of %zu weights of the microbatch before are still to be computed "
            "by kith_tape_weight_grads()",
            tape->work_count);
    return KITH_OK;
}

/* In debug mode: the ranks of tp work on the same microbatch. A rank that was refused takes part. */
static kith_status agree_on_batch(const kith_layers *layers, kith_status status, const kith_batch *batch)
{
    const ki_number numbers[] = { { "sequence", batch->sequence },
                                  { "batch", batch->batch },
                                  { "first_sample", (int64_t)batch->first_sample },
                                  { "is_training", batch->is_training != 0 } };
    if (!layers->options.is_debug)
        return status;
    return ki_agree_on(layers->options.tp, NULL, status, "kith_tape_begin", numbers,
                       sizeof numbers / sizeof numbers[0]);
}

kith_status kith_tape_begin(kith_tape *tape, const kith_batch *batch)
{
    if (tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tape_begin: tape must not be NULL");
    kith_batch taken = KITH_BATCH_INIT;
    if (batch != NULL)
        ki_options_copy(&taken, sizeof taken, batch, sizeof batch->struct_size);
    kith_status status = agree_on_batch(tape->layers, check_batch(tape, batch == NULL ? NULL : &taken), &taken);
    if (status != KITH_OK)
        return status;
    ki_tape_drop(tape, 0);
    tape->batch = taken;
    const kith_layers *layers = tape->layers;
    tape->first_position = 0;
    tape->positions = taken.sequence;
    if (layers->options.is_sequence_parallel)
        kith_split_range(taken.sequence, layers->tp_size, layers->tp_rank, &tape->first_position, &tape->positions);
    tape->has_begun = true;
    return KITH_OK;
}

size_t kith_tape_depth(const kith_tape *tape)
{
    return tape == NULL ? 0 : tape->depth;
}

kith_status kith_tape_set_split_backward(kith_tape *tape, int is_split)
{
    if (tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tape_set_split_backward: tape must not be NULL");
    tape->is_split_backward = is_split != 0;
    return KITH_OK;
}

void ki_tape_drop_weights(kith_tape *tape, size_t first)
{
    for (size_t i = first; i < tape->work_count; i++) {
        kith_tensor_release(&tape->work[i].x);
        kith_tensor_release(&tape->work[i].dy);
    }
    if (tape->work_count > first) {
        tape->layers->pending_weights -= (int64_t)(tape->work_count - first);
        tape->work_count = first;
    }
}

void kith_tape_destroy(kith_tape *tape)
{
    if (tape == NULL)
        return;
    ki_tape_drop(tape, 0);
    ki_tape_drop_weights(tape, 0);
    tape->layers->live_tapes--;
    free(tape->saved);
    free(tape->work);
    free(tape);
}

int64_t ki_tape_tokens(const kith_tape *tape)
{
    return tape->batch.sequence * tape->batch.batch;
}

int64_t ki_tape_local_tokens(const kith_tape *tape)
{
    return tape->positions * tape->batch.batch;
}

kith_status ki_saved_keep(ki_saved *saved, int index, const kith_tensor *tensor)
{
    return kith_tensor_retain(tensor, &saved->tensors[index]);
}

void ki_saved_release(ki_saved *saved)
{
    for (int i = 0; i < KI_SAVED_TENSORS; i++)
        kith_tensor_release(&saved->tensors[i]);
}

/* Room for one more of nbytes; false when there is no memory. */
static bool grow(void **array, size_t count, size_t *room, size_t nbytes)
{
    if (count < *room)
        return true;
    size_t more = *room == 0 ? 32 : *room * 2;
    void *grown = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(*array, more * nbytes);
    if (grown == NULL)
        return false;
    *array = grown;
    *room = more;
    return true;
}

kith_status ki_tape_push(kith_tape *tape, ki_saved *saved)
{
    bool is_kept = tape->batch.is_training != 0;
    if (is_kept && !grow((void **)&tape->saved, tape->depth, &tape->room, sizeof *saved)) {
        ki_saved_release(saved);
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for what %s keeps for its backward pass", saved->name);
    }
    if (is_kept) {
        tape->saved[tape->depth++] = *saved;
        tape->layers->live_saved++;
    } else {
        ki_saved_release(saved);
    }
    memset(saved, 0, sizeof *saved);
    return KITH_OK;
}

kith_status ki_tape_peek(const kith_tape *tape, const void *owner, const char *name, const ki_saved **saved)
{
    if (tape->depth == 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "backward of %s: the tape has nothing for it (no forward, or one with is_training 0)", name);
    const ki_saved *top = &tape->saved[tape->depth - 1];
    if (top->owner != owner)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "backward of %s: the last forward on the tape is that of %s; backward runs in reverse order",
                       name, top->name);
    *saved = top;
    return KITH_OK;
}

kith_status ki_tape_pop(kith_tape *tape, const void *owner, const char *name, ki_saved *saved)
{
    const ki_saved *top = NULL;
    kith_status status = ki_tape_peek(tape, owner, name, &top);
    if (status != KITH_OK)
        return status;
    *saved = *top;
    tape->depth--;
    tape->layers->live_saved--;
    return KITH_OK;
}

void ki_tape_drop(kith_tape *tape, size_t depth)
{
    while (tape->depth > depth) {
        ki_saved_release(&tape->saved[--tape->depth]);
        tape->layers->live_saved--;
    }
}

void ki_tape_spoil(kith_tape *tape, size_t depth)
{
    if (tape->depth == depth)
        return;
    ki_tape_drop(tape, 0);
    ki_tape_drop_weights(tape, 0);
}

/* A failure is for those to find whose messages these are. */
static void progress(const kith_layers *layers)
{
    if (layers->options.progress != NULL)
        kith_progress(layers->options.progress);
}

kith_status ki_tape_enter(kith_tape *tape, const kith_layers *layers, const char *function, kith_layers_phase phase)
{
    if (tape == NULL || tape->layers != layers)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: the tape is NULL or of other layers", function);
    if (!tape->has_begun)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: the tape has no microbatch; call kith_tape_begin() first", function);
    tape->phase = tape->is_recomputing ? KITH_PHASE_BACKWARD : phase;
    progress(layers);
    return KITH_OK;
}

kith_status ki_tape_note_weights(kith_tape *tape, const ki_weight_work *work)
{
    if (!grow((void **)&tape->work, tape->work_count, &tape->work_room, sizeof *work))
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory to note the gradient of a weight");
    ki_weight_work *noted = &tape->work[tape->work_count];
    *noted = *work;
    kith_tensor_retain(&work->x, &noted->x);
    kith_tensor_retain(&work->dy, &noted->dy);
    tape->work_count++;
    tape->layers->pending_weights++;
    return KITH_OK;
}

kith_status ki_tape_run_weights(kith_tape *tape, size_t first, ki_started *beside)
{
    kith_status status = KITH_OK;
    for (size_t i = first; i < tape->work_count && status == KITH_OK; i++) {
        progress(tape->layers);
        status = tape->work[i].run(tape, &tape->work[i]);
        if (status == KITH_OK)
            status = ki_comm_poll(beside);
    }
    ki_tape_drop_weights(tape, first);
    return status;
}

kith_status kith_tape_weight_grads(kith_tape *tape)
{
    if (tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tape_weight_grads: tape must not be NULL");
    ki_started nothing = { 0 };
    tape->phase = KITH_PHASE_BACKWARD;
    return ki_tape_run_weights(tape, 0, &nothing);
}
