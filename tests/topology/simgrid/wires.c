/* tests/topology/simgrid/wires.c - backends/mpi on simulated ranks, without the core: see wires.h.
 *
 * What the core would hand in (kith_be_host) is made of MPI here: the exchange while a group is set up is an
 * MPI_Allgather. A failure ends the program, as nothing may fail in a simulation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "wires.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kith_backend *kith_backend_v1(void); /* backends/mpi/module.c */
int __wrap_MPI_Is_thread_main(int *is_main);

/* Called instead of SMPI's, which says so of the first rank only. Each rank is all of its simulated process. */
int __wrap_MPI_Is_thread_main(int *is_main)
{
    *is_main = 1;
    return MPI_SUCCESS;
}

/* ---- what a backend is given ---- */

static void stop(const char *what)
{
    fprintf(stderr, "ranks: %s\n", what);
    abort();
}

static kith_status host_fail(kith_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

static void host_log(void *cookie, kith_log_level level, const char *line)
{
    (void)cookie, (void)level;
    fprintf(stderr, "%s\n", line);
}

static void *host_alloc(void *cookie, size_t nbytes, size_t alignment)
{
    void *memory = NULL;
    (void)cookie;
    return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, nbytes) == 0 ? memory
                                                                                                         : NULL;
}

static void host_free(void *cookie, void *memory)
{
    (void)cookie;
    free(memory);
}

/* mpi_eager=0: all messages by request and answer, as RDMA transports move what is longer than some KiB.
 * mpi_native=blocking: the bytes of a message move at once, between the buffers of the caller. */
static const char *host_setting(void *cookie, const char *name, const char *default_value)
{
    (void)cookie;
    return strcmp(name, "mpi_eager") == 0 ? "0" : strcmp(name, "mpi_native") == 0 ? "blocking" : default_value;
}

static void host_agree(void *cookie, const char *name, uint64_t value)
{
    (void)cookie, (void)name, (void)value;
}

static kith_status host_exchange(void *cookie, kith_status mine, const void *in, size_t nbytes, void *out)
{
    if (mine != KITH_OK)
        stop("a group could not be made");
    MPI_Allgather(in, (int)nbytes, MPI_BYTE, out, (int)nbytes, MPI_BYTE, *(MPI_Comm *)cookie);
    return KITH_OK;
}

static void host_peer_failed(void *cookie, int peer, const char *why)
{
    (void)cookie, (void)peer;
    stop(why);
}

/* ---- a rank ---- */

void wires_open(wires *w)
{
    memset(w, 0, sizeof *w);
    w->host = (kith_be_host){ .struct_size = sizeof w->host,
                              .local_size = 1,
                              .fail = host_fail,
                              .log = host_log,
                              .alloc = host_alloc,
                              .free = host_free,
                              .setting = host_setting,
                              .agree = host_agree,
                              .exchange = host_exchange,
                              .peer_failed = host_peer_failed };
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL); /* SMPI has none to keep before */
    MPI_Comm_rank(MPI_COMM_WORLD, &w->host.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w->host.size);
    w->backend = kith_backend_v1();
    if (w->backend->open(&w->host, &w->instance) != KITH_OK)
        stop("the backend cannot be opened");
}

void wires_close(wires *w)
{
    w->backend->close(w->instance);
}

/* members goes before the group does, though kith_be_group_info says otherwise: backends/mpi does not look at it. */
void *wires_group_create(wires *w, const int *members, int size, int place, int number)
{
    static uint64_t batches[4096]; /* of each rank: groups of one number that are made later have another id */
    void *group = NULL;
    MPI_Comm comm;
    uint64_t batch = ++batches[w->host.rank];
    MPI_Comm_split(MPI_COMM_WORLD, size > 0 ? number : MPI_UNDEFINED, place, &comm);
    if (size == 0)
        return NULL;
    kith_be_group_info info = { .struct_size = sizeof info,
                                .cookie = &comm,
                                .name = "simulated",
                                .id = batch << 32 | (uint64_t)number,
                                .rank = place,
                                .size = size,
                                .world_ranks = members };
    if (w->backend->group_create(w->instance, &info, &group) != KITH_OK)
        stop("a group could not be made");
    MPI_Comm_free(&comm);
    return group;
}

void wires_group_destroy(wires *w, void *group)
{
    w->backend->group_destroy(group);
}
