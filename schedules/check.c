/* schedules/check.c - kith_schedule_check(): the passes one after the other, and what comes out of them.
 *
 * The verdict is the answer to a question, so it is not logged.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ki_checker_mark_place(ki_checker *c, int rank, size_t position)
{
    if (c->mark_count < KI_CHECKER_MARKS)
        c->marks[c->mark_count++] = (ki_checker_mark){ rank, position };
}

kith_status ki_checker_refuse(ki_checker *c, const ki_place *place, const char *format, ...)
{
    char why[512], what[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    ki_checker_mark_place(c, place->rank, place->position);
    kith_action_text(place->action, what, sizeof what);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "rank %d, position %zu: %s %s", place->rank, place->position,
                         place->action->type == KITH_ACTION_IDLE ? "IDLE" : what, why);
}

bool ki_checker_find(const ki_checker *c, int rank, const kith_action *action, size_t *position)
{
    const ki_action_list *list = &c->plan->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const kith_action *a = &list->actions[i];
        if (a->type != action->type || a->stage != action->stage || a->microbatch != action->microbatch)
            continue;
        *position = i;
        return true;
    }
    return false;
}

static kith_status check_options(const kith_schedule *plan, const kith_schedule_check_options *o)
{
    if (o->capacity < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "a connection that holds %d messages: valid are 0 and more", o->capacity);
    for (int rank = 0; rank < plan->ranks; rank++) {
        int bound = o->in_flight_bounds != NULL ? o->in_flight_bounds[rank] : o->in_flight_bound;
        if (bound < 0)
            return ki_fail(KITH_ERR_INVALID_ARG, "at most %d in flight on rank %d: valid are 0 (any number) and more",
                           bound, rank);
    }
    return KITH_OK;
}

static kith_status take_options(const kith_schedule *plan, const kith_schedule_check_options *given,
                                kith_schedule_check_options *o)
{
    *o = (kith_schedule_check_options)KITH_SCHEDULE_CHECK_OPTIONS_INIT;
    if (given != NULL && !ki_options_copy(o, sizeof *o, given, sizeof *o))
        return ki_fail(KITH_ERR_INVALID_ARG, "check options were not filled with KITH_SCHEDULE_CHECK_OPTIONS_INIT");
    return check_options(plan, o);
}

static kith_status run_passes(ki_checker *c)
{
    static kith_status (*const passes[])(ki_checker *) = { ki_checker_count, ki_checker_local, ki_checker_missing,
                                                           ki_checker_messages, ki_checker_replay };
    kith_status status = KITH_OK;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0] && status == KITH_OK; i++)
        status = passes[i](c);
    return status;
}

kith_status kith_schedule_check(const kith_schedule *schedule, const kith_schedule_check_options *options,
                                char **report)
{
    if (report != NULL)
        *report = NULL;
    if (schedule == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_check(): schedule is NULL");
    ki_checker c = { .plan = schedule };
    kith_status status = take_options(schedule, options, &c.o);
    if (status == KITH_OK)
        status = run_passes(&c);
    if (status == KITH_ERR_INVALID_ARG && report != NULL && c.mark_count > 0) {
        *report = ki_checker_report(&c, kith_error_detail());
        if (*report == NULL)
            status = ki_schedule_no_memory("the report on a check");
    }
    ki_checker_messages_fini(&c);
    free(c.stand);
    free(c.stages);
    free(c.met);
    return status;
}
