/* tests/simgpu/sim_test.h - cases of the simulator's own tests.
 *
 * Each case is a child process that has its own simulator and its own settings, since a failure ends it. The child
 * exits as any program does, so what it leaks is found too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include "simgpu.h"
#include "test_kernels.h"
#include <stdbool.h>
#include <stddef.h>

/* Settings for the case: "NAME=value", up to a NULL. */
typedef const char *const *sim_env;

/* The case ends well and says nothing. */
void case_passes(void (*body)(void), sim_env env);
/* It ends badly, with a sentence that has all of the texts in it (up to a NULL). */
void case_fails_with(void (*body)(void), sim_env env, const char *const *texts);
#define case_fails(body, env, ...) case_fails_with(body, env, (const char *const[]){ __VA_ARGS__, NULL })

/* In a case: ends it with a line when it does not hold. */
#define must(condition) must_hold(condition, #condition, __FILE__, __LINE__)
void must_hold(bool holds, const char *condition, const char *file, int line);
#define must_be(call, wanted) must_equal((long long)(call), (long long)(wanted), #call, __FILE__, __LINE__)
void must_equal(long long got, long long wanted, const char *call, const char *file, int line);
#define ok(call) must_be(call, cudaSuccess)

/* ---- helpers ---- */

float *device_floats(size_t count); /* of the current device */
float *device_floats_with(size_t count, float value);
void check_floats(const float *device, size_t count, float wanted);
cudaStream_t new_stream(void); /* one that the default stream does not wait for */
cudaEvent_t new_event(void);
cudaKernel_t kernel(const char *name);
/* y = x + value */
void add(cudaStream_t stream, const float *x, float *y, size_t count, float value);
cudaError_t launch(cudaStream_t stream, const char *name, unsigned blocks, unsigned threads, const void *args);
/* Unloads what kernel() loaded. */
void done(void);

/* A gate in a stream: what comes after it in the stream waits until it is opened. */
typedef struct gate {
    int is_open;
} gate;
void gate_put(gate *g, cudaStream_t stream);
void gate_open(gate *g);

#endif
