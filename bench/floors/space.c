/* bench/floors/space.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "space.h"

#include "../engine/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

void floor_pause(const floor_space *space)
{
    if (space->is_spinning) {
        bench_pause();
    } else {
        sched_yield();
    }
}

void *floor_shared_memory(size_t nbytes)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "bench: no shared memory of %zu bytes\n", nbytes);
        exit(1);
    }
    return memory;
}

bool floor_allocate_ordinary(void *self, size_t nbytes, void **send, void **recv)
{
    floor_space *space = *(floor_space **)self;
    for (int i = 0; i < 2; i++) {
        if (space->ordinary[i] == NULL) {
            if (posix_memalign(&space->ordinary[i], 4096, nbytes) != 0) {
                fprintf(stderr, "bench: no memory for a buffer of %zu bytes\n", nbytes);
                return false;
            }
            memset(space->ordinary[i], 0, nbytes);
        }
    }
    *send = space->ordinary[0];
    *recv = space->ordinary[1];
    return true;
}

bool floor_allocate_mapped(void *self, size_t nbytes, void **send, void **recv)
{
    floor_space *space = *(floor_space **)self;
    *send = floor_mapped(space, space->rank, 0);
    *recv = floor_mapped(space, space->rank, 1);
    memset(*send, 0, nbytes);
    memset(*recv, 0, nbytes);
    return true;
}
