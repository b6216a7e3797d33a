/* tools/train/job.c - what a rank is in the job: context, groups, plans of the pipeline, prediction; and how it says
 * what went wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <stdarg.h>
#include <string.h>

/* ---- failures ---- */

void train_tell(const train_job *job, const char *format, ...)
{
    va_list args;
    char text[2 * TRAIN_SENTENCE];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ki_say("train", job->rank, text);
}

bool train_wrong(train_job *job, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(job->sentence, sizeof job->sentence, format, args);
    va_end(args);
    return false;
}

bool train_no_memory(train_job *job, const char *format, ...)
{
    va_list args;
    size_t used = (size_t)snprintf(job->sentence, sizeof job->sentence, "no memory for ");
    va_start(args, format);
    vsnprintf(job->sentence + used, sizeof job->sentence - used, format, args);
    va_end(args);
    job->has_failed = true;
    return false;
}

bool train_check(train_job *job, kith_status status)
{
    if (status == KITH_OK)
        return true;
    const char *detail = kith_error_detail();
    job->has_failed |= status != KITH_ERR_INVALID_ARG && status != KITH_ERR_UNSUPPORTED && status != KITH_ERR_MISMATCH;
    return train_wrong(job, "%s", detail[0] != '\0' ? detail : kith_status_sentence(status));
}

bool train_agree(train_job *job, bool is_fine)
{
    if (ki_agree_over(job->ctx, "train", is_fine, job->sentence, &job->has_failed))
        return true;
    job->sentence[0] = '\0';
    return false;
}

/* ---- phases ---- */

bool train_job_join(train_job *job)
{
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.timeout_ms = (int64_t)(job->options.timeout_s * 1000);
    init.device = job->options.is_described ? "" : train_device_wanted(job->options.device);
    kith_status status = kith_init(&init, &job->ctx);
    if (status != KITH_OK) {
        train_check(job, status);
        train_tell(job, "%s", job->sentence);
        return false;
    }
    job->world = kith_world(job->ctx);
    job->rank = kith_rank(job->ctx);
    job->device = kith_ctx_device(job->ctx);
    return true;
}

/* Without --model a run that is resumed keeps that of its checkpoint. */
static bool find_model(train_job *job)
{
    const char *model = job->options.model;
    char path[4096];
    if (model == NULL && job->resumed != NULL) {
        snprintf(path, sizeof path, "%s/config.json", job->resumed);
        model = path;
    }
    snprintf(job->model_name, sizeof job->model_name, "%.255s", model != NULL ? model : train_model_name(0));
    job->config = (kith_transformer_config)KITH_TRANSFORMER_CONFIG_INIT;
    return train_config_find(model, &job->config, job->sentence, sizeof job->sentence);
}

bool train_job_lay_out(train_job *job)
{
    train_options *options = &job->options;
    if (!find_model(job))
        return false;
    if (options->dropout >= 0)
        job->config.dropout = job->config.attention_dropout = options->dropout;
    if (options->dtype == KITH_F16 && options->loss_scale == TRAIN_UNSCALED)
        options->loss_scale = 0; // or small gradients vanish
    int64_t positions = job->config.positions;
    if (options->sequence == 0)
        options->sequence = positions > 0 && positions < TRAIN_SEQUENCE_DEFAULT ? positions : TRAIN_SEQUENCE_DEFAULT;
    int world = kith_size(job->ctx);
    if (world == 1 && options->is_described)
        world = options->rank_count; // what would be started; 0: as many as the layout says
    return train_layout_find(options, &job->config, world, &job->layout, job->sentence, sizeof job->sentence);
}

/* The products of axes have the backend of the axis that they serve. */
static bool name_backends(train_job *job)
{
    const char *asked = job->options.backends;
    if (asked == NULL)
        return true;
    size_t used = (size_t)snprintf(job->backends, sizeof job->backends, "%s", asked);
    static const char *const follow[][2] = { { "dp=", ",ep-dp=" }, { "pp=", ",embed=" } };
    for (int i = 0; i < 2 && used < sizeof job->backends; i++) {
        const char *found = strncmp(asked, follow[i][0], 3) == 0 ? asked : NULL;
        char with_comma[8];
        snprintf(with_comma, sizeof with_comma, ",%s", follow[i][0]);
        if (found == NULL && (found = strstr(asked, with_comma)) != NULL)
            found++;
        if (found != NULL)
            used += (size_t)snprintf(job->backends + used, sizeof job->backends - used, "%s%.*s", follow[i][1],
                                     (int)strcspn(found + 3, ","), found + 3);
    }
    return used < sizeof job->backends || train_wrong(job, "--backend %s: too long", asked);
}

bool train_job_connect(train_job *job)
{
    const train_layout *layout = &job->layout;
    const kith_mesh_axis axes[] = {
        { "tp", layout->tp }, { "ep", layout->ep }, { "dp", layout->dp }, { "pp", layout->pp }
    };
    if (!name_backends(job))
        return false;
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.order = "tp-ep-dp-pp";
    options.products = "ep-dp";
    options.backends = job->backends[0] != '\0' ? job->backends : NULL;
    if (!train_check(job, kith_mesh_create(job->world, axes, 4, &options, &job->mesh)))
        return false;
    job->tp = kith_mesh_group(job->mesh, "tp");
    job->pp = kith_mesh_group(job->mesh, "pp");
    job->dp = kith_mesh_group(job->mesh, "dp");
    job->ep = kith_mesh_group(job->mesh, "ep");
    job->data = kith_mesh_group(job->mesh, "ep-dp");
    job->embed = kith_mesh_group(job->mesh, "embed");
    job->pp_rank = kith_mesh_coord(job->mesh, "pp");
    job->data_rank = kith_group_rank(job->data);
    return true;
}

bool train_job_schedule(train_job *job)
{
    kith_schedule_options plan = KITH_SCHEDULE_OPTIONS_INIT;
    plan.kind = job->layout.schedule;
    plan.ranks = job->layout.pp;
    plan.microbatches = (int)job->layout.microbatches;
    plan.chunks = job->layout.chunks;
    plan.is_fifo_backward = 1; // all plans add up microbatches in one order
    if (!train_check(job, kith_schedule_create(&plan, &job->schedule)))
        return false;
    plan.is_forward_only = 1;
    return train_check(job, kith_schedule_create(&plan, &job->evaluation));
}

void train_job_predict(train_job *job)
{
    kith_model model = train_config_model(job->model_name, &job->config);
    kith_plan_options options = train_layout_plan(&job->options, &job->layout);
    kith_status status = kith_plan_make(NULL, &model, &options, &job->plan);
    job->has_plan = status == KITH_OK;
    if (!job->has_plan)
        snprintf(job->no_plan, sizeof job->no_plan, "%s", kith_error_detail());
}

void train_job_leave(train_job *job, bool is_failed)
{
    kith_schedule_destroy(job->schedule);
    kith_schedule_destroy(job->evaluation);
    kith_free(job->resumed);
    if (job->ctx == NULL)
        return;
    if (is_failed) {
        kith_abandon(job->ctx);
        return;
    }
    kith_mesh_destroy(job->mesh);
    kith_finalize(job->ctx);
}
