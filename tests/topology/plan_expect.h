/* tests/topology/plan_expect.h - what the tests of plans share. A failure prints wanted and got.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_PLAN_EXPECT_H
#define KITH_TESTS_PLAN_EXPECT_H

#include <kith/plan.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Equal up to the relative tolerance; 0: the same double. */
static inline void expect_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance * fabs(wanted)))
        fail_msg("%s: wanted %.17g, got %.17g", what, wanted, got);
}

static inline void expect_not_above(const char *what, double got, double most)
{
    if (!(got <= most))
        fail_msg("%s: wanted at most %.17g, got %.17g", what, most, got);
}

static inline kith_model named(const char *name)
{
    kith_model model;
    if (kith_model_named(name, &model) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return model;
}

static inline kith_plan_options options_of(int tp, int pp, int64_t micro_batch, int64_t sequence)
{
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    o.tp = tp;
    o.pp = pp;
    o.micro_batch = micro_batch;
    o.sequence = sequence;
    return o;
}

static inline kith_plan make(const kith_model *model, const kith_plan_options *options)
{
    kith_plan plan;
    if (kith_plan_make(NULL, model, options, &plan) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return plan;
}

static inline kith_plan make_named(const char *name, const kith_plan_options *options)
{
    kith_model model = named(name);
    return make(&model, options);
}

/* The call is refused with this status, and the sentence has these words. */
static inline void expect_refused(const char *what, kith_status got, kith_status wanted, const char *words)
{
    if (got != wanted)
        fail_msg("%s: wanted %s, got %s (%s)", what, kith_status_name(wanted), kith_status_name(got),
                 kith_error_detail());
    if (strstr(kith_error_detail(), words) == NULL)
        fail_msg("%s: wanted '%s' in '%s'", what, words, kith_error_detail());
}

#endif
