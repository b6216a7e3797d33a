/* tools/compare/row.c - one row of a result file, checked field by field.
 *
 * Rows of `kith bench` have times in microseconds under time_us_..., those of the harness of bench/ other names: driver
 * and variant together are the backend, as a variant is a way of one driver ("ordinary", "mapped", "raw") and no other
 * has it; its section stands for the place; deciles stand for quartiles, and bandwidths follow from the formulas of
 * nccl-tests (doc/PERFORMANCE.md there), as sizes have their meaning. All its rows of a point are runs of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../bench/bench.h"
#include "compare.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define TIME_MAX_US 1e15 /* 30 years */
#define RATE_MIN_GBPS 1e-9
#define NBYTES_MAX ((int64_t)1 << 60)
#define COUNT_MAX ((int64_t)1 << 53)
#define RANKS_MAX 10000000

typedef struct reader {
    ki_results *results;
    const json_t *object;
    ki_complaint *complaint;
} reader;

/* ---- fields ---- */

/* What a value is, for a complaint. */
static const char *describe(const json_t *value, char *text, size_t nbytes)
{
    if (json_is_string(value))
        snprintf(text, nbytes, "\"%.40s\"", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, nbytes, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, nbytes, "%g", json_real_value(value));
    else
        snprintf(text, nbytes, "%s",
                 json_is_object(value)    ? "an object"
                 : json_is_array(value)   ? "a list"
                 : json_is_boolean(value) ? "a truth value"
                                          : "null");
    return text;
}

static void refuse(const reader *r, const char *key, const char *wanted)
{
    char text[64];
    const json_t *value = json_object_get(r->object, key);
    if (value == NULL)
        ki_complain(r->complaint, "has no \"%s\", which is %s", key, wanted);
    else
        ki_complain(r->complaint, "\"%s\" is %s; wanted %s", key, describe(value, text, sizeof(text)), wanted);
}

/* NAN for null, and for nothing unless the field is needed. */
static double number(const reader *r, const char *key, double low, bool is_needed)
{
    const json_t *value = json_object_get(r->object, key);
    double found = json_number_value(value);
    char wanted[64];
    if (json_is_null(value) || (value == NULL && !is_needed))
        return NAN;
    if (!json_is_number(value) || !(found >= low && found <= TIME_MAX_US)) {
        snprintf(wanted, sizeof(wanted), "a number%s from %g to %g", low > 0 ? " above 0," : "", low, TIME_MAX_US);
        refuse(r, key, wanted);
    }
    return found;
}

static int64_t whole(const reader *r, const char *key, int64_t low, int64_t high, bool is_needed, int64_t otherwise)
{
    const json_t *value = json_object_get(r->object, key);
    char wanted[64];
    if (!is_needed && (value == NULL || json_is_null(value)))
        return otherwise;
    if (json_is_integer(value) && json_integer_value(value) >= low && json_integer_value(value) <= high)
        return json_integer_value(value);
    snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)low, (long long)high);
    refuse(r, key, wanted);
    return otherwise;
}

static ki_word text(const reader *r, const char *key, bool is_needed)
{
    const json_t *value = json_object_get(r->object, key);
    if (!is_needed && (value == NULL || json_is_null(value)))
        return 0;
    if (!json_is_string(value) || (is_needed && json_string_length(value) == 0)) {
        refuse(r, key, is_needed ? "a name" : "a text");
        return 0;
    }
    ki_word word = ki_words_add(&r->results->words, json_string_value(value));
    if (word < 0)
        ki_complain(r->complaint, "memory is short");
    return word < 0 ? 0 : word;
}

/* "none" is nothing, as where the field is left out. */
static ki_word text_or_none(const reader *r, const char *key)
{
    const char *found = json_string_value(json_object_get(r->object, key));
    return found != NULL && strcmp(found, "none") == 0 ? 0 : text(r, key, false);
}

static bool flag(const reader *r, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(r->object, key);
    if (value == NULL || json_is_null(value))
        return otherwise;
    if (!json_is_boolean(value))
        refuse(r, key, "true or false");
    return json_is_true(value);
}

/* ---- rows ---- */

/* "kith-shm mapped" */
static ki_word driver(const reader *r)
{
    char name[128];
    ki_word of = text(r, "driver", true), variant = text(r, "variant", false);
    if (variant == 0)
        return of;
    const ki_words *words = &r->results->words;
    snprintf(name, sizeof(name), "%s %s", ki_words_text(words, of), ki_words_text(words, variant));
    ki_word both = ki_words_add(&r->results->words, name);
    if (both < 0)
        ki_complain(r->complaint, "memory is short");
    return both < 0 ? 0 : both;
}

/* Of a run with peers; "4 ranks" says nothing that the row does not. */
static ki_word section(const reader *r)
{
    const char *name = json_string_value(json_object_get(r->object, "section")), *space;
    if (name != NULL && (space = strchr(name, ' ')) != NULL && strcmp(space, " ranks") == 0)
        return 0;
    return text(r, "section", false);
}

static void read_point(const reader *r, bool is_harness, ki_row *row)
{
    ki_point *point = &row->point;
    point->op = text(r, "op", true);
    point->dtype = text_or_none(r, "dtype");
    point->redop = text_or_none(r, "redop");
    point->group = text(r, "group", false);
    point->place = is_harness ? section(r) : text(r, "place", false);
    point->memory = is_harness ? 0 : text(r, "memory", false);
    point->mode = text(r, "mode", false);
    point->ranks = (int)whole(r, "ranks", 1, RANKS_MAX, true, 1);
    point->nbytes = whole(r, "nbytes", 0, NBYTES_MAX, true, 0);
    point->from = (int)whole(r, "src", 0, RANKS_MAX, false, -1);
    point->to = (int)whole(r, "dst", 0, RANKS_MAX, false, -1);
    row->backend = is_harness ? driver(r) : text(r, "backend", true);
}

static void check_order(const reader *r, double low, double high, const char *low_key, const char *high_key)
{
    if (low > high) /* never with NAN */
        ki_complain(r->complaint, "\"%s\" is %g, above \"%s\", which is %g", low_key, low, high_key, high);
}

/* Less than a byte a second is none. */
static double rate(const reader *r, const char *key)
{
    double found = number(r, key, 0, false);
    return found < RATE_MIN_GBPS ? 0 : found;
}

static void read_times(const reader *r, ki_row *row)
{
    bool is_reliable = flag(r, "reliable", true);
    row->time_us = number(r, "time_us_median", 1e-6, true);
    row->p25 = number(r, "time_us_p25", 1e-6, false);
    row->p75 = number(r, "time_us_p75", 1e-6, false);
    check_order(r, row->p25, row->p75, "time_us_p25", "time_us_p75");
    check_order(r, row->p25, row->time_us, "time_us_p25", "time_us_median");
    check_order(r, row->time_us, row->p75, "time_us_median", "time_us_p75");
    row->sigma_us = ki_sigma_of_quartiles(row->p25, row->p75);
    row->algbw = rate(r, "algbw_gbps");
    row->busbw = rate(r, "busbw_gbps");
    row->link_of_pair = text(r, "pair_link", false);
    row->expected = number(r, "expected_gbps", 0, false);
    row->is_slow = flag(r, "below_expected", false);
    row->hidden = number(r, "hidden_percent", -TIME_MAX_US, false);
    row->samples = whole(r, "samples", 0, COUNT_MAX, false, 0);
    row->errors = whole(r, "errors", -1, COUNT_MAX, false, -1);
    if (!is_reliable)
        row->time_us = row->algbw = row->busbw = NAN;
}

/* The harness has one operation more, sendrecv, whose bytes all pass one wire. */
static double bus_factor(const char *name, int ranks)
{
    bench_op op;
    return bench_op_parse(name, &op) ? bench_op_bus_factor(op, ranks) : 1;
}

static void read_harness_times(const reader *r, ki_row *row)
{
    double p10 = number(r, "p10_us", 1e-6, false), p90 = number(r, "p90_us", 1e-6, false);
    row->time_us = number(r, "median_us", 1e-6, true);
    check_order(r, p10, p90, "p10_us", "p90_us");
    row->sigma_us = ki_sigma_of_deciles(p10, p90);
    row->p25 = row->p75 = row->hidden = NAN;
    row->samples = whole(r, "iterations", 0, COUNT_MAX, false, 0);
    row->errors = flag(r, "is_right", true) ? 0 : 1;
    double factor = bus_factor(ki_words_text(&r->results->words, row->point.op), row->point.ranks);
    row->algbw = factor > 0 && row->point.nbytes > 0 ? (double)row->point.nbytes / row->time_us / 1e3 : NAN;
    row->busbw = row->algbw * factor;
}

/* The classes of bench/peers/samples.py, which puts samples together by them. */
static const char *cores_class(double flag_ns)
{
    return flag_ns < 40 ? "sibling" : flag_ns < 170 ? "near" : "far";
}

/* 0 ns: one rank, or nothing was measured. */
static ki_word harness_cores(const reader *r)
{
    double before = number(r, "flag_before_ns", 0, false), after = number(r, "flag_after_ns", 0, false);
    if (!(before > 0) || !(after > 0))
        return 0;
    bool has_moved = strcmp(cores_class(before), cores_class(after)) != 0;
    ki_word word = ki_words_add(&r->results->words, has_moved ? KI_CORES_MOVED : cores_class(before));
    if (word < 0)
        ki_complain(r->complaint, "memory is short");
    return word < 0 ? 0 : word;
}

bool ki_row_read(ki_results *results, const struct json_t *object, bool is_harness, ki_row *row,
                 ki_complaint *complaint)
{
    reader r = { results, object, complaint };
    *row = (ki_row){ .expected = NAN, .cores_ns = NAN, .series = -1, .is_run = is_harness };
    if (!json_is_object(object)) {
        char found[64];
        ki_complain(complaint, "is %s; wanted an object", describe(object, found, sizeof(found)));
        return false;
    }
    read_point(&r, is_harness, row);
    if (is_harness) {
        read_harness_times(&r, row);
        row->cores = harness_cores(&r);
    } else {
        read_times(&r, row);
        row->link = text(&r, "link", false);
        row->cores = text(&r, "cores", false);
        row->cores_ns = sqrt(number(&r, "cores_before_ns", 0, false) * number(&r, "cores_after_ns", 0, false));
        row->algorithm = text(&r, "algorithm", false);
        row->hosts = (int)whole(&r, "hosts", 0, RANKS_MAX, false, 0);
    }
    if ((row->point.from < 0) != (row->point.to < 0))
        ki_complain(complaint, "has only one of \"src\" and \"dst\"");
    return complaint->text[0] == '\0';
}

#else
typedef int ki_compare_row_needs_jansson; /* a file must not be empty */
#endif
