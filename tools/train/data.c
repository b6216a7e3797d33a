/* tools/train/data.c - which tokens a step takes.
 *
 * A sample is sequence + 1 tokens in a row, from any place of the part for training: `places` of them, which overlap.
 * An epoch is a permutation of all places, from the seed and its number; a step takes the next global_batch of them.
 * So the samples of a step are different ones, no place comes twice before nearly all have come (what is left over
 * when global_batch does not divide places is another part each time), and any rank finds any sample without the
 * others: no state, nothing to save in a checkpoint but the step.
 *
 * The permutation is a Feistel network over the next power of four, walked until it meets a place: at most four times
 * on average. Its rounds mix with splitmix64's finalizer (Steele, Lea, Flood 2014).
 *
 * Validation takes samples side by side, in the order of the file. Without validation nothing is kept back for it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "source.h"
#include "train.h"

#include <stdlib.h>

#define ROUNDS 6

struct train_data {
    train_source training, validation;
    bool has_file;                    /* validation is a file of its own */
    int64_t train_count;              /* tokens from the first of training */
    int64_t valid_first, valid_count; /* of validation */
    int64_t sequence, global_batch;
    int64_t places, epoch_steps;
    uint64_t seed;
};

/* ---- places ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Position `index` of permutation `key` of 0 .. count - 1. */
static uint64_t permute(uint64_t key, uint64_t index, uint64_t count)
{
    unsigned half = 1; /* bits */
    while (half < 31 && count > UINT64_C(1) << (2 * half))
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (mix(mix(key + round) ^ right) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

static int64_t place_of(const train_data *self, int64_t step, int64_t sample)
{
    uint64_t epoch = (uint64_t)(step / self->epoch_steps);
    uint64_t index = (uint64_t)(step % self->epoch_steps * self->global_batch + sample) % (uint64_t)self->places;
    return (int64_t)permute(mix(mix(self->seed) ^ epoch), index, (uint64_t)self->places);
}

/* ---- opening ---- */

static bool split(train_data *self, bool validates, char **error)
{
    const bool is_shared = validates && !self->has_file;
    int64_t count = self->training.count, needed = self->sequence + 1;
    self->train_count = count;
    self->valid_count = self->validation.count;
    if (is_shared) {
        self->valid_count = count / 10 > needed ? count / 10 : needed;
        self->train_count = self->valid_first = count - self->valid_count;
    }
    if (self->has_file && self->valid_count < needed)
        return train_source_wrong(error, "%s has %lld tokens; a sample of --seq %lld needs %lld", self->validation.path,
                                  (long long)self->valid_count, (long long)self->sequence, (long long)needed);
    if (self->train_count < needed)
        return train_source_wrong(error, "%s has %lld tokens; with --seq %lld it needs at least %lld%s",
                                  self->training.path, (long long)count, (long long)self->sequence,
                                  (long long)(is_shared ? 2 * needed : needed),
                                  is_shared ? ", half of them for validation; or give --validation FILE, or "
                                              "--validation-batches 0"
                                            : "");
    self->places = self->train_count - self->sequence;
    self->epoch_steps = self->places >= self->global_batch ? self->places / self->global_batch : 1;
    return true;
}

int train_data_open(const train_options *options, int64_t vocabulary, train_data **data, char **error)
{
    bool is_text = options->text != NULL;
    const char *path = is_text ? options->text : options->tokens;
    train_data *self = calloc(1, sizeof *self);
    *error = NULL;
    if (self == NULL)
        return -1;
    if (vocabulary < 1 || options->sequence < 1 || options->global_batch < 1 || path == NULL) {
        train_source_wrong(error, "no file, or no size of a sample or a step was given");
        free(self);
        return -1;
    }
    self->training.fd = self->validation.fd = -1;
    self->has_file = options->validation != NULL;
    self->sequence = options->sequence;
    self->global_batch = options->global_batch;
    self->seed = options->seed;
    bool is_fine = train_source_open(&self->training, path, is_text, options->token_nbytes, vocabulary, error);
    if (is_fine && self->has_file)
        is_fine = train_source_open(&self->validation, options->validation, is_text, options->token_nbytes, vocabulary,
                                    error);
    if (!is_fine || !split(self, options->validation_batches > 0, error)) {
        train_data_close(self);
        return -1;
    }
    *data = self;
    return 0;
}

void train_data_close(train_data *data)
{
    if (data == NULL)
        return;
    train_source_close(&data->training);
    train_source_close(&data->validation);
    free(data);
}

int64_t train_data_tokens(const train_data *data)
{
    return data->train_count;
}

int64_t train_data_validation_tokens(const train_data *data)
{
    return data->valid_count;
}

int64_t train_data_validation_samples(const train_data *data)
{
    return data->valid_count > 0 ? (data->valid_count - 1) / data->sequence : 0;
}

int train_data_identify(const train_data *data, train_identity *identity, char **error)
{
    uint64_t hash;
    if (!train_source_hash(&data->training, &hash, error))
        return -1;
    *identity =
        (train_identity){ (double)train_source_nbytes(&data->training), (double)hash, (double)data->train_count };
    return 0;
}

/* ---- batches ---- */

/* Sample `column` of `columns`, from token `first` on. */
static bool fill(const train_data *self, const train_source *source, int64_t first, int64_t column, int64_t columns,
                 int32_t *inputs, int32_t *targets, char **error)
{
    int32_t tokens[1024];
    for (int64_t done = 0; done <= self->sequence;) {
        int64_t left = self->sequence + 1 - done;
        int64_t some = left < 1024 ? left : 1024;
        if (!train_source_read(source, first + done, some, tokens, error))
            return false;
        for (int64_t i = 0; i < some; i++, done++) {
            if (done < self->sequence)
                inputs[done * columns + column] = tokens[i];
            if (done > 0)
                targets[(done - 1) * columns + column] = tokens[i];
        }
    }
    return true;
}

int train_data_batch(const train_data *data, int64_t step, int64_t first, int64_t samples, int32_t *inputs,
                     int32_t *targets, char **error)
{
    for (int64_t i = 0; i < samples; i++)
        if (!fill(data, &data->training, place_of(data, step, first + i), i, samples, inputs, targets, error))
            return -1;
    return 0;
}

int train_data_validation(const train_data *data, int64_t first, int64_t samples, int32_t *inputs, int32_t *targets,
                          char **error)
{
    const train_source *source = data->has_file ? &data->validation : &data->training;
    int64_t different = train_data_validation_samples(data);
    if (different == 0) {
        train_source_wrong(error, "%s has no tokens for validation", source->path);
        return -1;
    }
    for (int64_t i = 0; i < samples; i++) {
        int64_t place = data->valid_first + (first + i) % different * data->sequence;
        if (!fill(data, source, place, i, samples, inputs, targets, error))
            return -1;
    }
    return 0;
}
