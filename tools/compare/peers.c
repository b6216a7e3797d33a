/* tools/compare/peers.c - figures out of a file of the harness, and the tables that they make.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "peers.h"
#include "../draw.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- contenders ---- */

static bool starts_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

static bool is_kith(const ki_results *results, ki_word contender)
{
    return starts_with(ki_words_text(&results->words, contender), "kith-");
}

static bool is_bf16(const ki_results *results, ki_word contender)
{
    return strstr(ki_words_text(&results->words, contender), "-bf16") != NULL;
}

const char *ki_contender_name(const ki_results *results, ki_word contender, char *buffer, size_t nbytes)
{
    snprintf(buffer, nbytes, "%s", ki_words_text(&results->words, contender));
    char *slash = strchr(buffer, '/');
    if (slash != NULL && strcmp(slash, "/raw") == 0)
        *slash = '\0';
    else if (slash != NULL)
        *slash = ' ';
    ki_text_clean(buffer); /* it may have been cut inside a character */
    return buffer;
}

/* ---- reading ---- */

static bool has_room(void **list, size_t count, size_t *room, size_t nbytes)
{
    if (count < *room)
        return true;
    size_t more = *room == 0 ? 256 : 2 * *room;
    void *larger = realloc(*list, more * nbytes);
    if (larger == NULL)
        return false;
    *list = larger;
    *room = more;
    return true;
}

static ki_word word(ki_results *results, const json_t *object, const char *key, ki_complaint *complaint)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL)
        ki_complain(complaint, "has no text \"%s\"", key);
    ki_word found = text == NULL ? 0 : ki_words_add(&results->words, text);
    if (found < 0)
        ki_complain(complaint, "memory is short");
    return found < 0 ? 0 : found;
}

/* Floors are no contenders, and what is "pair-..." measures two ways of one program. */
static bool is_contender(const char *name)
{
    return !starts_with(name, "floors/") && !starts_with(name, "pair-");
}

static bool add_time(ki_results *results, ki_figure *figure, const char *name, const json_t *value,
                     ki_complaint *complaint)
{
    double us = json_number_value(value);
    if (!json_is_number(value) || !(us > 0) || !isfinite(us))
        ki_complain(complaint, "\"us\" of \"%.60s\" is no time above 0", name);
    if (figure->count == KI_CONTENDERS_MAX)
        ki_complain(complaint, "has more than %d contenders", KI_CONTENDERS_MAX);
    ki_word contender = ki_words_add(&results->words, name);
    if (contender < 0)
        ki_complain(complaint, "memory is short");
    if (complaint->text[0] != '\0')
        return false;
    figure->times[figure->count++] = (ki_contender_time){ contender, us };
    return true;
}

static bool read_figure(ki_results *results, const json_t *object, ki_figure *figure, ki_complaint *complaint)
{
    const json_t *us = json_object_get(object, "us"), *nbytes = json_object_get(object, "nbytes");
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        ki_complain(complaint, "is no object");
    figure->section = word(results, object, "section", complaint);
    figure->op = word(results, object, "op", complaint);
    figure->mode = word(results, object, "mode", complaint);
    figure->cores = word(results, object, "latency_class", complaint);
    figure->nbytes = json_integer_value(nbytes);
    if (!json_is_integer(nbytes) || figure->nbytes < 0)
        ki_complain(complaint, "\"nbytes\" is no whole number from 0 up");
    if (!json_is_object(us))
        ki_complain(complaint, "\"us\" is no object");
    json_object_foreach((json_t *)(uintptr_t)us, name, value)
    {
        if (is_contender(name) && !add_time(results, figure, name, value, complaint))
            return false;
    }
    return complaint->text[0] == '\0';
}

static bool has_kith(const ki_results *results, const ki_figure *figure)
{
    for (int i = 0; i < figure->count; i++)
        if (is_kith(results, figure->times[i].contender))
            return true;
    return false;
}

static bool take_figure(ki_results *results, const json_t *object, int file, ki_complaint *complaint)
{
    if (!has_room((void **)&results->figures, results->figure_count, &results->figure_room,
                  sizeof(*results->figures))) {
        ki_complain(complaint, "memory is short");
        return false;
    }
    ki_figure *figure = &results->figures[results->figure_count];
    *figure = (ki_figure){ .file = file };
    if (!read_figure(results, object, figure, complaint))
        return false;
    results->figure_count += has_kith(results, figure);
    return true;
}

#define ORDER(a, b) ((a) > (b)) - ((a) < (b))

static int table_order(const ki_figure *a, const ki_figure *b)
{
    int order = ORDER(a->file, b->file);
    order = order != 0 ? order : ORDER(a->op, b->op);
    order = order != 0 ? order : ORDER(a->section, b->section);
    return order != 0 ? order : ORDER(a->mode, b->mode);
}

static int figure_order(const void *left, const void *right)
{
    const ki_figure *a = left, *b = right;
    int order = table_order(a, b);
    return order != 0 ? order : ORDER(a->nbytes, b->nbytes);
}

bool ki_peers_take(ki_results *results, int file, const struct json_t *document, ki_complaint *complaint)
{
    const json_t *list = json_object_get(document, "figures");
    size_t index;
    json_t *object;
    if (list == NULL) /* an early file, or one of Kith alone */
        return true;
    if (!json_is_array(list))
        ki_complain(complaint, "%s: \"figures\" is not a list", results->files[file].path);
    json_array_foreach(list, index, object)
    {
        ki_complaint about = { "" };
        if (!take_figure(results, object, file, &about)) {
            ki_complain(complaint, "%s: figure %zu: %s", results->files[file].path, index + 1, about.text);
            return false;
        }
    }
    if (results->figure_count > 0)
        qsort(results->figures, results->figure_count, sizeof(*results->figures), figure_order);
    return complaint->text[0] == '\0';
}

/* ---- tables ---- */

static void add_contender(ki_peer_table *table, ki_word contender)
{
    for (int i = 0; i < table->contender_count; i++)
        if (table->contenders[i] == contender)
            return;
    if (table->contender_count < KI_CONTENDERS_MAX)
        table->contenders[table->contender_count++] = contender;
}

static int word_order(const void *left, const void *right)
{
    const ki_word *a = left, *b = right;
    return ORDER(*a, *b);
}

/* In the same order in all tables, so that a contender has its place and, mostly, its colour. */
static void add_contenders(const ki_results *results, ki_peer_table *table, bool of_kith)
{
    int first = table->contender_count;
    for (size_t f = 0; f < table->count; f++)
        for (int i = 0; i < table->figures[f].count; i++)
            if (is_kith(results, table->figures[f].times[i].contender) == of_kith)
                add_contender(table, table->figures[f].times[i].contender);
    qsort(table->contenders + first, (size_t)(table->contender_count - first), sizeof(ki_word), word_order);
}

ki_peer_table ki_peer_table_at(const ki_results *results, size_t first)
{
    ki_peer_table table = { .figures = results->figures + first, .count = 1 };
    while (first + table.count < results->figure_count && table_order(table.figures, &table.figures[table.count]) == 0)
        table.count++;
    add_contenders(results, &table, true);
    table.kith_count = table.contender_count;
    add_contenders(results, &table, false);
    return table;
}

static const char *mode_name(const char *mode)
{
    return strcmp(mode, "back_to_back") == 0 ? "without a pause" : mode;
}

const char *ki_peer_table_name(const ki_results *results, const ki_peer_table *table, char *buffer, size_t nbytes)
{
    const ki_figure *figure = table->figures;
    bool is_alone = results->figures[0].file == results->figures[results->figure_count - 1].file;
    snprintf(buffer, nbytes, "%s%s%s, %s, %s",
             is_alone ? "" : ki_words_text(&results->words, results->files[figure->file].label), is_alone ? "" : ": ",
             ki_words_text(&results->words, figure->op), ki_words_text(&results->words, figure->section),
             mode_name(ki_words_text(&results->words, figure->mode)));
    ki_text_clean(buffer);
    return buffer;
}

/* ---- times ---- */

double ki_figure_us(const ki_figure *figure, ki_word contender)
{
    for (int i = 0; i < figure->count; i++)
        if (figure->times[i].contender == contender)
            return figure->times[i].us;
    return NAN;
}

ki_word ki_figure_best_peer(const ki_results *results, const ki_figure *figure, ki_word contender)
{
    const ki_contender_time *best = NULL;
    for (int i = 0; i < figure->count; i++) {
        const ki_contender_time *one = &figure->times[i];
        if (!is_kith(results, one->contender) && is_bf16(results, one->contender) == is_bf16(results, contender) &&
            (best == NULL || one->us < best->us))
            best = one;
    }
    return best != NULL ? best->contender : 0;
}

double ki_figure_ratio(const ki_results *results, const ki_figure *figure, ki_word contender)
{
    ki_word peer = ki_figure_best_peer(results, figure, contender);
    return peer == 0 ? NAN : ki_figure_us(figure, peer) / ki_figure_us(figure, contender);
}

double ki_peer_table_mean(const ki_results *results, const ki_peer_table *table, ki_word contender, size_t *count)
{
    double sum = 0;
    *count = 0;
    for (size_t f = 0; f < table->count; f++) {
        double ratio = ki_figure_ratio(results, &table->figures[f], contender);
        if (isnan(ratio))
            continue;
        sum += log(ratio);
        ++*count;
    }
    return *count > 0 ? exp(sum / (double)*count) : NAN;
}

#else
typedef int ki_compare_peers_needs_jansson; /* a file must not be empty */
#endif
