/* layers/vocabulary.c - which words are whose; are ids words?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "vocabulary.h"

#include "compute/ids.h"

#include <stdio.h>

#define WORDS_MOST ((int64_t)1 << 31) /* ids are int32 */
#define FEATURES_MOST ((int64_t)1 << 30)

int64_t kith_vocabulary_padded(int64_t vocabulary, int64_t multiple, int tp)
{
    int64_t unit;
    if (vocabulary < 1 || multiple < 1 || tp < 1 || vocabulary > WORDS_MOST || multiple > WORDS_MOST)
        return -1;
    unit = multiple * tp; // below 2^62
    int64_t padded = (vocabulary + unit - 1) / unit * unit;
    return padded <= WORDS_MOST ? padded : -1;
}

kith_status ki_vocabulary_deal(const kith_layers *layers, const char *what, int64_t words, int64_t multiple,
                               ki_vocabulary *vocabulary)
{
    if (words < 1 || words > WORDS_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a vocabulary of %lld words, wanted 1 to 2^31", what,
                       (long long)words);
    int t = layers->tp_size;
    int64_t padded = multiple == 0 ? words : kith_vocabulary_padded(words, multiple, t);
    if (padded < 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: %lld words cannot be padded to a multiple of %lld for each of %d tensor-parallel ranks: "
                       "padding_multiple is 0 or more, and the padded vocabulary at most 2^31",
                       what, (long long)words, (long long)multiple, t);
    ki_vocabulary made = { .words = words, .padded = padded };
    kith_split_range(padded, t, layers->tp_rank, &made.first, &made.rows);
    made.first = made.first < words ? made.first : words;
    made.count = made.rows < words - made.first ? made.rows : words - made.first;
    *vocabulary = made;
    return KITH_OK;
}

kith_status ki_vocabulary_table(kith_layers *layers, const char *prefix, const ki_vocabulary *vocabulary,
                                int64_t features, kith_param **table)
{
    if (features < 1 || features > FEATURES_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %lld features, wanted 1 to 2^30", prefix, (long long)features);
    ki_param_spec spec = { .prefix = prefix,
                           .suffix = "weight",
                           .dim_count = 2,
                           .global_shape = { vocabulary->words, features },
                           .split_dim = 0,
                           .first = vocabulary->first,
                           .count = vocabulary->rows,
                           .padding = vocabulary->rows - vocabulary->count,
                           .padded = vocabulary->padded,
                           .copies = 1,
                           .is_matrix = true };
    return ki_param_create(layers, &spec, table);
}

ki_vocabulary ki_vocabulary_of(const kith_param *table)
{
    ki_vocabulary vocabulary = { .words = table->global_shape[0],
                                 .padded = table->padded,
                                 .first = table->first,
                                 .count = table->value.shape[0] - table->padding,
                                 .rows = table->value.shape[0] };
    return vocabulary;
}

kith_tensor ki_words_of(const kith_param *table, const kith_tensor *rows)
{
    return kith_tensor_narrow(rows, 0, 0, rows->shape[0] - table->padding);
}

static bool has_shape_of(const kith_tape *tape, const kith_tensor *ids)
{
    if (ids->dim_count == 1)
        return ids->shape[0] == ki_tape_tokens(tape);
    return ids->dim_count == 2 && ids->shape[0] == tape->batch.sequence && ids->shape[1] == tape->batch.batch;
}

static kith_status check_tensor(const kith_tape *tape, const char *what, const kith_tensor *ids)
{
    if (ids == NULL || ids->dim_count < 1 || ids->dim_count > KITH_TENSOR_DIMS)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s are no tensor", what);
    if (ids->dtype != KITH_INT32)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s are of %s, wanted int32", what, kith_dtype_name(ids->dtype));
    if (!has_shape_of(tape, ids))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s have the wrong shape; wanted [%lld] or [%lld, %lld]: all positions of the microbatch and "
                       "all samples, on every rank",
                       what, (long long)ki_tape_tokens(tape), (long long)tape->batch.sequence,
                       (long long)tape->batch.batch);
    if (!kith_tensor_is_contiguous(ids))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s are not contiguous", what);
    if (ids->data == NULL && !tape->layers->is_dry)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s have no data", what);
    return KITH_OK;
}

static kith_status no_word(const kith_tape *tape, const char *what, const ki_ids_found *found, int64_t words,
                           const int32_t *ignored)
{
    char also[64] = "";
    if (ignored != NULL)
        snprintf(also, sizeof also, ", or %d, which is ignored", (int)*ignored);
    return ki_fail(KITH_ERR_INVALID_ARG, "%s: %d at position %lld of sample %lld; wanted 0 to %lld%s", what,
                   (int)found->id, (long long)(found->row / tape->batch.batch),
                   (long long)(found->row % tape->batch.batch), (long long)words - 1, also);
}

kith_status ki_ids_check(const kith_tape *tape, const char *what, const kith_tensor *ids, int64_t words,
                         const int32_t *ignored, int64_t *counted)
{
    kith_status status = check_tensor(tape, what, ids);
    if (status != KITH_OK)
        return status;
    const int32_t *data = (const int32_t *)ids->data;
    int32_t allowed = ignored != NULL ? *ignored : 0; // 0 is a word anyway
    ki_compute *compute = tape->layers->compute;
    ki_ids_found found = { 0 };
    bool is_there = ki_space_has(&tape->layers->space, data); // else the host can look without waiting for the device
    if (is_there)
        status = ki_space_wait(&tape->layers->space);
    if (status != KITH_OK)
        return status;
    status = is_there ? compute->ops->check_ids(compute, data, ki_tape_tokens(tape), words, allowed, &found)
                      : ki_check_ids(NULL, data, ki_tape_tokens(tape), words, allowed, &found);
    if (status == KITH_OK && found.row >= 0)
        return no_word(tape, what, &found, words, ignored);
    if (status == KITH_OK && counted != NULL)
        *counted = found.counted;
    return status;
}

kith_status ki_ids_bring_in(const kith_tape *tape, const kith_tensor *ids, kith_tensor *there)
{
    if (ki_space_has(&tape->layers->space, ids->data))
        return kith_tensor_retain(ids, there);
    return ki_tensor_bring_in(tape->layers, ids, there);
}
