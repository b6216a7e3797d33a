/* tests/topology/simgrid/ranks.c - SimGrid's side of the comparison: Kith's plans over simulated MPI messages.
 *
 * Every simulated rank emits the plan of core/algo for its place in its group, and runs the plan's messages and waits
 * as MPI_Isend, MPI_Irecv and MPI_Waitany; multi_ring is several ring plans side by side. Nothing is copied or added
 * up: only the time of messages is of interest, so all ranks share one buffer that SimGrid knows not to copy. All ranks
 * start at one moment; a case takes as long as on its slowest rank. Compiled with smpicc, run by smpirun without
 * privatization: nothing here is written after main() began but the shared pointer.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include "core/algo/algo.h"
#include "topology/cost.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ELEMENT_NBYTES = 4 };

static void *shared_buffer; /* of all simulated ranks */
static size_t shared_nbytes = (size_t)1 << 30;

static kith_coll_kind kind_of(const char *op)
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        if (strcmp(kith_coll_name((kith_coll_kind)kind), op) == 0)
            return (kith_coll_kind)kind;
    fprintf(stderr, "ranks: no operation %s\n", op);
    exit(1);
}

static void *need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- plans ---- */

/* A plan on its way. group: ranks of MPI_COMM_WORLD. */
typedef struct running {
    ki_plan plan;
    const int *group;
    MPI_Request *requests;
    size_t next; /* step */
} running;

static void emit(running *r, const case_phase *p, const char *algorithm, double nbytes, int member)
{
    kith_coll_kind kind = kind_of(p->op);
    bool is_whole = kind == KITH_ALL_REDUCE || kind == KITH_BROADCAST;
    const ki_algo *algo = ki_algo_find(kind, algorithm);
    static char memory[2];
    kith_be_coll coll = { .kind = kind,
                          .dtype = KITH_F32,
                          .op = KITH_SUM,
                          .send = &memory[0],
                          .recv = kind == KITH_BROADCAST ? &memory[0] : &memory[1],
                          .count = (size_t)(nbytes / ELEMENT_NBYTES / (is_whole ? 1 : p->size)),
                          .nbytes = ELEMENT_NBYTES };
    ki_op op = { .builtin = KITH_SUM, .is_commutative = true };
    ki_order order;
    ki_reducer reducer;
    if (algo == NULL || ki_order_create(p->size, NULL, &order) != KITH_OK) {
        fprintf(stderr, "ranks: no %s of %s\n", algorithm, p->op);
        exit(1);
    }
    ki_reducer_init(&reducer, KITH_F32, &op, &order);
    coll.reducer = &reducer.base;
    bool is_reduction = kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER;
    ki_algo_args args = {
        .rank = member, .size = p->size, .coll = &coll, .reducer = is_reduction ? &reducer : NULL, .order = &order
    };
    if (ki_algo_emit(algo, &args, &r->plan) != KITH_OK)
        exit(1);
    ki_order_destroy(&order);
    r->requests = (MPI_Request *)need(malloc(sizeof *r->requests * (r->plan.message_count + 1)));
    for (size_t i = 0; i < r->plan.message_count; i++)
        r->requests[i] = MPI_REQUEST_NULL;
}

static void start_message(running *r, const ki_step *step, int tag)
{
    MPI_Request *request = &r->requests[step->message];
    if (step->count > shared_nbytes) {
        fprintf(stderr, "ranks: a message of %zu bytes\n", step->count);
        exit(1);
    }
    if (step->kind == KI_STEP_SEND)
        MPI_Isend(shared_buffer, (int)step->count, MPI_BYTE, r->group[step->peer], tag, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(shared_buffer, (int)step->count, MPI_BYTE, r->group[step->peer], tag, MPI_COMM_WORLD, request);
}

static bool is_over(const running *r, const ki_step *wait)
{
    for (size_t i = wait->first; i < wait->last; i++)
        if (r->requests[i] != MPI_REQUEST_NULL)
            return false;
    return true;
}

/* Up to a wait that is not over, or the end. */
static void advance(running *r, int tag)
{
    for (; r->next < r->plan.step_count; r->next++) {
        const ki_step *step = &r->plan.steps[r->next];
        if (step->kind == KI_STEP_SEND || step->kind == KI_STEP_RECV)
            start_message(r, step, tag);
        else if (step->kind == KI_STEP_WAIT && !is_over(r, step))
            return;
    }
}

/* Waits for any message that one of the plans waits for. False when all are at their end. */
static bool wait_for_any(running *runs, int count)
{
    size_t total = 0, most = 0;
    for (int k = 0; k < count; k++)
        most += runs[k].plan.message_count;
    MPI_Request *requests = (MPI_Request *)need(malloc(sizeof *requests * (most + 1)));
    MPI_Request **owners = (MPI_Request **)need(malloc(sizeof *owners * (most + 1)));
    for (int k = 0; k < count; k++) {
        if (runs[k].next == runs[k].plan.step_count)
            continue;
        const ki_step *wait = &runs[k].plan.steps[runs[k].next];
        for (size_t i = wait->first; i < wait->last; i++)
            if (runs[k].requests[i] != MPI_REQUEST_NULL) {
                owners[total] = &runs[k].requests[i];
                requests[total++] = runs[k].requests[i];
            }
    }
    if (total > 0) {
        int done;
        MPI_Waitany((int)total, requests, &done, MPI_STATUS_IGNORE);
        *owners[done] = MPI_REQUEST_NULL;
    }
    free(requests);
    free(owners);
    return total > 0;
}

/* Several plans of one rank, side by side. */
static void run_plans(running *runs, int count, int tag)
{
    do
        for (int k = 0; k < count; k++)
            advance(&runs[k], tag + k);
    while (wait_for_any(runs, count));
    for (int k = 0; k < count; k++) {
        free(runs[k].requests);
        ki_plan_fini(&runs[k].plan);
    }
}

/* ---- phases ---- */

/* The rings of the model's multi_ring for this group, each a ring plan over its share. */
static int emit_rings(const case_list *list, const case_phase *p, const int *group, int rank, running *runs,
                      int *orders)
{
    double shares[KI_MOST_RINGS];
    kith_topology *t = (kith_topology *)need(cases_machine(list));
    ki_cost_case c = { .t = t, .groups = group, .size = p->size, .group_count = 1 };
    if (ki_paths_create(t, group, (size_t)p->size, &c.paths) != KITH_OK)
        exit(1);
    int count = ki_multi_rings(&c, 0, orders, shares);
    for (int k = 0; k < count; k++) {
        const int *order = orders + k * p->size;
        int member = 0;
        while (order[member] != rank)
            member++;
        runs[k] = (running){ .group = order };
        emit(&runs[k], p, "ring", p->nbytes * shares[k], member);
    }
    ki_paths_destroy(c.paths);
    kith_topology_destroy(t);
    return count;
}

static void run_member(const case_list *list, const case_phase *p, const int *group, int member, int tag)
{
    running runs[KI_MOST_RINGS] = { { .group = group } };
    int count = 1, *orders = (int *)need(malloc(sizeof *orders * (size_t)(KI_MOST_RINGS * p->size)));
    if (strcmp(p->algorithm, "multi_ring") == 0)
        count = emit_rings(list, p, group, group[member], runs, orders);
    else
        emit(&runs[0], p, p->algorithm, p->nbytes, member);
    run_plans(runs, count, tag);
    free(orders);
}

static void run_phase(const case_list *list, const case_phase *p, int rank, int tag)
{
    int *groups = cases_groups(list, p);
    for (int i = 0; i < p->size * p->count; i++)
        if (groups[i] == rank)
            run_member(list, p, groups + i / p->size * p->size, i % p->size, tag);
    free(groups);
}

/* ---- time ---- */

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

int main(int argc, char **argv)
{
    case_list list;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 2 || !cases_read(argv[1], &list))
        return 1;
    if (rank == 0)
        shared_buffer = SMPI_SHARED_MALLOC(shared_nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < list.count; i++) {
        double start_s = start_together(), took_s, most_s;
        for (int k = 0; k < list.items[i].phase_count; k++)
            for (int call = 0; call < list.items[i].phases[k].calls; call++)
                run_phase(&list, &list.items[i].phases[k], rank, k * KI_MOST_RINGS);
        took_s = MPI_Wtime() - start_s;
        MPI_Reduce(&took_s, &most_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s %.9f\n", list.items[i].name, most_s);
            fflush(stdout);
        }
    }
    cases_free(&list);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        SMPI_SHARED_FREE(shared_buffer);
    MPI_Finalize();
    return 0;
}
