/* core/progress.c - see progress.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "progress.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/group.h"
#include "device/hosts.h"
#include "group.h"
#include "request.h"
#include "text.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EAGER_POLLS 32          /* without a pause between them: one takes up to 50 ns, a message takes 200 */
#define EVENT_PERIOD_NS 5000000 /* between looks at the store */
#define IDLE_AFTER_NS 1000000   /* of yielding before the backend may sleep */
#define IDLE_MAX_NS 1000000     /* one sleep; other backends of the context are polled between */
#define IDLE_LONG_NS 20000000   /* of waiting, before a context of several backends may sleep as well ... */
#define IDLE_SHARE 128          /* ... for this share of the wait so far, by which another one may be late */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* ---- failing ---- */

void ki_group_fail(kith_group *group, kith_status status, const char *format, ...)
{
    if (group->status != KITH_OK)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(group->reason, sizeof group->reason, format, list);
    va_end(list);
    group->status = status;
    group->is_fast = false;
    ki_log(status == KITH_ERR_ABORTED ? KITH_LOG_INFO : KITH_LOG_ERROR, "%s", group->reason);
    ki_group_device_abort(group); /* streams must not wait for what never comes */
    /* parts of a plan fail together */
    if (group->node != NULL)
        ki_group_fail(group->node, status, "%s", group->reason);
    if (group->leaders != NULL)
        ki_group_fail(group->leaders, status, "%s", group->reason);
    if (group->device != NULL)
        ki_device_hosts_fail(group);
}

void ki_group_tell_failure(kith_group *group)
{
    kith_ctx *ctx = group->ctx;
    if (group->is_abort_told || group->is_internal || ctx->store == NULL) /* who has a part tells of the whole */
        return;
    group->is_abort_told = true;
    ki_store_announce(ctx->store, KI_EVENT_FAILURE, group->id);
    if (ctx->instance_count == 1) /* the others may be inside a call of the transport, which sees no events */
        ki_group_abort_transports(group);
}

void ki_group_notice_abort(kith_group *group)
{
    if (atomic_load_explicit(&group->abort_flag, memory_order_acquire) == 0)
        return;
    ki_group_fail(group, KITH_ERR_ABORTED, "group '%s' was aborted", group->name);
    if (!group->is_abort_told && !group->is_internal && group->ctx->store != NULL) {
        group->is_abort_told = true;
        ki_store_announce(group->ctx->store, KI_EVENT_ABORT, group->id);
    }
}

kith_status ki_group_refuse(kith_group *group, const char *function)
{
    ki_group_notice_abort(group);
    if (group->status == KITH_OK)
        return KITH_OK;
    return ki_fail_quiet(group->status, "%s on group '%s': %s", function, group->name, group->reason);
}

/* ---- events of the store ---- */

static void on_death(kith_ctx *ctx, int rank)
{
    ki_ctx_device_abort(ctx, rank);
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        int member = kith_group_rank_of_world(g, rank);
        if (member >= 0)
            ki_group_fail(g, KITH_ERR_PEER_FAILED, "group '%s': rank %d (world rank %d) died", g->name, member, rank);
    }
}

static void on_remote_abort(kith_ctx *ctx, int rank, uint64_t id)
{
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        if (g->id != id)
            continue;
        g->is_abort_told = true;
        ki_group_fail(g, KITH_ERR_ABORTED, "group '%s' was aborted by world rank %d", g->name, rank);
        ki_group_abort_transports(g);
        ki_group_device_abort(g);
    }
}

static void on_remote_failure(kith_ctx *ctx, int rank, uint64_t id)
{
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        int member = g->id == id ? kith_group_rank_of_world(g, rank) : -1;
        if (member < 0)
            continue;
        g->is_abort_told = true;
        ki_group_fail(g, KITH_ERR_PEER_FAILED, "group '%s': an operation failed on rank %d (world rank %d)", g->name,
                      member, rank);
    }
}

void ki_ctx_poll_events(kith_ctx *ctx)
{
    ki_event event;
    while (ctx->store != NULL && ki_store_poll_event(ctx->store, &event)) {
        if (event.kind == KI_EVENT_RANK_DIED)
            on_death(ctx, event.rank);
        else if (event.kind == KI_EVENT_FAILURE)
            on_remote_failure(ctx, event.rank, event.value);
        else
            on_remote_abort(ctx, event.rank, event.value);
    }
}

/* ---- stepping ---- */

static void step_messages(kith_group *group)
{
    for (kith_request *r = group->messages, *next; r != NULL; r = next) {
        next = r->next;
        ki_message_step(r);
    }
}

static void step_group(kith_group *group)
{
    ki_group_notice_abort(group);
    while (group->queue_head != NULL) {
        kith_request *head = group->queue_head;
        ki_coll_step(head);
        if (group->queue_head == head)
            break; /* still running */
    }
    if (group->messages != NULL)
        step_messages(group);
}

void ki_ctx_step(kith_ctx *ctx)
{
    for (int i = 0; i < ctx->instance_count; i++) {
        ki_instance *instance = &ctx->instances[i];
        if (instance->backend->progress != NULL)
            instance->backend->progress(instance->be);
    }
    if (ctx->active_requests == 0)
        return;
    for (kith_group *g = ctx->groups; g != NULL; g = g->next)
        if (g->queue_head != NULL || g->messages != NULL)
            step_group(g);
}

/* ---- waiting ---- */

/* Every backend would wake by itself: none moves bytes only while it is polled. */
static bool can_all_sleep(const kith_ctx *ctx)
{
    bool can = ctx->device == NULL;
    for (int i = 0; i < ctx->instance_count; i++)
        can = can && ctx->instances[i].backend->idle != NULL;
    return can;
}

/* Sleeping on one backend, the first, keeps what comes over another one waiting: for little of what has been waited
 * already, and after a long wait alone. */
static void idle(kith_ctx *ctx, int64_t now, int64_t start_ns, int64_t deadline_ns)
{
    bool is_one = ctx->instance_count == 1;
    int64_t most = IDLE_MAX_NS, share = (now - start_ns) / IDLE_SHARE;
    if (!is_one && share < most)
        most = share;
    if (deadline_ns != 0 && deadline_ns - now < most)
        most = deadline_ns - now;
    if (most > 0 && (is_one || now - start_ns >= IDLE_LONG_NS) && can_all_sleep(ctx))
        ctx->instances[0].backend->idle(ctx->instances[0].be, most);
    else
        sched_yield();
}

/* After spinning the clock is read at every pause: on a loaded machine one yield can last for milliseconds. */
kith_status ki_waiter_pause(ki_waiter *waiter)
{
    kith_ctx *ctx = waiter->ctx;
    if (waiter->polls < ctx->spin) {
        if (waiter->polls++ >= EAGER_POLLS)
            relax();
        return KITH_OK;
    }
    int64_t now = ki_now_ns();
    if (waiter->start_ns == 0) {
        waiter->start_ns = now;
        if (waiter->timeout_ms > 0)
            waiter->deadline_ns = now + waiter->timeout_ms * 1000000;
    }
    if (waiter->deadline_ns != 0 && now >= waiter->deadline_ns)
        return KITH_ERR_TIMEOUT;
    if (now >= ctx->next_event_ns) {
        ctx->next_event_ns = now + EVENT_PERIOD_NS;
        ki_ctx_poll_events(ctx);
    }
    if (now - waiter->start_ns < IDLE_AFTER_NS) {
        sched_yield();
        return KITH_OK;
    }
    idle(ctx, now, waiter->start_ns, waiter->deadline_ns);
    return KITH_OK;
}

/* ---- timeouts ---- */

#define REPORT_WAIT_NS 400000000
#define REPORT_SET_NS 50000000 /* for a store that is alive to answer, also where nothing may wait */
#define REPORT_AGAIN_NS 1000000000
#define REPORT_RETRY_NS 5000000
#define POSITIONS_TOLD 8

/* Where a rank waited when its deadline passed. It has left that place by the time that somebody else begins to wait.
 * */
typedef struct position {
    int64_t at_ns; /* by the wall clock, which hosts share as well as they can */
    char text[256];
} position;

static int64_t wall_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* False when the store has not answered by then: the rank that serves it stands still. */
static bool publish_position(kith_group *group, const char *operation, int64_t deadline_ns, position *here)
{
    int64_t least_ns = ki_now_ns() + REPORT_SET_NS;
    char key[64];
    memset(here, 0, sizeof *here);
    here->at_ns = wall_clock_ns();
    snprintf(here->text, sizeof here->text, "%s on group '%s'", operation, group->name);
    snprintf(key, sizeof key, "late/%d", group->ctx->rank);
    kith_status status =
        ki_store_set_until(group->ctx->store, key, here, sizeof *here, deadline_ns > least_ns ? deadline_ns : least_ns);
    return status != KITH_ERR_TIMEOUT;
}

/* Where a rank of the group says that it waits, not before since_ns. False when it says nothing until the deadline. */
static bool read_position(const kith_group *group, int rank, int64_t since_ns, int64_t deadline_ns, position *there)
{
    char key[64];
    snprintf(key, sizeof key, "late/%d", group->world_ranks[rank]);
    do {
        void *value = NULL;
        size_t nbytes = 0;
        there->at_ns = INT64_MIN;
        if (ki_store_get(group->ctx->store, key, deadline_ns, &value, &nbytes) != KITH_OK)
            return false;
        if (nbytes == sizeof *there)
            memcpy(there, value, sizeof *there);
        free(value);
        if (there->at_ns >= since_ns)
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = REPORT_RETRY_NS }, NULL);
    } while (!ki_deadline_passed(deadline_ns));
    return false;
}

/* Until when a report may wait for words of the others. Of many deadlines that pass together only the first waits; a
 * call that may not block takes what is there. */
static int64_t report_deadline(kith_ctx *ctx, bool may_wait)
{
    int64_t now = ki_now_ns();
    if (!may_wait)
        return now;
    if (now >= ctx->report_again_ns) {
        ctx->report_until_ns = now + REPORT_WAIT_NS;
        ctx->report_again_ns = now + REPORT_AGAIN_NS;
    }
    return ctx->report_until_ns;
}

/* Who is not in the operation `here`: the silent ones, and those that wait elsewhere, whose places are told. */
static void read_positions(const kith_group *group, const position *here, int64_t timeout_ms, int64_t deadline,
                           ki_text *positions, unsigned char *is_absent)
{
    int64_t since = here->at_ns - timeout_ms * 1000000;
    int told = 0;
    for (int r = 0; r < group->size; r++) {
        position there;
        if (r == group->rank)
            continue;
        bool has_word = read_position(group, r, since, deadline, &there);
        is_absent[r] = !has_word || strcmp(there.text, here->text) != 0;
        if (has_word && is_absent[r] && told++ < POSITIONS_TOLD)
            ki_text_add(positions, "; rank %d waits in %s", r, there.text);
    }
}

/* Nobody's word can be had; rank 0 of the world, where it is in the group, is the one that is known to be missing. */
static void blame_server(const kith_group *group, ki_text *positions, unsigned char *is_absent)
{
    for (int r = 0; r < group->size; r++)
        is_absent[r] = group->world_ranks[r] == 0;
    ki_text_add(positions, "; world rank 0, which serves the store, does not answer");
}

kith_status ki_report_timeout(kith_group *group, const char *operation, const unsigned char *is_missing,
                              int64_t timeout_ms, bool may_wait)
{
    ki_text missing = { 0 }, positions = { 0 };
    position here;
    unsigned char *is_absent = (unsigned char *)calloc((size_t)group->size, 1);
    if (group->ctx->store != NULL && is_absent != NULL) {
        int64_t deadline_ns = report_deadline(group->ctx, may_wait);
        if (publish_position(group, operation, deadline_ns, &here))
            read_positions(group, &here, timeout_ms, deadline_ns, &positions, is_absent);
        else
            blame_server(group, &positions, is_absent);
    }
    const unsigned char *who = is_missing != NULL ? is_missing : is_absent;
    if (who != NULL)
        ki_text_add_ranges(&missing, who, group->size, 16);
    const char *list = ki_text_chars(&missing);
    kith_status status =
        ki_fail(KITH_ERR_TIMEOUT, "%s on group '%s' (%d ranks) did not complete within %lld ms; missing rank%s: %s%s",
                operation, group->name, group->size, (long long)timeout_ms, strpbrk(list, ",-") != NULL ? "s" : "",
                *list != '\0' ? list : "none (peers are late or elsewhere)", ki_text_chars(&positions));
    free(is_absent);
    ki_text_fini(&missing);
    ki_text_fini(&positions);
    return status;
}

kith_status ki_report_message_timeout(kith_group *group, const char *message, bool is_send, int peer,
                                      int64_t timeout_ms, bool may_wait)
{
    position here, there = { .text = "" };
    const char *more = "";
    if (group->ctx->store != NULL) {
        int64_t deadline_ns = report_deadline(group->ctx, may_wait);
        if (!publish_position(group, message, deadline_ns, &here))
            more = "; world rank 0, which serves the store, does not answer";
        else if (peer != group->rank &&
                 read_position(group, peer, here.at_ns - timeout_ms * 1000000, deadline_ns, &there))
            more = "; it waits in ";
        else
            there.text[0] = '\0';
    }
    return ki_fail(KITH_ERR_TIMEOUT, "%s on group '%s' did not complete within %lld ms: rank %d has no matching %s%s%s",
                   message, group->name, (long long)timeout_ms, peer, is_send ? "receive" : "send", more, there.text);
}
