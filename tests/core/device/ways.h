/* tests/core/device/ways.h - one body on every way that device memory can go: how its ranks begin, end and are started.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_DEVICE_WAYS_H
#define TESTS_DEVICE_WAYS_H

#include "core/device/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define WAYS_MOST 8

typedef struct way {
    const char *name;
    launch_mode mode;
    int size;
    const char *backend; /* NULL: nobody asks for one by name */
    const char *carrier; /* what kith_group_device_backend() must say */
    rank_function body;  /* set by run_ways() */
} way;

/* Opens the rank's device; true where NCCL carries its memory, as the way said it would. */
static inline bool way_begin(const rank_info *info, gpu *g)
{
    gpu_open(info, g);
    REQUIRE_TEXT(kith_group_device_backend(info->world), info->argument);
    return strcmp(info->argument, "nccl") == 0;
}

/* Nothing is under way on the device any more: the two buffers go, and the stream. */
static inline void way_end(gpu *g, kith_group *group, void *send, void *recv)
{
    REQUIRE_OK(kith_group_set_stream(group, NULL));
    REQUIRE_OK(kith_group_synchronize(group));
    REQUIRE_OK(kith_device_free(g->device, send));
    REQUIRE_OK(kith_device_free(g->device, recv));
    gpu_close(g);
}

static inline void run_way(void **state)
{
    const way *w = (const way *)*state;
    const run_options options = gpu_options(w->mode, w->size, w->backend);
    assert_int_equal(run_ranks(&options, w->body, w->carrier), 0);
}

/* Each way is a test. Ranks as threads stand last: CUDA does not work in a child of a process that has used it. With
 * arguments it is one way: a backend, a carrier and, where no launcher has started the ranks, how many. */
static inline int run_ways(int argc, char **argv, way *ways, size_t count, rank_function body)
{
    struct CMUnitTest tests[WAYS_MOST] = { 0 }; /* CMocka leaves out what has no name */
    bool has_threads = false;
    if (argc >= 3) {
        launch_mode mode = argc == 3 ? LAUNCH_ENVIRONMENT : LAUNCH_FORK;
        const run_options options = gpu_options(mode, argc == 3 ? 0 : atoi(argv[3]), argv[1]);
        return run_ranks(&options, body, argv[2]);
    }
    for (size_t i = 0; i < count; i++) {
        has_threads = has_threads || ways[i].mode == LAUNCH_THREADS;
        if (i >= WAYS_MOST || (has_threads && ways[i].mode != LAUNCH_THREADS))
            return 1;
        ways[i].body = body;
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(run_way, &ways[i]);
        tests[i].name = ways[i].name;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
