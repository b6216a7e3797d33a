/* tools/train/describe.c - --describe: parameters, groups, plan and placement of a job that is not run.
 *
 * Nothing is started and nothing is computed: stages are made in dry runs, the first rank of tp of each pipeline rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include "../draw.h"

#include <stdlib.h>

static void print_layout(const train_job *job)
{
    const train_layout *l = &job->layout;
    kith_model model = train_config_model(job->model_name, &job->config);
    printf("model       %s, %.4g million parameters, %lld blocks of %lld, vocabulary %lld\n", job->model_name,
           kith_model_parameters(&model) / 1e6, (long long)job->config.blocks, (long long)job->config.hidden,
           (long long)job->config.vocabulary);
    printf("ranks       %d: tp %d%s, pp %d, dp %d, ep %d\n", l->world, l->tp,
           job->options.is_sequence_parallel ? " with sequence parallelism" : "", l->pp, l->dp, l->ep);
    const char *device = job->options.device != NULL ? job->options.device : getenv("KITH_DEVICE");
    train_device_describe(device != NULL && device[0] != '\0' ? device : NULL, l->world);
    if (l->why[0] != '\0')
        printf("chosen      %s\n", l->why);
    int64_t samples = train_layout_samples(l);
    printf("step        %lld sample%s of %lld token%s: %lld microbatch%s of %lld on each pipeline\n",
           (long long)samples, samples == 1 ? "" : "s", (long long)l->sequence, l->sequence == 1 ? "" : "s",
           (long long)l->microbatches, l->microbatches == 1 ? "" : "es", (long long)l->micro_batch);
    printf("schedule    %s, %d stage%s\n", kith_schedule_kind_name(l->schedule), l->stages, l->stages == 1 ? "" : "s");
    for (int i = 0; kith_schedule_note(job->schedule, i) != NULL; i++)
        printf("            %s\n", kith_schedule_note(job->schedule, i));
}

static void print_axis(const train_layout *l, const kith_mesh_axis *axes, const char *name)
{
    int *ranks = calloc((size_t)l->world, sizeof *ranks), size, count;
    if (ranks != NULL && kith_mesh_enumerate(axes, 4, "tp-ep-dp-pp", name, l->world, ranks, &size, &count) == KITH_OK &&
        size > 1) {
        printf("  %-9s", name);
        for (int g = 0; g < count; g++) {
            printf(" {");
            for (int i = 0; i < size; i++)
                printf(i == 0 ? "%d" : ",%d", ranks[g * size + i]);
            printf("}");
        }
        printf("\n");
    }
    free(ranks);
}

static void print_groups(const train_layout *l)
{
    const kith_mesh_axis axes[] = { { "tp", l->tp }, { "ep", l->ep }, { "dp", l->dp }, { "pp", l->pp } };
    if (l->world == 1)
        return;
    printf("\ngroups\n");
    for (int i = 0; i < 4; i++)
        print_axis(l, axes, axes[i].name);
}

/* The stages of a pipeline rank in a dry run. train_model_fini() whatever is returned. */
static kith_status make_stages(const train_job *job, int pp_rank, train_model *model)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = job->options.dtype;
    options.is_sequence_parallel = job->options.is_sequence_parallel && job->layout.tp > 1;
    options.dry_tp = job->layout.tp, options.dry_ep = job->layout.ep;
    kith_status status = kith_layers_create(&options, &model->layers);
    return status == KITH_OK ? train_model_stages(job, pp_rank, model->layers, model) : status;
}

/* Before anything is printed: a model that the layout does not divide is refused, not half described. */
static bool check_stages(train_job *job)
{
    kith_status status = KITH_OK;
    for (int r = 0; r < job->layout.pp && status == KITH_OK; r++) {
        train_model model = { 0 };
        status = make_stages(job, r, &model);
        train_check(job, status);
        train_model_fini(&model);
    }
    return status == KITH_OK;
}

static bool print_stages(train_job *job, int pp_rank)
{
    train_model model = { 0 };
    char *table = NULL;
    kith_status status = make_stages(job, pp_rank, &model);
    if (status == KITH_OK)
        status = kith_layers_print_params(model.layers, NULL, &table);
    if (status == KITH_OK) {
        printf("\nparameters of pipeline rank %d (stage", pp_rank);
        for (int i = 0; i < model.stage_count; i++)
            printf("%s %d", i > 0 ? "," : "", model.stages[i]);
        printf("), first rank of tp\n%s", table);
    }
    kith_free(table);
    bool is_fine = train_check(job, status);
    train_model_fini(&model);
    return is_fine;
}

static void print_memory(train_job *job)
{
    printf("\nmemory, counted by a dry run\n");
    printf("  %-14s %12s %12s %12s %12s\n", "pipeline rank", "weights", "gradients", "optimizer", "activations");
    for (job->pp_rank = 0; job->pp_rank < job->layout.pp; job->pp_rank++) {
        train_memory m;
        char a[32], b[32], c[32], d[32];
        if (!train_memory_predict(job, &m)) {
            printf("  %-14d %s\n", job->pp_rank, job->sentence);
            continue;
        }
        printf("  %-14d %12s %12s %12s %12s\n", job->pp_rank, ki_text_bytes(a, sizeof a, m.parameters),
               ki_text_bytes(b, sizeof b, m.grads), ki_text_bytes(c, sizeof c, m.optimizer),
               ki_text_bytes(d, sizeof d, m.activations));
    }
    job->pp_rank = 0;
}

static void print_plan(const train_job *job)
{
    char *text = NULL;
    printf("\nplan\n");
    if (!job->has_plan)
        printf("  none: %s\n", job->no_plan);
    else if (kith_plan_print(&job->plan, KITH_FORMAT_TEXT, &text) == KITH_OK)
        fputs(text, stdout);
    if (job->has_plan && job->options.dtype == KITH_F64)
        printf("  bytes as in f32: the planner knows no numbers of 8 bytes, and f64 takes twice as many\n");
    kith_free(text);
}

/* Where the planner would put the ranks on this machine; layers compute on processors, so GPUs are what if. */
static void print_placement(const train_job *job)
{
    kith_topology *machine = NULL;
    kith_placement *placement = NULL;
    char *text = NULL;
    const train_layout *l = &job->layout;
    printf("\nplacement\n");
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    options.tp = l->tp, options.ep = l->ep, options.dp = l->dp, options.pp = l->pp;
    if (kith_topology_detect(NULL, &machine) == KITH_OK && kith_topology_gpu_count(machine) >= l->world &&
        kith_place(machine, &options, &placement) == KITH_OK &&
        kith_placement_print(machine, placement, KITH_FORMAT_TEXT, &text) == KITH_OK)
        fputs(text, stdout);
    else
        printf("  %d rank%s in the order of the launcher: there are no GPUs here to place them on\n", l->world,
               l->world == 1 ? "" : "s");
    kith_free(text);
    kith_placement_destroy(placement);
    kith_topology_destroy(machine);
}

bool train_describe(train_job *job)
{
    if (!check_stages(job))
        return false;
    print_layout(job);
    print_groups(&job->layout);
    print_memory(job);
    for (int r = 0; r < job->layout.pp; r++)
        if (!print_stages(job, r))
            return false;
    print_plan(job);
    print_placement(job);
    fflush(stdout);
    return true;
}
