/* tools/run_supervise.c - the launcher: starts the ranks, watches them, decides when the job is over and how it ended.
 *
 * One loop over poll(): signals, the guard's pipe, the pipe of failed starts, the ranks' output. The job goes through
 *
 *     RUNNING --a rank failed, timeout, second signal--> ENDING: SIGTERM was sent, SIGKILL at kill_at
 *        |                                                  |
 *        '------------------ no rank is left ---------------'--> LEFTOVERS: what the ranks left behind
 *                                                                gets a short time, SIGTERM, SIGKILL
 *
 * and is over when waitpid() finds no child and all output was written. When the guard is gone everything is killed at
 * once.
 *
 * The first failure names the job's exit status. When several ranks are found dead in one look, one that was killed by
 * a signal is taken for the first: the others usually fail because of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEFTOVER_TIME_NS INT64_C(300000000) /* for helpers that notice by themselves that their rank is gone */
#define KILL_REPEAT_NS INT64_C(20000000)    /* between two sweeps with SIGKILL */
#define RANKS_FIRST_NS INT64_C(200000000)   /* between SIGKILL to ranks and to their descendants, see run_sweep.c */
#define SAME_REQUEST_NS INT64_C(300000000)  /* signals closer than this are one: timeout(1) sends two */
#define FIXED_FDS 3

int64_t ki_run_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* "SIGKILL"; numbers without a name are real-time signals. */
static const char *signal_name(int number, char *text, size_t text_nbytes)
{
    const char *name = sigabbrev_np(number);
    if (name != NULL)
        snprintf(text, text_nbytes, "SIG%s", name);
    else
        snprintf(text, text_nbytes, "SIGRTMIN%+d", number - SIGRTMIN);
    return text;
}

/* ---- telling the ranks ---- */

static void signal_ranks(const ki_run_job *self, int number, bool is_group)
{
    for (int i = 0; i < self->options->rank_count; i++)
        if (self->ranks[i].is_running) kill(is_group ? -self->ranks[i].pid : self->ranks[i].pid, number);
}

/* A stopped process does not see SIGTERM before SIGCONT. */
static void ask_to_end(ki_run_job *self)
{
    if (self->phase != KI_RUN_RUNNING) return;
    self->phase = KI_RUN_ENDING;
    signal_ranks(self, SIGTERM, true);
    signal_ranks(self, SIGCONT, true);
    self->kill_at_ns = ki_run_now_ns() + self->options->grace_ns;
}

static void kill_now(ki_run_job *self)
{
    if (self->phase == KI_RUN_RUNNING) self->phase = KI_RUN_ENDING;
    self->term_at_ns = 0;
    self->kill_at_ns = ki_run_now_ns();
}

/* "0, 3, 5" of the ranks that still run, shortened after a dozen. */
static const char *running_list(const ki_run_job *self, char *text, size_t text_nbytes)
{
    size_t used = 0;
    int listed = 0;
    text[0] = '\0';
    for (int i = 0; i < self->options->rank_count && used + 16 < text_nbytes; i++) {
        if (!self->ranks[i].is_running) continue;
        if (listed++ == 12) {
            snprintf(text + used, text_nbytes - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, text_nbytes - used, "%s%d", used == 0 ? "" : ", ", i);
    }
    return text;
}

/* ---- how ranks end ---- */

static int status_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ki_run_job_fail(ki_run_job *self, int exit_status, const char *what)
{
    char others[48] = "";
    if (self->has_failed) return;
    self->has_failed = true;
    self->exit_status = exit_status;
    if (self->running > 0 && self->phase == KI_RUN_RUNNING)
        snprintf(others, sizeof(others), "; ending the other %d rank%s", self->running, self->running == 1 ? "" : "s");
    ki_run_output_message(self->output, "%s%s", what, others);
    ask_to_end(self);
}

static void rank_failed(ki_run_job *self, int rank, int status)
{
    char what[96], name[32];
    if (WIFSIGNALED(status))
        snprintf(what, sizeof(what), "rank %d killed by signal %d (%s)%s", rank, WTERMSIG(status),
                 signal_name(WTERMSIG(status), name, sizeof(name)), WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(what, sizeof(what), "rank %d exited with status %d", rank, WEXITSTATUS(status));
    ki_run_job_fail(self, status_code(status), what);
}

static int rank_of_pid(const ki_run_job *self, pid_t pid)
{
    for (int i = 0; i < self->options->rank_count; i++)
        if (self->ranks[i].is_running && self->ranks[i].pid == pid) return i;
    return -1;
}

/* A rank that could not execute the program tells so before it exits; -1 in the pipe's absence. */
static void take_start_errors(ki_run_job *self)
{
    ki_run_start_error error;
    ssize_t nbytes;
    while (self->start_error_fd >= 0 && (nbytes = read(self->start_error_fd, &error, sizeof(error))) != -1) {
        if (nbytes != (ssize_t)sizeof(error)) {
            close(self->start_error_fd);
            self->start_error_fd = -1;
            return;
        }
        char what[512];
        const char *reason = strerror(error.cause);
        if (error.cause == ENOEXEC)
            reason = "it is neither a program for this machine nor a script with #! in its first line";
        else if (error.cause == ENOENT)
            reason = "the interpreter that its first line or its header names does not exist";
        if (strcmp(error.step, "exec") == 0)
            snprintf(what, sizeof(what), "'%.256s' cannot be executed: %s", self->options->path, reason);
        else
            snprintf(what, sizeof(what), "rank %d could not be started (%s): %s", error.rank, error.step, reason);
        ki_run_job_fail(self, strcmp(error.step, "exec") == 0 ? KI_RUN_EXIT_NOT_EXECUTED : KI_RUN_EXIT_FAILED, what);
    }
}

static void enter_leftovers(ki_run_job *self)
{
    self->phase = KI_RUN_LEFTOVERS;
    if (self->was_killed) return; /* kill_at stands, and goes for what is left too */
    self->term_at_ns = ki_run_now_ns() + LEFTOVER_TIME_NS;
    self->kill_at_ns = self->term_at_ns + self->options->grace_ns;
}

/* Reaps everything that has died; the worst of the ranks among them is the job's first failure. */
static void reap(ki_run_job *self)
{
    int failed_rank = -1, failed_status = 0, status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int rank = rank_of_pid(self, pid);
        if (rank < 0) continue; /* an orphan that came to us */
        self->ranks[rank].is_running = false;
        self->running--;
        if (status_code(status) == 0) continue;
        bool is_worse = failed_rank < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(failed_status)) ||
                        (WIFSIGNALED(status) == WIFSIGNALED(failed_status) && rank < failed_rank);
        if (is_worse) {
            failed_rank = rank;
            failed_status = status;
        }
    }
    self->is_childless = pid < 0 && errno == ECHILD;
    take_start_errors(self); /* before "exited with status 126" is said of the same rank */
    if (failed_rank >= 0) rank_failed(self, failed_rank, failed_status);
    if (self->running == 0 && self->phase != KI_RUN_LEFTOVERS) enter_leftovers(self);
}

/* ---- signals ---- */

/* The user wants the job to end. The first time the ranks decide how; the second starts the grace time, the third ends
 * it. */
static void count_request(ki_run_job *self)
{
    int64_t now = ki_run_now_ns();
    if (self->requests > 0 && now - self->request_ns < SAME_REQUEST_NS) return;
    self->request_ns = now;
    self->requests++;
    if (self->requests == 2) ask_to_end(self);
    if (self->requests >= 3) kill_now(self);
}

static void take_signal(ki_run_job *self, int number)
{
    switch (number) {
    case SIGCHLD:
        reap(self);
        break;
    case SIGUSR1:
    case SIGUSR2:
        signal_ranks(self, number, false);
        break;
    case SIGTSTP:
    case SIGCONT:
        signal_ranks(self, number, true);
        break;
    default: /* INT, TERM, HUP, QUIT */
        signal_ranks(self, number, true);
        count_request(self);
    }
}

static void take_signals(ki_run_job *self)
{
    struct signalfd_siginfo info;
    while (read(self->handover->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        take_signal(self, (int)info.ssi_signo);
}

/* ---- time ---- */

static void kill_ranks(ki_run_job *self)
{
    char list[160];
    running_list(self, list, sizeof(list));
    if (self->requests < 3)
        ki_run_output_message(self->output, "rank%s %s still ran %.6g s after SIGTERM: killed",
                              self->running == 1 ? "" : "s", list, (double)self->options->grace_ns / 1e9);
    else
        ki_run_output_message(self->output, "rank%s %s killed at the third request", self->running == 1 ? "" : "s",
                              list);
    signal_ranks(self, SIGKILL, true);
    self->was_killed = true;
}

static void kill_everything(ki_run_job *self)
{
    bool is_first = self->running > 0 && !self->was_killed;
    if (is_first)
        kill_ranks(self);
    else
        ki_sweep_descendants(SIGKILL);
    self->kill_at_ns = ki_run_now_ns() + (is_first ? RANKS_FIRST_NS : KILL_REPEAT_NS);
}

static void end_leftovers(ki_run_job *self)
{
    size_t count = ki_sweep_descendants(SIGTERM);
    ki_sweep_descendants(SIGCONT);
    self->term_at_ns = 0;
    if (count > 0)
        ki_run_output_message(self->output, "%zu process%s that the ranks left running %s ended", count,
                              count == 1 ? "" : "es", count == 1 ? "is" : "are");
}

static void pass_time(ki_run_job *self)
{
    int64_t now = ki_run_now_ns();
    if (self->deadline_ns != 0 && now >= self->deadline_ns && self->phase == KI_RUN_RUNNING && !self->has_failed) {
        char list[160], what[256];
        snprintf(what, sizeof(what), "the job was not done after %.6g s; still running: rank%s %s",
                 (double)self->options->timeout_ns / 1e9, self->running == 1 ? "" : "s",
                 running_list(self, list, sizeof(list)));
        self->has_failed = true;
        self->exit_status = KI_RUN_EXIT_TIMEOUT;
        ki_run_output_message(self->output, "%s", what);
        ask_to_end(self);
    }
    if (self->is_childless) return;
    if (self->phase == KI_RUN_LEFTOVERS && self->term_at_ns != 0 && now >= self->term_at_ns) end_leftovers(self);
    if (self->kill_at_ns != 0 && now >= self->kill_at_ns) kill_everything(self);
}

/* Milliseconds until pass_time() has something to do, rounded up; -1: never. */
static int time_to_wait(const ki_run_job *self)
{
    int64_t next = 0, now = ki_run_now_ns();
    const int64_t times[] = { self->phase == KI_RUN_RUNNING && !self->has_failed ? self->deadline_ns : 0,
                              self->is_childless ? 0 : self->term_at_ns, self->is_childless ? 0 : self->kill_at_ns };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] != 0 && (next == 0 || times[i] < next)) next = times[i];
    if (next == 0) return -1;
    int64_t ms = next <= now ? 0 : (next - now + 999999) / 1000000;
    return ms > 1000000 ? 1000000 : (int)ms;
}

/* ---- the loop ---- */

static bool is_over(ki_run_job *self)
{
    if (!self->is_childless) return false;
    ki_run_output_drain(self->output);
    return ki_run_output_is_empty(self->output) || self->requests >= 3;
}

static _Noreturn void leave_without_guard(const ki_run_job *self)
{
    ki_sweep_all();
    ki_run_store_folder_remove(self->options->store_folder);
    _exit(KI_RUN_EXIT_FAILED);
}

/* False when poll() itself fails. */
static bool turn(ki_run_job *self, struct pollfd *fds)
{
    fds[0] = (struct pollfd){ self->handover->signal_fd, POLLIN, 0 };
    fds[1] = (struct pollfd){ self->handover->life_fd, POLLIN, 0 };
    fds[2] = (struct pollfd){ self->start_error_fd, POLLIN, 0 };
    size_t output_count = ki_run_output_poll(self->output, fds + FIXED_FDS);
    if (poll(fds, FIXED_FDS + output_count, time_to_wait(self)) < 0) return errno == EINTR;
    if (fds[1].revents != 0) leave_without_guard(self);
    ki_run_output_advance(self->output, fds + FIXED_FDS, output_count);
    if (fds[2].revents != 0) take_start_errors(self);
    if (fds[0].revents != 0) take_signals(self);
    pass_time(self);
    return true;
}

static void supervise(ki_run_job *self)
{
    struct pollfd *fds = calloc(FIXED_FDS + ki_run_output_poll_max(self->output), sizeof(*fds));
    if (fds == NULL) {
        ki_run_job_fail(self, KI_RUN_EXIT_FAILED, "memory is short");
        return;
    }
    reap(self); /* for the case that no rank was started */
    while (!is_over(self) && turn(self, fds))
        continue;
    free(fds);
}

int ki_run_supervise(const ki_run_options *options, const ki_run_handover *handover)
{
    ki_run_job self = { .options = options, .handover = handover, .start_error_fd = -1 };
    self.ranks = calloc((size_t)options->rank_count, sizeof(*self.ranks));
    self.output = ki_run_output_create(options->name, options->is_prefixed ? options->rank_count : 0);
    if (self.ranks == NULL || self.output == NULL) {
        fprintf(stderr, "kith %s: memory is short\n", options->name);
    } else {
        ki_run_job_start(&self);
        supervise(&self);
    }
    int status = self.ranks == NULL || self.output == NULL ? KI_RUN_EXIT_FAILED : self.exit_status;
    ki_run_output_destroy(self.output);
    ki_bind_plan_destroy(&self.bind);
    free(self.ranks);
    return status;
}
