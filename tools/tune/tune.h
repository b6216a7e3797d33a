/* tools/tune/tune.h - what measurements say: curves with their fits, link classes side by side, tables of algorithms.
 *
 *     fit.h            the maths of a curve; lists its files
 *     results.c        rows of `kith bench --save` and --json, out of a file
 *     curves.c         rows that belong together, by size, and their fits
 *     calibrate.c      the calibration file: constants of kith topo and kith plan, and the fits behind them
 *     default_maps.c   which constants links of GPUs stand for
 *     fit_report.c     fits as text, measured beside predicted; fit_draw.c: as a picture
 *     classes.c        link classes: how each is forced, which of them a backend has
 *     nccl_way.c       which way NCCL took, by its log
 *     job.c            another `kith` as a child: environment, its last words
 *     links.c          `kith bench --links` and --model-fit
 *     pairs.c          pairs of all_pairs beside what the topology expects of them
 *     options.c, tune.c   `kith tune`: flags; what it does
 *     rules.c          which algorithm at which size, out of times; the file that the library reads
 *     predict.c        a table out of the cost model
 *     arms.c, rank.c   one context for each algorithm, measured in turn; a rank from joining to the report
 *
 * The rows come from `kith bench`, which knows nothing of all this.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_H
#define KI_TOOLS_TUNE_H

#include "../command.h"
#include "fit.h"

#include <stdio.h>

#define TUNE_EXIT_FAILED 1

struct json_t;

/* ---- results.c ---- */

/* What a row says, as far as curves need it. Texts are cut to fit. */
typedef struct tune_row {
    char op[32], backend[32], link[48], dtype[16], redop[16], memory[16], place[16], mode[16], group[64], algorithm[48];
    int ranks, hosts, src, dst; /* src, dst: -1 unless of a pair */
    double nbytes;
    double time_us, low_us, high_us; /* median, p25, p75; NaN: not there, time_us also where it is not reliable */
    double busbw_gbps;               /* NaN: not there */
    size_t index;                    /* among the rows of the file */
} tune_row;

typedef struct tune_results {
    struct json_t *rows, *meta; /* owned; meta NULL: a bare list */
    tune_row *list;             /* owned, [count] */
    size_t count;
} tune_results;

/* False, with a sentence, when the file is no results. tune_results_free() in any case. */
bool tune_results_read(const char *path, tune_results *results, char *sentence, size_t nbytes);
void tune_results_free(tune_results *results);
/* What the user typed when they were measured; "": not known. */
const char *tune_results_command(const tune_results *results);

/* ---- curves.c ---- */

typedef struct tune_curve {
    tune_row key; /* its first row: texts, ranks and hosts hold for the whole curve */
    tune_point points[TUNE_POINTS_MAX];
    size_t count;
    size_t left_out; /* rows without a reliable median */
    bool has_fit;
    tune_fit fit;
} tune_curve;

typedef struct tune_curves {
    tune_curve *list; /* owned */
    size_t count;
} tune_curves;

/* Rows of one operation, backend, link, type, operator, memory, place, mode, group and number of ranks and hosts, by
 * rising size; the least of rows of one size. Rows of pairs are left aside. Fits each with intervals. False: memory is
 * short. */
bool tune_curves_make(const tune_row *rows, size_t count, tune_curves *curves);
void tune_curves_free(tune_curves *curves);

/* The link of a curve for people and files: that of its rows; of "auto" the backend's name. */
const char *tune_curve_link(const tune_curve *curve);

/* ---- calibrate.c ---- */

/* Which row of the table of constants a link stands for. */
typedef struct tune_map {
    char link[48], key[32];
    double count; /* bonded: the constant is of one of them */
} tune_map;
enum { TUNE_MAPS_MAX = 16 };

/* "shm=pcie4,nccl=nvlink4*18". False, with a sentence. */
bool tune_maps_parse(const char *text, tune_map *maps, size_t *count, char *sentence, size_t nbytes);

/* default_maps.c: the constant that links between this topology's GPUs stand for, without the name of the link. False:
 * they differ, or are of no kind that is known. */
struct kith_topology;
bool tune_map_of_gpus(const struct kith_topology *topology, tune_map *map);
/* What holds where the user does not say: NCCL's curves in a host are of the links of its GPUs. Returns how many. */
size_t tune_maps_default(const tune_curves *curves, tune_map *maps);

/* What a fit says about a step over its link, as rings have it (kith topo prices collectives with it). */
typedef struct tune_constant {
    double latency_us, gbps;
} tune_constant;
/* False: the operation is none of those that rings price, or the fit has no beta or alpha above 0. */
bool tune_constant_of(const tune_curve *curve, tune_constant *constant);

/* Of the curves of a link the one whose constant is taken: all_reduce of the most ranks before other collectives before
 * messages. NULL: none has one. */
const tune_curve *tune_curve_of_link(const tune_curves *curves, const char *link);

/* Writes the file. command: what the user typed; NULL: not known. Returns the exit status, after a sentence. */
int tune_calibration_write(const ki_command *command, const char *path, const tune_curves *curves, const tune_map *maps,
                           size_t map_count, const char *typed);

/* ---- fit_report.c, fit_draw.c ---- */

void tune_fits_print(FILE *out, const tune_curves *curves);
/* Which constants the calibration replaces, and by what. */
void tune_maps_print(FILE *out, const tune_curves *curves, const tune_map *maps, size_t map_count);
/* One SVG with a panel for each curve that has a fit. Returns the exit status, after a sentence. */
int tune_fits_draw(const ki_command *command, const char *path, const tune_curves *curves);

/* ---- rules.c ---- */

enum { TUNE_ALGORITHMS_MAX = 16, TUNE_SIZES_MAX = 64 };

/* Times of a collective's algorithms at each size. */
typedef struct tune_times {
    char collective[32];
    size_t nbytes[TUNE_SIZES_MAX]; /* rising */
    int size_count;
    char names[TUNE_ALGORITHMS_MAX][48];
    int algorithm_count;
    double us[TUNE_SIZES_MAX][TUNE_ALGORITHMS_MAX];     /* NaN: cannot run there */
    double spread[TUNE_SIZES_MAX][TUNE_ALGORITHMS_MAX]; /* half of the rounds lie within it, relative */
} tune_times;

/* The fastest at a size; -1: none can run. */
int tune_fastest(const tune_times *times, int size);

/* choice[size_count]: as few changes as there can be while each size has an algorithm that is at most `tolerance`
 * (0.02: 2 %) off the fastest there. Sizes at which none can run get that of their neighbours; -1 where none ever can.
 * */
void tune_choose(const tune_times *times, double tolerance, int *choice);

/* The largest size for which the choice of size `index` holds: half way to the next one, on a logarithmic scale. */
size_t tune_rule_limit(const tune_times *times, int index);

/* Rules for exactly so many ranks; a comma before each but the first of the file. hosts: "one" or "many". */
void tune_rules_print(FILE *out, const tune_times *times, const int *choice, int ranks, const char *hosts,
                      bool *is_first);

/* The names of a collective's algorithms, as the library lists them; -1, with a sentence, when it cannot be asked.
 * is_ordered: only those that keep the documented order of reduction. */
int tune_algorithms(const char *collective, bool is_ordered, char (*names)[48], char *sentence, size_t nbytes);

/* The rules that hold now for a collective, behind those of this file (is_first: there are none). False, with a
 * sentence. */
bool tune_rules_before(FILE *out, const char *collective, bool is_first, char *sentence, size_t nbytes);

/* ---- options.c, tune.c ---- */

enum { TUNE_OPS_MAX = 16 };

typedef struct tune_options {
    int rank_count; /* -n; 0: this process is a rank already */
    const char *backend, *output, *fit, *constants, *svg, *predict, *calibration;
    int ops[TUNE_OPS_MAX]; /* kith_coll_kind */
    int op_count;
    size_t sizes[TUNE_SIZES_MAX];
    int size_count;
    double budget_s; /* for a size of an algorithm */
    tune_map maps[TUNE_MAPS_MAX];
    size_t map_count;
} tune_options;

extern const char tune_help[];

/* As ki_flags_read(). */
int tune_options_read(int argc, char **argv, tune_options *options, char **rest);

/* Fits a file of results, prints to `report` (NULL: nowhere), and writes the files that are not NULL. Returns the exit
 * status. */
int tune_fit_results(const ki_command *command, const char *results_path, FILE *report, const char *output,
                     const char *svg, const tune_map *maps, size_t map_count);

/* --predict: prices instead of times (predict.c). */
int tune_predict(const tune_options *options);
/* Whether the model has a price for a collective. */
bool tune_is_predicted(int kind);

/* What each rank runs (rank.c). */
int tune_run_rank(const tune_options *options);

#endif
