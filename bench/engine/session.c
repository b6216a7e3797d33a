/* bench/engine/session.c
 *
 * Rank 0 puts each point into the segment as a command and rings; every rank, rank 0 too, then runs what stands there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "session.h"

#include "report.h"
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer_pair {
    void *send, *recv;
    bool is_tried, is_there;
} buffer_pair;

typedef struct bench_session {
    const bench_driver *driver;
    const bench_options *options;
    bench_data data;
    buffer_pair *buffers; /* [variant_count], made at first use */
    bench_result result;
    bool has_result; /* false: the variant got no buffers */
} bench_session;

static int number_from(const char *variable)
{
    const char *value = variable != NULL ? getenv(variable) : NULL;
    return value != NULL && *value != '\0' ? atoi(value) : -1;
}

int bench_launcher_local_rank(void)
{
    static const char *const names[] = { "KITH_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "MPI_LOCALRANKID", "LOCAL_RANK",
                                         "SLURM_LOCALID",   "KITH_RANK",
                                         "PMI_RANK" };
    int rank = number_from(getenv("BENCH_PIN_VARIABLE"));
    for (size_t i = 0; rank < 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        rank = number_from(names[i]);
    }
    return rank;
}

/* The buffers of a variant, made at its first use; false when some rank got none. Collective. */
static bool has_buffers(bench_session *session, const bench_variant *variant, buffer_pair *buffers)
{
    if (!buffers->is_tried) {
        bool mine = variant->allocate(variant->self, session->options->max_nbytes, &buffers->send, &buffers->recv);
        buffers->is_there = bench_agree(session->driver->peers, mine);
        buffers->is_tried = true;
    }
    return buffers->is_there;
}

/* Runs the command that stands in the segment. Collective. */
static bool run_command(bench_session *session)
{
    const bench_command command = session->driver->peers->segment->command;
    const bench_variant *variant = &session->driver->variants[command.variant];
    buffer_pair *buffers = &session->buffers[command.variant];
    session->has_result = has_buffers(session, variant, buffers);
    if (!session->has_result) {
        bench_barrier(session->driver->peers); /* all have read the command */
        return true;
    }
    bench_limits limits = { command.min_iterations, command.max_iterations, command.budget_ms };
    return bench_point(session->driver, variant, &session->data, (bench_op)command.op, command.nbytes,
                       (bench_mode)command.mode, &limits, buffers->send, buffers->recv, &session->result);
}

static bool start_command(bench_session *session, const bench_command *command)
{
    session->driver->peers->segment->command = *command;
    bench_ring(session->driver->peers);
    return command->is_quit || run_command(session);
}

static bool follow(bench_session *session)
{
    for (;;) {
        bench_await_bell(session->driver->peers);
        if (session->driver->peers->segment->command.is_quit) {
            return true;
        }
        if (!run_command(session)) {
            return false;
        }
    }
}

static bool can_run(const bench_driver *driver, int variant, bench_op op, size_t nbytes)
{
    const bench_variant *v = &driver->variants[variant];
    int size = driver->peers->size;
    return !(bench_op_is_pairwise(op) && size < 2) && (v->can_run == NULL || v->can_run(v->self, op, nbytes, size));
}

static bench_row make_row(const bench_session *session, const bench_command *command, int round)
{
    return (bench_row){ .driver = session->options->label != NULL ? session->options->label : session->driver->name,
                        .variant = session->driver->variants[command->variant].name,
                        .dtype = session->options->dtype,
                        .ranks = session->driver->peers->size,
                        .round = round,
                        .result = session->result };
}

static bool sweep_point(bench_session *session, bench_report *report, bench_command *command, int round)
{
    for (command->mode = 0; command->mode < BENCH_MODE_COUNT; command->mode++) {
        if (!session->options->has_mode[command->mode]) {
            continue;
        }
        if (!start_command(session, command)) {
            return false;
        }
        if (session->has_result) {
            bench_row row = make_row(session, command, round);
            bench_report_add(report, &row);
        }
    }
    return true;
}

/* All sizes of one operation: sizes that round up to the same number of bytes are measured once. */
static bool sweep_sizes(bench_session *session, bench_report *report, bench_command *command, int round)
{
    const bench_options *options = session->options;
    bench_op op = (bench_op)command->op;
    size_t last = SIZE_MAX;
    for (size_t nbytes = options->min_nbytes; nbytes <= options->max_nbytes; nbytes *= options->factor) {
        size_t rounded = bench_op_nbytes(op, nbytes, session->data.nbytes, session->driver->peers->size);
        if (rounded == last || rounded > options->max_nbytes) {
            continue;
        }
        last = rounded;
        command->nbytes = rounded;
        if (can_run(session->driver, command->variant, op, rounded) && !sweep_point(session, report, command, round)) {
            return false;
        }
        if (nbytes > options->max_nbytes / options->factor || nbytes == 0) {
            break;
        }
    }
    return true;
}

static bool sweep(bench_session *session, bench_report *report)
{
    const bench_options *options = session->options;
    bench_command command = { .min_iterations = options->limits.min_iterations,
                              .max_iterations = options->limits.max_iterations,
                              .budget_ms = options->limits.budget_ms };
    for (int round = 0; round < options->rounds; round++) {
        for (command.op = 0; command.op < BENCH_OP_COUNT; command.op++) {
            for (command.variant = 0; command.variant < session->driver->variant_count; command.variant++) {
                const char *name = session->driver->variants[command.variant].name;
                if (options->has_op[command.op] && bench_list_has(options->variants, name) &&
                    !sweep_sizes(session, report, &command, round)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool lead_sweep(bench_session *session)
{
    const bench_options *options = session->options;
    bench_report *report = bench_report_create(false);
    if (report == NULL) {
        return false;
    }
    bool is_fine = sweep(session, report) && start_command(session, &(bench_command){ .is_quit = 1 });
    is_fine = (options->json_path == NULL || bench_report_write_json(report, options->json_path)) && is_fine;
    is_fine = (options->csv_path == NULL || bench_report_write_csv(report, options->csv_path)) && is_fine;
    is_fine = bench_report_is_right(report) && is_fine;
    bench_report_destroy(report);
    return is_fine;
}

static json_t *answer_error(const char *text)
{
    return json_pack("{s:s}", "error", text);
}

/* One question of a server's asker. NULL when the operation failed and the run must end. */
static json_t *answer(bench_session *session, json_t *question)
{
    bench_command command;
    bench_request request;
    const char *problem = bench_serve_parse(question, &session->options->limits, &request);
    if (problem != NULL) {
        return answer_error(problem);
    }
    command = request.command;
    command.variant = 0;
    while (command.variant < session->driver->variant_count &&
           strcmp(session->driver->variants[command.variant].name, request.variant) != 0) {
        command.variant++;
    }
    if (command.variant == session->driver->variant_count) {
        return answer_error("no such variant");
    }
    command.nbytes =
        bench_op_nbytes((bench_op)command.op, command.nbytes, session->data.nbytes, session->driver->peers->size);
    if (command.nbytes > session->options->max_nbytes ||
        !can_run(session->driver, command.variant, (bench_op)command.op, command.nbytes)) {
        return answer_error("not available");
    }
    if (!start_command(session, &command)) {
        return NULL;
    }
    if (!session->has_result) {
        return answer_error("no buffers");
    }
    bench_row row = make_row(session, &command, request.round);
    return bench_row_json(&row);
}

static bool lead_server(bench_session *session)
{
    bench_line *line = bench_serve_connect(session->options->serve_path);
    if (line == NULL) {
        return false;
    }
    bool is_fine = bench_serve_greet(line, session->driver);
    json_t *question;
    while (is_fine && (question = bench_serve_read(line)) != NULL) {
        json_t *reply = answer(session, question);
        is_fine = reply != NULL && bench_serve_write(line, reply);
        json_decref(question);
    }
    bench_serve_close(line);
    return is_fine && start_command(session, &(bench_command){ .is_quit = 1 });
}

int bench_session_run(const bench_driver *driver, const bench_options *options)
{
    bench_session session = { .driver = driver, .options = options };
    bench_data_init(&session.data, options->dtype);
    session.buffers = calloc((size_t)driver->variant_count, sizeof(session.buffers[0]));
    if (session.buffers == NULL) {
        return 1;
    }
    bool is_fine;
    if (driver->peers->rank != 0) {
        is_fine = follow(&session);
    } else if (options->serve_path != NULL) {
        is_fine = lead_server(&session);
    } else {
        is_fine = lead_sweep(&session);
    }
    free(session.buffers);
    return is_fine ? 0 : 1;
}
