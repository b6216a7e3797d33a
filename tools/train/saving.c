/* tools/train/saving.c - checkpoints: weights, optimizer, and the numbers that the next step depends on.
 *
 * A step depends on its number, on weights and optimizer, on the loss scale, and on the options that kept.c has.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP, SAMPLES, SCALE, GOOD_STEPS, NUMBERS };

static void name_numbers(kith_checkpoint_number *numbers)
{
    static const char *const names[NUMBERS] = { "step", "samples", "loss_scale", "loss_scale_good_steps" };
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (kith_checkpoint_number){ names[i], 0 };
}

kith_status train_save(const train_engine *engine)
{
    const train_job *job = engine->job;
    kith_checkpoint_number numbers[NUMBERS + TRAIN_KEPT_COUNT];
    name_numbers(numbers);
    train_kept_fill(job, numbers + NUMBERS);
    numbers[STEP].value = (double)engine->step;
    numbers[SAMPLES].value = (double)engine->step * (double)train_layout_samples(&job->layout);
    numbers[SCALE].value = engine->scale.scale;
    numbers[GOOD_STEPS].value = (double)engine->scale.good_steps;
    kith_checkpoint_place place = train_model_place(job, engine->model);
    kith_status status =
        kith_checkpoint_save(&place, job->options.save, engine->step, numbers, NUMBERS + TRAIN_KEPT_COUNT);
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
    train_kept_name(job->kept);
    if (job->options.resume == NULL)
        return true;
    if (!train_check(job, train_find_newest(job->ctx, "train", job->options.resume, &job->resumed, &step)) ||
        !train_check(job, kith_checkpoint_read_numbers(job->world, job->resumed, job->kept, TRAIN_KEPT_COUNT)))
        return false;
    int32_t is_there = job->rank == 0 && job->options.save != NULL && is_in_place(job, step);
    kith_status status = kith_broadcast(job->world, &is_there, 1, KITH_INT32, 0);
    job->is_resumed_in_place = is_there != 0;
    return train_check(job, status) && train_kept_take(job);
}

/* ---- going on ---- */

/* Of a checkpoint that does not say what its batch was: batches of another size are chosen anew, and the run goes on,
 * but not over the samples that an unbroken one would take. */
static void compare_samples(const train_engine *engine, double samples)
{
    const train_job *job = engine->job;
    double would_be = (double)engine->step * (double)train_layout_samples(&job->layout);
    if (isnan(job->kept[TRAIN_KEPT_BATCH].value) && job->rank == 0 && engine->step > 0 && samples != would_be)
        train_tell(job, "the checkpoint's steps had %.0f samples, this run's have %lld", samples / (double)engine->step,
                   (long long)train_layout_samples(&job->layout));
}

/* A scale that was found is gone on from where one is looked for; one that was said is that. */
static void resume_scale(train_engine *engine, double scale, double good_steps)
{
    const train_job *job = engine->job;
    double before = job->kept[TRAIN_KEPT_SCALING].value;
    bool was_scaled = isnan(before) ? scale != 1 : before != TRAIN_UNSCALED;
    if (job->options.loss_scale != 0 || !was_scaled || !(scale > 0))
        return;
    engine->scale.scale = scale;
    engine->scale.good_steps = (int64_t)good_steps;
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
    engine->step = (int64_t)numbers[STEP].value;
    resume_scale(engine, numbers[SCALE].value, numbers[GOOD_STEPS].value);
    compare_samples(engine, numbers[SAMPLES].value);
    return true;
}
