/* core/trace.h - the flight record: the last operations of a group, kept in a ring of fixed size.
 *
 * Beginning an operation writes one record and reads the cycle counter: a few nanoseconds. kith_group_dump() writes
 * the ring as JSON lines that `kith flight` compares over ranks; with KITH_DUMP_ON_TIMEOUT set a timeout does so by
 * itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TRACE_H
#define KI_TRACE_H

#include "base/clock.h"
#include "object.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { KI_TRACE_FREE, KI_TRACE_ACTIVE, KI_TRACE_DONE, KI_TRACE_FAILED };

static inline uint64_t ki_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (uint64_t)ki_now_ns();
#endif
}

static inline uint32_t ki_trace_begin(kith_group *group, int kind, size_t count, kith_dtype dtype, kith_op op, int root,
                                      uint64_t sequence)
{
    uint32_t index = group->trace_next++;
    ki_trace_record *record = &group->trace[index & (group->trace_capacity - 1)]; /* a power of two */
    record->sequence = sequence;
    record->start_ticks = ki_ticks();
    record->end_ticks = 0;
    record->count = count;
    record->kind = (int16_t)kind;
    record->dtype = (int16_t)dtype;
    record->op = op;
    record->root = root;
    record->state = KI_TRACE_ACTIVE;
    record->status = KITH_OK;
    return index;
}

/* Later operations may have taken the record's place meanwhile. */
static inline void ki_trace_end(kith_group *group, uint32_t index, kith_status status)
{
    if (group->trace_next - index > group->trace_capacity)
        return;
    ki_trace_record *record = &group->trace[index & (group->trace_capacity - 1)];
    record->state = status == KITH_OK ? KI_TRACE_DONE : KI_TRACE_FAILED;
    record->status = status;
}

/* The same, with the time. */
static inline void ki_trace_end_timed(kith_group *group, uint32_t index, kith_status status)
{
    if (group->trace_next - index <= group->trace_capacity)
        group->trace[index & (group->trace_capacity - 1)].end_ticks = ki_ticks();
    ki_trace_end(group, index, status);
}

/* Dumps all groups of the context to the path of the setting dump_on_timeout, if there is one. */
void ki_trace_dump_on_timeout(const kith_ctx *ctx);

/* Text of a record's kind: a collective's name, "send" or "recv". */
const char *ki_trace_kind_name(int kind);

#endif
