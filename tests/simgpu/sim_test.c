/* tests/simgpu/sim_test.c - see sim_test.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* What the case said on stderr; its wait status. */
static int run_case(void (*body)(void), sim_env env, char *said, size_t said_nbytes)
{
    int ends[2], status;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* not cmocka's, which goes on with the next test */
        for (; env != NULL && *env != NULL; env++)
            putenv((char *)(uintptr_t)*env);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t got; used < said_nbytes - 1 && (got = read(ends[0], said + used, said_nbytes - 1 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

void case_passes(void (*body)(void), sim_env env)
{
    char said[8192];
    const int status = run_case(body, env, said, sizeof said);
    if (status != 0 || said[0] != '\0')
        fail_msg("wanted: the case ends well and says nothing; got status %d and \"%s\"", status, said);
}

void case_fails_with(void (*body)(void), sim_env env, const char *const *texts)
{
    char said[8192];
    const int status = run_case(body, env, said, sizeof said);
    if (status == 0)
        fail_msg("wanted: \"%s\"; the case ended well and said \"%s\"", texts[0], said);
    if (strstr(said, "simgpu: ") == NULL)
        fail_msg("wanted: \"simgpu: ...%s\"; got status %d and \"%s\"", texts[0], status, said);
    for (; *texts != NULL; texts++)
        if (strstr(said, *texts) == NULL)
            fail_msg("wanted: \"%s\"; got status %d and \"%s\"", *texts, status, said);
}

void must_hold(bool holds, const char *condition, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
        _exit(1);
    }
}

void must_equal(long long got, long long wanted, const char *call, const char *file, int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: wanted %lld, got %lld\n", file, line, call, wanted, got);
        _exit(1);
    }
}

/* ---- helpers ---- */

float *device_floats(size_t count)
{
    void *ptr;
    ok(cudaMalloc(&ptr, count * sizeof(float)));
    return ptr;
}

float *device_floats_with(size_t count, float value)
{
    float *device = device_floats(count), *host = malloc(count * sizeof *host);
    must(host != NULL);
    for (size_t i = 0; i < count; i++)
        host[i] = value;
    ok(cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice));
    ok(cudaDeviceSynchronize());
    free(host);
    return device;
}

void check_floats(const float *device, size_t count, float wanted)
{
    float *host = malloc(count * sizeof *host);
    must(host != NULL);
    ok(cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        if (memcmp(&host[i], &wanted, sizeof wanted) != 0) {
            fprintf(stderr, "element %zu: wanted %g, got %g\n", i, (double)wanted, (double)host[i]);
            _exit(1);
        }
    free(host);
}

cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

cudaEvent_t new_event(void)
{
    cudaEvent_t event;
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static cudaLibrary_t library;

cudaKernel_t kernel(const char *name)
{
    static const uint32_t image[4] = { 0xba55ed50u }; /* the head of what nvcc makes */
    cudaKernel_t found;
    if (library == NULL)
        ok(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    ok(cudaLibraryGetKernel(&found, library, name));
    return found;
}

void done(void)
{
    if (library != NULL)
        ok(cudaLibraryUnload(library));
    library = NULL;
}

cudaError_t launch(cudaStream_t stream, const char *name, unsigned blocks, unsigned threads, const void *args)
{
    void *list[] = { (void *)(uintptr_t)args };
    const dim3 grid = { blocks, 1, 1 }, block = { threads, 1, 1 };
    return cudaLaunchKernel((const void *)kernel(name), grid, block, list, 0, stream);
}

void add(cudaStream_t stream, const float *x, float *y, size_t count, float value)
{
    const test_add_args args = { x, y, (int64_t)count, value };
    ok(launch(stream, "test_add", 2, 64, &args));
}

static void wait_at(void *arg)
{
    const gate *g = arg;
    const struct timespec ms = { 0, 1000000 };
    while (!__atomic_load_n(&g->is_open, __ATOMIC_ACQUIRE))
        nanosleep(&ms, NULL);
}

void gate_put(gate *g, cudaStream_t stream)
{
    g->is_open = 0;
    ok(cudaLaunchHostFunc(stream, wait_at, g));
}

void gate_open(gate *g)
{
    __atomic_store_n(&g->is_open, 1, __ATOMIC_RELEASE);
}
