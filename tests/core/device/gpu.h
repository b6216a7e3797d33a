/* tests/core/device/gpu.h - buffers on a rank's device, as the tests of this folder fill and read them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_DEVICE_GPU_H
#define TESTS_DEVICE_GPU_H

#include "conformance/harness.h"
#include <kith/device.h>
#include <string.h>

typedef struct gpu {
    kith_device *device;
    kith_stream *stream; /* for copies of the test itself, or the group's */
} gpu;

static inline void gpu_open(const rank_info *info, gpu *g)
{
    g->device = kith_ctx_device(info->ctx);
    REQUIRE(g->device != NULL);
    REQUIRE_OK(kith_stream_create(g->device, &g->stream));
}

static inline void gpu_close(gpu *g)
{
    REQUIRE_OK(kith_stream_destroy(g->stream));
}

static inline void *gpu_alloc(const gpu *g, size_t nbytes)
{
    void *ptr = NULL;
    REQUIRE_OK(kith_device_alloc(g->device, nbytes, &ptr));
    return ptr;
}

/* In the stream's order; waited for when has_to_be_there. */
static inline void gpu_put(const gpu *g, void *to, const void *from, size_t nbytes, bool has_to_be_there)
{
    REQUIRE_OK(kith_stream_copy(g->stream, to, from, nbytes));
    if (has_to_be_there)
        REQUIRE_OK(kith_stream_synchronize(g->stream));
}

static inline void gpu_get(const gpu *g, void *to, const void *from, size_t nbytes)
{
    REQUIRE_OK(kith_stream_copy(g->stream, to, from, nbytes));
    REQUIRE_OK(kith_stream_synchronize(g->stream));
}

/* Ranks with a device each (or shared, with one device), over a backend of the host. */
static inline run_options gpu_options(launch_mode mode, int size, const char *backend)
{
    static const kith_setting settings[] = { { "device", "cuda:local" }, { "stage_nbytes", "4k" } };
    const run_options options = { .mode = mode,
                                  .size = size,
                                  .backend = backend,
                                  .settings = settings,
                                  .setting_count = sizeof settings / sizeof settings[0],
                                  .timeout_s = 50 };
    return options;
}

#endif
