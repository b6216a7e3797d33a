/* bench/drivers/groups.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "commands.h"
#include "kith_calls.h"
#include "ordinary.h"
#include "trials.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_NBYTES ((size_t)16 << 20)
#define AXES 2
#define ROUNDS 31

typedef struct axis {
    kith_group *group;
    void *send, *recv;
} axis;

typedef struct mesh_case {
    axis axes[AXES]; /* tp, dp: buffers of their own */
    size_t count;    /* f32 */
} mesh_case;

static kith_status start(const mesh_case *c, int which, kith_request **request)
{
    const axis *a = &c->axes[which];
    return kith_all_reduce_start(a->group, a->send, a->recv, c->count, KITH_F32, KITH_SUM, request);
}

static kith_status alone(const mesh_case *c, int which)
{
    kith_request *request;
    kith_status status = start(c, which, &request);
    return status != KITH_OK ? status : kith_wait(&request);
}

static kith_status tp_alone(void *self)
{
    return alone(self, 0);
}

static kith_status dp_alone(void *self)
{
    return alone(self, 1);
}

static kith_status both(void *self)
{
    kith_request *requests[AXES] = { NULL, NULL };
    kith_status status = start(self, 0, &requests[0]);
    status = status != KITH_OK ? status : start(self, 1, &requests[1]);
    return status != KITH_OK ? status : kith_wait_all(requests, AXES);
}

static kith_status measure(mesh_case *c, size_t nbytes, int rounds, kith_group *world, bench_peers *peers, json_t *rows)
{
    bench_trials trials = { .run = { tp_alone, dp_alone, both }, .self = c, .way_count = 3, .rounds = rounds };
    c->count = nbytes / sizeof(float);
    kith_status status = bench_trials_run(&trials, peers, world);
    if (status != KITH_OK) {
        return status;
    }
    const double *us = trials.median_us;
    double slower = us[0] > us[1] ? us[0] : us[1];
    if (peers->rank == 0) {
        printf("%10zu %12.2f %12.2f %12.2f %8.2f\n", nbytes, us[0], us[1], us[2], us[2] / slower);
    }
    json_array_append_new(rows, json_pack("{s:I, s:f, s:f, s:f, s:f}", "nbytes", (json_int_t)nbytes, "tp_us", us[0],
                                          "dp_us", us[1], "both_us", us[2], "ratio", us[2] / slower));
    return KITH_OK;
}

/* Each axis sums what nobody else wrote: element 0 must be the sum of both members' ranks. */
static bool is_right(const mesh_case *c, bench_peers *peers)
{
    int wanted[AXES] = { 2 * (peers->rank / 2 * 2) + 1, 2 * (peers->rank % 2) + 2 };
    for (int i = 0; i < AXES; i++) {
        ((float *)c->axes[i].send)[0] = (float)peers->rank;
    }
    if (both((void *)c) != KITH_OK) {
        return false;
    }
    bool mine = true;
    for (int i = 0; i < AXES; i++) {
        mine = mine && ((const float *)c->axes[i].recv)[0] == (float)wanted[i];
    }
    return bench_agree(peers, mine);
}

int bench_groups(kith_group *world, bench_peers *peers, const bench_options *options)
{
    static const size_t sizes[] = { 1024, 65536, (size_t)1 << 20, MAX_NBYTES };
    const kith_mesh_axis axes[AXES] = { { "tp", 2 }, { "dp", 2 } };
    const int rounds = bench_trials_rounds(options, ROUNDS);
    kith_mesh *mesh = NULL;
    if (peers->size != 4) {
        if (peers->rank == 0) {
            fprintf(stderr, "kith-bench groups: there are %d ranks; a mesh of 2 x 2 needs 4\n", peers->size);
        }
        bench_barrier(peers); /* a launcher ends the others with the first rank that fails */
        return 1;
    }
    kith_status status = kith_mesh_create(world, axes, AXES, NULL, &mesh);
    if (status != KITH_OK) {
        bench_kith_complain("kith_mesh_create", status);
        return 1;
    }
    mesh_case c = { .count = 1 };
    for (int i = 0; i < AXES && status == KITH_OK; i++) {
        c.axes[i].group = kith_mesh_group(mesh, axes[i].name);
        bool mine = bench_allocate_ordinary(NULL, MAX_NBYTES, &c.axes[i].send, &c.axes[i].recv);
        status = kith_agree(world, mine ? KITH_OK : KITH_ERR_NO_MEMORY);
    }
    json_t *rows = json_array();
    bool is_fine = status == KITH_OK && is_right(&c, peers);
    if (status == KITH_OK && !is_fine) {
        fprintf(stderr, "kith-bench groups: wrong data on rank %d\n", peers->rank);
    }
    if (peers->rank == 0) {
        printf("%10s %12s %12s %12s %8s\n", "bytes", "tp us", "dp us", "both us", "ratio");
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && is_fine; i++) {
        is_fine = sizes[i] > options->max_nbytes || measure(&c, sizes[i], rounds, world, peers, rows) == KITH_OK;
    }
    is_fine = is_fine && bench_trials_write(options->json_path, "kith-bench-groups-1", world, rows);
    json_decref(rows);
    for (int i = 0; i < AXES; i++) {
        free(c.axes[i].send);
        free(c.axes[i].recv);
    }
    return is_fine ? 0 : 1;
}
