/* tests/topology/simgrid/waits.c - see waits.h.
 *
 * Keyed by the address of the caller's MPI_Request, which stays where it is until the message is over. All ranks share
 * these variables (they run without privatization, one at a time), so each has its own list.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "waits.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4096 };

int __real_MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *r);
int __real_MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *r);
int __real_MPI_Test(MPI_Request *r, int *is_over, MPI_Status *status);
int __real_MPI_Cancel(MPI_Request *r);
int __wrap_MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *r);
int __wrap_MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *r);
int __wrap_MPI_Test(MPI_Request *r, int *is_over, MPI_Status *status);
int __wrap_MPI_Cancel(MPI_Request *r);

/* What came for a receive from any source may be given to another one: exchange_arrivals(). */
typedef struct arrival {
    MPI_Request request; /* as MPI gave it; MPI_REQUEST_NULL once it is over */
    MPI_Status status;
    void *packet; /* memory of a receive from any source; NULL: another kind of message */
    unsigned long over_at;
} arrival;

typedef struct entry {
    MPI_Request *owner; /* the caller's */
    void *buffer;       /* the caller's */
    MPI_Comm comm;
    arrival came;
} entry;

typedef struct list {
    entry *items;
    MPI_Request *asked; /* those of items, for MPI_Waitany, which writes them */
    int count, capacity;
    unsigned long events;
} list;

static list lists[MOST_RANKS];

static list *own_list(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank >= MOST_RANKS)
        abort(); /* a program for measuring, not the library */
    return &lists[rank];
}

static int keep(int code, MPI_Request *owner, void *buffer, MPI_Comm comm, void *packet)
{
    list *l = own_list();
    if (code != MPI_SUCCESS)
        return code;
    if (l->count == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 16;
        l->items = (entry *)realloc(l->items, sizeof *l->items * (size_t)l->capacity);
        l->asked = (MPI_Request *)realloc(l->asked, sizeof *l->asked * (size_t)l->capacity);
        if (l->items == NULL || l->asked == NULL)
            abort();
    }
    l->items[l->count++] = (entry){ owner, buffer, comm, { .request = *owner, .packet = packet } };
    l->events++;
    return code;
}

static entry *find(const list *l, const MPI_Request *owner)
{
    for (int i = 0; i < l->count; i++)
        if (l->items[i].owner == owner)
            return &l->items[i];
    return NULL;
}

static bool is_over(const entry *e)
{
    return e->came.request == MPI_REQUEST_NULL;
}

static void drop(list *l, entry *e)
{
    free(e->came.packet);
    *e = l->items[--l->count];
    l->events++;
}

/* Gives e, a receive from any source, what arrived first on its communicator. */
static void exchange_arrivals(list *l, entry *e)
{
    entry *first = NULL;
    for (int i = 0; i < l->count; i++) {
        entry *other = &l->items[i];
        if (other->came.packet != NULL && other->comm == e->comm && is_over(other) &&
            (first == NULL || other->came.over_at < first->came.over_at))
            first = other;
    }
    if (first == NULL || first == e)
        return;
    arrival kept = e->came;
    e->came = first->came;
    first->came = kept;
}

int __wrap_MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *r)
{
    return keep(__real_MPI_Isend(buffer, count, type, to, tag, comm, r), r, NULL, comm, NULL);
}

/* From any source: bytes. */
int __wrap_MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *r)
{
    void *packet = NULL;
    if (from == MPI_ANY_SOURCE && (type != MPI_BYTE || (packet = malloc((size_t)count + 1)) == NULL))
        abort();
    void *into = packet != NULL ? packet : buffer;
    return keep(__real_MPI_Irecv(into, count, type, from, tag, comm, r), r, buffer, comm, packet);
}

int __wrap_MPI_Test(MPI_Request *r, int *is_complete, MPI_Status *status)
{
    list *l = own_list();
    entry *e = find(l, r);
    int nbytes = 0;
    if (e == NULL)
        return __real_MPI_Test(r, is_complete, status);
    if (e->came.packet != NULL)
        exchange_arrivals(l, e);
    *is_complete = is_over(e);
    if (!*is_complete)
        return MPI_SUCCESS;
    if (e->came.packet != NULL && MPI_Get_count(&e->came.status, MPI_BYTE, &nbytes) == MPI_SUCCESS)
        memcpy(e->buffer, e->came.packet, (size_t)nbytes);
    if (status != MPI_STATUS_IGNORE)
        *status = e->came.status;
    *r = MPI_REQUEST_NULL;
    drop(l, e);
    return MPI_SUCCESS;
}

/* Ends the request, too: the memory behind it goes with it. The caller's MPI_Wait finds MPI_REQUEST_NULL. */
int __wrap_MPI_Cancel(MPI_Request *r)
{
    list *l = own_list();
    entry *e = find(l, r);
    if (e == NULL)
        return __real_MPI_Cancel(r);
    if (!is_over(e)) {
        __real_MPI_Cancel(&e->came.request);
        MPI_Wait(&e->came.request, MPI_STATUS_IGNORE);
    }
    *r = MPI_REQUEST_NULL;
    drop(l, e);
    return MPI_SUCCESS;
}

bool waits_for_any(void)
{
    list *l = own_list();
    int which;
    MPI_Status status;
    for (int i = 0; i < l->count; i++)
        l->asked[i] = l->items[i].came.request;
    if (l->count == 0 || MPI_Waitany(l->count, l->asked, &which, &status) != MPI_SUCCESS || which == MPI_UNDEFINED)
        return false;
    arrival *came = &l->items[which].came;
    came->request = MPI_REQUEST_NULL;
    came->status = status;
    came->over_at = l->events++;
    return true;
}

unsigned long waits_events(void)
{
    return own_list()->events;
}
