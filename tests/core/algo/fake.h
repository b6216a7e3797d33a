/* tests/core/algo/fake.h - a backend whose group is a set of simulated ranks in this process.
 *
 * Messages match in order per pair and complete in random order after random delays. It watches its user: buffers in
 * flight must not overlap, must not be written while they are sent or touched while they are received into, slots must
 * be zeroed and unused, sends to self and empty messages do not occur, nothing is left in flight at the end. A
 * violation fails the running CMocka test.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef FAKE_H
#define FAKE_H

#include <kith/backend.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum fake_mode {
    FAKE_EAGER,      /* a send is over at once, its data travels */
    FAKE_RENDEZVOUS, /* a send is over when its receive has the data */
    FAKE_MIXED       /* eager up to 64 bytes */
} fake_mode;

typedef struct fake_world fake_world;
typedef struct fake_group { /* what the executor of one rank gets */
    fake_world *world;
    int rank;
} fake_group;

fake_world *fake_create(int size, fake_mode mode, uint64_t seed);
/* Fails the test when something is still in flight, unless it was cancelled. */
void fake_destroy(fake_world *world);
fake_group *fake_rank(fake_world *world, int rank);
extern const kith_backend fake_backend;

/* Lets time pass: some of the matched messages arrive. Returns how many. */
int fake_tick(fake_world *world);
/* Messages from a rank vanish from now on: it is dead. */
void fake_kill(fake_world *world, int rank);
/* The n-th start from now on fails with KITH_ERR_PEER_FAILED. */
void fake_fail_start(fake_world *world, int n);
/* The next message that a rank sends arrives with this many bytes less. */
void fake_shorten(fake_world *world, int rank, size_t nbytes);
size_t fake_in_flight(const fake_world *world);
/* Most operations of one rank that were in flight together. */
size_t fake_most_in_flight(const fake_world *world);

uint64_t fake_random(uint64_t *state);

#endif
