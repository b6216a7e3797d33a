/* tools/tune/links.c - `kith bench --links` and --model-fit: this command again as a child, once for each class.
 *
 * --model-fit alone needs one child, whose rows it fits. Both look at rows as files of --save have them, so the engine
 * knows nothing of either.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "links.h"

#include "../bench/bench.h"
#include "../output.h"
#include "../progress.h"
#include "link_rows.h"
#include "tune.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const ki_command ki_command_bench;

/* ---- the words ---- */

typedef struct asked {
    bool is_links, is_quiet;
    const char *fit, *constants, *json, *csv, *save, *backend, *ranks; /* NULL: not said; json, csv "": stdout */
    char **words;                                                      /* for a child: "kith", "bench", the rest */
    int count;
} asked;

/* How a word stands to a flag "--name": not that; "--name" alone; with a value behind '='. */
typedef enum match { MATCH_NONE, MATCH_ALONE, MATCH_VALUE } match;

static match match_of(const char *word, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0)
        return MATCH_NONE;
    return word[2 + length] == 0 ? MATCH_ALONE : word[2 + length] == '=' ? MATCH_VALUE : MATCH_NONE;
}

/* The value of "--name VALUE" or "--name=VALUE" at argv[*i], which moves over it; NULL: it is another word. */
static const char *value_of(int argc, char **argv, int *i, const char *name)
{
    match found = match_of(argv[*i], name);
    if (found == MATCH_VALUE)
        return strchr(argv[*i], '=') + 1;
    if (found == MATCH_ALONE && *i + 1 < argc)
        return argv[++*i];
    return NULL;
}

/* The file of "--name=FILE", "" for "--name"; NULL: another word. */
static const char *file_of(const char *word, const char *name)
{
    match found = match_of(word, name);
    return found == MATCH_VALUE ? strchr(word, '=') + 1 : found == MATCH_ALONE ? "" : NULL;
}

bool tune_bench_is_asked(int argc, char **argv)
{
    bool is_asked = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return false;
        is_asked |= match_of(argv[i], "links") == MATCH_ALONE || match_of(argv[i], "model-fit") != MATCH_NONE ||
                    match_of(argv[i], "constants") != MATCH_NONE;
    }
    return is_asked;
}

static const char *ranks_of(int argc, char **argv, int *i)
{
    if (strcmp(argv[*i], "-n") == 0 && *i + 1 < argc)
        return argv[++*i];
    if (strncmp(argv[*i], "-n", 2) == 0 && argv[*i][2] != 0)
        return argv[*i] + 2;
    return value_of(argc, argv, i, "ranks");
}

/* What is for this file is taken out; what both need is noted. With --links the outputs are this file's, too. */
static void take_word(int argc, char **argv, int *i, asked *a)
{
    int first = *i;
    const char *value;
    if (match_of(argv[*i], "links") == MATCH_ALONE)
        return;
    if ((value = value_of(argc, argv, i, "model-fit")) != NULL) {
        a->fit = value;
        return;
    }
    if ((value = value_of(argc, argv, i, "constants")) != NULL) {
        a->constants = value;
        return;
    }
    bool is_ours = false;
    if ((value = file_of(argv[first], "json")) != NULL)
        a->json = value, is_ours = true;
    else if ((value = file_of(argv[first], "csv")) != NULL)
        a->csv = value, is_ours = true;
    else if ((value = value_of(argc, argv, i, "save")) != NULL)
        a->save = value, is_ours = true;
    else if (strcmp(argv[first], "--quiet") == 0)
        a->is_quiet = is_ours = true;
    else if ((value = value_of(argc, argv, i, "backend")) != NULL)
        a->backend = value, is_ours = true;
    else if ((value = ranks_of(argc, argv, i)) != NULL)
        a->ranks = value, is_ours = true;
    for (int w = first; w <= *i && !(is_ours && a->is_links); w++)
        a->words[a->count++] = argv[w];
}

static bool has_links(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (match_of(argv[i], "links") == MATCH_ALONE)
            return true;
    return false;
}

static bool read_words(int argc, char **argv, bool is_links, asked *a)
{
    *a = (asked){ .is_links = is_links, .words = calloc((size_t)argc + 16, sizeof *a->words) };
    if (a->words == NULL)
        return false;
    a->words[a->count++] = "kith";
    a->words[a->count++] = "bench";
    for (int i = 1; i < argc; i++)
        take_word(argc, argv, &i, a);
    return true;
}

/* FILE.svg of FILE.json. */
static void picture_path(const char *file, char *path, size_t nbytes)
{
    const char *dot = strrchr(file, '.'), *slash = strrchr(file, '/');
    int length = (int)strlen(file);
    if (dot != NULL && dot > file && (slash == NULL || dot > slash + 1) && strcmp(dot, ".svg") != 0)
        length = (int)(dot - file);
    snprintf(path, nbytes, "%.*s.svg", length, file);
}

static int check(const asked *a, tune_map *maps, size_t *map_count)
{
    char sentence[256], picture[4096];
    if (a->is_links && a->ranks == NULL)
        return ki_usage_error(&ki_command_bench, "--links starts the ranks once for each class: give -n N");
    if (a->constants != NULL && a->fit == NULL)
        return ki_usage_error(&ki_command_bench, "--constants goes with --model-fit FILE");
    if (a->fit != NULL && a->fit[0] == 0)
        return ki_usage_error(&ki_command_bench, "--model-fit needs a file");
    if (a->fit != NULL) {
        picture_path(a->fit, picture, sizeof picture);
        const char *const files[] = { a->json, a->csv, a->save, a->fit, picture };
        const char *repeated = ki_output_repeated(files, sizeof files / sizeof files[0]);
        if (repeated != NULL)
            return ki_usage_error(&ki_command_bench, "%s would be written twice: give each output a file of its own",
                                  repeated);
    }
    if (a->constants != NULL && !tune_maps_parse(a->constants, maps, map_count, sentence, sizeof sentence))
        return ki_usage_error(&ki_command_bench, "--constants: %s", sentence);
    return KI_EXIT_OK;
}

/* The options that the children get, before the first is started: what is wrong with them is no absence of a class. */
static int check_options(int argc, char **argv)
{
    asked plain; /* as if without --links, so with all that the children get one by one */
    bench_options options = { 0 };
    if (!read_words(argc, argv, false, &plain)) {
        perror("kith bench");
        return KI_EXIT_USAGE;
    }
    int status = bench_options_read(plain.count - 1, plain.words + 1, &options, NULL);
    bench_options_free(&options);
    free(plain.words);
    return status;
}

/* ---- one child ---- */

static void temporary_name(const char *what, char *path, size_t nbytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, nbytes, "%s/kith-%s-XXXXXX", folder != NULL && folder[0] != 0 ? folder : "/tmp", what);
}

static bool make_folder(char *path, size_t nbytes)
{
    temporary_name("log", path, nbytes);
    return mkdtemp(path) != NULL;
}

/* A file in the folder for temporary ones; "" when there can be none. */
static void make_temporary(char *path, size_t nbytes)
{
    temporary_name("rows", path, nbytes);
    int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    else
        path[0] = 0;
}

/* Words of a child for one class; mpirun starts the ranks of an MPI, as only that makes them one job. */
static void make_words(const asked *a, const tune_class *c, char *save, char *own, char **words)
{
    int n = 0;
    if (strcmp(c->backend, "mpi") == 0) {
        words[n++] = "mpirun";
        words[n++] = "-n";
        words[n++] = (char *)(uintptr_t)a->ranks;
        words[n++] = own;
    } else {
        words[n++] = "kith";
    }
    for (int i = 1; i < a->count; i++)
        words[n++] = a->words[i];
    if (strcmp(c->backend, "mpi") != 0) {
        words[n++] = "-n";
        words[n++] = (char *)(uintptr_t)a->ranks;
    }
    words[n++] = "--backend";
    words[n++] = (char *)(uintptr_t)c->backend;
    if (c->is_of_devices) {
        words[n++] = "--memory";
        words[n++] = "device";
    }
    words[n++] = "--save";
    words[n++] = save;
    words[n++] = "--quiet";
    words[n] = NULL;
}

static int run_class(const asked *a, const tune_class *c, char *save, const char *log_folder, char *reason,
                     size_t nbytes, int *signal)
{
    char own[4096];
    ssize_t used = readlink("/proc/self/exe", own, sizeof own - 1);
    char **words = calloc((size_t)a->count + 16, sizeof *words);
    bool is_mpi = strcmp(c->backend, "mpi") == 0;
    int status = 127;
    own[used > 0 ? used : 0] = 0;
    snprintf(reason, nbytes, "memory is short");
    if (words != NULL) {
        make_words(a, c, save, own, words);
        status = tune_job_run(is_mpi ? "mpirun" : NULL, words, c, log_folder, reason, nbytes, signal);
    }
    free(words);
    return status;
}

/* ---- --links ---- */

/* Rows of the class come to the others, also those that it has when a signal cuts it off, or why it is absent. False: a
 * signal cut it off, or memory is short. */
static bool visit_class(const asked *a, const tune_class *c, tune_link_rows *all, int *status, int *signal)
{
    char reason[512] = "", save[512], folder[512];
    bool is_there = tune_link_backend_works(all, c->backend, reason, sizeof reason) &&
                    (!c->needs_cma || tune_cma_works(reason, sizeof reason));
    if (!is_there)
        return tune_link_absent(all, c->name, reason);
    bool has_log = strcmp(c->backend, "nccl") == 0 && make_folder(folder, sizeof folder);
    make_temporary(save, sizeof save);
    int ended = run_class(a, c, save, has_log ? folder : NULL, reason, sizeof reason, signal);
    tune_ways ways = has_log ? tune_ways_take(folder) : (tune_ways){ 0, 0, 0 };
    bool is_kept = *signal == 0, has_rows = ended == KI_EXIT_OK || ended == BENCH_EXIT_FAILED || *signal != 0;
    if (has_rows && ended != BENCH_EXIT_FAILED && has_log && !tune_ways_fit(&ways, c->name, reason, sizeof reason))
        is_kept &= tune_link_absent(all, c->name, reason);
    else if (has_rows && tune_link_add(all, c, save))
        *status = ended != KI_EXIT_OK ? ended : *status;
    else if (is_kept)
        is_kept = tune_link_absent(all, c->name, reason[0] != 0 ? reason : "it ended without a word");
    unlink(save);
    return is_kept;
}

static int visit_classes(const asked *a, tune_link_rows *all)
{
    int status = KI_EXIT_OK, signal = 0;
    size_t count = 0;
    while (tune_class_at(count) != NULL)
        count++;
    for (size_t i = 0; i < count && tune_job_caught() == 0; i++) {
        const tune_class *c = tune_class_at(i);
        if (a->backend != NULL && strcmp(a->backend, c->backend) != 0)
            continue;
        if (!a->is_quiet)
            ki_progress_show("bench", c->name, (double)i / (double)count);
        if (!visit_class(a, c, all, &status, &signal))
            break;
    }
    ki_progress_end();
    signal = tune_job_caught() != 0 ? tune_job_caught() : signal;
    return signal != 0 ? 128 + signal : status;
}

/* Files, table, and in the end what cut them off; status: of the measurements. Returns the exit status. */
static int write_links(const asked *a, const char *save, const tune_link_rows *all, int status)
{
    bool takes_stdout = (a->json != NULL && a->json[0] == 0) || (a->csv != NULL && a->csv[0] == 0);
    const char *name = status == 128 + SIGINT ? "SIGINT" : status == 128 + SIGHUP ? "SIGHUP" : "SIGTERM";
    bool is_cut_off = status > 128;
    int written = tune_link_write(all, save, a->json, a->csv, is_cut_off ? name : NULL);
    if (!a->is_quiet)
        tune_link_print(all, takes_stdout ? stderr : stdout);
    fflush(stdout);
    if (is_cut_off)
        fprintf(stderr, "kith bench: cut off by %s: %zu rows of %zu link classes were measured\n", name,
                tune_link_row_count(all), tune_link_class_count(all));
    return written != KI_EXIT_OK && !is_cut_off ? written : status;
}

static int run_links(const asked *a, const char *save)
{
    tune_link_rows *all = tune_link_rows_create();
    if (all == NULL) {
        fputs("kith bench: --links needs jansson, which this kith was built without, or memory is short\n", stderr);
        return KI_EXIT_USAGE;
    }
    tune_job_listen();
    int status = visit_classes(a, all);
    if (tune_link_row_count(all) > 0) {
        status = write_links(a, save, all, status);
    } else if (status > 128) {
        fputs("kith bench: cut off before a row was measured: nothing is written\n", stderr);
    } else {
        tune_link_print_absent(all, stderr);
        fprintf(stderr, "kith bench: no link class%s%s could be measured\n", a->backend != NULL ? " of " : "",
                a->backend != NULL ? a->backend : "");
        status = KI_EXIT_USAGE;
    }
    tune_job_listen_no_more();
    tune_link_rows_free(all);
    return status;
}

/* ---- --model-fit ---- */

static int fit(const asked *a, const char *rows, const tune_map *maps, size_t map_count)
{
    char picture[4096];
    bool takes_stdout = (a->json != NULL && a->json[0] == 0) || (a->csv != NULL && a->csv[0] == 0);
    picture_path(a->fit, picture, sizeof picture);
    return tune_fit_results(&ki_command_bench, rows, takes_stdout || a->is_quiet ? NULL : stdout, a->fit, picture, maps,
                            map_count);
}

/* The benchmark as it is, with its rows kept. */
static int run_once(asked *a, char *save)
{
    int signal;
    if (a->save == NULL) {
        a->words[a->count++] = "--save";
        a->words[a->count++] = save;
    }
    tune_job_listen();
    int status = tune_job_run(NULL, a->words, NULL, NULL, NULL, 0, &signal);
    tune_job_listen_no_more();
    return signal != 0 ? 128 + signal : status;
}

static int run_asked(asked *a, const tune_map *maps, size_t map_count)
{
    char temporary[512] = "";
    if (a->save == NULL)
        make_temporary(temporary, sizeof temporary);
    char *rows = a->save != NULL ? (char *)(uintptr_t)a->save : temporary;
    if (rows[0] == 0) {
        perror("kith bench: no temporary file");
        return KI_EXIT_USAGE;
    }
    int status = a->is_links ? run_links(a, rows) : run_once(a, rows);
    if (status == KI_EXIT_OK && a->fit != NULL && (a->is_links || a->ranks != NULL || !bench_is_other_rank()))
        status = fit(a, rows, maps, map_count);
    if (temporary[0] != 0)
        unlink(temporary);
    return status;
}

int tune_bench(int argc, char **argv)
{
    asked a;
    tune_map maps[TUNE_MAPS_MAX];
    size_t map_count = 0;
    if (!read_words(argc, argv, has_links(argc, argv), &a)) {
        perror("kith bench");
        return KI_EXIT_USAGE;
    }
    int status = check(&a, maps, &map_count);
    if (status == KI_EXIT_OK && a.is_links)
        status = check_options(argc, argv);
    if (status == KI_EXIT_OK)
        status = run_asked(&a, maps, map_count);
    free(a.words);
    return status;
}
