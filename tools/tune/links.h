/* tools/tune/links.h - link classes: the same operation over every way that the ranks have, by forcing it.
 *
 * A class is a backend and settings that leave it one way. Settings are read when a rank starts, so each class is a run
 * of its own: `kith bench` again, as a child with a changed environment, whose rows get the name of the class. A class
 * that is not there is told with what the backend said when it was asked.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_LINKS_H
#define KI_TOOLS_TUNE_LINKS_H

#include <stdbool.h>
#include <stddef.h>

/* ---- classes.c ---- */

typedef struct tune_class {
    const char *name, *backend;
    const char *settings[2][2]; /* name and value; NULL: no more */
    bool is_of_devices;         /* between GPUs' memories */
    bool needs_cma;             /* process_vm_readv() between ranks */
} tune_class;

/* NULL past the end. */
const tune_class *tune_class_at(size_t index);
/* Whether one process may read another's memory here; writes why not. */
bool tune_cma_works(char *reason, size_t nbytes);

/* ---- nccl_way.c: which way NCCL took ----
 *
 * NCCL takes another way where it cannot take the wanted one, and tells only in its log. So classes of NCCL let it
 * write one, and are absent where the log names another way. A log that names none decides nothing. */

typedef struct tune_ways {
    int p2p, shm, net; /* lines of connections */
} tune_ways;

/* Adds what a text of the log says: "... Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM". */
void tune_ways_read(const char *text, tune_ways *ways);
/* Whether a class of that name may be what was measured; else why not. */
bool tune_ways_fit(const tune_ways *ways, const char *class_name, char *reason, size_t nbytes);
/* Of all files in a folder, which it removes together with the folder. */
tune_ways tune_ways_take(const char *folder);

/* ---- job.c ---- */

/* From here on SIGINT, SIGTERM and SIGHUP are noted and passed on to the child that runs; a second one ends it. */
void tune_job_listen(void);
void tune_job_listen_no_more(void);
int tune_job_caught(void); /* the signal; 0: none */

/* Runs path (looked for as a shell does; NULL: this program) with settings in its environment, and waits. What it
 * writes to stderr comes to `reason`: the first line that says something, without the name of the command; with NULL
 * it is left alone. log_folder: where NCCL writes its log; NULL: nowhere. *signal: that ended or interrupted it, 0
 * else; after one that was noted nothing is started. Returns the exit status, 127 when it could not be started. */
int tune_job_run(const char *path, char *const *words, const tune_class *of_class, const char *log_folder, char *reason,
                 size_t nbytes, int *signal);

/* ---- links.c: `kith bench --links` and --model-fit ---- */

/* Whether the words ask for it. */
bool tune_bench_is_asked(int argc, char **argv);
/* Runs what they ask for; returns the exit status. */
int tune_bench(int argc, char **argv);

#endif
