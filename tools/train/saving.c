/* tools/train/saving.c - checkpoints: weights, optimizer, and the numbers that the next step depends on.
 *
 * A step depends on its number and the seed (which batches, which dropout), on weights and optimizer, and on the loss
 * scale. The seed has 64 bits and is kept in two numbers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP, SEED_LOW, SEED_HIGH, SAMPLES, SCALE, GOOD_STEPS, NUMBERS };

static void name_numbers(kith_checkpoint_number *numbers)
{
    static const char *const names[NUMBERS] = { "step",    "seed_low",   "seed_high",
                                                "samples", "loss_scale", "loss_scale_good_steps" };
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (kith_checkpoint_number){ names[i], 0 };
}

kith_status train_save(const train_engine *engine)
{
    const train_job *job = engine->job;
    kith_checkpoint_number numbers[NUMBERS];
    name_numbers(numbers);
    numbers[STEP].value = (double)engine->step;
    numbers[SEED_LOW].value = (double)(job->options.seed & UINT32_MAX);
    numbers[SEED_HIGH].value = (double)(job->options.seed >> 32);
    numbers[SAMPLES].value = (double)engine->step * (double)train_layout_samples(&job->layout);
    numbers[SCALE].value = engine->scale.scale;
    numbers[GOOD_STEPS].value = (double)engine->scale.good_steps;
    kith_checkpoint_place place = train_model_place(job, engine->model);
    kith_status status = kith_checkpoint_save(&place, job->options.save, engine->step, numbers, NUMBERS);
    return status == KITH_OK ? kith_checkpoint_prune(job->world, job->options.save, job->options.keep, engine->step)
                             : status;
}

/* ---- where they are ---- */

bool train_try_saving(train_job *job)
{
    const char *folder = job->options.save;
    struct stat info;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return train_wrong(job, "--save %s cannot be made: %s", folder, strerror(errno));
    bool is_folder = stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
        return true;
    return train_wrong(job, "--save %s cannot be written: %s", folder, strerror(is_folder ? errno : ENOTDIR));
}

/* What kith_checkpoint_newest() passes over is a warning in the library's log: "rank 0: checkpoint ...". */
static void tell_warning(void *job, kith_log_level level, const char *line)
{
    const char *text = strstr(line, "checkpoint ");
    if (level == KITH_LOG_WARN)
        train_tell(job, "%s", text != NULL ? text : line);
}

static kith_status find_newest(train_job *job, int64_t *step)
{
    kith_log_set(tell_warning, job, KITH_LOG_WARN);
    kith_status status = kith_checkpoint_newest(job->world, job->options.resume, &job->resumed, step);
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    return status;
}

/* Whether what it goes on from need not be saved again. */
static bool is_in_place(const train_job *job, int64_t step)
{
    char path[4096];
    struct stat resumed, saved;
    int length = snprintf(path, sizeof path, "%s/step-%08lld", job->options.save, (long long)step);
    return length < (int)sizeof path && stat(path, &saved) == 0 && stat(job->resumed, &resumed) == 0 &&
           saved.st_dev == resumed.st_dev && saved.st_ino == resumed.st_ino;
}

/* Rank 0 looks: all of them save, or none does. */
bool train_find_checkpoint(train_job *job)
{
    int64_t step;
    if (job->options.resume == NULL)
        return true;
    if (!train_check(job, find_newest(job, &step)))
        return false;
    int32_t is_there = job->rank == 0 && job->options.save != NULL && is_in_place(job, step);
    kith_status status = kith_broadcast(job->world, &is_there, 1, KITH_INT32, 0);
    job->is_resumed_in_place = is_there != 0;
    return train_check(job, status);
}

/* ---- going on ---- */

/* Layers and data have begun with the seed of the options. */
static bool is_same_seed(train_job *job, const kith_checkpoint_number *numbers)
{
    uint64_t seed = (uint64_t)numbers[SEED_LOW].value | (uint64_t)numbers[SEED_HIGH].value << 32;
    return seed == job->options.seed ||
           train_wrong(job, "%s was trained with --seed %llu: say so to go on, or begin anew from its --weights",
                       job->resumed, (unsigned long long)seed);
}

/* Batches of another size are chosen anew: the run goes on, but not over the samples that an unbroken one would take.
 */
static void compare_samples(const train_engine *engine, double samples)
{
    const train_job *job = engine->job;
    double would_be = (double)engine->step * (double)train_layout_samples(&job->layout);
    if (job->rank == 0 && engine->step > 0 && samples != would_be)
        train_tell(job, "the checkpoint's steps had %.0f samples, this run's have %lld", samples / (double)engine->step,
                   (long long)train_layout_samples(&job->layout));
}

bool train_resume(train_engine *engine)
{
    train_job *job = engine->job;
    if (job->resumed == NULL)
        return true;
    kith_checkpoint_number numbers[NUMBERS];
    name_numbers(numbers);
    kith_checkpoint_place place = train_model_place(job, engine->model);
    if (!train_check(job, kith_checkpoint_load(&place, job->resumed, numbers, NUMBERS)))
        return false;
    if (!is_same_seed(job, numbers))
        return false;
    engine->step = (int64_t)numbers[STEP].value;
    if (job->options.has_loss_scale) {
        engine->scale.scale = numbers[SCALE].value;
        engine->scale.good_steps = (int64_t)numbers[GOOD_STEPS].value;
    }
    compare_samples(engine, numbers[SAMPLES].value);
    return true;
}
