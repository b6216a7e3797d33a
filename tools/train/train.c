/* tools/train/train.c - the loop: steps, validation, saving, signals, the end.
 *
 * SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) are noted, and every step the ranks tell one
 * another: when one of them was told to stop, all stop after the same step, save and leave. A second signal ends the
 * process at once. SIGPIPE is ignored: a reader of the progress lines that goes away ends no training.
 *
 * A step that fails ends the run on all ranks: whoever fails aborts its groups, so that nobody waits, and the last
 * checkpoint is what to go on from.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_state {
    train_job job;
    train_model model;
    train_data *data;
    train_engine engine;
    train_log log;
    train_memory predicted;
    train_costs costs;
    train_trace *trace;  /* NULL: not asked for */
    train_totals totals; /* of the steps after the first */
    train_numbers last;  /* step */
    int64_t saved_step;  /* of what is in the folder of --save; -1: none */
    const char *doing;   /* what say_why() says of the step; NULL: that it failed */
} train_state;

/* ---- signals ---- */

static volatile sig_atomic_t was_told_to_stop;

static void note_signal(int signal)
{
    (void)signal;
    was_told_to_stop = 1;
}

static void watch_signals(void)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    action.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- set-up ---- */

typedef bool (*phase)(train_state *state);

static bool open_data(train_state *state)
{
    train_job *job = &state->job;
    char *error = NULL;
    if (train_data_open(&job->options, job->config.vocabulary, &state->data, &error) == 0 &&
        train_data_identify(state->data, &job->identity, &error) == 0)
        return true;
    if (error == NULL)
        return train_no_memory(job, "the data");
    train_wrong(job, "%s", error);
    free(error);
    return false;
}

/* All ranks must read the same tokens, also where hosts have copies of the file. */
static bool compare_data(train_state *state)
{
    train_job *job = &state->job;
    const char *file = job->options.text != NULL ? job->options.text : job->options.tokens;
    train_identity first = job->identity;
    if (!train_check(job, kith_broadcast(job->world, &first, sizeof first, KITH_UINT8, 0)))
        return false;
    if (memcmp(&first, &job->identity, sizeof first) != 0)
        return train_wrong(job, "%s is another file here than the one that rank 0 reads (%.0f bytes, there %.0f)", file,
                           job->identity.nbytes, first.nbytes);
    return train_kept_compare(job);
}

static bool find_checkpoint(train_state *state)
{
    return train_find_checkpoint(&state->job);
}

static bool lay_out(train_state *state)
{
    return train_job_lay_out(&state->job);
}

static bool connect(train_state *state)
{
    return train_job_connect(&state->job);
}

static bool schedule(train_state *state)
{
    train_job_predict(&state->job);
    return train_job_schedule(&state->job);
}

static bool make_model(train_state *state)
{
    return train_model_make(&state->job, &state->model);
}

/* What is written at the end is tried before the beginning. Rank 0 writes. */
static bool try_outputs(train_state *state)
{
    train_job *job = &state->job;
    const train_options *options = &job->options;
    return job->rank != 0 || ((options->save == NULL || train_try_saving(job)) &&
                              (options->trace == NULL || train_file_try(job, "--trace", options->trace)) &&
                              (options->timeline == NULL || train_file_try(job, "--timeline", options->timeline)));
}

static bool build_model(train_state *state)
{
    return train_model_build(&state->job, &state->model);
}

static bool fill_model(train_state *state)
{
    return train_model_fill(&state->job, &state->model);
}

static bool tie_model(train_state *state)
{
    return train_model_tie(&state->job, &state->model);
}

static bool make_optimizer(train_state *state)
{
    return train_model_optimize(&state->job, &state->model);
}

static bool make_engine(train_state *state)
{
    return train_engine_make(&state->job, &state->model, state->data, &state->engine);
}

/* What was asked for beside training. A prediction that fails is no reason not to run. */
static bool make_reports(train_state *state)
{
    train_job *job = &state->job;
    bool has_failed = job->has_failed;
    if (!train_memory_predict(job, &state->predicted))
        job->sentence[0] = '\0';
    job->has_failed = has_failed;
    if (!train_costs_make(job, &state->costs))
        return false;
    if (job->options.trace == NULL)
        return true;
    state->engine.trace = state->trace = train_trace_create(&state->engine);
    return state->trace != NULL || train_no_memory(job, "a trace");
}

static bool resume(train_state *state)
{
    return train_resume(&state->engine);
}

static bool open_log(train_state *state)
{
    state->saved_step = state->job.is_resumed_in_place ? state->engine.step : -1;
    return train_log_open(&state->job, &state->log);
}

/* Each is local, or one thing that the ranks do together and that fails on all of them alike, with what is local behind
 * it: whoever fails alone comes to the agreement, not the others to something that it has left out. */
static bool set_up(train_state *state)
{
    static const phase phases[] = { find_checkpoint, lay_out,      connect,     schedule,   open_data, compare_data,
                                    try_outputs,     make_model,   build_model, fill_model, tie_model, make_optimizer,
                                    make_engine,     make_reports, resume,      open_log };
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        if (!train_agree(&state->job, phases[i](state)))
            return false;
    return true;
}

/* ---- the loop ---- */

static bool is_due(int64_t step, int64_t every, bool is_last)
{
    return is_last || (every > 0 && step % every == 0);
}

static kith_status validate(train_state *state, bool is_last)
{
    const train_options *options = &state->job.options;
    train_numbers *numbers = &state->last;
    numbers->has_validation =
        options->validation_batches > 0 && is_due(numbers->step, options->validate_every, is_last);
    if (!numbers->has_validation)
        return KITH_OK;
    state->doing = "validation after step";
    return train_numbers_validate(&state->engine, options->validation_batches, &numbers->validation);
}

static kith_status save(train_state *state, bool is_last)
{
    const train_options *options = &state->job.options;
    if (options->save == NULL || state->saved_step == state->engine.step ||
        !is_due(state->engine.step, options->save_every, is_last))
        return KITH_OK;
    state->doing = "saving step";
    kith_status status = train_save(&state->engine);
    if (status == KITH_OK)
        state->saved_step = state->engine.step;
    return status;
}

/* The first step of a run finds caches cold and memory untouched: it counts only where there is no other. */
static void add_up(train_state *state)
{
    int64_t first = state->log.first_step + 1;
    if (state->engine.step == first && state->job.options.steps > first)
        return;
    state->totals.steps++;
    state->totals.seconds += state->last.seconds;
    for (int i = 0; i < TRAIN_TIMES; i++)
        state->totals.time_s[i] += state->last.time_s[i];
    train_costs_merge(&state->costs, &state->engine.costs);
}

static kith_status one_step(train_state *state)
{
    state->doing = NULL;
    kith_status status = train_engine_step(&state->engine);
    if (status == KITH_OK) {
        state->doing = "the numbers of step";
        status = train_numbers_collect(&state->engine, was_told_to_stop, &state->last);
    }
    if (status == KITH_OK)
        add_up(state);
    bool is_last = state->engine.step >= state->job.options.steps || state->last.is_stopping;
    if (status == KITH_OK)
        status = validate(state, is_last);
    if (status == KITH_OK)
        train_log_step(&state->log, &state->last);
    return status == KITH_OK ? save(state, is_last) : status;
}

static kith_status all_steps(train_state *state)
{
    kith_status status = KITH_OK;
    state->log.first_step = state->last.step = state->engine.step;
    state->last.loss = NAN; // none so far
    train_log_start(&state->log, &state->predicted);
    while (status == KITH_OK && state->engine.step < state->job.options.steps && !state->last.is_stopping)
        status = one_step(state);
    return status == KITH_OK ? save(state, true) : status; // without a step that is the start itself
}

/* ---- the end ---- */

static void say_how_to_go_on(const train_state *state)
{
    const train_job *job = &state->job;
    if (job->rank == 0 && state->saved_step >= 0)
        train_tell(job, "go on from step %lld with --resume %s", (long long)state->saved_step, job->options.save);
    else if (job->rank == 0 && job->resumed != NULL)
        train_tell(job, "go on from step %lld with --resume %s", (long long)state->log.first_step, job->resumed);
}

static void say_why(train_state *state, kith_status status)
{
    const char *detail = kith_error_detail();
    const char *own = state->job.sentence;
    train_log_pause(&state->log);
    const char *why = own[0] != '\0' ? own : detail[0] != '\0' ? detail : kith_status_sentence(status);
    long long step = (long long)state->engine.step;
    if (state->doing == NULL)
        train_tell(&state->job, "step %lld failed: %s", step + 1, why);
    else
        train_tell(&state->job, "%s %lld: %s", state->doing, step, why);
    say_how_to_go_on(state);
}

static void say_what_is_missing(const train_state *state)
{
    const train_options *options = &state->job.options;
    bool has_step = state->engine.step > state->log.first_step;
    if (options->trace != NULL && !has_step)
        train_tell(&state->job, "no --trace %s: no step was made", options->trace);
    if (options->timeline != NULL && state->totals.steps == 0)
        train_tell(&state->job, "no --timeline %s: %s", options->timeline,
                   has_step ? "no step was made but the first, which does not count" : "no step was made");
}

/* Rank 0 alone writes them: after each the ranks agree, before they go into the next one together. A file that cannot
 * be written keeps none of the others from being. */
static bool write_files(train_state *state)
{
    train_job *job = &state->job;
    const train_options *options = &job->options;
    bool is_fine = true, has_step = state->engine.step > state->log.first_step;
    if (job->rank == 0)
        say_what_is_missing(state);
    if (options->trace != NULL && has_step)
        is_fine = train_agree(job, train_trace_write(state->trace, options->trace));
    if (job->has_failed) // of communication, which the trace has on all ranks
        return false;
    if (options->timeline != NULL && state->totals.steps > 0)
        is_fine &= train_agree(job, train_timeline_write(&state->engine, &state->costs, options->timeline));
    return is_fine;
}

static bool finish(train_state *state)
{
    train_job *job = &state->job;
    uint64_t hash = 0;
    if (!train_compare_replicas(job, &state->model, &hash))
        return false;
    train_log_end(&state->log, &state->last, state->last.is_stopping ? "stopped by a signal" : "done", hash);
    bool is_fine = write_files(state);
    is_fine &=
        train_check(job, train_report(&state->engine, &state->costs, &state->totals, &state->last, &state->predicted));
    train_log_close(&state->log);
    return train_agree(
        job, is_fine &&
                 !state->log.has_failed); // none leaves before rank 0 has written all it has: the launcher would end it
}

static bool describe(train_state *state)
{
    train_job *job = &state->job;
    bool is_fine = find_checkpoint(state) && lay_out(state) && schedule(state);
    return train_agree(job, is_fine && (job->rank != 0 || train_describe(job)));
}

static int run(train_state *state)
{
    bool is_described = state->job.options.is_described;
    if (is_described ? !describe(state) : !set_up(state))
        return state->job.has_failed ? TRAIN_FAILED : KI_EXIT_USAGE;
    if (is_described)
        return KI_EXIT_OK;
    kith_status status = all_steps(state);
    if (status == KITH_OK)
        return finish(state) ? KI_EXIT_OK : TRAIN_FAILED;
    say_why(state, status);
    return TRAIN_FAILED;
}

static void fini(train_state *state, bool is_failed)
{
    train_log_close(&state->log);
    train_trace_destroy(state->trace);
    train_costs_fini(&state->costs);
    train_engine_fini(&state->engine);
    train_data_close(state->data);
    train_model_fini(&state->model);
    train_job_leave(&state->job, is_failed);
}

int train_run(const train_options *options)
{
    train_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        fputs("kith train: no memory\n", stderr);
        return TRAIN_FAILED;
    }
    state->job.options = *options;
    if (!options->is_described)
        watch_signals();
    int result;
    if (train_job_join(&state->job)) {
        result = run(state);
        fini(state, result != KI_EXIT_OK);
    } else {
        result = state->job.has_failed ? TRAIN_FAILED : KI_EXIT_USAGE;
    }
    free(state);
    return result;
}
