/* tools/tune/rank.c - `kith tune` on one rank: measure, choose, write, load again, measure the choice.
 *
 * All ranks make the same decisions: times are the largest over the ranks, and what is chosen from them is sent by
 * rank 0 where rounding of one rank could differ from another's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "arms.h"
#include "tune.h"

#include "../agree.h"
#include "../bench/bench.h"
#include "../draw.h"
#include "../output.h"
#include "../progress.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOLERANCE 0.02 /* within it a table keeps an algorithm over sizes */
#define CORRECTIONS_MOST 2
#define PROMISED 0.05 /* what the table may be off the best */

/* What was found of one collective. */
typedef struct tuned {
    kith_coll_kind kind;
    tune_times times;
    int choice[TUNE_SIZES_MAX];
    char before[TUNE_SIZES_MAX][48]; /* what was picked until now */
    double best_us[TUNE_SIZES_MAX];  /* measured again beside the choice */
    double chosen_us[TUNE_SIZES_MAX];
    double off[TUNE_SIZES_MAX];      /* what is picked over the best, both forced, less 1; 0: it is the best */
    double spread[TUNE_SIZES_MAX];   /* the larger one of both */
    bool is_new;                     /* its rules have not been measured yet */
    char picked[TUNE_SIZES_MAX][48]; /* by the table that was loaded again */
} tuned;

typedef struct tuner {
    const tune_options *options;
    kith_ctx *ctx;
    int rank, size;
    tuned *list; /* [options->op_count] */
    char sentence[512];
    bool is_unwritten; /* the table: no failure of measuring */
    int exit_status;   /* the same on all ranks */
} tuner;

static bool fail(tuner *self, const char *what)
{
    snprintf(self->sentence, sizeof self->sentence, "%s: %s", what, kith_error_detail());
    return false;
}

static void show_progress(const tuner *self, int phase, int op, int size, int sizes)
{
    if (self->rank > 0)
        return;
    double done = (double)op + (double)size / sizes, all = self->options->op_count;
    ki_progress_show("tune", kith_coll_name((kith_coll_kind)self->options->ops[op]),
                     (phase == 0 ? 0.7 * done : 0.7 * all + 0.3 * done) / all);
}

static void close_arms(tune_arm *arms, int count)
{
    for (int i = 0; i < count; i++)
        tune_arm_close(&arms[i]);
}

/* ---- measuring all algorithms ---- */

static bool open_algorithms(tuner *self, tuned *found, tune_arm *arms)
{
    tune_times *times = &found->times;
    int count = tune_algorithms(times->collective, false, times->names, self->sentence, sizeof self->sentence);
    times->algorithm_count = count > 0 ? count : 0;
    for (int i = 0; i < count; i++)
        if (tune_arm_open(&arms[i], self->ctx, found->kind, times->names[i], NULL) != KITH_OK)
            return fail(self, times->names[i]);
    if (count > 0 && tune_arm_open(&arms[count], self->ctx, found->kind, NULL, NULL) != KITH_OK)
        return fail(self, "the table that holds now");
    return count > 0;
}

static bool measure_sizes(tuner *self, int op, tuned *found, tune_arm *arms)
{
    tune_times *times = &found->times;
    for (int s = 0; s < times->size_count; s++) {
        const char *reason;
        const char *before = tune_arm_algorithm(&arms[times->algorithm_count], found->kind, times->nbytes[s], &reason);
        snprintf(found->before[s], sizeof found->before[s], "%s", before != NULL ? before : "");
        show_progress(self, 0, op, s, times->size_count);
        if (tune_arms_measure(arms, times->algorithm_count, found->kind, times->nbytes[s], self->options->budget_s,
                              times->us[s], times->spread[s]) != KITH_OK)
            return fail(self, times->collective);
    }
    return true;
}

static void list_sizes(const tuner *self, tune_times *times, kith_coll_kind kind)
{
    times->size_count = kind == KITH_BARRIER ? 1 : self->options->size_count;
    for (int s = 0; s < times->size_count; s++)
        times->nbytes[s] = kind == KITH_BARRIER ? 1 : self->options->sizes[s];
}

static bool measure(tuner *self, int op)
{
    tuned *found = &self->list[op];
    tune_arm arms[TUNE_ALGORITHMS_MAX + 1] = { { .ctx = NULL } };
    found->kind = (kith_coll_kind)self->options->ops[op];
    snprintf(found->times.collective, sizeof found->times.collective, "%s", kith_coll_name(found->kind));
    list_sizes(self, &found->times, found->kind);
    bool is_fine = open_algorithms(self, found, arms) && measure_sizes(self, op, found, arms);
    close_arms(arms, TUNE_ALGORITHMS_MAX + 1);
    if (is_fine)
        tune_choose(&found->times, TOLERANCE, found->choice);
    size_t nbytes = (size_t)found->times.size_count * sizeof *found->choice;
    if (is_fine && kith_broadcast(kith_world(self->ctx), found->choice, nbytes, KITH_UINT8, 0) != KITH_OK)
        is_fine = fail(self, found->times.collective);
    return is_fine;
}

/* ---- the table ---- */

static bool write_table(tuner *self)
{
    const char *hosts = kith_node_count(self->ctx) > 1 ? "many" : "one";
    ki_output output;
    bool is_first = true, is_fine = true;
    self->sentence[0] = 0;
    if (self->rank > 0)
        return true;
    self->is_unwritten = true;
    if (!ki_output_open(&output, &ki_command_tune))
        return false;
    fputs("{\"version\": 1, \"rules\": [", output.stream);
    for (int op = 0; op < self->options->op_count; op++)
        tune_rules_print(output.stream, &self->list[op].times, self->list[op].choice, self->size, hosts, &is_first);
    for (int op = 0; is_fine && op < self->options->op_count; op++)
        is_fine = tune_rules_before(output.stream, self->list[op].times.collective, is_first, self->sentence,
                                    sizeof self->sentence);
    fputs("\n]}\n", output.stream);
    if (is_fine) {
        self->is_unwritten = ki_output_close(&output, self->options->output, false) != KI_EXIT_OK;
        return !self->is_unwritten;
    }
    self->is_unwritten = false;
    ki_output_drop(&output);
    return false;
}

/* ---- the table against the best ---- */

/* The arm that forces an algorithm, opened when it is not yet; arms[0] has the table. */
static const tune_arm *forced_arm(tuner *self, const tuned *found, tune_arm *arms, int algorithm)
{
    tune_arm *arm = &arms[1 + algorithm];
    if (arm->ctx == NULL && tune_arm_open(arm, self->ctx, found->kind, found->times.names[algorithm], NULL) != KITH_OK)
        fail(self, found->times.names[algorithm]);
    return arm;
}

static int find_algorithm(const tune_times *times, const char *name)
{
    for (int a = 0; a < times->algorithm_count; a++)
        if (strcmp(times->names[a], name) == 0)
            return a;
    return -1;
}

/* Three arms: the table, what it picks, the fastest. The first two differ in the looking up alone, which whatever the
 * table picks has to pay; so a choice is judged by the other two. */
static bool verify_size(tuner *self, tuned *found, tune_arm *arms, int s)
{
    const char *reason;
    const char *picked = tune_arm_algorithm(&arms[0], found->kind, found->times.nbytes[s], &reason);
    int fastest = tune_fastest(&found->times, s), choice = picked != NULL ? find_algorithm(&found->times, picked) : -1;
    double us[3] = { NAN, NAN, NAN }, spread[3] = { 0, 0, 0 };
    snprintf(found->picked[s], sizeof found->picked[s], "%s", picked != NULL ? picked : "");
    if (fastest < 0 || choice < 0)
        return true; /* nothing can run */
    tune_arm three[3] = { arms[0], *forced_arm(self, found, arms, fastest), *forced_arm(self, found, arms, choice) };
    if (self->sentence[0] != 0)
        return false;
    if (tune_arms_measure(three, choice == fastest ? 2 : 3, found->kind, found->times.nbytes[s],
                          self->options->budget_s, us, spread) != KITH_OK)
        return fail(self, found->times.collective);
    found->chosen_us[s] = us[0];
    found->best_us[s] = us[1];
    found->off[s] = choice == fastest ? 0 : us[2] / us[1] - 1;
    found->spread[s] = fmax(spread[1], choice == fastest ? spread[0] : spread[2]);
    return true;
}

static bool verify(tuner *self, int op)
{
    tuned *found = &self->list[op];
    tune_arm arms[TUNE_ALGORITHMS_MAX + 1] = { { .ctx = NULL } };
    self->sentence[0] = 0;
    bool is_fine = tune_arm_open(&arms[0], self->ctx, found->kind, NULL, self->options->output) == KITH_OK ||
                   fail(self, self->options->output);
    for (int s = 0; is_fine && s < found->times.size_count; s++) {
        show_progress(self, 1, op, s, found->times.size_count);
        is_fine = verify_size(self, found, arms, s);
    }
    close_arms(arms, TUNE_ALGORITHMS_MAX + 1);
    return is_fine;
}

/* Whether the table picks an algorithm that is slower than it may be. */
static bool is_miss(const tuned *found, int s)
{
    return found->off[s] > PROMISED;
}

/* Where the second look shows that a size should not have been put with its neighbours, it gets its own. All ranks have
 * the same times. */
static bool correct(tuned *found)
{
    bool is_changed = false;
    for (int s = 0; s < found->times.size_count; s++) {
        if (!is_miss(found, s))
            continue;
        found->choice[s] = tune_fastest(&found->times, s);
        is_changed = true;
    }
    return is_changed;
}

/* ---- the report ---- */

static void print_size(const tuned *found, int s)
{
    const tune_times *times = &found->times;
    char size[32];
    int fastest = tune_fastest(times, s);
    double before_us = NAN;
    for (int a = 0; a < times->algorithm_count; a++)
        if (strcmp(times->names[a], found->before[s]) == 0)
            before_us = times->us[s][a];
    printf("%12s  %-20s %12.4g  %-20s %12.4g %8.3f %7.1f %%  ",
           found->kind == KITH_BARRIER ? "-" : ki_text_bytes(size, sizeof size, (double)times->nbytes[s]),
           times->names[fastest], found->best_us[s], found->picked[s], found->chosen_us[s],
           found->chosen_us[s] / found->best_us[s], 100 * found->spread[s]);
    if (isnan(before_us))
        printf("%s\n", found->before[s]);
    else
        printf("%s %.2f\n", found->before[s], before_us / times->us[s][fastest]);
}

static void print_found(const tuner *self, const tuned *found)
{
    printf("%s on %d ranks, %s, f32 sum%s\n%12s  %-20s %12s  %-20s %12s %8s %9s  %s\n", found->times.collective,
           self->size, kith_group_backend(kith_world(self->ctx)),
           kith_node_count(self->ctx) > 1 ? ", several hosts" : "", "size", "best", "us", "by the table", "us", "ratio",
           "spread", "until now (times the best)");
    for (int s = 0; s < found->times.size_count; s++)
        if (tune_fastest(&found->times, s) >= 0)
            print_size(found, s);
    fputs("\n", stdout);
}

/* Says where the promise does not hold; returns how many sizes. */
static int print_misses(const tuned *found)
{
    int misses = 0;
    char size[32];
    for (int s = 0; s < found->times.size_count; s++) {
        if (!is_miss(found, s))
            continue;
        printf("%s of %s: %s is %.1f %% off %s, with a spread of %.1f %%\n", found->times.collective,
               ki_text_bytes(size, sizeof size, (double)found->times.nbytes[s]), found->picked[s], 100 * found->off[s],
               found->times.names[tune_fastest(&found->times, s)], 100 * found->spread[s]);
        misses++;
    }
    return misses;
}

static void report(const tuner *self)
{
    int misses = 0;
    ki_progress_end();
    for (int op = 0; op < self->options->op_count; op++)
        print_found(self, &self->list[op]);
    for (int op = 0; op < self->options->op_count; op++)
        misses += print_misses(&self->list[op]);
    if (misses == 0)
        printf("The table is at most %.0f %% off the best at every size, looking up left out.\n", 100 * PROMISED);
    printf("Written to %s; KITH_ALGO_TABLE=%s makes it hold%s.\n", self->options->output, self->options->output,
           strcmp(kith_group_backend(kith_world(self->ctx)), "mpi") == 0 ? " where KITH_MPI_NATIVE=off" : "");
}

/* ---- a rank's life ---- */

static bool can_tune(tuner *self)
{
    const char *backend = kith_group_backend(kith_world(self->ctx));
    if (self->size < 2)
        snprintf(self->sentence, sizeof self->sentence,
                 "one rank has nothing to choose: -n N starts N ranks, or a launcher (mpirun, srun) does");
    else if (strcmp(backend, "shm") == 0)
        snprintf(self->sentence, sizeof self->sentence,
                 "shm has collectives of its own and asks no table; --backend ucx or mpi has use for one");
    return self->sentence[0] == 0;
}

static bool go_on(tuner *self, bool is_fine)
{
    bool has_failed = !is_fine && !self->is_unwritten;
    if (ki_agree_over(self->ctx, "tune", is_fine, self->sentence, &has_failed))
        return true;
    self->exit_status = has_failed ? TUNE_EXIT_FAILED : KI_EXIT_USAGE;
    return false;
}

/* Measures the choices of what is new or was corrected. */
static bool verify_new(tuner *self)
{
    for (int op = 0; op < self->options->op_count; op++)
        if (self->list[op].is_new && !go_on(self, verify(self, op)))
            return false;
    return true;
}

static bool correct_all(tuner *self)
{
    bool is_changed = false;
    for (int op = 0; op < self->options->op_count; op++) {
        self->list[op].is_new = self->list[op].is_new && correct(&self->list[op]);
        is_changed |= self->list[op].is_new;
    }
    return is_changed;
}

static bool tune_all(tuner *self)
{
    bool is_fine = true;
    for (int op = 0; is_fine && op < self->options->op_count; op++) {
        is_fine = go_on(self, measure(self, op));
        self->list[op].is_new = true;
    }
    for (int round = 0; is_fine; round++) {
        is_fine = go_on(self, write_table(self)) && verify_new(self);
        if (round == CORRECTIONS_MOST || !is_fine || !correct_all(self))
            break;
    }
    return is_fine;
}

/* A wrong name is the same sentence on all ranks: rank 0 says it, before whoever started the ranks ends all. */
static int say_why_not(kith_status joined)
{
    bool is_wrong = joined == KITH_ERR_INVALID_ARG || joined == KITH_ERR_UNSUPPORTED;
    if (!is_wrong || !bench_is_other_rank())
        fprintf(stderr, "kith tune: %s\n", kith_error_detail());
    else
        usleep(BENCH_SPEAKING_US);
    return is_wrong ? KI_EXIT_USAGE : TUNE_EXIT_FAILED;
}

int tune_run_rank(const tune_options *options)
{
    tuner self = { .options = options };
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.backend = options->backend;
    kith_status joined = kith_init(&init, &self.ctx);
    if (joined != KITH_OK)
        return say_why_not(joined);
    self.rank = kith_rank(self.ctx);
    self.size = kith_size(self.ctx);
    self.list = calloc((size_t)options->op_count, sizeof *self.list);
    if (self.list == NULL)
        snprintf(self.sentence, sizeof self.sentence, "memory is short");
    bool is_fine = go_on(&self, self.list != NULL && can_tune(&self)) && tune_all(&self);
    if (is_fine && self.rank == 0)
        report(&self);
    free(self.list);
    kith_finalize(self.ctx);
    return is_fine ? KI_EXIT_OK : self.exit_status;
}
