/* tools/train/timeline.c - a picture of the last step: as it was measured, and as it would be by the plan if every
 * stage always took its mean and messages no time. Both on one scale, in milliseconds.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include "../schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS 1e-3

/* Intervals of all ranks of this rank's pipeline, one after the other on its first rank; starts[r] is where those of
 * rank r begin. */
typedef struct gathered {
    kith_interval *intervals;
    const kith_interval **starts;
} gathered;

static kith_status gather(const train_engine *engine, gathered *all)
{
    const train_job *job = engine->job;
    const kith_schedule *plan = kith_pipeline_schedule(engine->pipeline);
    size_t ranks = (size_t)job->layout.pp, sum = 0, own;
    size_t *counts = calloc(ranks, sizeof *counts);
    all->starts = calloc(ranks, sizeof *all->starts);
    for (size_t r = 0; counts != NULL && r < ranks; r++) {
        kith_schedule_actions(plan, (int)r, &counts[r]);
        sum += counts[r] *= 2; // doubles
    }
    all->intervals = counts != NULL ? malloc((sum + 1) * sizeof(double)) : NULL;
    bool has_memory = all->intervals != NULL && all->starts != NULL;
    kith_status status = kith_agree(job->pp, has_memory ? KITH_OK : KITH_ERR_NO_MEMORY);
    const kith_interval *at = kith_pipeline_intervals(engine->pipeline, &own);
    if (status == KITH_OK)
        status = kith_gather_v(job->pp, at, 2 * own, all->intervals, counts, NULL, KITH_F64, 0);
    const kith_interval *next = all->intervals;
    for (size_t r = 0; status == KITH_OK && r < ranks; r++) {
        all->starts[r] = next;
        next += counts[r] / 2;
    }
    if (status == KITH_OK && job->pp_rank == 0)
        for (size_t i = 0; i < sum / 2; i++)
            all->intervals[i] = (kith_interval){ all->intervals[i].start / MS, all->intervals[i].end / MS };
    free(counts);
    return status;
}

static bool draw(train_job *job, const ki_schedule_view *views, const char *path)
{
    const char *error;
    ki_drawing *drawing = ki_schedule_drawing(views, 2, &error);
    if (drawing == NULL)
        return train_wrong(job, "--timeline: %s", error);
    FILE *out = fopen(path, "w");
    if (out != NULL)
        ki_drawing_svg(drawing, false, out);
    ki_drawing_destroy(drawing);
    if (out == NULL || !train_file_close(out))
        return train_wrong(job, "--timeline %s cannot be written: %s", path, strerror(errno));
    return true;
}

static bool write_picture(const train_engine *engine, const train_costs *costs, const gathered *all, const char *path)
{
    train_job *job = engine->job;
    char measured[128], planned[128];
    kith_schedule *ran = NULL;
    kith_simulation *run = NULL;
    if (!train_check(job, kith_schedule_copy(kith_pipeline_schedule(engine->pipeline), &ran)) ||
        !train_check(job, train_costs_simulate(job, costs, MS, &run))) {
        kith_schedule_destroy(ran);
        return false;
    }
    const char *kind = kith_schedule_kind_name(job->layout.schedule);
    snprintf(measured, sizeof measured, "%s, step %lld as it was measured, in ms", kind, (long long)engine->step);
    snprintf(planned, sizeof planned, "%s as planned, with the mean times of the stages", kind);
    ki_schedule_view views[2] = { { measured, ran, NULL, all->starts }, { planned, job->schedule, run, NULL } };
    bool is_fine = draw(job, views, path);
    kith_simulation_destroy(run);
    kith_schedule_destroy(ran);
    return is_fine;
}

bool train_timeline_write(const train_engine *engine, const train_costs *costs, const char *path)
{
    gathered all = { 0 };
    train_job *job = engine->job;
    bool is_fine = train_check(job, gather(engine, &all));
    if (is_fine && job->rank == 0)
        is_fine = write_picture(engine, costs, &all, path);
    free(all.intervals);
    free(all.starts);
    return is_fine;
}
