/* tools/run_launch.c - from the launcher's fork to the program: what a rank is given.
 *
 * The child undoes what the guard and the launcher changed for themselves (signals, limits), leads a process group of
 * its own, asks to be killed when the launcher dies, and executes the program. Setting the parent-death signal can come
 * too late, when the launcher died before it; the child then already has another parent, and leaves.
 *
 * The launcher has one thread, so the child may call any function between fork and exec. What goes wrong there is told
 * to the launcher through a pipe that exec closes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static _Noreturn void give_up(const ki_run_start *start, int rank, const char *step)
{
    ki_run_start_error error = { .rank = rank, .cause = errno };
    snprintf(error.step, sizeof(error.step), "%s", step);
    /* Smaller than PIPE_BUF, so never mixed with another rank's. If the launcher is gone nobody needs it. */
    ssize_t written = write(start->error_fd, &error, sizeof(error));
    _exit(written == (ssize_t)sizeof(error) ? KI_RUN_EXIT_NOT_EXECUTED : KI_RUN_EXIT_FAILED);
}

static bool set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    return setenv(name, text, 1) == 0;
}

/* The placement's variables come first, then the user's, so that --env can set all but the rank's own. */
static bool set_environment(const ki_run_start *start, int rank)
{
    const ki_run_options *options = start->options;
    char store[sizeof(options->store_folder) + 64];
    snprintf(store, sizeof(store), "tcp://127.0.0.1:0?file=%s/port", options->store_folder);
    bool is_set = setenv("KITH_STORE", store, 1) == 0 && setenv("KITH_SECRET", start->secret, 1) == 0;
    if (options->backend != NULL) is_set &= setenv("KITH_BACKEND", options->backend, 1) == 0;
    if (options->placement != NULL) is_set &= ki_run_placement_set_environment(options->placement, rank);
    for (size_t i = 0; i < options->env_count; i++) {
        char *name = strdup(options->env[i]);
        if (name == NULL) return false;
        char *value = strchr(name, '=');
        *value = '\0';
        is_set &= setenv(name, value + 1, 1) == 0;
        free(name);
    }
    is_set &= set_number("KITH_RANK", rank) && set_number("KITH_LOCAL_RANK", rank);
    is_set &= set_number("KITH_SIZE", options->rank_count) && set_number("KITH_LOCAL_SIZE", options->rank_count);
    if (getenv("OMP_NUM_THREADS") == NULL) is_set &= set_number("OMP_NUM_THREADS", start->bind->threads);
    return is_set;
}

/* exec keeps ignored signals ignored and blocked ones blocked: put back what the command was started with. */
static void restore_inherited(const ki_run_inherited *inherited)
{
    static const int changed[] = { SIGCHLD, SIGPIPE, SIGTTIN, SIGTTOU };
    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
        sigaction(changed[i], &inherited->actions[changed[i]], NULL);
    setrlimit(RLIMIT_NOFILE, &inherited->files);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

static _Noreturn void become_rank(const ki_run_start *start, int rank, const int output_fds[2])
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(start, rank, "parent-death signal");
    if (getppid() != start->launcher) _exit(KI_RUN_EXIT_FAILED);
    setpgid(0, 0);
    if (dup2(rank == 0 ? start->handover->stdin_fd : start->null_fd, STDIN_FILENO) < 0)
        give_up(start, rank, "standard input");
    for (int i = 0; i < 2; i++)
        if (output_fds[i] >= 0 && dup2(output_fds[i], STDOUT_FILENO + i) < 0) give_up(start, rank, "standard output");
    const cpu_set_t *share = ki_bind_plan_share(start->bind, rank);
    if (share != NULL && sched_setaffinity(0, start->bind->share_nbytes, share) != 0) give_up(start, rank, "binding");
    if (!set_environment(start, rank)) give_up(start, rank, "environment");
    restore_inherited(start->handover->inherited);
    execv(start->options->path, start->options->program);
    give_up(start, rank, "exec");
}

pid_t ki_run_start_rank(const ki_run_start *start, int rank, const int output_fds[2])
{
    pid_t pid = fork();
    if (pid == 0) become_rank(start, rank, output_fds);
    if (pid > 0) setpgid(pid, pid); /* as the child does: whoever comes first; fails harmlessly after its exec */
    return pid;
}
