/* tools/tune/results.c - rows of `kith bench`, out of a file of --save or --json.
 *
 * Only what curves need is taken; the JSON stays at hand for those that write it again. A row that lacks a name or a
 * number that every row has is a damaged file, and refused with its place.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#ifdef KITH_HAVE_JANSSON
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "kith-results-1"

static void copy_text(const json_t *row, const char *key, const char *otherwise, char *text, size_t nbytes)
{
    const char *value = json_string_value(json_object_get(row, key));
    snprintf(text, nbytes, "%s", value != NULL ? value : otherwise);
}

static double number_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int whole_of(const json_t *row, const char *key, int otherwise)
{
    double value = number_of(row, key);
    return value >= 0 && value < 1e9 && value == floor(value) ? (int)value : otherwise;
}

/* NULL, or what a row lacks. */
static const char *read_row(const json_t *in, tune_row *row)
{
    copy_text(in, "op", "", row->op, sizeof row->op);
    copy_text(in, "backend", "", row->backend, sizeof row->backend);
    copy_text(in, "link", "auto", row->link, sizeof row->link);
    copy_text(in, "dtype", "", row->dtype, sizeof row->dtype);
    copy_text(in, "redop", "", row->redop, sizeof row->redop);
    copy_text(in, "memory", "host", row->memory, sizeof row->memory);
    copy_text(in, "place", "", row->place, sizeof row->place);
    copy_text(in, "mode", "blocking", row->mode, sizeof row->mode);
    copy_text(in, "group", "world", row->group, sizeof row->group);
    copy_text(in, "algorithm", "", row->algorithm, sizeof row->algorithm);
    row->ranks = whole_of(in, "ranks", 0);
    row->hosts = whole_of(in, "hosts", 1);
    row->src = whole_of(in, "src", -1);
    row->dst = whole_of(in, "dst", -1);
    row->nbytes = number_of(in, "nbytes");
    row->time_us = number_of(in, "time_us_median");
    row->low_us = number_of(in, "time_us_p25");
    row->high_us = number_of(in, "time_us_p75");
    row->busbw_gbps = number_of(in, "busbw_gbps");
    if (row->op[0] == 0)
        return "op";
    if (row->backend[0] == 0)
        return "backend";
    if (row->ranks < 1)
        return "ranks";
    return row->nbytes >= 0 ? NULL : "nbytes";
}

static bool read_rows(const char *path, tune_results *results, char *sentence, size_t nbytes)
{
    results->list = calloc(json_array_size(results->rows) + 1, sizeof *results->list);
    if (results->list == NULL) {
        snprintf(sentence, nbytes, "memory is short");
        return false;
    }
    for (size_t i = 0; i < json_array_size(results->rows); i++) {
        const json_t *row = json_array_get(results->rows, i);
        results->list[i].index = i;
        const char *lacks = json_is_object(row) ? read_row(row, &results->list[i]) : "its members";
        if (lacks != NULL) {
            snprintf(sentence, nbytes, "%s: row %zu has no valid '%s'", path, i + 1, lacks);
            return false;
        }
        results->count++;
    }
    return true;
}

bool tune_results_read(const char *path, tune_results *results, char *sentence, size_t nbytes)
{
    json_error_t error;
    *results = (tune_results){ NULL, NULL, NULL, 0 };
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        if (error.line > 0)
            snprintf(sentence, nbytes, "%s:%d: %s", path, error.line, error.text);
        else
            snprintf(sentence, nbytes, "%s", error.text); /* which has the path */
        return false;
    }
    const char *name = json_string_value(json_object_get(root, "format"));
    bool is_ours = name != NULL && strcmp(name, FORMAT) == 0; /* the name goes with root */
    if (json_is_array(root)) {
        results->rows = root;
        return read_rows(path, results, sentence, nbytes);
    }
    results->rows = json_incref(json_object_get(root, "rows"));
    results->meta = json_incref(json_object_get(root, "meta"));
    json_decref(root);
    if (is_ours && json_is_array(results->rows))
        return read_rows(path, results, sentence, nbytes);
    snprintf(sentence, nbytes,
             "%s: these are no results of kith bench (a list of rows, or an object with \"" FORMAT "\")", path);
    return false;
}

void tune_results_free(tune_results *results)
{
    json_decref(results->rows);
    json_decref(results->meta);
    free(results->list);
    *results = (tune_results){ NULL, NULL, NULL, 0 };
}

const char *tune_results_command(const tune_results *results)
{
    const char *command = json_string_value(json_object_get(results->meta, "command"));
    return command != NULL ? command : "";
}

#else

const char *tune_results_command(const tune_results *results)
{
    (void)results;
    return "";
}

bool tune_results_read(const char *path, tune_results *results, char *sentence, size_t nbytes)
{
    *results = (tune_results){ NULL, NULL, NULL, 0 };
    snprintf(sentence, nbytes, "%s: this kith was built without jansson, which reads results", path);
    return false;
}

void tune_results_free(tune_results *results)
{
    (void)results;
}

#endif
