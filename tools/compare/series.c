/* tools/compare/series.c - who is compared with whom.
 *
 * A series is a label, a backend and a link. When one label has a point twice and the rows differ in the algorithm, or
 * in the number of hosts, that becomes part of its series, too; else a second row of a point is refused, unless it
 * comes from another file of the same label or from the harness: these are runs of one thing.
 *
 * The baseline is a label or one series. With a label, a series is compared with the one of the same backend and link
 * there; where the baseline has the backend on one link alone, or one series alone, with that.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../draw.h"
#include "compare.h"

#include <stdlib.h>
#include <string.h>

/* Labels whose series are told apart by more than backend and link: [label's first file]. */
typedef struct split {
    bool by_algorithm[KI_FILES_MAX], by_hosts[KI_FILES_MAX];
} split;

static int first_file_of(const ki_results *results, ki_word label)
{
    int file = 0;
    while (results->files[file].label != label)
        file++;
    return file;
}

/* ---- rows to series ---- */

static bool take_series(ki_comparison *c, const split *splits, ki_complaint *complaint)
{
    c->series_count = 0;
    for (size_t i = 0; i < c->results->row_count; i++) {
        ki_row *row = &c->results->rows[i];
        ki_series wanted = { .label = c->results->files[row->file].label, .backend = row->backend, .link = row->link };
        int file = first_file_of(c->results, wanted.label), s = 0;
        wanted.algorithm = splits->by_algorithm[file] ? row->algorithm : 0;
        wanted.hosts = splits->by_hosts[file] ? row->hosts : 0;
        wanted.baseline = -1;
        for (; s < c->series_count; s++) {
            const ki_series *one = &c->series[s];
            if (one->label == wanted.label && one->backend == wanted.backend && one->link == wanted.link &&
                one->algorithm == wanted.algorithm && one->hosts == wanted.hosts)
                break;
        }
        if (s == KI_SERIES_MAX) {
            ki_complain(complaint, "more than %d labels, backends and links together; compare fewer files at once",
                        KI_SERIES_MAX);
            return false;
        }
        if (s == c->series_count)
            c->series[c->series_count++] = wanted;
        row->series = s;
    }
    return true;
}

/* By point, series, file and place in the file. */
static int compare_rows(const void *left, const void *right)
{
    const ki_row *a = left, *b = right;
    int order = ki_point_order(&a->point, &b->point);
    order = order != 0 ? order : (a->series > b->series) - (a->series < b->series);
    order = order != 0 ? order : (a->file > b->file) - (a->file < b->file);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

/* Looks for points that one file has twice. *is_split: series have to be taken again. */
static bool find_twins(ki_comparison *c, split *splits, bool *is_split, ki_complaint *complaint)
{
    ki_results *results = c->results;
    qsort(results->rows, results->row_count, sizeof(*results->rows), compare_rows);
    for (size_t i = 1; i < results->row_count; i++) {
        const ki_row *a = &results->rows[i - 1], *b = &results->rows[i];
        if (a->series != b->series || a->file != b->file || a->is_run || ki_point_order(&a->point, &b->point) != 0)
            continue;
        int file = first_file_of(results, results->files[a->file].label);
        if (a->algorithm != b->algorithm)
            splits->by_algorithm[file] = *is_split = true;
        else if (a->hosts != b->hosts)
            splits->by_hosts[file] = *is_split = true;
        else {
            const ki_file *of = &results->files[a->file];
            ki_complain(complaint, "%s: row %d: is the same point as row %d", of->path, b->number, a->number);
            return false;
        }
    }
    return true;
}

/* ---- names ---- */

/* "ucx-tcp" says "ucx", too. */
static bool names_backend(const char *link, const char *backend)
{
    size_t nbytes = strlen(backend);
    return nbytes > 0 && strncmp(link, backend, nbytes) == 0 && (link[nbytes] == '\0' || link[nbytes] == '-');
}

static void name_series(ki_comparison *c)
{
    bool has_labels = false, has_backends = false, has_links = false;
    const ki_words *words = &c->results->words;
    for (int i = 1; i < c->series_count; i++) {
        has_labels |= c->series[i].label != c->series[0].label;
        has_backends |= c->series[i].backend != c->series[0].backend;
        has_links |= c->series[i].link != c->series[0].link;
    }
    for (int i = 0; i < c->series_count; i++) {
        ki_series *s = &c->series[i];
        const char *link = ki_words_text(words, s->link), *backend = ki_words_text(words, s->backend);
        bool is_linked = has_links && strcmp(link, "auto") != 0; /* what links are unless somebody says another */
        bool is_backend_shown = (has_backends || !has_labels) && !(is_linked && names_backend(link, backend));
        const char *parts[4] = { has_labels ? ki_words_text(words, s->label) : "", is_backend_shown ? backend : "",
                                 is_linked ? link : "", ki_words_text(words, s->algorithm) };
        size_t used = 0;
        for (int part = 0; part < 4; part++)
            if (parts[part][0] != '\0' && used < sizeof(s->name))
                used +=
                    (size_t)snprintf(s->name + used, sizeof(s->name) - used, "%s%s", used > 0 ? " " : "", parts[part]);
        if (s->hosts > 0 && used < sizeof(s->name))
            snprintf(s->name + used, sizeof(s->name) - used, " %d host%s", s->hosts, s->hosts == 1 ? "" : "s");
        ki_text_clean(s->name); /* it may have been cut inside a character */
    }
}

/* ---- the baseline ---- */

/* The series of a label that belongs to s; -1: none. */
static int counterpart(const ki_comparison *c, ki_word label, const ki_series *s)
{
    int count = 0, only = -1, of_backend = -1, backend_count = 0;
    for (int i = 0; i < c->series_count; i++) {
        const ki_series *one = &c->series[i];
        if (one->label != label)
            continue;
        if (one->backend == s->backend && one->link == s->link && one->algorithm == s->algorithm &&
            one->hosts == s->hosts)
            return i;
        count++;
        only = i;
        if (one->backend == s->backend) {
            backend_count++;
            of_backend = i;
        }
    }
    return backend_count == 1 ? of_backend : count == 1 ? only : -1;
}

static void set_baseline(ki_comparison *c, int series, int baseline)
{
    if (series == baseline || baseline < 0)
        return;
    c->series[series].baseline = baseline;
    c->series[baseline].is_baseline = true;
}

static void against_label(ki_comparison *c, ki_word label)
{
    for (int i = 0; i < c->series_count; i++)
        if (c->series[i].label != label)
            set_baseline(c, i, counterpart(c, label, &c->series[i]));
}

static void against_series(ki_comparison *c, int baseline)
{
    for (int i = 0; i < c->series_count; i++)
        set_baseline(c, i, baseline);
}

/* The label that a word names, as such or as a file; -1: none. */
static ki_word label_named(const ki_results *results, const char *name)
{
    for (int i = 0; i < results->file_count; i++)
        if (strcmp(ki_words_text(&results->words, results->files[i].label), name) == 0)
            return results->files[i].label;
    for (int i = 0; i < results->file_count; i++)
        if (strcmp(results->files[i].path, name) == 0)
            return results->files[i].label;
    return -1;
}

static bool has_other_labels(const ki_comparison *c, ki_word label)
{
    for (int i = 0; i < c->series_count; i++)
        if (c->series[i].label != label)
            return true;
    return false;
}

static bool take_baseline(ki_comparison *c, const char *name, ki_complaint *complaint)
{
    ki_word label = name == NULL ? c->series[0].label : label_named(c->results, name);
    if (label >= 0 && has_other_labels(c, label)) {
        against_label(c, label);
        return true;
    }
    if (name == NULL) {
        against_series(c, 0);
        return true;
    }
    for (int i = 0; i < c->series_count; i++)
        if (strcmp(c->series[i].name, name) == 0) {
            against_series(c, i);
            return true;
        }
    if (label >= 0) { /* the only label: its first series */
        against_series(c, 0);
        return true;
    }
    ki_complaint names = { "" };
    for (int i = 0; i < c->series_count; i++) {
        size_t used = strlen(names.text);
        snprintf(names.text + used, sizeof(names.text) - used, "%s%s", i > 0 ? ", " : "", c->series[i].name);
    }
    ki_complain(complaint, "--baseline %s is neither a label, a file nor one of: %s", name, names.text);
    return false;
}

bool ki_series_make(ki_comparison *c, const char *baseline, ki_complaint *complaint)
{
    split *splits = calloc(1, sizeof(*splits));
    bool is_split = true, is_made = splits != NULL;
    if (!is_made)
        ki_complain(complaint, "memory is short");
    while (is_made && is_split) { /* each time one more label is split by one more thing */
        is_split = false;
        is_made = take_series(c, splits, complaint) && find_twins(c, splits, &is_split, complaint);
    }
    free(splits);
    if (!is_made)
        return false;
    name_series(c);
    return take_baseline(c, baseline, complaint);
}

#else
typedef int ki_compare_series_needs_jansson; /* a file must not be empty */
#endif
