/* tools/compare/match.c - the same point in all files; what a series is beside its baseline.
 *
 * Nothing is left out: a point that one series alone has is a match with one value. Ratios are speeds: how many times
 * as fast as the baseline. All ratios of a comparison that can be tested are one family of tests, so that a comparison
 * of many points does not find a difference by the number of its tries (stats.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- points ---- */

#define ORDER(a, b) ((a) > (b)) - ((a) < (b))

static int panel_order(const ki_point *a, const ki_point *b)
{
    const int orders[] = { ORDER(a->op, b->op),         ORDER(a->dtype, b->dtype), ORDER(a->redop, b->redop),
                           ORDER(a->ranks, b->ranks),   ORDER(a->group, b->group), ORDER(a->place, b->place),
                           ORDER(a->memory, b->memory), ORDER(a->mode, b->mode) };
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

static bool is_pair(const ki_point *point)
{
    return point->from >= 0;
}

/* Pairs of one size are a panel; without pairs all sizes are. */
int ki_point_order(const ki_point *a, const ki_point *b)
{
    int order = panel_order(a, b);
    order = order != 0 ? order : ORDER(is_pair(a), is_pair(b));
    order = order != 0 ? order : ORDER(a->nbytes, b->nbytes);
    order = order != 0 ? order : ORDER(a->from, b->from);
    return order != 0 ? order : ORDER(a->to, b->to);
}

bool ki_point_is_same_panel(const ki_point *a, const ki_point *b)
{
    return panel_order(a, b) == 0 && is_pair(a) == is_pair(b) && (!is_pair(a) || a->nbytes == b->nbytes);
}

/* ---- values ---- */

/* Adds a row to the runs of a value; geometric means are sums of logarithms until end_value(). */
static void add_run(ki_value *value, const ki_row *row, ki_estimate *runs)
{
    runs[value->row_count++] = ki_estimate_of_run(row->time_us, row->sigma_us, row->samples);
    value->time_us += log(row->time_us);
    value->algbw += log(row->algbw);
    value->busbw += log(row->busbw);
    value->p25 = value->row_count == 1 ? row->p25 : fmin(value->p25, row->p25);
    value->p75 = value->row_count == 1 ? row->p75 : fmax(value->p75, row->p75);
    value->hidden += row->hidden;
    value->samples += row->samples;
    value->errors = row->errors > value->errors ? row->errors : value->errors;
}

#define CORES_ALIKE 1.5

/* A flag took about as long, even if a limit between two classes lies between. */
static bool are_cores_alike(const ki_row *a, const ki_row *b)
{
    return a->cores == b->cores || (a->cores_ns < CORES_ALIKE * b->cores_ns && b->cores_ns < CORES_ALIKE * a->cores_ns);
}

/* Where the cores were in all runs of a value; "mixed" where runs differ. */
static bool find_cores(ki_comparison *c, ki_value *value, size_t first)
{
    value->cores = c->results->rows[first].cores;
    for (int i = 1; i < value->row_count; i++)
        if (!are_cores_alike(&c->results->rows[first + (size_t)i], value->row))
            value->cores = ki_words_add(&c->results->words, KI_CORES_MIXED);
    return value->cores >= 0;
}

/* One run is shown as the file has it, to the last digit. */
static void end_value(ki_value *value, const ki_estimate *runs)
{
    double count = value->row_count;
    const ki_row *row = value->row;
    value->time_us = count > 1 ? exp(value->time_us / count) : row->time_us;
    value->algbw = count > 1 ? exp(value->algbw / count) : row->algbw;
    value->busbw = count > 1 ? exp(value->busbw / count) : row->busbw;
    value->hidden /= count;
    if (!isnan(value->time_us))
        value->estimate = ki_estimate_of_runs(runs, (size_t)value->row_count);
}

static bool is_same_value(const ki_row *a, const ki_row *b)
{
    return a->series == b->series && ki_point_order(&a->point, &b->point) == 0;
}

static size_t count_runs_most(const ki_results *results)
{
    size_t most = 1, run = 1;
    for (size_t i = 1; i < results->row_count; i++) {
        run = is_same_value(&results->rows[i - 1], &results->rows[i]) ? run + 1 : 1;
        most = run > most ? run : most;
    }
    return most;
}

static bool make_values(ki_comparison *c, ki_estimate *runs)
{
    const ki_results *results = c->results;
    for (size_t i = 0; i < results->row_count;) {
        ki_value *value = &c->values[c->value_count++];
        *value = (ki_value){ .row = &results->rows[i], .errors = -1, .speed = { NAN, NAN, NAN, NAN } };
        for (; i < results->row_count && is_same_value(value->row, &results->rows[i]); i++)
            add_run(value, &results->rows[i], runs);
        end_value(value, runs);
        if (!find_cores(c, value, i - (size_t)value->row_count))
            return false;
    }
    return true;
}

/* ---- matches and panels ---- */

static bool is_new_point(const ki_comparison *c, size_t value)
{
    return value == 0 || ki_point_order(&c->values[value - 1].row->point, &c->values[value].row->point) != 0;
}

static void make_matches(ki_comparison *c)
{
    size_t series_count = (size_t)c->series_count;
    for (size_t i = 0; i < c->value_count; i++) {
        ki_value *value = &c->values[i];
        if (is_new_point(c, i)) {
            ki_match *match = &c->matches[c->match_count];
            *match = (ki_match){ value->row->point, c->cells + c->match_count * series_count };
            c->match_count++;
        }
        c->matches[c->match_count - 1].values[value->row->series] = value;
    }
    for (size_t i = 0; i < c->match_count; i++) {
        const ki_match *match = &c->matches[i];
        bool is_new = i == 0 || !ki_point_is_same_panel(&match->point, &c->matches[i - 1].point);
        if (is_new)
            c->panels[c->panel_count++] = (ki_panel){ match->point, i, 0, is_pair(&match->point) };
        c->panels[c->panel_count - 1].count++;
    }
}

static void note_varying(ki_comparison *c)
{
    const ki_point *a = &c->panels[0].point;
    for (size_t i = 1; i < c->panel_count; i++) {
        const ki_point *b = &c->panels[i].point;
        c->varies.dtype |= a->dtype != b->dtype;
        c->varies.redop |= a->redop != b->redop;
        c->varies.group |= a->group != b->group;
        c->varies.place |= a->place != b->place;
        c->varies.memory |= a->memory != b->memory;
        c->varies.mode |= a->mode != b->mode;
        c->varies.ranks |= a->ranks != b->ranks;
    }
}

static bool allocate(ki_comparison *c, ki_estimate **runs)
{
    size_t rows = c->results->row_count, matches = 0;
    c->values = calloc(rows, sizeof(*c->values));
    *runs = calloc(count_runs_most(c->results), sizeof(**runs));
    for (size_t i = 0; i < rows; i++)
        matches += i == 0 || ki_point_order(&c->results->rows[i - 1].point, &c->results->rows[i].point) != 0;
    c->matches = calloc(matches, sizeof(*c->matches));
    c->panels = calloc(matches, sizeof(*c->panels));
    c->cells = calloc(matches * (size_t)c->series_count, sizeof(ki_value *)); /* 64 times 200000 at most */
    return c->values != NULL && *runs != NULL && c->matches != NULL && c->panels != NULL && c->cells != NULL;
}

/* ---- ratios ---- */

/* Several runs on cores of several classes have that in what lies between them; one that moved is no run of a class. */
static bool has_other_cores(const ki_comparison *c, const ki_value *value, const ki_value *baseline)
{
    const ki_words *words = &c->results->words;
    const char *own = ki_words_text(words, value->cores), *other = ki_words_text(words, baseline->cores);
    if (value->cores == 0 || baseline->cores == 0)
        return false;
    if (strcmp(own, KI_CORES_MOVED) == 0 || strcmp(other, KI_CORES_MOVED) == 0)
        return true;
    if (strcmp(own, KI_CORES_MIXED) == 0 || strcmp(other, KI_CORES_MIXED) == 0)
        return value->cores != baseline->cores;
    return !are_cores_alike(value->row, baseline->row);
}

static ki_verdict first_verdict(const ki_comparison *c, const ki_value *value, const ki_value *baseline)
{
    if (value->errors > 0 || baseline->errors > 0)
        return KI_VERDICT_WRONG;
    if (isnan(value->time_us) || isnan(baseline->time_us))
        return KI_VERDICT_UNRELIABLE;
    if (has_other_cores(c, value, baseline))
        return KI_VERDICT_CORES;
    return KI_VERDICT_UNTESTED;
}

/* The value's speed beside its baseline's; true when it was tested. */
static bool compare_value(const ki_comparison *c, ki_value *value, const ki_value *baseline)
{
    value->verdict = first_verdict(c, value, baseline);
    value->is_of_one_run = value->row_count < 2 || baseline->row_count < 2;
    if (value->verdict != KI_VERDICT_UNTESTED)
        return false;
    value->speed = ki_estimates_compare(&value->estimate, &baseline->estimate); /* of times: the inverse of speeds */
    return !isnan(value->speed.p);
}

static bool compare_all(ki_comparison *c)
{
    double *p = malloc((c->value_count + 1) * sizeof(*p));
    if (p == NULL)
        return false;
    for (size_t i = 0; i < c->match_count; i++)
        for (int s = 0; s < c->series_count; s++) {
            ki_value *value = ki_value_at(c, i, s);
            int baseline = c->series[s].baseline;
            if (value != NULL && baseline >= 0 && ki_value_at(c, i, baseline) != NULL &&
                compare_value(c, value, ki_value_at(c, i, baseline)))
                p[c->tested++] = value->speed.p;
        }
    c->p_limit = ki_false_discovery_limit(p, c->tested, KI_SIGNIFICANCE);
    free(p);
    for (size_t i = 0; i < c->value_count; i++) {
        ki_value *value = &c->values[i];
        if (value->verdict == KI_VERDICT_UNTESTED && !isnan(value->speed.p))
            value->verdict = value->speed.p > c->p_limit ? KI_VERDICT_ALIKE
                             : value->speed.ratio > 1    ? KI_VERDICT_FASTER
                                                         : KI_VERDICT_SLOWER;
    }
    return true;
}

bool ki_match_make(ki_comparison *c, ki_complaint *complaint)
{
    ki_estimate *runs = NULL;
    bool is_made = allocate(c, &runs);
    if (is_made) {
        is_made = make_values(c, runs);
    }
    if (is_made) {
        make_matches(c);
        note_varying(c);
        is_made = compare_all(c);
    }
    if (!is_made)
        ki_complain(complaint, "memory is short");
    free(runs);
    return is_made;
}

void ki_comparison_fini(ki_comparison *c)
{
    free(c->values);
    free(c->matches);
    free(c->panels);
    free(c->cells);
}

/* ---- pairs ---- */

#define PAIR_TIME_NBYTES 65536

static const ki_match *find_pair(const ki_comparison *c, const ki_panel *panel, int from, int to)
{
    size_t low = panel->first, high = panel->first + panel->count;
    while (low < high) { /* they are sorted by from, then by to */
        size_t middle = low + (high - low) / 2;
        const ki_point *point = &c->matches[middle].point;
        if (point->from == from && point->to == to)
            return &c->matches[middle];
        if (point->from < from || (point->from == from && point->to < to))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const ki_value *ki_pair_value(const ki_comparison *c, const ki_panel *panel, int series, int from, int to)
{
    const ki_match *there = find_pair(c, panel, from, to), *back = find_pair(c, panel, to, from);
    if (there != NULL && there->values[series] != NULL)
        return there->values[series];
    return back != NULL ? back->values[series] : NULL;
}

int ki_pair_ranks(const ki_comparison *c, const ki_panel *panel)
{
    int ranks = 0;
    for (size_t m = panel->first; m < panel->first + panel->count; m++) {
        const ki_point *point = &c->matches[m].point;
        ranks = point->from >= ranks ? point->from + 1 : ranks;
        ranks = point->to >= ranks ? point->to + 1 : ranks;
    }
    return ranks;
}

bool ki_pairs_show_time(const ki_panel *panel)
{
    return panel->point.nbytes < PAIR_TIME_NBYTES;
}

double ki_pair_reading(const ki_panel *panel, const ki_value *value)
{
    double found = value == NULL ? NAN : ki_pairs_show_time(panel) ? value->time_us : value->busbw;
    return found > 0 ? found : NAN;
}

/* ---- sums ---- */

bool ki_value_is_worse(const ki_comparison *c, const ki_match *match, int series)
{
    const ki_value *value = match->values[series];
    if (value == NULL || c->threshold < 0 || c->series[series].baseline < 0)
        return false;
    bool is_slow = value->verdict == KI_VERDICT_SLOWER && 1 / value->speed.ratio > 1 + c->threshold / 100;
    return is_slow || value->errors > 0;
}

size_t ki_worse_count(const ki_comparison *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->match_count; i++)
        for (int s = 0; s < c->series_count; s++)
            count += ki_value_is_worse(c, &c->matches[i], s);
    return count;
}

ki_mean ki_mean_of(const ki_comparison *c, int series, size_t first, size_t count)
{
    ki_mean mean = { 0 };
    double sum = 0;
    for (size_t i = first; i < first + count; i++) {
        const ki_value *value = ki_value_at(c, i, series);
        if (value == NULL || isnan(value->speed.ratio))
            continue;
        double ratio = value->speed.ratio;
        sum += log(ratio);
        mean.low = mean.count == 0 ? ratio : fmin(mean.low, ratio);
        mean.high = mean.count == 0 ? ratio : fmax(mean.high, ratio);
        mean.count++;
        mean.is_of_one_run |= value->is_of_one_run;
        mean.faster += value->verdict == KI_VERDICT_FASTER;
        mean.slower += value->verdict == KI_VERDICT_SLOWER;
    }
    mean.other = mean.count - mean.faster - mean.slower;
    mean.ratio = mean.count > 0 ? exp(sum / (double)mean.count) : 0;
    return mean;
}

#else
typedef int ki_compare_match_needs_jansson; /* a file must not be empty */
#endif
