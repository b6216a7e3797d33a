/* tests/simgpu/test_simgpu_races.c - the detector of races: what it must find, in whichever order things ran, and what
 * it must not.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 64 };

typedef enum access { READS, WRITES } access;

/* What a case does: two streams, what each does to the same bytes, which is held back until the other is done. */
static access of_first, of_second;
static bool first_is_late, with_event;
static cudaStream_t first, second;
static float *shared, *spare[2];

static void touch(cudaStream_t stream, access how, float *own)
{
    if (how == WRITES)
        add(stream, own, shared, COUNT, 1);
    else
        add(stream, shared, own, COUNT, 1);
}

static void begin(void)
{
    first = new_stream();
    second = new_stream();
    shared = device_floats_with(COUNT, 0);
    spare[0] = device_floats_with(COUNT, 1);
    spare[1] = device_floats_with(COUNT, 2);
}

static void end(void)
{
    ok(cudaDeviceSynchronize());
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    ok(cudaFree(shared));
    ok(cudaFree(spare[0]));
    ok(cudaFree(spare[1]));
    done();
}

/* Both are put in before either may run; then one runs to its end before the other. The gates are the host's, so they
 * order nothing that the detector knows of. */
static void two_streams(void)
{
    gate held[2];
    begin();
    cudaEvent_t event = new_event();
    gate_put(&held[0], first);
    gate_put(&held[1], second);
    touch(first, of_first, spare[0]);
    if (with_event) {
        ok(cudaEventRecord(event, first));
        ok(cudaStreamWaitEvent(second, event, 0));
    }
    touch(second, of_second, spare[1]);
    gate *early = &held[first_is_late ? 1 : 0], *late = &held[first_is_late ? 0 : 1];
    if (with_event) { /* nothing can be reversed */
        gate_open(early);
        gate_open(late);
    } else {
        cudaStream_t soon = first_is_late ? second : first;
        gate_open(early);
        while (cudaStreamQuery(soon) == cudaErrorNotReady) /* the host knows of it, the other operation not */
            ;
        gate_open(late);
    }
    end();
    ok(cudaEventDestroy(event));
}

static void pairs_of_accesses(void **state)
{
    static const access all[][2] = { { READS, WRITES }, { WRITES, READS }, { WRITES, WRITES } };
    static const char *const verbs[] = { "reads", "writes" };
    static const char *const forgetful[] = { "KITH_SIMGPU_FAULT=forget_wait:1", NULL };
    char text[256];
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int late = 0; late < 2; late++) {
            of_first = all[i][0];
            of_second = all[i][1];
            first_is_late = late != 0;
            with_event = false;
            /* The sentence begins with the one that ran last. */
            snprintf(
                text, sizeof text,
                "race: 'test_add' in stream %d of device 0 %s and 'test_add' in stream %d of device 0 %s byte 0 of a "
                "buffer of 256 bytes",
                late ? 1 : 2, verbs[all[i][late ? 0 : 1]], late ? 2 : 1, verbs[all[i][late ? 1 : 0]]);
            case_fails(two_streams, NULL, text, "neither is ordered after the other");
            with_event = true;
            case_passes(two_streams, NULL);
            case_fails(two_streams, forgetful, "race", "neither is ordered after the other");
        }
    of_first = of_second = READS;
    with_event = false;
    case_passes(two_streams, NULL);
}

/* ---- what orders, and what does not ---- */

static void event_comes_too_early(void)
{
    begin();
    cudaEvent_t event = new_event();
    ok(cudaEventRecord(event, first));
    touch(first, WRITES, spare[0]);
    ok(cudaStreamWaitEvent(second, event, 0));
    touch(second, READS, spare[1]);
    end();
}

static void event_waits_too_late(void)
{
    begin();
    cudaEvent_t event = new_event();
    touch(first, WRITES, spare[0]);
    ok(cudaEventRecord(event, first));
    touch(second, READS, spare[1]);
    ok(cudaStreamWaitEvent(second, event, 0));
    end();
}

/* What was recorded when the wait was put in counts, not what comes later. */
static void event_is_recorded_again(void)
{
    begin();
    cudaEvent_t event = new_event();
    touch(first, WRITES, spare[0]);
    ok(cudaEventRecord(event, first));
    ok(cudaStreamWaitEvent(second, event, 0));
    touch(first, WRITES, spare[0]);
    ok(cudaEventRecord(event, first));
    touch(second, READS, spare[1]);
    end();
}

static void host_waits(void)
{
    begin();
    touch(first, WRITES, spare[0]);
    ok(cudaStreamSynchronize(first));
    touch(second, WRITES, spare[1]);
    while (cudaStreamQuery(second) == cudaErrorNotReady)
        ;
    touch(first, READS, spare[0]);
    cudaEvent_t event = new_event();
    ok(cudaEventRecord(event, first));
    while (cudaEventQuery(event) == cudaErrorNotReady)
        ;
    touch(second, WRITES, spare[1]);
    end();
    ok(cudaEventDestroy(event));
}

/* The stream was done, but nobody asked: luck is no order. */
static void host_is_lucky(void)
{
    begin();
    gate g;
    touch(first, WRITES, spare[0]);
    gate_put(&g, first);
    gate_open(&g);
    float other[COUNT];
    ok(cudaMemcpyAsync(other, spare[1], sizeof other, cudaMemcpyDeviceToHost, second)); /* waits for another stream */
    touch(second, READS, spare[1]);
    end();
}

static void chain_through_a_third(void)
{
    begin();
    cudaStream_t third = new_stream();
    cudaEvent_t events[2] = { new_event(), new_event() };
    touch(first, WRITES, spare[0]);
    ok(cudaEventRecord(events[0], first));
    ok(cudaStreamWaitEvent(third, events[0], 0));
    ok(cudaEventRecord(events[1], third));
    ok(cudaStreamWaitEvent(second, events[1], 0));
    touch(second, WRITES, spare[1]);
    end();
    ok(cudaStreamDestroy(third));
    ok(cudaEventDestroy(events[0]));
    ok(cudaEventDestroy(events[1]));
}

static void default_stream_is_between(void)
{
    cudaStream_t blocking[2];
    begin();
    for (int i = 0; i < 2; i++)
        ok(cudaStreamCreate(&blocking[i]));
    touch(blocking[0], WRITES, spare[0]);
    add(NULL, spare[1], spare[1], COUNT, 1);
    touch(blocking[1], WRITES, spare[0]);
    ok(cudaStreamDestroy(blocking[0])); /* what it did is known of */
    ok(cudaStreamDestroy(blocking[1]));
    add(NULL, shared, shared, COUNT, 1);
    end();
}

static void default_stream_skips_others(void)
{
    begin();
    touch(first, WRITES, spare[0]);
    add(NULL, shared, spare[1], COUNT, 1);
    end();
}

static void freeing_is_no_order(void)
{
    begin();
    touch(first, WRITES, spare[0]);
    ok(cudaFree(device_floats(4))); /* waits for the device, but CUDA promises nothing */
    touch(second, WRITES, spare[1]);
    end();
}

static void orders(void **state)
{
    (void)state;
    case_fails(event_comes_too_early, NULL, "race");
    case_fails(event_waits_too_late, NULL, "race");
    case_fails(event_is_recorded_again, NULL, "race");
    case_passes(host_waits, NULL);
    case_fails(host_is_lucky, NULL, "race");
    case_passes(chain_through_a_third, NULL);
    case_passes(default_stream_is_between, NULL);
    case_fails(default_stream_skips_others, NULL, "race", "in the default stream of device 0");
    case_fails(freeing_is_no_order, NULL, "race");
}

/* ---- which bytes ---- */

static void neighbours(void)
{
    begin();
    uint8_t *bytes = (uint8_t *)shared;
    cudaStream_t streams[2] = { first, second };
    for (int i = 0; i < 100; i++)
        ok(cudaMemsetAsync(bytes + i, i, 1, streams[i % 2]));
    end();
}

static void one_byte_in_common(void)
{
    begin();
    ok(cudaMemsetAsync(shared, 1, 101, first));
    ok(cudaMemsetAsync((char *)shared + 100, 1, 50, second));
    end();
}

/* The writer comes after one reader and not after the other. */
static void one_of_two_readers(void)
{
    begin();
    cudaStream_t third = new_stream();
    cudaEvent_t event = new_event();
    touch(third, READS, spare[0]);
    touch(first, READS, spare[1]);
    ok(cudaEventRecord(event, first));
    ok(cudaStreamWaitEvent(second, event, 0));
    ok(cudaMemsetAsync(shared, 0, COUNT * sizeof *shared, second));
    end();
}

static void both_readers(void)
{
    begin();
    cudaStream_t third = new_stream();
    cudaEvent_t event = new_event();
    touch(third, READS, spare[0]);
    ok(cudaEventRecord(event, third));
    ok(cudaStreamWaitEvent(second, event, 0));
    touch(first, READS, spare[1]);
    ok(cudaEventRecord(event, first));
    ok(cudaStreamWaitEvent(second, event, 0));
    ok(cudaMemsetAsync(shared, 0, COUNT * sizeof *shared, second));
    end();
    ok(cudaStreamDestroy(third));
    ok(cudaEventDestroy(event));
}

/* Columns of a matrix, side by side. */
static void columns(void)
{
    begin();
    ok(cudaMemcpy2DAsync(shared, 32, spare[0], 32, 16, 8, cudaMemcpyDeviceToDevice, first));
    ok(cudaMemcpy2DAsync((char *)shared + 16, 32, spare[1], 32, 16, 8, cudaMemcpyDeviceToDevice, second));
    end();
}

static void pinned_memory(void)
{
    void *pinned;
    begin();
    ok(cudaMallocHost(&pinned, 256));
    ok(cudaMemcpyAsync(pinned, spare[0], 256, cudaMemcpyDeviceToHost, first));
    ok(cudaMemcpyAsync(spare[1], pinned, 256, cudaMemcpyHostToDevice, second));
    end();
}

/* A new buffer where an old one was has no past. */
static void memory_is_used_again(void)
{
    begin();
    for (int i = 0; i < 40; i++) {
        void *big;
        ok(cudaMalloc(&big, 512 << 10));
        ok(cudaMemsetAsync(big, 0, 512 << 10, i % 2 ? first : second));
        ok(cudaFree(big));
    }
    end();
}

static void bytes(void **state)
{
    static const char *const small[] = { "KITH_SIMGPU_MEMORY=1048576", NULL };
    (void)state;
    case_passes(neighbours, NULL);
    case_fails(one_byte_in_common, NULL, "race", "byte 100 of a buffer of 256 bytes");
    case_fails(one_of_two_readers, NULL, "race", "'test_add' in stream 3");
    case_passes(both_readers, NULL);
    case_passes(columns, NULL);
    case_fails(pinned_memory, NULL, "race", "pinned memory");
    case_passes(memory_is_used_again, small);
}

/* ---- for the libraries above ---- */

static sim_token *token;

static void write_and_release(void *arg)
{
    must(sim_access(*(void **)arg, 16, SIM_WRITE) != NULL);
    __atomic_store_n(&token, sim_release(), __ATOMIC_RELEASE);
}

static int is_released(void *arg)
{
    (void)arg;
    return __atomic_load_n(&token, __ATOMIC_ACQUIRE) != NULL;
}

static void acquire_and_write(void *arg)
{
    must(sim_wait_until(is_released, NULL) == 0);
    sim_acquire(token);
    must(sim_access(*(void **)arg, 16, SIM_WRITE) != NULL);
}

static void wait_and_write(void *arg)
{
    must(sim_wait_until(is_released, NULL) == 0);
    must(sim_access(*(void **)arg, 16, SIM_WRITE) != NULL);
}

static void submit(cudaStream_t stream, void (*run)(void *arg))
{
    void **arg = malloc(sizeof *arg);
    must(arg != NULL);
    *arg = shared;
    must(sim_stream_submit(stream, "operation", run, arg) == 0);
}

static void meet(void (*run)(void *arg))
{
    begin();
    submit(second, run);
    touch(second, READS, spare[1]); /* knows what the operation before it learnt */
    submit(first, write_and_release);
    end();
    sim_token_free(token);
}

static void tokens_order(void)
{
    meet(acquire_and_write);
}

static void waiting_alone_does_not(void)
{
    meet(wait_and_write);
}

static void access_outside(void)
{
    begin();
    sim_access(shared, 4, SIM_READ);
}

static void tokens(void **state)
{
    (void)state;
    case_passes(tokens_order, NULL);
    case_fails(waiting_alone_does_not, NULL, "race", "'operation' in stream 2", "'operation' in stream 1");
    case_fails(access_outside, NULL, "outside of an operation");
}

/* ---- counting instead of ending ---- */

static void goes_on(void)
{
    begin();
    must(sim_failures() == 0 && strcmp(sim_last_failure(), "") == 0);
    touch(first, WRITES, spare[0]);
    touch(second, WRITES, spare[1]);
    end();
    if (sim_failures() == 1 && strstr(sim_last_failure(), "race: 'test_add'") != NULL)
        exit(3);
}

static void keep_going(void **state)
{
    static const char *const env[] = { "KITH_SIMGPU_KEEP_GOING=1", NULL };
    (void)state;
    case_fails(goes_on, env, "race", "writes byte 0 of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_accesses),
        cmocka_unit_test(orders),
        cmocka_unit_test(bytes),
        cmocka_unit_test(tokens),
        cmocka_unit_test(keep_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
