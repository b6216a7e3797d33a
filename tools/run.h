/* tools/run.h - the parts of `kith run`.
 *
 * Who is who. The process that the user starts is the *guard*. It forks the *launcher*, and the launcher forks the
 * *ranks*:
 *
 *     shell -- guard -- launcher -+- rank 0 -- (what rank 0 starts)
 *                                 +- rank 1
 *
 * Two processes, because one that was killed with SIGKILL cannot clean up. Each watches the other: the launcher holds
 * the read end of a pipe whose write end only the guard has, so it reads end-of-file when the guard is gone in whatever
 * way; the guard is the launcher's parent. Both are child subreapers: a process whose parent died becomes the child of
 * the launcher (of the guard when the launcher is dead), also when it has left its process group or session. So whoever
 * survives finds every descendant and kills it (run_sweep.c). If both are killed at once, the parent-death signal ends
 * the ranks.
 *
 * Process groups. The guard stays in the user's process group: the terminal's Ctrl-C and Ctrl-Z reach it alone, and it
 * passes every signal on, once. The launcher and each rank lead process groups of their own; a rank's group takes what
 * the rank starts.
 *
 * Files: run.c options; run_guard.c the guard; run_start.c starts the job, run_launch.c one rank; run_supervise.c the
 * launcher's loop and its decisions; run_output.c prefixed output; run_bind.c processors; run_sweep.c the descendants
 * of a process; run_placement.c what --placement says.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_RUN_H
#define KI_TOOLS_RUN_H

#include "command.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define KI_RUN_RANKS_MAX 4096

/* Exit statuses besides those of the ranks, as timeout(1), env(1) and the shell have them. */
#define KI_RUN_EXIT_TIMEOUT 124
#define KI_RUN_EXIT_FAILED 125 /* kith run itself failed */
#define KI_RUN_EXIT_NOT_EXECUTED 126
#define KI_RUN_EXIT_NOT_FOUND 127

typedef enum ki_bind_kind { KI_BIND_DEFAULT, KI_BIND_NONE, KI_BIND_COMPACT, KI_BIND_SPREAD } ki_bind_kind;

typedef struct ki_run_placement ki_run_placement;

typedef struct ki_run_options {
    const char *name; /* of the subcommand that messages come from: "run" */
    int rank_count;
    ki_bind_kind bind;
    const char *backend; /* NULL: not said */
    const char *placement_path;        /* NULL: not said */
    const ki_run_placement *placement; /* NULL: none */
    bool is_prefixed, is_verbose;
    int64_t timeout_ns;     /* 0: none */
    int64_t grace_ns;       /* between SIGTERM and SIGKILL */
    const char *const *env; /* [env_count] "NAME=value" */
    size_t env_count;
    char *const *program;   /* argument vector, ends with NULL */
    const char *path;       /* the file to execute */
    char store_folder[256]; /* private folder for the store's port file */
} ki_run_options;

/* What the command was started with and what each rank gets back: signal mask, dispositions, limits. */
typedef struct ki_run_inherited {
    sigset_t mask;
    struct sigaction actions[NSIG];
    struct rlimit files;
} ki_run_inherited;

/* ---- run_guard.c ---- */

/* Runs the job; returns the exit status. */
int ki_run_guard(ki_run_options *options);

/* Removes the private folder and the files in it (it has no sub-folders). */
void ki_run_store_folder_remove(const char *path);

/* ---- run_supervise.c ---- */

/* What the guard gives to the launcher. */
typedef struct ki_run_handover {
    const ki_run_inherited *inherited;
    int signal_fd; /* signalfd of everything that is forwarded, and SIGCHLD */
    int life_fd;   /* end-of-file: the guard is gone */
    int stdin_fd;  /* rank 0's standard input */
} ki_run_handover;

/* The launcher's whole life; returns the exit status. */
int ki_run_supervise(const ki_run_options *options, const ki_run_handover *handover);

/* ---- run_launch.c ---- */

typedef struct ki_run_rank {
    pid_t pid; /* 0: not started */
    bool is_running;
} ki_run_rank;

/* Written by a rank that could not become the program. */
typedef struct ki_run_start_error {
    int rank;
    int cause; /* errno */
    char step[24];
} ki_run_start_error;

struct ki_bind_plan;
typedef struct ki_run_start {
    const ki_run_options *options;
    const ki_run_handover *handover;
    const struct ki_bind_plan *bind;
    const char *secret;
    pid_t launcher;
    int null_fd;  /* /dev/null */
    int error_fd; /* write end of the pipe for ki_run_start_error */
} ki_run_start;

/* Forks one rank. output_fds: its standard output and error, -1: the launcher's own. Returns the pid, or -1 and errno.
 * */
pid_t ki_run_start_rank(const ki_run_start *start, int rank, const int output_fds[2]);

/* ---- run_output.c ---- */

typedef struct ki_run_output ki_run_output;

/* name: as in the options, borrowed. With rank_count 0 nothing is collected: messages go straight to stderr. NULL when
 * memory is short. */
ki_run_output *ki_run_output_create(const char *name, int rank_count);
void ki_run_output_destroy(ki_run_output *output);

/* Makes the two pipes of a rank; the write ends are the caller's to close. -1 and errno on failure. */
int ki_run_output_open(ki_run_output *output, int rank, int write_fds[2]);

/* One line of the command itself, without newline. */
void ki_run_output_message(ki_run_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds what to wait for to fds (room for ki_run_output_poll_max()); returns how many were added. */
size_t ki_run_output_poll_max(const ki_run_output *output);
size_t ki_run_output_poll(ki_run_output *output, struct pollfd *fds);

/* Reads and writes what is possible now, fds as filled by the last ki_run_output_poll(). */
void ki_run_output_advance(ki_run_output *output, const struct pollfd *fds, size_t count);

/* All writers are dead: takes what the pipes still hold and closes them. */
void ki_run_output_drain(ki_run_output *output);

/* 1 when everything was written out. */
bool ki_run_output_is_empty(const ki_run_output *output);

/* ---- run_bind.c ---- */

typedef struct ki_bind_plan {
    int share_count;   /* 0: ranks are not bound */
    cpu_set_t *shares; /* [share_count], each share_nbytes */
    size_t share_nbytes;
    int threads; /* that each rank can run at once; at least 1 */
} ki_bind_plan;

/* Decides where ranks run, from the processors that this process may use. On failure a sentence in error. */
bool ki_bind_plan_create(ki_bind_kind kind, int rank_count, ki_bind_plan *plan, char *error, size_t error_nbytes);
void ki_bind_plan_destroy(ki_bind_plan *plan);

/* NULL: the rank is not bound. */
const cpu_set_t *ki_bind_plan_share(const ki_bind_plan *plan, int rank);

/* ---- run_placement.c ---- */

/* Reads and checks a placement; NULL after a sentence on stderr. binds: ranks are bound where they can be. */
ki_run_placement *ki_run_placement_read(const char *path, bool binds);
void ki_run_placement_destroy(ki_run_placement *placement);
int ki_run_placement_rank_count(const ki_run_placement *placement);
/* Sets the rank's variables in this process. False when memory is short. */
bool ki_run_placement_set_environment(const ki_run_placement *placement, int rank);
/* Replaces the shares of a plan that has none; ranks without processors have an empty share. False when memory is
 * short. */
bool ki_run_placement_bind(const ki_run_placement *placement, ki_bind_plan *plan);

/* ---- run_sweep.c ---- */

/* Sends a signal to every process that descends from this one; returns how many there were. Descendants that only
 * become visible later (a fork during the call) need another call: repeat until waitpid() says ECHILD. */
size_t ki_sweep_descendants(int signal_number);

/* Kills the children, after a moment every descendant, and reaps until none is left. */
void ki_sweep_all(void);

#endif
