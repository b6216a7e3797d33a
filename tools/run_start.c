/* tools/run_start.c - the beginning of a job: binding, secret, pipes, then rank after rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static bool make_secret(char *text, size_t text_nbytes)
{
    unsigned char random[16];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) return false;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(text + 2 * i, text_nbytes - 2 * i, "%02x", random[i]);
    return true;
}

static void tell_rank(const ki_run_job *self, int rank)
{
    char list[256];
    size_t used = 0;
    const cpu_set_t *share = ki_bind_plan_share(&self->bind, rank);
    snprintf(list, sizeof(list), "not bound");
    for (size_t cpu = 0; share != NULL && cpu < self->bind.share_nbytes * 8 && used + 16 < sizeof(list); cpu++)
        if (CPU_ISSET_S(cpu, self->bind.share_nbytes, share))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%zu", used == 0 ? "processors " : ",", cpu);
    ki_run_output_message(self->output, "rank %d is process %d, %s", rank, (int)self->ranks[rank].pid, list);
}

/* Starts rank after rank; on a failure the ones that run are ended like after any other failure. */
static void start_ranks(ki_run_job *self, ki_run_start *start)
{
    char what[256];
    for (int rank = 0; rank < self->options->rank_count; rank++) {
        int fds[2] = { -1, -1 };
        pid_t pid = -1;
        bool has_fds = !self->options->is_prefixed || ki_run_output_open(self->output, rank, fds) == 0;
        if (has_fds) pid = ki_run_start_rank(start, rank, fds);
        int cause = errno;
        for (int i = 0; i < 2; i++)
            if (fds[i] >= 0 && has_fds) close(fds[i]);
        if (pid < 0) {
            snprintf(what, sizeof(what), "cannot start rank %d: %s (%s)", rank, strerror(cause),
                     has_fds ? "see ulimit -u" : "see ulimit -n");
            ki_run_job_fail(self, KI_RUN_EXIT_FAILED, what);
            return;
        }
        self->ranks[rank] = (ki_run_rank){ pid, true };
        self->running++;
        if (self->options->is_verbose) tell_rank(self, rank);
    }
}

/* A placement says itself where ranks run. */
static bool plan_binding(ki_run_job *self, char *error, size_t error_nbytes)
{
    const ki_run_options *options = self->options;
    ki_bind_kind kind = options->placement != NULL ? KI_BIND_NONE : options->bind;
    if (!ki_bind_plan_create(kind, options->rank_count, &self->bind, error, error_nbytes)) return false;
    if (options->placement == NULL || ki_run_placement_bind(options->placement, &self->bind)) return true;
    snprintf(error, error_nbytes, "memory is short");
    return false;
}

void ki_run_job_start(ki_run_job *self)
{
    char error[256], secret[33];
    int error_fds[2];
    if (!plan_binding(self, error, sizeof(error))) {
        ki_run_job_fail(self, KI_RUN_EXIT_FAILED, error);
        return;
    }
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || !make_secret(secret, sizeof(secret)) || pipe2(error_fds, O_CLOEXEC) != 0) {
        ki_run_job_fail(self, KI_RUN_EXIT_FAILED, "cannot open /dev/null, a pipe or the source of random numbers");
        return;
    }
    fcntl(error_fds[0], F_SETFL, O_NONBLOCK);
    self->start_error_fd = error_fds[0];
    ki_run_start start = { self->options, self->handover, &self->bind, secret, getpid(), null_fd, error_fds[1] };
    if (self->options->timeout_ns > 0) self->deadline_ns = ki_run_now_ns() + self->options->timeout_ns;
    start_ranks(self, &start);
    close(error_fds[1]);
    close(null_fd);
    if (self->handover->stdin_fd != STDIN_FILENO)
        close(self->handover->stdin_fd); /* so that the guard sees when rank 0 is gone */
}
