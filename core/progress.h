/* core/progress.h - advancing what was started, and waiting.
 *
 * Nothing in the library runs by itself: ki_ctx_step() advances every group of a context a little; waits call it
 * between polls. A waiter spins (ctx->spin polls), then yields the processor at each poll, and after about a
 * millisecond asks the backend to sleep until something happens. The clock, the store's events (deaths, aborts) and
 * the deadline are looked at only there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_PROGRESS_H
#define KI_PROGRESS_H

#include "object.h"

/* One round over all groups; starts queued collectives, ends requests of failed groups. */
void ki_ctx_step(kith_ctx *ctx);

/* Looks at the store and at abort flags; called by waiters every few milliseconds. */
void ki_ctx_poll_events(kith_ctx *ctx);

typedef struct ki_waiter {
    kith_ctx *ctx;
    int polls;
    int64_t start_ns;    /* first slow poll; 0 before */
    int64_t deadline_ns; /* 0: none. Set by the first slow poll when timeout_ms > 0 */
    int64_t timeout_ms;
} ki_waiter;

static inline void ki_waiter_init(ki_waiter *waiter, kith_ctx *ctx, int64_t timeout_ms)
{
    *waiter = (ki_waiter){ .ctx = ctx, .timeout_ms = timeout_ms };
}

/* Call after a poll that found nothing. KITH_ERR_TIMEOUT (without text) when the deadline passed. */
kith_status ki_waiter_pause(ki_waiter *waiter);

/* Ends the group: later operations return status, pending ones end at the next step. The first cause stays. */
void ki_group_fail(kith_group *group, kith_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The group failed for a reason that the other members cannot see: theirs ends too, as KITH_ERR_PEER_FAILED. Tells
 * once. */
void ki_group_tell_failure(kith_group *group);

/* The group's status with its reason as the thread's detail. Notices an abort by another thread. */
kith_status ki_group_refuse(kith_group *group, const char *function);
/* Ends a group that was aborted from another thread, and tells its other members. */
void ki_group_notice_abort(kith_group *group);

/* A collective or message did not end before its deadline: finds out who is missing, composes the text, tells the
 * others where this rank was. is_missing may be NULL (unknown). may_wait: for words of the others, 0.4 s at most and
 * not at every deadline. Returns KITH_ERR_TIMEOUT with the detail set. */
kith_status ki_report_timeout(kith_group *group, const char *operation, const unsigned char *is_missing,
                              int64_t timeout_ms, bool may_wait);

/* The same for a message that the peer did not match. */
kith_status ki_report_message_timeout(kith_group *group, const char *message, bool is_send, int peer,
                                      int64_t timeout_ms, bool may_wait);

#endif
