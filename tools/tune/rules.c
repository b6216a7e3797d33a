/* tools/tune/rules.c - from times to rules: which algorithm at which size.
 *
 * A table that changes its mind at every size would follow noise. So a run of sizes keeps one algorithm as long as
 * there is one that is near enough to the fastest at all of them; that gives the fewest runs there can be. Between the
 * last size of a run and the first of the next the change lies half way, on a logarithmic scale.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include <kith/context.h>
#include <math.h>
#include <string.h>
#ifdef KITH_HAVE_JANSSON
#include <jansson.h>
#endif

int tune_fastest(const tune_times *times, int size)
{
    int fastest = -1;
    for (int a = 0; a < times->algorithm_count; a++)
        if (!isnan(times->us[size][a]) && (fastest < 0 || times->us[size][a] < times->us[size][fastest]))
            fastest = a;
    return fastest;
}

/* How much slower than the fastest; infinite where it cannot run. */
static double excess(const tune_times *times, int size, int algorithm)
{
    int fastest = tune_fastest(times, size);
    double us = times->us[size][algorithm];
    return isnan(us) ? HUGE_VAL : us / times->us[size][fastest] - 1;
}

/* How many sizes from `first` on one algorithm is near enough at, and which of those that last so long is nearest. */
static int longest_run(const tune_times *times, double tolerance, int first, int *algorithm)
{
    int best = 0;
    double least = HUGE_VAL;
    *algorithm = -1;
    for (int a = 0; a < times->algorithm_count; a++) {
        int length = 0;
        bool has_run = false;
        double sum = 0;
        for (int s = first; s < times->size_count; s++, length++) {
            if (tune_fastest(times, s) < 0)
                continue;
            if (excess(times, s, a) > tolerance)
                break;
            sum += excess(times, s, a);
            has_run = true;
        }
        if (has_run && (length > best || (length == best && sum < least))) {
            best = length;
            least = sum;
            *algorithm = a;
        }
    }
    return best;
}

void tune_choose(const tune_times *times, double tolerance, int *choice)
{
    for (int s = 0; s < times->size_count;) {
        int algorithm, length = longest_run(times, tolerance, s, &algorithm);
        for (int end = s + (length > 0 ? length : 1); s < end; s++)
            choice[s] = algorithm;
    }
}

size_t tune_rule_limit(const tune_times *times, int index)
{
    return (size_t)sqrt((double)times->nbytes[index] * (double)times->nbytes[index + 1]);
}

static void print_rule(FILE *out, const tune_times *times, int algorithm, size_t limit, int ranks, const char *hosts,
                       bool *is_first)
{
    fprintf(out, "%s\n  {\"collective\": \"%s\", \"min_ranks\": %d, \"max_ranks\": %d, ", *is_first ? "" : ",",
            times->collective, ranks, ranks);
    if (limit > 0)
        fprintf(out, "\"max_nbytes\": %zu, ", limit);
    fprintf(out, "\"hosts\": \"%s\", \"algorithm\": \"%s\"}", hosts, times->names[algorithm]);
    *is_first = false;
}

void tune_rules_print(FILE *out, const tune_times *times, const int *choice, int ranks, const char *hosts,
                      bool *is_first)
{
    for (int s = 0; s < times->size_count; s++) {
        bool is_last = s + 1 == times->size_count;
        if (choice[s] >= 0 && (is_last || choice[s + 1] != choice[s]))
            print_rule(out, times, choice[s], is_last ? 0 : tune_rule_limit(times, s), ranks, hosts, is_first);
    }
}

#ifdef KITH_HAVE_JANSSON

/* The array "algorithms".key of what kith info says; NULL with a sentence. Owned. */
static json_t *ask_library(const char *key, char *sentence, size_t nbytes)
{
    char *text = NULL;
    json_error_t error;
    if (kith_info_json(&text) != KITH_OK) {
        snprintf(sentence, nbytes, "%s", kith_error_detail());
        return NULL;
    }
    json_t *root = json_loads(text, 0, &error);
    json_t *list = json_incref(json_object_get(json_object_get(root, "algorithms"), key));
    json_decref(root);
    kith_free(text);
    if (!json_is_array(list)) {
        json_decref(list);
        snprintf(sentence, nbytes, "the library does not say which algorithms it has");
        return NULL;
    }
    return list;
}

static bool is_of(const json_t *row, const char *collective)
{
    const char *name = json_string_value(json_object_get(row, "collective"));
    return name != NULL && strcmp(name, collective) == 0;
}

int tune_algorithms(const char *collective, bool is_ordered, char (*names)[48], char *sentence, size_t nbytes)
{
    int count = 0;
    json_t *list = ask_library("list", sentence, nbytes);
    for (size_t i = 0; list != NULL && i < json_array_size(list) && count < TUNE_ALGORITHMS_MAX; i++) {
        const json_t *row = json_array_get(list, i);
        if (is_of(row, collective) && (!is_ordered || json_is_true(json_object_get(row, "deterministic"))))
            snprintf(names[count++], sizeof *names, "%s", json_string_value(json_object_get(row, "name")));
    }
    bool is_there = list != NULL;
    json_decref(list);
    return is_there ? count : -1;
}

/* 0 stands for no limit in what the library says, and is left out in a file. */
static void print_limit(FILE *out, const json_t *row, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(row, key));
    if (value > 0)
        fprintf(out, "\"%s\": %" JSON_INTEGER_FORMAT ", ", key, value);
}

bool tune_rules_before(FILE *out, const char *collective, bool is_first, char *sentence, size_t nbytes)
{
    json_t *list = ask_library("table", sentence, nbytes);
    for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (!is_of(row, collective))
            continue;
        fprintf(out, "%s\n  {\"collective\": \"%s\", ", is_first ? "" : ",", collective);
        is_first = false;
        print_limit(out, row, "min_ranks");
        print_limit(out, row, "max_ranks");
        print_limit(out, row, "max_nbytes");
        fprintf(out, "\"hosts\": \"%s\", \"algorithm\": \"%s\"}", json_string_value(json_object_get(row, "hosts")),
                json_string_value(json_object_get(row, "algorithm")));
    }
    bool is_there = list != NULL;
    json_decref(list);
    return is_there;
}

#else

static const char no_jansson[] = "this kith was built without jansson, which reads what the library has";

int tune_algorithms(const char *collective, bool is_ordered, char (*names)[48], char *sentence, size_t nbytes)
{
    (void)collective, (void)is_ordered, (void)names;
    snprintf(sentence, nbytes, "%s", no_jansson);
    return -1;
}

bool tune_rules_before(FILE *out, const char *collective, bool is_first, char *sentence, size_t nbytes)
{
    (void)out, (void)collective, (void)is_first;
    snprintf(sentence, nbytes, "%s", no_jansson);
    return false;
}

#endif
