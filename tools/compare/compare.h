/* tools/compare/compare.h - the parts of `kith compare`.
 *
 *     compare.c     help, the way from files to reports, exit status
 *     options.c     options
 *     words.c       texts of the files, each kept once
 *     read.c        files; row.c their rows
 *     series.c      who is compared with whom
 *     match.c       the same point in all files, ratios and what they are worth (stats.h)
 *     name.c        points, sizes and series in words
 *     text.c        tables for a terminal; text_lists.c what stands below them
 *     peers.h       Kith beside other libraries: their tables and pictures
 *     csv.c         one line a point and series
 *     plots.h       pictures; lists its files
 *     page.c        the page; page_tables.c its tables
 *
 * A file has rows. A row is a point (what was measured) of a series (who was measured: a label, which is a file unless
 * the user says otherwise, a backend, a link). Rows of one point in different series are compared. Points that differ
 * in size alone make a panel: a table, a pair of curves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMPARE_COMPARE_H
#define KI_TOOLS_COMPARE_COMPARE_H

#include "../output.h"
#include "stats.h"

#include <stdint.h>

#define KI_COMPARE_WORSE 1 /* with --threshold */

#define KI_FILES_MAX 256
#define KI_SERIES_MAX 64
#define KI_ROWS_MAX 200000
#define KI_FILE_NBYTES_MAX ((size_t)128 << 20)
#define KI_CONTENDERS_MAX 48 /* of a figure, and of a table of them */
#define KI_SIGNIFICANCE 0.05 /* the share of marks that may be false */

/* ---- words.c ---- */

/* A text by its number: equal texts have equal numbers, in the order in which they came. 0 is "". */
typedef int ki_word;

typedef struct ki_words {
    char **texts;
    size_t count, room;
    ki_word *slots; /* hash table of numbers, -1: free */
    size_t slot_count;
} ki_words;

bool ki_words_init(ki_words *words);
void ki_words_fini(ki_words *words);
/* The text is made one line of valid UTF-8 without control characters. -1 when memory is short. */
ki_word ki_words_add(ki_words *words, const char *text);
const char *ki_words_text(const ki_words *words, ki_word word);

/* ---- read.c, row.c ---- */

/* What was measured. Rows of equal points are compared. */
typedef struct ki_point {
    ki_word op, dtype, redop, group, place, memory, mode;
    int ranks;
    int64_t nbytes;
    int from, to; /* of all_pairs, else -1 */
} ki_point;

typedef struct ki_row {
    ki_point point;
    ki_word backend, link, algorithm;
    ki_word cores;       /* where they were: "near", ...; "moved": it changed meanwhile; 0: not said */
    double cores_ns;     /* a flag takes from one to the other; NAN: not said */
    int hosts;           /* 0: not said */
    double time_us;      /* median; NAN when it is not reliable */
    double p25, p75;     /* NAN: not said */
    double sigma_us;     /* NAN: the file tells no spread */
    double algbw, busbw; /* GB/s; NAN: not said, or there is none */
    double hidden;       /* percent of its time that computing hid; NAN: not said */
    int64_t samples;
    int64_t errors; /* wrong elements, -1: not looked */
    int file;
    int number;           /* in the file, from 1 */
    ki_word link_of_pair; /* of all_pairs: what joins the two; 0: not said */
    double expected;      /* GB/s that it lets expect; NAN: not said */
    bool is_slow;         /* reaches clearly less */
    bool is_run;          /* one of several of its point that a file may have */
    int series;           /* series.c */
} ki_row;

typedef enum ki_fact {
    KI_FACT_DATE,
    KI_FACT_VERSION,
    KI_FACT_HOSTS,
    KI_FACT_CPU,
    KI_FACT_CPUS,
    KI_FACT_MEMORY,
    KI_FACT_GPUS,
    KI_FACT_KERNEL,
    KI_FACT_BACKENDS,
    KI_FACT_TOPOLOGY,
    KI_FACT_CUT_OFF, /* the signal that ended the run before its last point */
    KI_FACT_COMMAND,
    KI_FACT_COUNT
} ki_fact;

const char *ki_fact_name(ki_fact fact);

/* A link class that the machine does not have. */
typedef struct ki_absence {
    int file;
    ki_word link, reason;
} ki_absence;

/* Of a run of the harness with peers: one point, all times on cores of one class. See peers.h. */
typedef struct ki_contender_time {
    ki_word contender;
    double us;
} ki_contender_time;

typedef struct ki_figure {
    int file;
    ki_word section, op, mode, cores;
    int64_t nbytes;
    ki_contender_time times[KI_CONTENDERS_MAX];
    int count;
} ki_figure;

typedef struct ki_file {
    const char *path;
    ki_word label, name; /* name: the path, fit to be shown */
    ki_word facts[KI_FACT_COUNT];
    uint64_t device, inode; /* to tell a file that is given twice */
    size_t row_count;
} ki_file;

typedef struct ki_results {
    ki_words words;
    ki_file files[KI_FILES_MAX];
    int file_count;
    ki_row *rows;
    size_t row_count, row_room;
    ki_absence *absences;
    size_t absence_count;
    ki_figure *figures; /* by table and size */
    size_t figure_count, figure_room;
} ki_results;

/* A sentence about what is wrong with the input; the first one stays. */
typedef struct ki_complaint {
    char text[768];
} ki_complaint;

void ki_complain(ki_complaint *complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool ki_results_init(ki_results *results);
void ki_results_fini(ki_results *results);
/* argument: FILE or LABEL=FILE. False after a complaint. */
bool ki_results_read(ki_results *results, const char *argument, ki_complaint *complaint);

/* row.c: one row of a file in JSON (a json_t). is_harness: of the harness of bench/, whose names differ. */
#define KI_CORES_MOVED "moved"
#define KI_CORES_MIXED "mixed"
struct json_t;
bool ki_row_read(ki_results *results, const struct json_t *object, bool is_harness, ki_row *row,
                 ki_complaint *complaint);

/* peers.c: the figures of a document of the harness, if it has any. False after a complaint. */
bool ki_peers_take(ki_results *results, int file, const struct json_t *document, ki_complaint *complaint);

/* ---- series.c ---- */

typedef struct ki_series {
    ki_word label, backend, link, algorithm; /* algorithm: 0 unless one file has several */
    int hosts;                               /* the same */
    int baseline;                            /* series that it is compared with; -1: with none */
    bool is_baseline;                        /* of another */
    char name[128];
} ki_series;

/* ---- match.c ---- */

typedef enum ki_verdict {
    KI_VERDICT_NONE,       /* nothing to compare with */
    KI_VERDICT_FASTER,     /* significantly */
    KI_VERDICT_SLOWER,     /* significantly */
    KI_VERDICT_ALIKE,      /* not significantly either */
    KI_VERDICT_UNTESTED,   /* a side has no spread */
    KI_VERDICT_UNRELIABLE, /* a side has no reliable median */
    KI_VERDICT_WRONG,      /* a side has wrong elements */
    KI_VERDICT_CORES       /* the cores of both were of different classes, or moved meanwhile */
} ki_verdict;

/* A point of a series: its rows in one. */
typedef struct ki_value {
    const ki_row *row; /* the first of them */
    int row_count;
    ki_word cores;                          /* of all rows, or "mixed" */
    double time_us, p25, p75, algbw, busbw; /* as in a row; of several: geometric means, lowest p25, highest p75 */
    double hidden;                          /* the mean */
    int64_t samples, errors;
    ki_estimate estimate;
    ki_verdict verdict;
    bool is_of_one_run;  /* this side of the ratio, or its baseline: nothing of what differs from run to run is in it */
    ki_difference speed; /* ratio: how many times as fast as the baseline */
} ki_value;

typedef struct ki_match {
    ki_point point;
    ki_value **values; /* [series]; NULL: the series has no such point */
} ki_match;

/* Matches in a row that differ in size (or in a pair of ranks) alone. */
typedef struct ki_panel {
    ki_point point; /* of the first */
    size_t first, count;
    bool is_pairs; /* all_pairs */
} ki_panel;

typedef struct ki_comparison {
    ki_results *results;
    ki_series series[KI_SERIES_MAX];
    int series_count;
    ki_match *matches;
    size_t match_count;
    ki_panel *panels;
    size_t panel_count;
    ki_value *values;
    size_t value_count;
    ki_value **cells; /* behind matches[].values */
    ki_point varies;  /* fields that are not the same everywhere are not 0 */
    size_t tested;    /* ratios that were tested */
    double p_limit;   /* those at or below count */
    double threshold; /* percent; negative: none */
} ki_comparison;

/* Gives each row its series. baseline: what the user named, or NULL. False after a complaint. */
bool ki_series_make(ki_comparison *comparison, const char *baseline, ki_complaint *complaint);
/* Rows, which have their series, into matches, panels and ratios. Sorts the rows. */
bool ki_match_make(ki_comparison *comparison, ki_complaint *complaint);
void ki_comparison_fini(ki_comparison *comparison);

int ki_point_order(const ki_point *a, const ki_point *b);
bool ki_point_is_same_panel(const ki_point *a, const ki_point *b);
static inline ki_value *ki_value_at(const ki_comparison *c, size_t match, int series)
{
    return c->matches[match].values[series];
}

/* The value from one rank to another, else the one the other way: a pair may be measured in one direction for both. */
const ki_value *ki_pair_value(const ki_comparison *comparison, const ki_panel *panel, int series, int from, int to);
int ki_pair_ranks(const ki_comparison *comparison, const ki_panel *panel);
/* What is shown of pairs: small messages are about time, large ones about bandwidth. */
bool ki_pairs_show_time(const ki_panel *panel);
/* Whether the series has a pair there that stays below what its link lets expect. */
bool ki_panel_has_slow(const ki_comparison *comparison, const ki_panel *panel, int series);
double ki_pair_reading(const ki_panel *panel, const ki_value *value);

/* Slower than the threshold allows, or wrong where the baseline is right. */
bool ki_value_is_worse(const ki_comparison *comparison, const ki_match *match, int series);
size_t ki_worse_count(const ki_comparison *comparison);

/* Ratios of a series over the matches [first, first + count). */
typedef struct ki_mean {
    double ratio;     /* geometric mean, 0 without any */
    double low, high; /* the least and the largest */
    size_t count, faster, slower, other;
    bool is_of_one_run; /* one of them is */
} ki_mean;

ki_mean ki_mean_of(const ki_comparison *comparison, int series, size_t first, size_t count);

/* ---- name.c ---- */

/* "all_reduce, f32 sum, 4 ranks": what the panel is, as far as panels differ in it. Returns buffer. */
const char *ki_panel_name(const ki_comparison *comparison, const ki_panel *panel, char *buffer, size_t nbytes);
/* The size of a point, or its pair of ranks. */
const char *ki_point_name(const ki_point *point, char *buffer, size_t nbytes);
const char *ki_match_name(const ki_match *match, char *buffer, size_t nbytes);
const char *ki_size_name(int64_t nbytes_shown, char *buffer, size_t nbytes);
/* "1.23 us"; "?" when it is not reliable. */
const char *ki_time_name(double time_us, char *buffer, size_t nbytes);
/* " + ", " - ", "(+)" and "(-)" of one run on a side, " ~ ", " = ", " ? ", " ! ", " c " or blanks. */
const char *ki_value_mark(const ki_value *value);
/* Whether a mark in brackets is anywhere. */
bool ki_has_marks_of_one_run(const ki_comparison *comparison);
/* Whether any two were not compared, as their cores were of different classes. */
bool ki_has_other_cores(const ki_comparison *comparison);
/* What such marks mean, in one sentence. */
extern const char ki_one_run_sentence[];
const char *ki_verdict_name(ki_verdict verdict);
/* Series that have nothing of the panel, in words; their number. */
size_t ki_strangers_name(const ki_comparison *comparison, const ki_panel *panel, char *buffer, size_t nbytes);
/* Sizes of the panel that the series lacks, in words; their number, 0 when it has all. */
size_t ki_missing_name(const ki_comparison *comparison, const ki_panel *panel, int series, char *buffer, size_t nbytes);
/* True when some other series has what this one lacks; all_are: the whole panel. */
bool ki_panel_lacks(const ki_comparison *comparison, const ki_panel *panel, int series, bool *is_all);

/* ---- reports ---- */

void ki_compare_text(const ki_comparison *comparison, FILE *out);
/* text_lists.c: means, what stands on one side alone, what is worse, what marks mean. */
void ki_compare_text_lists(const ki_comparison *comparison, FILE *out);
/* csv.c: a field and its comma. NAN and negative numbers: not known. */
void ki_csv_text(FILE *out, const char *text);
void ki_csv_number(FILE *out, double value);
void ki_csv_whole(FILE *out, int64_t value);
void ki_compare_csv(const ki_comparison *comparison, FILE *out);
/* False when memory was short. */
bool ki_compare_page(const ki_comparison *comparison, FILE *out);
void ki_compare_page_means(const ki_comparison *comparison, FILE *out);
void ki_compare_page_panels(const ki_comparison *comparison, FILE *out);
void ki_compare_page_lists(const ki_comparison *comparison, FILE *out);
void ki_compare_page_files(const ki_comparison *comparison, FILE *out);

#endif
