/* tools/bench/memory.c - buffers: ordinary memory of the host, memory that all ranks map, or a device's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 4096

static kith_status make_host(size_t nbytes, void **ptr)
{
    *ptr = nbytes <= SIZE_MAX - ALIGNMENT ? aligned_alloc(ALIGNMENT, (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)
                                          : NULL;
    return *ptr != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static kith_status make_one(bench_buffers *buffers, size_t nbytes, void **ptr)
{
    switch (buffers->memory) {
    case BENCH_MAPPED:
        return kith_mem_alloc(buffers->group, nbytes, ptr);
    case BENCH_DEVICE:
        return kith_device_alloc(buffers->device, nbytes, ptr);
    default:
        return make_host(nbytes, ptr);
    }
}

/* Pages are there before anything is timed, and hold numbers: a sum of what memory happens to hold could be slow. */
static kith_status touch(bench_buffers *buffers, void *ptr, size_t nbytes)
{
    if (buffers->memory == BENCH_DEVICE)
        return kith_stream_fill(buffers->stream, ptr, 0, nbytes);
    memset(ptr, 0, nbytes);
    return KITH_OK;
}

kith_status bench_buffers_make(bench_buffers *buffers, bench_memory memory, kith_group *group, size_t send_nbytes,
                               size_t recv_nbytes)
{
    *buffers = (bench_buffers){ .memory = memory, .group = group };
    buffers->send_nbytes = send_nbytes > 0 ? send_nbytes : 1;
    buffers->recv_nbytes = recv_nbytes > 0 ? recv_nbytes : 1;
    kith_status status = KITH_OK;
    if (memory == BENCH_DEVICE) {
        buffers->device = kith_ctx_device(kith_group_ctx(group));
        status = kith_stream_create(buffers->device, &buffers->stream);
    }
    if (status == KITH_OK)
        status = make_one(buffers, buffers->send_nbytes, &buffers->send);
    if (status == KITH_OK)
        status = make_one(buffers, buffers->recv_nbytes, &buffers->recv);
    if (status == KITH_OK)
        status = touch(buffers, buffers->send, buffers->send_nbytes);
    if (status == KITH_OK)
        status = touch(buffers, buffers->recv, buffers->recv_nbytes);
    return status == KITH_OK && memory == BENCH_DEVICE ? kith_stream_synchronize(buffers->stream) : status;
}

static void free_one(bench_buffers *buffers, void *ptr)
{
    if (buffers->memory == BENCH_MAPPED)
        kith_mem_free(buffers->group, ptr);
    else if (buffers->memory == BENCH_DEVICE)
        kith_device_free(buffers->device, ptr);
    else
        free(ptr);
}

void bench_buffers_free(bench_buffers *buffers)
{
    free_one(buffers, buffers->send);
    free_one(buffers, buffers->recv);
    kith_stream_destroy(buffers->stream);
    *buffers = (bench_buffers){ 0 };
}

kith_status bench_buffers_write(bench_buffers *buffers, void *to, const void *from, size_t nbytes)
{
    if (buffers->memory != BENCH_DEVICE) {
        memcpy(to, from, nbytes);
        return KITH_OK;
    }
    kith_status status = kith_stream_copy(buffers->stream, to, from, nbytes);
    return status == KITH_OK ? kith_stream_synchronize(buffers->stream) : status;
}

kith_status bench_buffers_read(bench_buffers *buffers, void *to, const void *from, size_t nbytes)
{
    return bench_buffers_write(buffers, to, from, nbytes);
}

/* The number behind `key` in a file of the kernel; SIZE_MAX when there is none ("max" included). */
static size_t read_number(const char *path, const char *key)
{
    char line[256];
    unsigned long long number = 0;
    size_t found = SIZE_MAX, length = strlen(key);
    FILE *file = fopen(path, "r");
    while (file != NULL && found == SIZE_MAX && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && sscanf(line + length, "%llu", &number) == 1)
            found = (size_t)number;
    if (file != NULL)
        fclose(file);
    return found;
}

size_t bench_memory_available(void)
{
    size_t kib = read_number("/proc/meminfo", "MemAvailable:");
    size_t available = kib <= SIZE_MAX >> 10 ? kib << 10 : SIZE_MAX;
    size_t limit = read_number("/sys/fs/cgroup/memory.max", "");
    size_t used = read_number("/sys/fs/cgroup/memory.current", "");
    if (limit != SIZE_MAX && used != SIZE_MAX) {
        size_t left = limit > used ? limit - used : 0;
        available = left < available ? left : available;
    }
    return available;
}
