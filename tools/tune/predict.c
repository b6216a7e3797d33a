/* tools/tune/predict.c - a table of algorithms for a machine that is not here: times of the cost model instead of
 * measured ones.
 *
 * The model prices every algorithm of the library out of its own plan (docs/topology.md), over links whose latency and
 * bandwidth come from the table of constants, or from a calibration. It leaves out arithmetic and copies, so it tells
 * links apart, not two algorithms that differ in work on memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include "../draw.h"
#include "../output.h"
#include <kith/coll.h>
#include <kith/placement.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct predictor {
    const tune_options *options;
    kith_topology *topology;
    int *gpus; /* [rank_count] */
    const char *hosts;
    tune_times *list; /* [op_count] */
    int (*choices)[TUNE_SIZES_MAX];
    char sentence[512];
} predictor;

/* False: the model has no price for this collective. */
static bool cost_op_of(int kind, kith_cost_op *op)
{
    static const struct {
        kith_coll_kind kind;
        kith_cost_op op;
    } pairs[] = { { KITH_ALL_REDUCE, KITH_COST_ALL_REDUCE },
                  { KITH_REDUCE_SCATTER, KITH_COST_REDUCE_SCATTER },
                  { KITH_ALL_GATHER, KITH_COST_ALL_GATHER },
                  { KITH_ALL_TO_ALL, KITH_COST_ALL_TO_ALL },
                  { KITH_BROADCAST, KITH_COST_BROADCAST } };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if ((int)pairs[i].kind == kind) {
            *op = pairs[i].op;
            return true;
        }
    return false;
}

bool tune_is_predicted(int kind)
{
    kith_cost_op op;
    return cost_op_of(kind, &op);
}

static bool load(predictor *self)
{
    const tune_options *o = self->options;
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.constants_path = o->calibration;
    if (kith_topology_load(&o->predict, 1, &options, &self->topology) != KITH_OK) {
        snprintf(self->sentence, sizeof self->sentence, "%s", kith_error_detail());
        return false;
    }
    int there = kith_topology_gpu_count(self->topology), first, last, gpu;
    if (there < o->rank_count) {
        snprintf(self->sentence, sizeof self->sentence, "%s has %d GPUs, fewer than %d ranks", o->predict, there,
                 o->rank_count);
        return false;
    }
    for (int r = 0; r < o->rank_count; r++)
        self->gpus[r] = r;
    kith_topology_locate(self->topology, 0, &first, &gpu);
    kith_topology_locate(self->topology, o->rank_count - 1, &last, &gpu);
    self->hosts = first == last ? "one" : "many";
    return true;
}

static bool price(predictor *self, int index)
{
    const tune_options *o = self->options;
    tune_times *times = &self->list[index];
    kith_cost_op op = KITH_COST_ALL_REDUCE;
    cost_op_of(o->ops[index], &op);
    snprintf(times->collective, sizeof times->collective, "%s", kith_coll_name((kith_coll_kind)o->ops[index]));
    times->algorithm_count =
        tune_algorithms(times->collective, true, times->names, self->sentence, sizeof self->sentence);
    if (times->algorithm_count < 0)
        return false;
    times->size_count = o->size_count;
    for (int s = 0; s < o->size_count; s++) {
        times->nbytes[s] = o->sizes[s];
        for (int a = 0; a < times->algorithm_count; a++) {
            kith_cost cost;
            kith_status status = kith_cost_collective(self->topology, op, times->names[a], self->gpus, o->rank_count, 1,
                                                      (double)o->sizes[s], &cost);
            times->us[s][a] = status == KITH_OK ? cost.time_s * 1e6 : NAN;
        }
    }
    tune_choose(times, 0, self->choices[index]);
    return true;
}

static int write_table(predictor *self)
{
    ki_output output;
    bool is_first = true, is_fine = true;
    if (!ki_output_open(&output, &ki_command_tune))
        return KI_EXIT_USAGE;
    fputs("{\"version\": 1, \"rules\": [", output.stream);
    for (int i = 0; i < self->options->op_count; i++)
        tune_rules_print(output.stream, &self->list[i], self->choices[i], self->options->rank_count, self->hosts,
                         &is_first);
    for (int i = 0; is_fine && i < self->options->op_count; i++)
        is_fine =
            tune_rules_before(output.stream, self->list[i].collective, is_first, self->sentence, sizeof self->sentence);
    fputs("\n]}\n", output.stream);
    if (is_fine)
        return ki_output_close(&output, self->options->output, false);
    ki_output_drop(&output);
    fprintf(stderr, "kith tune: %s\n", self->sentence);
    return TUNE_EXIT_FAILED;
}

static void report(const predictor *self)
{
    char size[32];
    for (int i = 0; i < self->options->op_count; i++) {
        const tune_times *times = &self->list[i];
        printf("%s on %d ranks of %s, predicted\n%12s  %-20s %12s\n", times->collective, self->options->rank_count,
               self->options->predict, "size", "algorithm", "us");
        for (int s = 0; s < times->size_count; s++) {
            int chosen = self->choices[i][s];
            printf("%12s  %-20s %12.4g\n", ki_text_bytes(size, sizeof size, (double)times->nbytes[s]),
                   chosen >= 0 ? times->names[chosen] : "none", chosen >= 0 ? times->us[s][chosen] : NAN);
        }
        fputs("\n", stdout);
    }
    printf("Written to %s; KITH_ALGO_TABLE=%s makes it hold. Nothing was measured.\n", self->options->output,
           self->options->output);
}

int tune_predict(const tune_options *options)
{
    predictor self = { .options = options };
    size_t count = (size_t)options->op_count;
    self.gpus = calloc((size_t)options->rank_count, sizeof *self.gpus);
    self.list = calloc(count, sizeof *self.list);
    self.choices = calloc(count, sizeof *self.choices);
    bool is_fine = self.gpus != NULL && self.list != NULL && self.choices != NULL;
    snprintf(self.sentence, sizeof self.sentence, "memory is short");
    is_fine = is_fine && load(&self);
    for (int i = 0; is_fine && i < options->op_count; i++)
        is_fine = price(&self, i);
    if (!is_fine)
        fprintf(stderr, "kith tune: %s\n", self.sentence);
    int status = is_fine ? write_table(&self) : TUNE_EXIT_FAILED;
    if (status == KI_EXIT_OK)
        report(&self);
    kith_topology_destroy(self.topology);
    free(self.gpus);
    free(self.list);
    free(self.choices);
    return status;
}
