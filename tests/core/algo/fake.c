/* tests/core/algo/fake.c - the simulated backend. One list of operations; the n-th send of a pair matches its n-th
 * receive.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

typedef struct operation {
    struct operation *next;
    bool is_send, is_done, is_arrived, is_unused; /* unused: the slot was taken back */
    int rank, peer;
    uint64_t tag, number; /* number in its pair */
    unsigned char *buffer;
    size_t nbytes, taken;
    unsigned char *copy; /* eager data, or what the buffer must still hold */
    kith_be_slot *slot;
} operation;

struct fake_world {
    int size;
    fake_mode mode;
    uint64_t random;
    fake_group *groups;
    bool *is_dead;
    operation *operations;
    uint64_t *sent, *received; /* [size * size] numbers */
    size_t *in_flight, most;
    size_t *shorten;
    int fail_in;
};

uint64_t fake_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

fake_world *fake_create(int size, fake_mode mode, uint64_t seed)
{
    fake_world *world = calloc(1, sizeof *world);
    size_t n = (size_t)size;
    world->size = size;
    world->mode = mode;
    world->random = seed;
    world->groups = calloc(n, sizeof *world->groups);
    world->is_dead = calloc(n, sizeof *world->is_dead);
    world->sent = calloc(n * n, sizeof *world->sent);
    world->received = calloc(n * n, sizeof *world->received);
    world->in_flight = calloc(n, sizeof *world->in_flight);
    world->shorten = calloc(n, sizeof *world->shorten);
    for (int r = 0; r < size; r++)
        world->groups[r] = (fake_group){ world, r };
    return world;
}

fake_group *fake_rank(fake_world *world, int rank)
{
    return &world->groups[rank];
}

static void forget(operation *op)
{
    free(op->copy);
    free(op);
}

void fake_destroy(fake_world *world)
{
    while (world->operations) {
        operation *op = world->operations;
        world->operations = op->next;
        if (!op->is_done)
            fail_msg("rank %d ends with a %s in flight, peer %d, %zu bytes", op->rank, op->is_send ? "send" : "receive",
                     op->peer, op->nbytes);
        if (op->is_send && !op->is_arrived && !op->is_unused)
            fail_msg("rank %d sent %zu bytes to rank %d that it never received", op->rank, op->nbytes, op->peer);
        forget(op);
    }
    free(world->groups);
    free(world->is_dead);
    free(world->sent);
    free(world->received);
    free(world->in_flight);
    free(world->shorten);
    free(world);
}

/* ---- starting ---- */

static void check_start(const fake_world *world, const operation *new)
{
    if (new->peer < 0 || new->peer >= world->size || new->peer == new->rank)
        fail_msg("rank %d starts a message with peer %d", new->rank, new->peer);
    if (new->nbytes == 0)
        fail_msg("rank %d starts an empty message", new->rank);
    for (const operation *op = world->operations; op; op = op->next) {
        if (op->rank != new->rank || op->is_done)
            continue;
        if (op->slot == new->slot)
            fail_msg("rank %d: slot in use", new->rank);
        bool overlaps = op->buffer < new->buffer + new->nbytes &&new->buffer < op->buffer + op->nbytes;
        if (overlaps && !(op->is_send && new->is_send))
            fail_msg("rank %d: a %s of %zu bytes begins over a %s in flight", new->rank,
                     new->is_send ? "send" : "receive", new->nbytes, op->is_send ? "send" : "receive");
    }
}

static bool is_eager(const fake_world *world, size_t nbytes)
{
    return world->mode == FAKE_EAGER || (world->mode == FAKE_MIXED && nbytes <= 64);
}

static kith_status start(void *group, const kith_be_msg *msg, kith_be_slot *slot, bool is_send)
{
    const fake_group *self = group;
    fake_world *world = self->world;
    if (world->fail_in > 0 && --world->fail_in == 0)
        return KITH_ERR_PEER_FAILED;
    operation *op = calloc(1, sizeof *op);
    *op = (operation){ .is_send = is_send,
                       .rank = self->rank,
                       .peer = msg->peer,
                       .tag = msg->tag,
                       .buffer = msg->buffer,
                       .nbytes = msg->nbytes,
                       .slot = slot };
    kith_be_slot zero = { { 0 } };
    assert_memory_equal(slot, &zero, sizeof zero);
    check_start(world, op);
    slot->words[0] = (uint64_t)(uintptr_t)op;
    size_t pair = is_send ? (size_t)(op->rank * world->size + op->peer) : (size_t)(op->peer * world->size + op->rank);
    op->number = is_send ? world->sent[pair]++ : world->received[pair]++;
    op->copy = malloc(op->nbytes);
    if (!is_send) /* what was there is lost: nobody may read it */
        memset(op->buffer, (int)(fake_random(&world->random) & 255), op->nbytes);
    memcpy(op->copy, op->buffer, op->nbytes);
    if (is_send && is_eager(world, op->nbytes)) {
        op->is_done = true;
    }
    operation **tail = &world->operations;
    while (*tail)
        tail = &(*tail)->next;
    *tail = op;
    if (++world->in_flight[op->rank] > world->most)
        world->most = world->in_flight[op->rank];
    return KITH_OK;
}

static kith_status send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return start(group, msg, slot, true);
}

static kith_status recv_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return start(group, msg, slot, false);
}

/* ---- arriving ---- */

static operation *find_send(const fake_world *world, const operation *receive)
{
    for (operation *op = world->operations; op; op = op->next)
        if (op->is_send && !op->is_arrived && op->rank == receive->peer && op->peer == receive->rank &&
            op->number == receive->number)
            return op;
    return NULL;
}

static void arrive(fake_world *world, operation *send, operation *receive)
{
    if (send->tag != receive->tag)
        fail_msg("tags %llx and %llx meet", (unsigned long long)send->tag, (unsigned long long)receive->tag);
    if (send->nbytes != receive->nbytes)
        fail_msg("rank %d sends %zu bytes, rank %d expects %zu", send->rank, send->nbytes, receive->rank,
                 receive->nbytes);
    if (!send->is_done && memcmp(send->buffer, send->copy, send->nbytes) != 0)
        fail_msg("rank %d wrote to a buffer while it was sent", send->rank);
    if (memcmp(receive->buffer, receive->copy, receive->nbytes) != 0)
        fail_msg("rank %d wrote to a buffer while it was received into", receive->rank);
    memcpy(receive->buffer, send->copy, send->nbytes);
    receive->taken = send->nbytes - world->shorten[send->rank];
    world->shorten[send->rank] = 0;
    send->is_done = send->is_arrived = receive->is_done = receive->is_arrived = true;
}

/* Drops what is over and known to be over. */
static void sweep(fake_world *world)
{
    for (operation **at = &world->operations; *at;) {
        operation *op = *at;
        if (op->is_arrived && op->is_unused) {
            *at = op->next;
            forget(op);
        } else {
            at = &op->next;
        }
    }
}

int fake_tick(fake_world *world)
{
    int count = 0;
    for (operation *receive = world->operations; receive; receive = receive->next) {
        if (receive->is_send || receive->is_done || fake_random(&world->random) % 3 == 0)
            continue;
        operation *send = find_send(world, receive);
        if (!send || world->is_dead[send->rank])
            continue;
        arrive(world, send, receive);
        count++;
    }
    sweep(world);
    return count;
}

static kith_status msg_test(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    fake_group *self = group;
    operation *op = (operation *)(uintptr_t)slot->words[0];
    assert_int_equal(op->rank, self->rank);
    assert_ptr_equal(op->slot, slot);
    assert_false(op->is_unused);
    *is_done = op->is_done;
    if (!op->is_done)
        return KITH_OK;
    *nbytes = op->is_send ? op->nbytes : op->taken;
    op->is_unused = true;
    self->world->in_flight[self->rank]--;
    return KITH_OK;
}

static void msg_cancel(void *group, kith_be_slot *slot)
{
    fake_group *self = group;
    operation *op = (operation *)(uintptr_t)slot->words[0];
    assert_false(op->is_unused);
    op->is_done = op->is_unused = op->is_arrived = true;
    self->world->in_flight[self->rank]--;
    sweep(self->world);
}

void fake_kill(fake_world *world, int rank)
{
    world->is_dead[rank] = true;
}

void fake_fail_start(fake_world *world, int n)
{
    world->fail_in = n;
}

void fake_shorten(fake_world *world, int rank, size_t nbytes)
{
    world->shorten[rank] = nbytes;
}

size_t fake_in_flight(const fake_world *world)
{
    size_t count = 0;
    for (int r = 0; r < world->size; r++)
        count += world->in_flight[r];
    return count;
}

size_t fake_most_in_flight(const fake_world *world)
{
    return world->most;
}

const kith_backend fake_backend = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "fake",
    .send_start = send_start,
    .recv_start = recv_start,
    .msg_test = msg_test,
    .msg_cancel = msg_cancel,
};
