/* tools/train/options.c - the flags of `kith train`, and what belongs together.
 *
 * What depends on the number of ranks is settled later (settle.c): under a launcher that number is known only after
 * kith_init().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "options.h"
#include "../flags.h"

#include "../run.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AXIS_MAX (1 << 20)
#define COUNT_MAX 1e9
#define SECONDS_MAX (366.0 * 24 * 3600)
#define MIB 1048576.0
#define AT(field) offsetof(train_options, field)

static const char *const optimizer_words[] = { [KITH_ADAMW] = "adamw", [KITH_SGD] = "sgd", NULL };
static const char *const decay_words[] = {
    [KITH_RATE_CONSTANT] = "constant", [KITH_RATE_LINEAR] = "linear", [KITH_RATE_COSINE] = "cosine", NULL
};
static const char *const recompute_words[] = {
    [KITH_RECOMPUTE_NONE] = "none", [KITH_RECOMPUTE_SELECTIVE] = "selective", [KITH_RECOMPUTE_FULL] = "full", NULL
};

/* ---- values that are more than a number, a file or a word ---- */

static int read_schedule(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    train_options *o = into;
    kith_schedule_kind kind;
    if (kith_schedule_kind_named(value, &kind) != KITH_OK || kind == KITH_SCHEDULE_CUSTOM) {
        char names[256] = "";
        for (int i = 0; i < KITH_SCHEDULE_CUSTOM; i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                     kith_schedule_kind_name((kith_schedule_kind)i));
        }
        return ki_usage_error(command, "--%s %s is not one of %s", flag->name, value, names);
    }
    o->schedule = kind;
    o->has_schedule = true;
    return KI_EXIT_OK;
}

static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

static int read_dtype(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(kith_dtype_name(dtypes[i]), value) == 0) {
            ((train_options *)into)->dtype = dtypes[i];
            return KI_EXIT_OK;
        }
    return ki_usage_error(command, "--%s %s is not one of f32, f64, bf16, f16", flag->name, value);
}

static int read_token_type(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    int nbytes = strcmp(value, "u16") == 0 ? 2 : strcmp(value, "u32") == 0 ? 4 : 0;
    if (nbytes == 0)
        return ki_usage_error(command, "--%s %s is not one of u16, u32", flag->name, value);
    ((train_options *)into)->token_nbytes = nbytes;
    return KI_EXIT_OK;
}

static int read_loss_scale(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    train_options *o = into;
    o->loss_scale = 0;
    if (strcmp(value, "dynamic") == 0 || (ki_parse_number(value, 0, 1e12, &o->loss_scale) && o->loss_scale > 0))
        return KI_EXIT_OK;
    return ki_usage_error(command, "--%s %s: it must be dynamic, or a number above 0, at most 1e12", flag->name, value);
}

static int read_bucket(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    double mib;
    if (!ki_parse_number(value, 0.001, 4096, &mib))
        return ki_usage_error(command, "--%s %s: it must be a number from 0.001 to 4096", flag->name, value);
    ((train_options *)into)->optim.bucket_nbytes = (size_t)(mib * MIB);
    return KI_EXIT_OK;
}

static bool is_backend_name(const char *text, size_t nbytes)
{
    return nbytes > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") >= nbytes;
}

/* One part of --backend: "tp=shm" goes behind what `axes` has, a name alone is the backend of the rest. False when it
 * is neither, or is said twice. */
static bool take_backend(const char *part, size_t nbytes, char *axes, char *rest)
{
    static const char *const known[] = { "tp=", "pp=", "dp=", "ep=" };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(part, known[i], 3) != 0)
            continue;
        if (strstr(axes, known[i]) != NULL || !is_backend_name(part + 3, nbytes - 3))
            return false;
        if (axes[0] != '\0')
            strcat(axes, ",");
        strncat(axes, part, nbytes);
        return true;
    }
    if (rest[0] != '\0' || !is_backend_name(part, nbytes))
        return false;
    memcpy(rest, part, nbytes);
    return true;
}

/* The backend of all groups that are not named goes the way of every setting, through the environment: the world's
 * group is made by kith_init(), and the ranks that this command starts inherit it. */
static int read_backend(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    train_options *o = into;
    size_t nbytes = strlen(value);
    char *axes = calloc(2, nbytes + 2);
    if (axes == NULL)
        return ki_usage_error(command, "memory is short");
    char *rest = axes + nbytes + 2;
    bool is_fine = true;
    for (const char *part = value; is_fine; part += strcspn(part, ",") + 1) {
        size_t part_nbytes = strcspn(part, ",");
        is_fine = take_backend(part, part_nbytes, axes, rest);
        if (part[part_nbytes] == '\0')
            break;
    }
    if (!is_fine) {
        free(axes);
        return ki_usage_error(command,
                              "--%s %s: it must be the name of a backend, or one for each axis of tp, pp, dp, ep, as "
                              "in tp=shm,pp=ucx; 'kith info' lists them",
                              flag->name, value);
    }
    if (rest[0] != '\0')
        setenv("KITH_BACKEND", rest, 1);
    free(o->backends_text);
    o->backends_text = axes;
    o->backends = axes[0] != '\0' ? axes : NULL;
    return KI_EXIT_OK;
}

/* ---- all flags ---- */

/* Indices of the flags that checks speak of; the rest of the table has none. */
enum { RANKS, TP, PP, DP, EP, TOKEN_TYPE, SAVE_EVERY, KEEP };

static const ki_flag flags[] = {
    [RANKS] = { "ranks", FLAG_INT, AT(rank_count), 1, KI_RUN_RANKS_MAX, NULL, NULL },
    [TP] = { "tp", FLAG_INT, AT(tp), 1, AXIS_MAX, NULL, NULL },
    [PP] = { "pp", FLAG_INT, AT(pp), 1, AXIS_MAX, NULL, NULL },
    [DP] = { "dp", FLAG_INT, AT(dp), 1, AXIS_MAX, NULL, NULL },
    [EP] = { "ep", FLAG_INT, AT(ep), 1, AXIS_MAX, NULL, NULL },
    [TOKEN_TYPE] = { "token-type", FLAG_OWN, 0, 0, 0, NULL, read_token_type },
    [SAVE_EVERY] = { "save-every", FLAG_INT64, AT(save_every), 0, COUNT_MAX, NULL, NULL },
    [KEEP] = { "keep", FLAG_INT, AT(keep), 0, 1e6, NULL, NULL },

    { "sp", FLAG_SWITCH, AT(is_sequence_parallel), 0, 0, NULL, NULL },
    { "zero1", FLAG_SWITCH, AT(is_sharded), 0, 0, NULL, NULL },
    { "schedule", FLAG_OWN, 0, 0, 0, NULL, read_schedule },
    { "chunks", FLAG_INT, AT(chunks), 1, 64, NULL, NULL },
    { "recompute", FLAG_WORD, AT(recompute), 0, 0, recompute_words, NULL },
    { "auto", FLAG_SWITCH, AT(is_auto), 0, 0, NULL, NULL },
    { "backend", FLAG_OWN, 0, 0, 0, NULL, read_backend },

    { "text", FLAG_TEXT, AT(text), 0, 0, NULL, NULL },
    { "tokens", FLAG_TEXT, AT(tokens), 0, 0, NULL, NULL },
    { "validation", FLAG_TEXT, AT(validation), 0, 0, NULL, NULL },
    { "batch", FLAG_INT64, AT(micro_batch), 1, 1 << 20, NULL, NULL },
    { "microbatches", FLAG_INT64, AT(microbatches), 1, 1 << 20, NULL, NULL },
    { "global-batch", FLAG_INT64, AT(global_batch), 1, TRAIN_GLOBAL_BATCH_MAX, NULL, NULL },
    { "seq", FLAG_INT64, AT(sequence), 1, 1 << 24, NULL, NULL },
    { "validate-every", FLAG_INT64, AT(validate_every), 0, COUNT_MAX, NULL, NULL },
    { "validation-batches", FLAG_INT64, AT(validation_batches), 0, 1e6, NULL, NULL },

    { "model", FLAG_TEXT, AT(model), 0, 0, NULL, NULL },
    { "weights", FLAG_TEXT, AT(weights), 0, 0, NULL, NULL },
    { "dropout", FLAG_BELOW, AT(dropout), 0, 1, NULL, NULL },
    { "dtype", FLAG_OWN, 0, 0, 0, NULL, read_dtype },
    { "device", FLAG_TEXT, AT(device), 0, 0, NULL, NULL },
    { "tf32", FLAG_SWITCH, AT(allows_tf32), 0, 0, NULL, NULL },

    { "steps", FLAG_INT64, AT(steps), 0, COUNT_MAX, NULL, NULL },
    { "seed", FLAG_BITS64, AT(seed), 0, 0, NULL, NULL },
    { "optimizer", FLAG_WORD, AT(optim.kind), 0, 0, optimizer_words, NULL },
    { "lr", FLAG_ABOVE, AT(rate.peak), 0, 100, NULL, NULL },
    { "warmup", FLAG_INT64, AT(rate.warmup), 0, COUNT_MAX, NULL, NULL },
    { "decay", FLAG_WORD, AT(rate.kind), 0, 0, decay_words, NULL },
    { "min-lr", FLAG_REAL, AT(rate.minimum), 0, 100, NULL, NULL },
    { "beta1", FLAG_BELOW, AT(optim.beta1), 0, 1, NULL, NULL },
    { "beta2", FLAG_BELOW, AT(optim.beta2), 0, 1, NULL, NULL },
    { "eps", FLAG_ABOVE, AT(optim.epsilon), 0, 1, NULL, NULL },
    { "momentum", FLAG_BELOW, AT(optim.momentum), 0, 1, NULL, NULL },
    { "weight-decay", FLAG_REAL, AT(optim.weight_decay), 0, 100, NULL, NULL },
    { "clip", FLAG_REAL, AT(optim.clip_norm), 0, 1e12, NULL, NULL },
    { "loss-scale", FLAG_OWN, 0, 0, 0, NULL, read_loss_scale },
    { "bucket-mb", FLAG_OWN, 0, 0, 0, NULL, read_bucket },

    { "save", FLAG_TEXT, AT(save), 0, 0, NULL, NULL },
    { "resume", FLAG_TEXT, AT(resume), 0, 0, NULL, NULL },
    { "json-log", FLAG_TEXT, AT(json_log), 0, 0, NULL, NULL },
    { "trace", FLAG_TEXT, AT(trace), 0, 0, NULL, NULL },
    { "timeline", FLAG_TEXT, AT(timeline), 0, 0, NULL, NULL },
    { "describe", FLAG_SWITCH, AT(is_described), 0, 0, NULL, NULL },
    { "threads", FLAG_INT, AT(threads), 0, 1024, NULL, NULL },
    { "timeout", FLAG_REAL, AT(timeout_s), 0, SECONDS_MAX, NULL, NULL },
    { "debug", FLAG_SWITCH, AT(is_debug), 0, 0, NULL, NULL },
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])
_Static_assert(FLAG_COUNT <= KI_FLAGS_MAX, "a longer table is needed");

/* ---- what belongs together; each returns the exit status ---- */

static int check_data(const train_options *o, const bool *seen)
{
    const ki_command *command = &ki_command_train;
    if (o->text != NULL && o->tokens != NULL)
        return ki_usage_error(command, "give either --text FILE or --tokens FILE, not both");
    if (o->text == NULL && o->tokens == NULL && !o->is_described)
        return ki_usage_error(command, "what to train on is missing: --text FILE, or --tokens FILE");
    if (seen[TOKEN_TYPE] && o->tokens == NULL)
        return ki_usage_error(command, "--token-type goes with --tokens");
    if (o->validation != NULL && o->validation_batches == 0)
        return ki_usage_error(command, "--validation FILE has no use with --validation-batches 0");
    return KI_EXIT_OK;
}

static int check_work(const train_options *o, const bool *seen)
{
    const ki_command *command = &ki_command_train;
    if (train_device_check(command, o->device) != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if (o->allows_tf32 && o->dtype != KITH_F32)
        return ki_usage_error(command, "--tf32 goes with --dtype f32");
    if (o->is_auto && (seen[TP] || seen[PP] || seen[DP] || seen[EP]))
        return ki_usage_error(command, "--auto chooses tp, pp, dp and ep; leave out either it or these");
    if (o->weights != NULL && o->resume != NULL)
        return ki_usage_error(command, "weights come from --weights or from --resume, not from both");
    if (o->save == NULL && (seen[SAVE_EVERY] || seen[KEEP]))
        return ki_usage_error(command, "--%s goes with --save DIR", seen[KEEP] ? "keep" : "save-every");
    char sentence[256];
    if (o->resume == NULL && !train_options_fit(o, sentence, sizeof sentence))
        return ki_usage_error(command, "%s", sentence);
    return KI_EXIT_OK;
}

bool train_options_fit(const train_options *o, char *sentence, size_t nbytes)
{
    static const struct {
        train_kept flag;
        kith_optim_kind kind;
    } owned[] = { { TRAIN_KEPT_MOMENTUM, KITH_SGD },
                  { TRAIN_KEPT_BETA1, KITH_ADAMW },
                  { TRAIN_KEPT_BETA2, KITH_ADAMW },
                  { TRAIN_KEPT_EPSILON, KITH_ADAMW } };
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        if (o->optim.kind != owned[i].kind && (o->said & UINT32_C(1) << owned[i].flag) != 0) {
            snprintf(sentence, nbytes, "--%s goes with --optimizer %s", train_kept_flag((int)owned[i].flag),
                     optimizer_words[owned[i].kind]);
            return false;
        }
    if ((o->said & UINT32_C(1) << TRAIN_KEPT_MIN_RATE) != 0 && o->rate.kind == KITH_RATE_CONSTANT)
        snprintf(sentence, nbytes, "--min-lr goes with --decay linear or cosine");
    else if (o->rate.minimum > o->rate.peak)
        snprintf(sentence, nbytes, "--min-lr %g is above --lr %g", o->rate.minimum, o->rate.peak);
    else if (o->rate.warmup > o->steps)
        snprintf(sentence, nbytes, "--warmup %lld: there are only %lld steps", (long long)o->rate.warmup,
                 (long long)o->steps);
    else
        return true;
    return false;
}

/* The folder of a path, and the name in it. */
static bool find_folder(const char *path, struct stat *folder, const char **name)
{
    const char *slash = strrchr(path, '/');
    char *text = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    bool is_there = text != NULL && stat(text, folder) == 0;
    *name = slash == NULL ? path : slash + 1;
    free(text);
    return is_there;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const char *name_a, *name_b;
    if (a == NULL || b == NULL)
        return false;
    if (strcmp(a, b) == 0)
        return true;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0)
        return S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    return find_folder(a, &of_a, &name_a) && find_folder(b, &of_b, &name_b) && strcmp(name_a, name_b) == 0 &&
           of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* A file that is written must not be one that is read, or written by another part; whatever it is called: one that is
 * not there yet is the same as another when both have one name in one folder. */
static int check_files(const train_options *o)
{
    const char *const written[] = { o->json_log, o->trace, o->timeline };
    const char *const read[] = { o->text, o->tokens, o->validation, o->weights, o->model };
    for (size_t i = 0; i < 3; i++) {
        bool is_twice = false;
        for (size_t j = i + 1; j < 3; j++)
            is_twice |= is_same_file(written[i], written[j]);
        for (size_t j = 0; j < sizeof read / sizeof read[0]; j++)
            is_twice |= is_same_file(written[i], read[j]);
        if (is_twice)
            return ki_usage_error(&ki_command_train, "%s would be written over: it is named twice", written[i]);
    }
    return KI_EXIT_OK;
}

/* Sizes that can be compared before there are ranks. Under a launcher their number is not known here. */
static int check_sizes(const train_options *o)
{
    train_options tried = *o;
    char *sentence = o->rank_count > 0 ? train_options_settle(&tried, o->rank_count) : NULL;
    int status = sentence == NULL ? KI_EXIT_OK : ki_usage_error(&ki_command_train, "%s", sentence);
    free(sentence);
    return status;
}

static train_options defaults(void)
{
    train_options o = {
        .schedule = KITH_SCHEDULE_1F1B,
        .steps = 100,
        .optim = KITH_OPTIM_OPTIONS_INIT,
        .rate = { .kind = KITH_RATE_CONSTANT, .peak = 1e-3 },
        .dtype = KITH_F32,
        .dropout = -1,
        .loss_scale = TRAIN_UNSCALED,
        .validation_batches = 4,
    };
    o.optim.clip_norm = 1;
    return o;
}

const char *train_decay_word(int kind)
{
    return kind >= 0 && kind <= KITH_RATE_COSINE ? decay_words[kind] : NULL;
}

const char *train_dtype_word(int dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if ((int)dtypes[i] == dtype)
            return kith_dtype_name(dtypes[i]);
    return NULL;
}

/* Which of the flags that a checkpoint keeps were there. */
static uint32_t find_said(const bool *seen)
{
    uint32_t said = 0;
    for (int kept = 0; train_kept_flag(kept) != NULL; kept++)
        for (size_t i = 0; i < FLAG_COUNT; i++)
            if (seen[i] && strcmp(flags[i].name, train_kept_flag(kept)) == 0)
                said |= UINT32_C(1) << kept;
    return said;
}

int train_options_read(int argc, char **argv, train_options *options, char **rest)
{
    bool seen[FLAG_COUNT] = { false };
    *options = defaults();
    int status = ki_flags_read(&ki_command_train, flags, FLAG_COUNT, argc, argv, options, seen, rest);
    options->said = find_said(seen);
    options->rate.steps = options->steps;
    options->optim.is_sharded = options->is_sharded;
    if (status == KI_EXIT_OK)
        status = check_data(options, seen);
    if (status == KI_EXIT_OK)
        status = check_work(options, seen);
    if (status == KI_EXIT_OK)
        status = check_files(options);
    if (status == KI_EXIT_OK)
        status = check_sizes(options);
    return status;
}

void train_options_free(train_options *options)
{
    free(options->backends_text);
    options->backends_text = NULL;
    options->backends = NULL;
}
