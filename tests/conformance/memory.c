/* tests/conformance/memory.c - see memory.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "memory.h"

#include <stdint.h>
#include <string.h>

#define BLOCKS 256

typedef struct block {
    unsigned char *mirror; /* NULL: free */
    void *device;          /* kept for the next block that fits */
    size_t nbytes, room;
} block;

static _Thread_local struct {
    kith_device *device;
    kith_stream *stream;
    bool is_nccl;
    block blocks[BLOCKS];
} memory;

void memory_begin(const rank_info *info)
{
    const char *name = getenv("KITH_TEST_DEVICE");
    if (name == NULL || *name == '\0')
        return;
    memory.device = kith_ctx_device(info->ctx);
    REQUIRE(memory.device != NULL);
    REQUIRE_OK(kith_stream_create(memory.device, &memory.stream));
    memory.is_nccl = strcmp(kith_group_device_backend(info->world), "nccl") == 0;
}

void memory_end(void)
{
    if (memory.device == NULL)
        return;
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE(memory.blocks[i].mirror == NULL);
        if (memory.blocks[i].device != NULL)
            REQUIRE_OK(kith_device_free(memory.device, memory.blocks[i].device));
    }
    REQUIRE_OK(kith_stream_destroy(memory.stream));
    memset(&memory, 0, sizeof memory);
}

bool memory_is_device(void)
{
    return memory.device != NULL;
}

bool memory_is_nccl(void)
{
    return memory.is_nccl;
}

/* A free block with room; else one that never had any; else the last free one. */
static block *find_free(size_t nbytes)
{
    block *found = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        block *b = &memory.blocks[i];
        if (b->mirror != NULL)
            continue;
        if (b->room >= nbytes && b->room / 4 <= nbytes + 65536)
            return b;
        if (found == NULL || found->room > 0)
            found = b;
    }
    REQUIRE(found != NULL);
    return found;
}

void *memory_alloc(size_t nbytes)
{
    unsigned char *mirror = (unsigned char *)malloc(nbytes > 0 ? nbytes : 1);
    REQUIRE(mirror != NULL);
    if (memory.device == NULL)
        return mirror;
    block *b = find_free(nbytes);
    if (b->room < nbytes || b->device == NULL) {
        if (b->device != NULL)
            REQUIRE_OK(kith_device_free(memory.device, b->device));
        b->room = nbytes > 0 ? nbytes : 1;
        REQUIRE_OK(kith_device_alloc(memory.device, b->room, &b->device));
    }
    b->mirror = mirror;
    b->nbytes = nbytes;
    return mirror;
}

static block *find(const void *pointer)
{
    const unsigned char *at = (const unsigned char *)pointer;
    for (int i = 0; memory.device != NULL && i < BLOCKS; i++) {
        block *b = &memory.blocks[i];
        if (b->mirror != NULL && at >= b->mirror && at < b->mirror + b->nbytes)
            return b;
    }
    return NULL;
}

void memory_free(void *mirror)
{
    block *b = find(mirror);
    if (b != NULL)
        b->mirror = NULL;
    free(mirror);
}

void *memory_at(const void *pointer)
{
    const block *b = find(pointer);
    return b == NULL ? (void *)(uintptr_t)pointer
                     : (unsigned char *)b->device + ((const unsigned char *)pointer - b->mirror);
}

static void copy_all(bool is_to_device)
{
    for (int i = 0; memory.device != NULL && i < BLOCKS; i++) {
        block *b = &memory.blocks[i];
        if (b->mirror == NULL || b->nbytes == 0)
            continue;
        REQUIRE_OK(kith_stream_copy(memory.stream, is_to_device ? b->device : b->mirror,
                                    is_to_device ? (const void *)b->mirror : b->device, b->nbytes));
    }
    if (memory.device != NULL)
        REQUIRE_OK(kith_stream_synchronize(memory.stream));
}

void memory_push(void)
{
    copy_all(true);
}

void memory_pull(void)
{
    copy_all(false);
}
