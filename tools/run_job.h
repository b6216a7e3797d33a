/* tools/run_job.h - the state of a job in the launcher, shared by its start (run_start.c) and its supervision
 * (run_supervise.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_RUN_JOB_H
#define KI_TOOLS_RUN_JOB_H

#include "run.h"

typedef enum ki_run_phase { KI_RUN_RUNNING, KI_RUN_ENDING, KI_RUN_LEFTOVERS } ki_run_phase;

typedef struct ki_run_job {
    const ki_run_options *options;
    const ki_run_handover *handover;
    ki_run_output *output;
    ki_bind_plan bind;
    ki_run_rank *ranks;
    int running;
    ki_run_phase phase;
    bool is_childless; /* waitpid() found nobody */
    bool has_failed;   /* exit_status is decided */
    int exit_status;
    bool was_killed;     /* SIGKILL was sent to ranks after the grace time */
    int64_t deadline_ns; /* of the job; 0: none */
    int64_t term_at_ns;  /* LEFTOVERS: when SIGTERM is sent; 0: sent already */
    int64_t kill_at_ns;  /* when SIGKILL is sent next; 0: not yet */
    int requests;        /* how often the user asked to end */
    int64_t request_ns;  /* when last */
    int start_error_fd;  /* -1: all ranks execute the program */
} ki_run_job;

/* Monotonic time. */
int64_t ki_run_now_ns(void);

/* Starts all ranks; a failure to do so fails the job like any other. */
void ki_run_job_start(ki_run_job *self);

/* Notes the first failure and its exit status, says it, and ends the other ranks. what: "rank 2 killed by ...". */
void ki_run_job_fail(ki_run_job *self, int exit_status, const char *what);

#endif
