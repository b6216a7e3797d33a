/* topology/place_sizes.c - how many ranks along each axis, and how many of them stay together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ki_axis_names[KI_AXES] = { "tp", "cp", "ep", "dp", "pp" };

enum { MOST_UNITS = 64 };
enum { MOST_TRIED = 1024, MOST_LISTED = 12 }; /* tp that would fit */

/* ---- order ---- */

static int axis_of(const char *word, size_t length)
{
    for (int a = 0; a < KI_AXES; a++)
        if (strlen(ki_axis_names[a]) == length && strncmp(ki_axis_names[a], word, length) == 0)
            return a;
    return -1;
}

/* Axes that the order leaves out come last, if they have one rank or are to be chosen. */
static kith_status read_order(const char *order, const int *wanted, ki_sizes *sizes)
{
    bool is_there[KI_AXES] = { false };
    int count = 0;
    for (const char *word = order; *word != '\0';) {
        size_t length = strcspn(word, "-");
        int axis = axis_of(word, length);
        if (axis < 0 || is_there[axis])
            return ki_fail_quiet(
                KITH_ERR_INVALID_ARG,
                "placement: order '%.40s' has '%.*s' %s; valid: the words tp, cp, ep, dp, pp joined by -", order,
                length > 20 ? 20 : (int)length, word, axis < 0 ? "in it" : "twice");
        is_there[axis] = true;
        sizes->order[count++] = axis;
        word += length + (word[length] == '-');
    }
    for (int a = 0; a < KI_AXES; a++) {
        if (!is_there[a] && wanted[a] > 1)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "placement: order '%.40s' leaves out %s, which has size %d",
                                 order, ki_axis_names[a], wanted[a]);
        if (!is_there[a])
            sizes->order[count++] = a;
    }
    size_t at = 0;
    for (int i = 0; i < KI_AXES; i++)
        at += (size_t)snprintf(sizes->text + at, sizeof sizes->text - at, "%s%s", i > 0 ? "-" : "",
                               ki_axis_names[sizes->order[i]]);
    return KITH_OK;
}

static int64_t product(const int *size)
{
    int64_t all = 1;
    for (int a = 0; a < KI_AXES; a++)
        if (__builtin_mul_overflow(all, (int64_t)size[a], &all) || all > INT32_MAX)
            return INT64_MAX;
    return all;
}

/* ---- units ---- */

/* Candidates among the first `axes` axes of the order, best first. dp or pp may be cut anywhere, inner axes may not. */
static int list_units(const ki_sizes *sizes, int axes, int most, int *units)
{
    int count = 0, first = 0;
    int64_t leading = 1;
    while (first < axes && sizes->size[sizes->order[first]] == 1)
        first++;
    if (first == axes) {
        units[0] = 1;
        return 1;
    }
    int innermost = sizes->order[first];
    for (int i = first; i < axes && leading * sizes->size[sizes->order[i]] <= most; i++) {
        int64_t before = leading;
        leading *= sizes->size[sizes->order[i]];
        if (leading != before)
            units[count++] = (int)leading;
    }
    for (int i = 0; i < count / 2; i++) {
        int unit = units[i];
        units[i] = units[count - 1 - i];
        units[count - 1 - i] = unit;
    }
    if (count == 0) /* larger than any island: equal parts of it */
        for (int part = most; part >= 1 && count < MOST_UNITS; part--)
            if (sizes->size[innermost] % part == 0)
                units[count++] = part;
    if ((innermost == KI_DP || innermost == KI_PP) && units[count - 1] != 1 && count < MOST_UNITS)
        units[count++] = 1;
    return count;
}

int ki_sizes_units(const ki_sizes *sizes, const ki_islands *islands, int *units)
{
    int all[MOST_UNITS], count = list_units(sizes, KI_AXES, islands->most, all), good = 0;
    for (int i = 0; i < count && good < KI_AXES + 1; i++)
        if (ki_islands_capacity(islands, all[i]) >= sizes->world)
            units[good++] = all[i];
    return good;
}

static bool fits(ki_sizes *sizes, const ki_islands *islands)
{
    int units[KI_AXES + 1];
    int64_t world = product(sizes->size);
    if (world > islands->total)
        return false;
    sizes->world = (int)world;
    return ki_sizes_units(sizes, islands, units) > 0;
}

/* ---- choosing ---- */

/* As many as an island holds and the other sizes leave room for. */
static void choose_tp(ki_sizes *sizes, const ki_islands *islands)
{
    int island = ki_islands_nvlink_size(islands);
    for (int tp = island > 0 ? island : 1; tp >= 1; tp--) {
        sizes->size[KI_TP] = tp;
        if (island % tp == 0 && fits(sizes, islands))
            return;
    }
}

static void choose_dp(ki_sizes *sizes, const ki_islands *islands)
{
    int units[MOST_UNITS], before = 0;
    sizes->size[KI_DP] = 1;
    while (sizes->order[before] != KI_DP)
        before++;
    int64_t others = product(sizes->size);
    int count = list_units(sizes, before, islands->most, units);
    for (int i = 0; i < count; i++) {
        int64_t dp = ki_islands_capacity(islands, units[i]) / others;
        if (dp < 1)
            continue;
        sizes->size[KI_DP] = (int)dp;
        if (fits(sizes, islands))
            return;
    }
    sizes->size[KI_DP] = 1;
}

/* ---- what would fit ---- */

static void say_sizes(ki_text *text, const int *size)
{
    for (int a = 0; a < KI_AXES; a++)
        if (size[a] > 1 || a == KI_TP)
            ki_text_add(text, "%s%s %d", text->length > 0 ? " x " : "", ki_axis_names[a], size[a]);
}

/* Of those that are tried; there is one. */
static int largest_tp(ki_sizes *sizes, const ki_islands *islands, int wanted_tp)
{
    int tp = islands->total < MOST_TRIED ? islands->total : MOST_TRIED;
    for (; tp > 1; tp--) {
        sizes->size[KI_TP] = tp;
        if (tp != wanted_tp && fits(sizes, islands))
            break;
    }
    return tp;
}

static void say_valid(ki_text *text, ki_sizes *sizes, const ki_islands *islands)
{
    int wanted_tp = sizes->size[KI_TP], wanted_dp = sizes->size[KI_DP], listed = 0, low = 0, high = wanted_dp;
    while (high - low > 1) { /* what fits with dp fits with less */
        sizes->size[KI_DP] = low + (high - low) / 2;
        *(fits(sizes, islands) ? &low : &high) = sizes->size[KI_DP];
    }
    if (low > 0)
        ki_text_add(text, "dp up to %d", low);
    sizes->size[KI_DP] = wanted_dp;
    for (int tp = 1; tp <= islands->total && tp <= MOST_TRIED && listed <= MOST_LISTED; tp++) {
        sizes->size[KI_TP] = tp;
        if (tp == wanted_tp || !fits(sizes, islands))
            continue;
        if (++listed > MOST_LISTED)
            ki_text_add(text, ", ... up to %d", largest_tp(sizes, islands, wanted_tp));
        else
            ki_text_add(text, "%s%d", listed > 1 ? ", " : text->length > 0 ? ", or tp " : "tp ", tp);
    }
    sizes->size[KI_TP] = wanted_tp;
    if (text->length == 0)
        ki_text_add(text, "a product of sizes of at most %d", islands->total);
    const kith_node_kind *lone = ki_topology_lone_gpu(islands->t);
    if (lone != NULL)
        ki_text_add(text, "; this process sees one of %d GPUs of %s: a mask or a control group hides the others",
                    lone->gpu_count, lone->name);
}

static kith_status refuse(ki_sizes *sizes, const ki_islands *islands)
{
    ki_text asked = { 0 }, valid = { 0 };
    int64_t world = product(sizes->size);
    say_sizes(&asked, sizes->size);
    say_valid(&valid, sizes, islands);
    if (world > islands->total)
        ki_fail_quiet(
            KITH_ERR_INVALID_ARG,
            "placement: %s are more ranks than the %d GPUs that may be used and answer; valid with the other sizes: %s",
            ki_text_chars(&asked), islands->total, ki_text_chars(&valid));
    else
        ki_fail_quiet(KITH_ERR_INVALID_ARG,
                      "placement: %s do not fit: no group of the innermost axis may be wrapped over two islands, and "
                      "islands of up to %d GPUs hold too few whole groups; valid with the other sizes: %s",
                      ki_text_chars(&asked), islands->most, ki_text_chars(&valid));
    ki_text_fini(&asked);
    ki_text_fini(&valid);
    return KITH_ERR_INVALID_ARG;
}

kith_status ki_sizes_choose(const kith_placement_options *options, const ki_islands *islands, ki_sizes *sizes)
{
    const int wanted[KI_AXES] = { options->tp, options->cp, options->ep, options->dp, options->pp };
    *sizes = (ki_sizes){ .world = 0 };
    for (int a = 0; a < KI_AXES; a++) {
        if (wanted[a] < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "placement: %s is %d; valid: 1 or more, or 0 to choose",
                                 ki_axis_names[a], wanted[a]);
        sizes->size[a] = wanted[a] > 0 ? wanted[a] : 1;
    }
    kith_status status = read_order(options->order != NULL ? options->order : "tp-cp-ep-dp-pp", wanted, sizes);
    if (status != KITH_OK)
        return status;
    if (wanted[KI_TP] == 0)
        choose_tp(sizes, islands);
    if (wanted[KI_DP] == 0)
        choose_dp(sizes, islands);
    if (!fits(sizes, islands))
        return refuse(sizes, islands);
    int64_t stride = 1;
    for (int i = 0; i < KI_AXES; i++) {
        sizes->stride[sizes->order[i]] = stride;
        stride *= sizes->size[sizes->order[i]];
    }
    return KITH_OK;
}

/* Groups are numbered with the other axes in order, as kith_mesh_enumerate() does. */
int ki_sizes_group_base(const ki_sizes *sizes, int axis, int group)
{
    int64_t stride = sizes->stride[axis];
    return (int)(group / stride * stride * sizes->size[axis] + group % stride);
}
