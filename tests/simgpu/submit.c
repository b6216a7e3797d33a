/* tests/simgpu/submit.c - streams for the libraries above: their operations, waiting inside of them, and tokens.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>
#include <time.h>

int sim_stream_submit(cudaStream_t handle, const char *what, void (*run)(void *arg), void *arg)
{
    sim_stream *stream = sim_stream_of(handle, what);
    if (stream == NULL) {
        free(arg);
        return cudaErrorInvalidResourceHandle;
    }
    sim_stream_put(stream, sim_op_new(what, run, arg), NULL);
    return cudaSuccess;
}

int sim_stream_device(cudaStream_t handle)
{
    const sim_stream *stream = sim_stream_of(handle, "sim_stream_device");
    return stream == NULL ? -1 : stream->device;
}

int sim_wait_until(int (*is_done)(void *arg), void *arg)
{
    for (long ns = 5000; !is_done(arg); ns = ns < 1000000 ? ns + ns / 4 : ns) {
        if (sim_is_exiting())
            return 1;
        const struct timespec time = { 0, ns };
        nanosleep(&time, NULL);
    }
    return 0;
}

struct sim_token {
    sim_clock clock;
};

sim_token *sim_release(void)
{
    sim_token *token = calloc(1, sizeof *token);
    if (token == NULL)
        abort();
    sim_clock_join(&token->clock, &sim_running()->clock);
    return token;
}

void sim_acquire(const sim_token *token)
{
    sim_clock_join(&sim_running()->clock, &token->clock);
}

void sim_token_free(sim_token *token)
{
    if (token != NULL)
        sim_clock_free(&token->clock);
    free(token);
}
