/* tools/train/kept.c - the options of a run that its checkpoints keep, and what a run that is resumed makes of them.
 *
 * What was not said on the command line is as in the checkpoint, so `--resume DIR` with the same data is the same run.
 * What was said and differs is one of two things. The seed, the length of a sample, the data and the kind of optimizer
 * say which run it is: with another one its samples would be other ones, or its moments mean nothing, and nobody would
 * see it; that is refused. Learning rate, batch, clipping, dtype and so on are changed on purpose by people who watch a
 * run: one line says what has changed, and the next checkpoint keeps the new ones.
 *
 * Checkpoints of before these numbers were kept lack some: what is not there is neither taken nor compared.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include "options.h"

#include <math.h>
#include <string.h>

#define AT(field) offsetof(train_options, field)

typedef enum kept_kind { KEPT_WHOLE, KEPT_REAL, KEPT_OPTIMIZER, KEPT_DECAY, KEPT_DTYPE } kept_kind;
typedef enum kept_change { KEPT_QUIET, KEPT_TOLD, KEPT_REFUSED } kept_change;

static const struct kept {
    const char *name, *flag; /* in the checkpoint, on the command line */
    kept_kind kind;
    size_t offset;      /* int64_t, double or an enum */
    kept_change change; /* what becomes of another one */
    const char *unset;  /* of values below 0 */
} rows[TRAIN_KEPT_OPTIONS] = {
    [TRAIN_KEPT_SEQUENCE] = { "sequence", "seq", KEPT_WHOLE, AT(sequence), KEPT_REFUSED, NULL },
    [TRAIN_KEPT_OPTIMIZER] = { "optimizer", "optimizer", KEPT_OPTIMIZER, AT(optim.kind), KEPT_REFUSED, NULL },
    [TRAIN_KEPT_BETA1] = { "beta1", "beta1", KEPT_REAL, AT(optim.beta1), KEPT_TOLD, NULL },
    [TRAIN_KEPT_BETA2] = { "beta2", "beta2", KEPT_REAL, AT(optim.beta2), KEPT_TOLD, NULL },
    [TRAIN_KEPT_EPSILON] = { "epsilon", "eps", KEPT_REAL, AT(optim.epsilon), KEPT_TOLD, NULL },
    [TRAIN_KEPT_MOMENTUM] = { "momentum", "momentum", KEPT_REAL, AT(optim.momentum), KEPT_TOLD, NULL },
    [TRAIN_KEPT_WEIGHT_DECAY] = { "weight_decay", "weight-decay", KEPT_REAL, AT(optim.weight_decay), KEPT_TOLD, NULL },
    [TRAIN_KEPT_CLIP] = { "clip", "clip", KEPT_REAL, AT(optim.clip_norm), KEPT_TOLD, NULL },
    [TRAIN_KEPT_RATE] = { "rate", "lr", KEPT_REAL, AT(rate.peak), KEPT_TOLD, NULL },
    [TRAIN_KEPT_WARMUP] = { "warmup", "warmup", KEPT_WHOLE, AT(rate.warmup), KEPT_TOLD, NULL },
    [TRAIN_KEPT_DECAY] = { "decay", "decay", KEPT_DECAY, AT(rate.kind), KEPT_TOLD, NULL },
    [TRAIN_KEPT_MIN_RATE] = { "min_rate", "min-lr", KEPT_REAL, AT(rate.minimum), KEPT_TOLD, NULL },
    [TRAIN_KEPT_STEPS] = { "steps", "steps", KEPT_WHOLE, AT(steps), KEPT_TOLD, NULL },
    [TRAIN_KEPT_BATCH] = { "global_batch", "global-batch", KEPT_WHOLE, AT(global_batch), KEPT_TOLD, NULL },
    [TRAIN_KEPT_DTYPE] = { "dtype", "dtype", KEPT_DTYPE, AT(dtype), KEPT_TOLD, NULL },
    [TRAIN_KEPT_DROPOUT] = { "dropout", "dropout", KEPT_REAL, AT(dropout), KEPT_TOLD, "the model's" },
    [TRAIN_KEPT_SCALING] = { "loss_scaling", "loss-scale", KEPT_REAL, AT(loss_scale), KEPT_TOLD, "none" },
    [TRAIN_KEPT_VALIDATION] = { "validation_batches", "validation-batches", KEPT_WHOLE, AT(validation_batches),
                                KEPT_QUIET, NULL },
    /* How a step is cut up goes with the layout; in the same one it is as it was (settle.c), and sums have their
     * order. */
    [TRAIN_KEPT_MICRO_BATCH] = { "micro_batch", "", KEPT_WHOLE, AT(kept_micro_batch), KEPT_QUIET, NULL },
    [TRAIN_KEPT_STAGES] = { "stages", "", KEPT_WHOLE, AT(kept_stages), KEPT_QUIET, NULL },
};

static const char *const others[] = { [TRAIN_KEPT_SEED - TRAIN_KEPT_OPTIONS] = "seed_low",
                                      [TRAIN_KEPT_SEED_HIGH - TRAIN_KEPT_OPTIONS] = "seed_high",
                                      [TRAIN_KEPT_DATA_NBYTES - TRAIN_KEPT_OPTIONS] = "data_nbytes",
                                      [TRAIN_KEPT_DATA_HASH - TRAIN_KEPT_OPTIONS] = "data_hash",
                                      [TRAIN_KEPT_DATA_TOKENS - TRAIN_KEPT_OPTIONS] = "data_tokens" };

const char *train_kept_flag(int kept)
{
    return kept < TRAIN_KEPT_OPTIONS ? rows[kept].flag : kept == TRAIN_KEPT_SEED ? "seed" : NULL;
}

static bool is_said(const train_options *options, int kept)
{
    return (options->said & UINT32_C(1) << kept) != 0;
}

/* ---- options as numbers ---- */

static double value_of(const train_options *options, const struct kept *row)
{
    const char *place = (const char *)options + row->offset;
    int64_t whole;
    double real;
    int word;
    switch (row->kind) {
    case KEPT_WHOLE:
        memcpy(&whole, place, sizeof whole);
        return (double)whole;
    case KEPT_REAL:
        memcpy(&real, place, sizeof real);
        return real;
    default:
        memcpy(&word, place, sizeof word);
        return word;
    }
}

static void set_value(train_options *options, const struct kept *row, double value)
{
    char *place = (char *)options + row->offset;
    if (row->kind == KEPT_WHOLE)
        memcpy(place, &(int64_t){ (int64_t)value }, sizeof(int64_t));
    else if (row->kind == KEPT_REAL)
        memcpy(place, &value, sizeof value);
    else
        memcpy(place, &(int){ (int)value }, sizeof(int));
}

/* "none" for a word that a later version has written. */
static const char *word_of(const struct kept *row, int value)
{
    const char *word = row->kind == KEPT_OPTIMIZER ? kith_optim_kind_name((kith_optim_kind)value)
                       : row->kind == KEPT_DECAY   ? train_decay_word(value)
                                                   : train_dtype_word(value);
    return word;
}

static bool is_word(const struct kept *row)
{
    return row->kind >= KEPT_OPTIMIZER;
}

/* A checkpoint's number that this version can take: whatever a checksum says, it is a double in a file. */
static bool is_usable(const struct kept *row, double value)
{
    if (is_word(row))
        return value >= 0 && value < 1024 && value == floor(value) && word_of(row, (int)value) != NULL;
    return row->kind == KEPT_WHOLE ? value >= 0 && value <= 0x1p53 : isfinite(value);
}

static const char *text_of(const struct kept *row, double value, char *text, size_t nbytes)
{
    if (is_word(row))
        snprintf(text, nbytes, "%s", word_of(row, (int)value));
    else if (row->unset != NULL && value < 0)
        snprintf(text, nbytes, "%s", row->unset);
    else if (row->offset == AT(loss_scale) && value == 0)
        snprintf(text, nbytes, "dynamic");
    else
        snprintf(text, nbytes, "%.12g", value);
    return text;
}

/* ---- saving and taking ---- */

void train_kept_name(kith_checkpoint_number *numbers)
{
    for (int i = 0; i < TRAIN_KEPT_COUNT; i++)
        numbers[i] =
            (kith_checkpoint_number){ i < TRAIN_KEPT_OPTIONS ? rows[i].name : others[i - TRAIN_KEPT_OPTIONS], NAN };
}

void train_kept_fill(const train_job *job, kith_checkpoint_number *numbers)
{
    const train_options *options = &job->options;
    train_kept_name(numbers);
    for (int i = 0; i < TRAIN_KEPT_OPTIONS; i++)
        numbers[i].value = value_of(options, &rows[i]);
    numbers[TRAIN_KEPT_MICRO_BATCH].value = (double)job->layout.micro_batch; // what was said, followed or was searched
    numbers[TRAIN_KEPT_STAGES].value = (double)job->layout.stages;
    numbers[TRAIN_KEPT_SEED].value = (double)(options->seed & UINT32_MAX);
    numbers[TRAIN_KEPT_SEED_HIGH].value = (double)(options->seed >> 32);
    numbers[TRAIN_KEPT_DATA_NBYTES].value = job->identity.nbytes;
    numbers[TRAIN_KEPT_DATA_HASH].value = job->identity.hash;
    numbers[TRAIN_KEPT_DATA_TOKENS].value = job->identity.tokens;
}

/* What the command line says in other words, or leaves no room for. */
static bool is_implied(const train_options *options, int kept)
{
    return (kept == TRAIN_KEPT_BATCH && options->micro_batch > 0 && options->microbatches > 0) ||
           (kept == TRAIN_KEPT_VALIDATION && options->validation != NULL);
}

static bool has_seed(const kith_checkpoint_number *kept, uint64_t *seed)
{
    double low = kept[TRAIN_KEPT_SEED].value, high = kept[TRAIN_KEPT_SEED_HIGH].value;
    if (!(low >= 0 && low <= UINT32_MAX && high >= 0 && high <= UINT32_MAX))
        return false;
    *seed = (uint64_t)low | (uint64_t)high << 32;
    return true;
}

bool train_kept_take(train_job *job)
{
    train_options *options = &job->options;
    const kith_checkpoint_number *kept = job->kept;
    uint64_t seed;
    for (int i = 0; i < TRAIN_KEPT_OPTIONS; i++)
        if (!is_said(options, i) && !is_implied(options, i) && is_usable(&rows[i], kept[i].value) &&
            !(i == TRAIN_KEPT_STEPS && kept[i].value == 0)) // a start, of which --steps 0 made a checkpoint
            set_value(options, &rows[i], kept[i].value);
    if (!is_said(options, TRAIN_KEPT_SEED) && has_seed(kept, &seed))
        options->seed = seed;
    options->rate.steps = options->steps;
    char text[TRAIN_SENTENCE];
    return train_options_fit(options, text, sizeof text) || train_wrong(job, "%s", text);
}

/* ---- comparing ---- */

static bool refuse(train_job *job, const char *what, const char *was, const char *is)
{
    return train_wrong(job,
                       "%s was trained with %s %s, and this run has %s: leave it out to go on, or begin anew with "
                       "--weights %s",
                       job->resumed, what, was, is, job->resumed);
}

static bool compare_seed(train_job *job)
{
    uint64_t seed;
    char was[24], is[24];
    if (!has_seed(job->kept, &seed) || seed == job->options.seed)
        return true;
    snprintf(was, sizeof was, "%llu", (unsigned long long)seed);
    snprintf(is, sizeof is, "%llu", (unsigned long long)job->options.seed);
    return refuse(job, "--seed", was, is);
}

/* The last step matters where the rate goes down to it. */
static bool is_told(const train_job *job, int row)
{
    bool is_constant =
        job->options.rate.kind == KITH_RATE_CONSTANT && job->kept[TRAIN_KEPT_DECAY].value == KITH_RATE_CONSTANT;
    return rows[row].change == KEPT_TOLD && !(row == TRAIN_KEPT_STEPS && is_constant);
}

static bool compare_options(train_job *job)
{
    char told[TRAIN_SENTENCE] = "", was[64], is[64];
    size_t used = 0;
    for (int i = 0; i < TRAIN_KEPT_OPTIONS; i++) {
        double before = job->kept[i].value, now = value_of(&job->options, &rows[i]);
        if (!is_usable(&rows[i], before) || before == now)
            continue;
        char flag[32];
        snprintf(flag, sizeof flag, "--%s", rows[i].flag);
        text_of(&rows[i], before, was, sizeof was);
        text_of(&rows[i], now, is, sizeof is);
        if (rows[i].change == KEPT_REFUSED)
            return refuse(job, flag, was, is);
        if (is_told(job, i) && used < sizeof told)
            used += (size_t)snprintf(told + used, sizeof told - used, "%s%s %s (was %s)", used > 0 ? ", " : "", flag,
                                     is, was);
    }
    if (used > 0 && job->rank == 0)
        train_tell(job, "not as before in %s: %s", job->resumed, told);
    return true;
}

static bool compare_data(train_job *job)
{
    const train_identity *now = &job->identity;
    const char *file = job->options.text != NULL ? job->options.text : job->options.tokens;
    double nbytes = job->kept[TRAIN_KEPT_DATA_NBYTES].value, hash = job->kept[TRAIN_KEPT_DATA_HASH].value;
    double tokens = job->kept[TRAIN_KEPT_DATA_TOKENS].value;
    if (isfinite(nbytes) && nbytes != now->nbytes)
        return train_wrong(
            job,
            "%s was trained on a file of %.0f bytes, and %s has %.0f: go on with the same data, or begin "
            "anew with --weights %s",
            job->resumed, nbytes, file, now->nbytes, job->resumed);
    if (isfinite(hash) && hash != now->hash)
        return train_wrong(job,
                           "%s was trained on a file of the same size as %s with other tokens: go on with the same "
                           "data, or begin anew with --weights %s",
                           job->resumed, file, job->resumed);
    if (isfinite(tokens) && tokens != now->tokens)
        return train_wrong(job,
                           "%s was trained on %.0f tokens of its file, and this run would be on %.0f: give "
                           "--validation and --validation-batches as they were",
                           job->resumed, tokens, now->tokens);
    return true;
}

bool train_kept_compare(train_job *job)
{
    return job->resumed == NULL || (compare_seed(job) && compare_options(job) && compare_data(job));
}
