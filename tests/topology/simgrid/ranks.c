/* tests/topology/simgrid/ranks.c - SimGrid's side of the comparison: Kith's plans over simulated MPI messages.
 *
 *     smpirun ... ranks CASES          NAME SECONDS of each case
 *
 * Every simulated rank runs the plan of core/algo for its place in its group (plans.h) with core's executor over
 * backends/mpi (wires.h). multi_ring is several ring plans side by side. All ranks start at one moment; a case takes
 * as long as on its slowest rank.
 *
 * Run by smpirun without privatization: ranks are threads of one process that run one at a time and share all
 * variables. backends/mpi keeps what it knows in its instance and its groups, and what it has besides is about the
 * process alone, so it runs like this as it is. It is compiled without SMPI's macros for malloc and free
 * (-DSMPI_HELPERS_H), which would also replace the functions of those names in kith_be_host. It is part of the program
 * instead of a loaded module: a module is linked to one MPI, and an SMPI program takes its MPI from smpirun.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"
#include "plans.h"
#include "topology/cost.h"
#include "wires.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *shared_buffer; /* of all simulated ranks: SimGrid knows not to copy it */
static const size_t shared_nbytes = (size_t)1 << 28;

static void *need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- phases ---- */

/* What a rank does in a phase. plan_count 0: it is in no group. */
typedef struct phase_run {
    void *group;
    int *orders, *places; /* of rings: their GPUs, and the places of these in the group */
    sim_plan plans[KI_MOST_RINGS];
    int plan_count;
} phase_run;

static int place_of(const int *members, int size, int rank)
{
    for (int i = 0; i < size; i++)
        if (members[i] == rank)
            return i;
    return -1;
}

static kith_coll_kind kind_of(const char *op)
{
    kith_coll_kind kind = (kith_coll_kind)0;
    while (kind < KITH_COLL_COUNT && strcmp(kith_coll_name(kind), op) != 0)
        kind++;
    return kind;
}

/* The rings of the model's multi_ring for group g, each a ring plan over its share. */
static void make_rings(phase_run *run, const case_list *list, const case_phase *p, const int *groups, int g, int rank)
{
    double shares[KI_MOST_RINGS];
    const int *members = groups + g * p->size;
    kith_topology *t = (kith_topology *)need(cases_machine(list));
    ki_cost_session session;
    size_t most = (size_t)(KI_MOST_RINGS * p->size);
    if (ki_cost_session_init(&session, t, groups, (size_t)p->size * (size_t)p->count) != KITH_OK)
        abort();
    ki_cost_case c = { .t = t,
                       .paths = session.paths,
                       .flows = session.flows,
                       .kind = kind_of(p->op),
                       .groups = groups,
                       .size = p->size,
                       .group_count = p->count,
                       .nbytes = p->nbytes,
                       .limit_s = INFINITY };
    run->orders = (int *)need(malloc(sizeof *run->orders * most));
    run->places = (int *)need(malloc(sizeof *run->places * most));
    run->plan_count = ki_multi_rings(&c, g, run->orders, shares);
    for (int k = 0; k < run->plan_count; k++) {
        const int *order = run->orders + k * p->size;
        int *places = run->places + k * p->size;
        for (int i = 0; i < p->size; i++)
            places[i] = place_of(members, p->size, order[i]);
        sim_plan_init(&run->plans[k], p->op, "ring", p->nbytes * shares[k], place_of(order, p->size, rank), p->size,
                      places, shared_buffer);
    }
    ki_cost_session_fini(&session);
    kith_topology_destroy(t);
}

/* Collective over all ranks. */
static void phase_open(phase_run *run, wires *w, const case_list *list, const case_phase *p)
{
    int *groups = cases_groups(list, p), rank = w->host.rank, at = place_of(groups, p->size * p->count, rank);
    *run = (phase_run){ 0 };
    if (p->nbytes > (double)shared_nbytes) {
        fprintf(stderr, "ranks: %g bytes are more than the shared buffer has\n", p->nbytes);
        abort();
    }
    if (at < 0) {
        (void)wires_group_create(w, NULL, 0, 0, 0);
    } else {
        const int *members = groups + at / p->size * p->size;
        run->group = wires_group_create(w, members, p->size, at % p->size, at / p->size);
        run->plan_count = 1;
        if (strcmp(p->algorithm, "multi_ring") == 0)
            make_rings(run, list, p, groups, at / p->size, rank);
        else
            sim_plan_init(&run->plans[0], p->op, p->algorithm, p->nbytes, at % p->size, p->size, NULL, shared_buffer);
    }
    free(groups);
}

static void phase_close(phase_run *run, wires *w)
{
    for (int k = 0; k < run->plan_count; k++)
        sim_plan_fini(&run->plans[k]);
    if (run->group != NULL)
        wires_group_destroy(w, run->group);
    free(run->orders);
    free(run->places);
}

/* ---- cases ---- */

/* All ranks go on at one moment of simulated time; returns it. */
static double start_together(void)
{
    double now_s = MPI_Wtime(), start_s;
    MPI_Allreduce(&now_s, &start_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    start_s += 1; /* longer than the operation that tells it */
    double wait_s = start_s - MPI_Wtime();
    struct timespec pause = { (time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9) };
    nanosleep(&pause, NULL);
    return MPI_Wtime();
}

/* Seconds on the slowest rank, for rank 0. */
static double run_case(wires *w, const case_list *list, const case_item *item)
{
    phase_run *runs = (phase_run *)need(calloc((size_t)item->phase_count, sizeof *runs));
    for (int k = 0; k < item->phase_count; k++)
        phase_open(&runs[k], w, list, &item->phases[k]);
    double start_s = start_together(), took_s, most_s = 0;
    for (int k = 0; k < item->phase_count; k++)
        for (int call = 0; call < item->phases[k].calls && runs[k].plan_count > 0; call++)
            sim_plans_run(runs[k].plans, runs[k].plan_count, w->backend, w->instance, runs[k].group);
    took_s = MPI_Wtime() - start_s;
    MPI_Reduce(&took_s, &most_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody leaves a group that another one still works in */
    for (int k = 0; k < item->phase_count; k++)
        phase_close(&runs[k], w);
    free(runs);
    return most_s;
}

int main(int argc, char **argv)
{
    case_list list;
    wires w;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 2 || !cases_read(argv[1], &list))
        return 1;
    if (rank == 0)
        shared_buffer = SMPI_SHARED_MALLOC(shared_nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    wires_open(&w);
    for (int i = 0; i < list.count; i++) {
        double took_s = run_case(&w, &list, &list.items[i]);
        if (rank == 0) {
            printf("%s %.9f\n", list.items[i].name, took_s);
            fflush(stdout);
        }
    }
    wires_close(&w);
    cases_free(&list);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        SMPI_SHARED_FREE(shared_buffer);
    MPI_Finalize();
    return 0;
}
