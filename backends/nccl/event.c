/* backends/nccl/event.c - events that are used again and again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <string.h>

kith_status nccl_event_get(nccl_be *be, cudaEvent_t *event)
{
    if (be->spare_count > 0) {
        *event = be->spare_events[--be->spare_count];
        return KITH_OK;
    }
    cudaError_t error = be->cuda->cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(be, "an event could not be made", error);
}

static bool make_room(nccl_be *be)
{
    if (be->spare_count < be->spare_room)
        return true;
    size_t room = be->spare_room * 2 + 32;
    cudaEvent_t *more = (cudaEvent_t *)be->host->alloc(be->host->cookie, room * sizeof *more, 64);
    if (more == NULL)
        return false;
    if (be->spare_count > 0)
        memcpy(more, be->spare_events, be->spare_count * sizeof *more);
    be->host->free(be->host->cookie, be->spare_events);
    be->spare_events = more;
    be->spare_room = room;
    return true;
}

void nccl_event_put(nccl_be *be, cudaEvent_t *event)
{
    if (*event == NULL)
        return;
    if (make_room(be))
        be->spare_events[be->spare_count++] = *event;
    else
        be->cuda->cudaEventDestroy(*event);
    *event = NULL;
}

void nccl_events_free(nccl_be *be)
{
    while (be->spare_count > 0)
        be->cuda->cudaEventDestroy(be->spare_events[--be->spare_count]);
    be->host->free(be->host->cookie, be->spare_events);
    be->spare_events = NULL;
    be->spare_room = 0;
}
