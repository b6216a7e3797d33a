/* tests/schedules/pipeline_cases.c - pipeline_cases --case NAME [--backend NAME] [-n RANKS] [--threads | --environment]
 *                                                   [--argument TEXT] [--set name=value]... [--timeout SECONDS]
 *
 * `--argument brief` tries fewer plans. `pipeline_cases --list` prints the names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline_cases.h"

#include <kith/pipeline.h>
#include <string.h>

enum { SETTINGS = 16 };

bool is_brief(const rank_info *info)
{
    return info->argument != NULL && strcmp(info->argument, "brief") == 0;
}

bool trial_plan_on(trial *t, int ranks, int rank, kith_schedule_kind kind, int microbatches, int chunks,
                   const toy_options *o)
{
    memset(t, 0, sizeof *t);
    t->plan = toy_plan(kind, ranks, microbatches, chunks, false);
    if (t->plan == NULL)
        return false;
    toy_options options = *o;
    options.microbatches = microbatches;
    snprintf(t->what, sizeof t->what, "%s of %d ranks, %d stages, %d microbatches", kith_schedule_kind_name(kind),
             ranks, kith_schedule_stages(t->plan), microbatches);
    toy_create(&t->toy, &options, t->plan, rank);
    t->options = toy_pipeline_options(&t->toy);
    return true;
}

bool trial_plan(trial *t, const rank_info *info, kith_schedule_kind kind, int microbatches, int chunks,
                const toy_options *o)
{
    return trial_plan_on(t, info->size, info->rank, kind, microbatches, chunks, o);
}

void trial_start(trial *t, kith_group *group)
{
    kith_pipeline_callbacks callbacks = toy_callbacks(&t->toy);
    kith_device *device = kith_ctx_device(kith_group_ctx(group));
    if (device != NULL) { /* KITH_DEVICE: messages lie there */
        REQUIRE_OK(kith_stream_create(device, &t->toy.stream));
        t->options.device = device;
        t->options.stream = t->toy.stream;
        t->options.is_ordered = 0; /* which is the host's */
    }
    kith_status status = kith_pipeline_create(t->plan, group, &callbacks, &t->options, &t->pipeline);
    if (status != KITH_OK)
        rank_fail(__FILE__, __LINE__, "%s: %s: %s", t->what, kith_status_name(status), kith_error_detail());
    toy_attach(&t->toy, t->pipeline);
}

void trial_end(trial *t)
{
    kith_pipeline_destroy(t->pipeline);
    REQUIRE_OK(kith_stream_destroy(t->toy.stream));
    toy_destroy(&t->toy);
    kith_schedule_destroy(t->plan);
}

static const pipeline_case *const tables[] = { pipeline_results, pipeline_trouble, pipeline_meeting, pipeline_files,
                                               pipeline_progress };

static const pipeline_case *find(const char *name, bool is_listing)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const pipeline_case *c = tables[i]; c->name != NULL; c++) {
            if (is_listing)
                puts(c->name);
            else if (strcmp(c->name, name) == 0)
                return c;
        }
    return NULL;
}

static int usage(const char *why)
{
    fprintf(stderr,
            "pipeline_cases: %s\nusage: pipeline_cases --case NAME [--backend NAME] [-n RANKS] "
            "[--threads | --environment] [--argument TEXT] [--set name=value]... [--timeout SECONDS] | --list\n",
            why);
    return 2;
}

int main(int argc, char **argv)
{
    static kith_setting settings[SETTINGS];
    run_options options = { .mode = LAUNCH_FORK, .size = 4, .settings = settings, .timeout_s = 100 };
    const char *name = "", *argument = NULL;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--list") == 0) {
            find("", true);
            return 0;
        }
        if (strcmp(option, "--threads") == 0 || strcmp(option, "--environment") == 0) {
            options.mode = option[2] == 't' ? LAUNCH_THREADS : LAUNCH_ENVIRONMENT;
            continue;
        }
        if (value == NULL)
            return usage("an option lacks its value");
        i++;
        if (strcmp(option, "--case") == 0)
            name = value;
        else if (strcmp(option, "--backend") == 0)
            options.backend = value;
        else if (strcmp(option, "-n") == 0)
            options.size = atoi(value);
        else if (strcmp(option, "--argument") == 0)
            argument = value;
        else if (strcmp(option, "--timeout") == 0)
            options.timeout_s = atoi(value);
        else if (strcmp(option, "--set") == 0 && options.setting_count < SETTINGS && strchr(value, '=') != NULL) {
            char *equals = strchr(argv[i], '=');
            *equals = '\0';
            settings[options.setting_count++] = (kith_setting){ argv[i], equals + 1 };
        } else
            return usage(option);
    }
    const pipeline_case *found = find(name, false);
    if (found == NULL)
        return usage("no such case");
    options.joins_itself = found->joins_itself;
    options.may_die = found->may_die;
    int failed = run_ranks(&options, found->on_rank, argument);
    if (failed > 0)
        fprintf(stderr, "pipeline_cases: %s: %d of %d ranks failed\n", name, failed, options.size);
    return failed > 0;
}
