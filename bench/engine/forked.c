/* bench/engine/forked.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "forked.h"

#include "segment.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    bench_forked_options *options = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &options->common;
        return 0;
    }
    if (key != 'n') {
        return ARGP_ERR_UNKNOWN;
    }
    options->size = atoi(arg);
    if (options->size < 1 || options->size > BENCH_MAX_RANKS) {
        argp_error(state, "-n is '%s'; it must be a number from 1 to %d", arg, BENCH_MAX_RANKS);
    }
    return 0;
}

void bench_forked_parse(int argc, char **argv, const char *about, bench_forked_options *options)
{
    static const struct argp_option own[] = { { "ranks", 'n', "N", 0, "processes; default: 2", -1 }, { 0 } };
    static const struct argp_child children[] = { { &bench_options_argp, 0, NULL, 0 }, { 0 } };
    const struct argp argp = { own, parse_option, NULL, about, children, NULL, NULL };
    *options = (bench_forked_options){ .size = 2 };
    bench_options_init(&options->common);
    argp_parse(&argp, argc, argv, 0, NULL, options);
}

/* Rank 0 would wait for a dead rank for ever. */
static void on_child(int signal_number)
{
    int status;
    int saved = errno;
    (void)signal_number;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            _exit(1);
        }
    }
    errno = saved;
}

int bench_fork_ranks(int size)
{
    struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_RESTART };
    sigaction(SIGCHLD, &action, NULL);
    for (int r = 1; r < size; r++) {
        pid_t child = fork();
        if (child < 0) {
            fprintf(stderr, "bench: cannot start rank %d\n", r);
            exit(1);
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            return r;
        }
    }
    return 0;
}
