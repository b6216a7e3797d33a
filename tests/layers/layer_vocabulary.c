/* tests/layers/layer_vocabulary.c - what the cases of embedding and head share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_vocabulary.h"

#include <math.h>
#include <string.h>

kith_tensor some_ids(unsigned seed, int32_t words)
{
    static _Thread_local int32_t ids[4][TOKENS];
    int32_t *own = ids[seed % 4];
    for (int i = 0; i < TOKENS; i++)
        own[i] = (int32_t)((fraction(seed, i) + 1) / 2 * words);
    own[0] = own[TOKENS - 1] = words - 1; // the last word, twice
    return kith_tensor_view(own, KITH_INT32, 2, (const int64_t[]){ SEQUENCE, SAMPLES });
}

double *doubles_of(const kith_tensor *tensor)
{
    int64_t count = kith_tensor_count(tensor);
    REQUIRE(kith_tensor_is_contiguous(tensor));
    double *made = malloc((size_t)(count + 1) * sizeof *made);
    REQUIRE(made != NULL);
    for (int64_t i = 0; i < count; i++)
        made[i] = element(tensor, i);
    return made;
}

double *whole_of(kith_param *param, kith_param_which which)
{
    kith_dtype dtype = which == KITH_PARAM_VALUE ? param->value.dtype : param->grad.dtype;
    kith_tensor whole = kith_tensor_view(NULL, dtype, param->dim_count, param->global_shape);
    whole.data = calloc((size_t)kith_tensor_count(&whole) + 1, kith_dtype_nbytes(dtype));
    REQUIRE_OK(kith_param_gather(param, which, &whole));
    double *made = doubles_of(&whole);
    free(whole.data);
    return made;
}

void require_numbers(const char *file, int line, const char *what, const double *got, const double *wanted,
                     int64_t count, double tolerance)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - wanted[i]) <= tolerance * (1 + fabs(wanted[i]))))
            rank_fail(file, line, "%s: element %lld is %.17g, wanted %.17g", what, (long long)i, got[i], wanted[i]);
}

kith_layers *dry_layers(int tp, kith_dtype dtype, int is_sequence_parallel)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.dry_tp = tp;
    options.is_sequence_parallel = is_sequence_parallel;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    return layers;
}

static void require_same_traffic(const char *file, int line, const kith_layers *layers, const kith_layers *dry)
{
    kith_layers_traffic a, b;
    kith_layers_get_traffic(layers, &a);
    kith_layers_get_traffic(dry, &b);
    for (int phase = 0; phase < KITH_PHASES; phase++)
        for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
            if (a.ops[phase][kind] != b.ops[phase][kind] || a.nbytes[phase][kind] != b.nbytes[phase][kind] ||
                a.elements[phase][kind] != b.elements[phase][kind])
                rank_fail(file, line, "%s in phase %d: %llu operations of %llu bytes, the dry run has %llu of %llu",
                          kith_coll_name((kith_coll_kind)kind), phase, (unsigned long long)a.ops[phase][kind],
                          (unsigned long long)a.nbytes[phase][kind], (unsigned long long)b.ops[phase][kind],
                          (unsigned long long)b.nbytes[phase][kind]);
}

void require_same_counts(const char *file, int line, const kith_layers *layers, const kith_layers *dry)
{
    require_same_traffic(file, line, layers, dry);
    if (kith_layers_tp_rank(layers) > 0)
        return;
    kith_layers_memory a, b;
    kith_layers_get_memory(layers, &a);
    kith_layers_get_memory(dry, &b);
    if (a.parameters != b.parameters || a.grads != b.grads || a.tensors_peak != b.tensors_peak)
        rank_fail(file, line,
                  "%llu, %llu and %llu bytes of parameters, gradients and tensors; the dry run has %llu, "
                  "%llu, %llu",
                  (unsigned long long)a.parameters, (unsigned long long)a.grads, (unsigned long long)a.tensors_peak,
                  (unsigned long long)b.parameters, (unsigned long long)b.grads, (unsigned long long)b.tensors_peak);
}

void end_layers(kith_layers *layers, kith_tape *tape)
{
    REQUIRE(kith_tape_depth(tape) == 0);
    kith_tape_destroy(tape);
    kith_layers_memory memory;
    kith_layers_get_memory(layers, &memory);
    REQUIRE(memory.tensors == 0);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Probability that a token's target distribution gives to a word. */
static double target_share(const plain_head *how, int64_t word, int32_t target)
{
    if (how->smoothing == 0)
        return word == target;
    return word == target ? 1 - how->smoothing : how->smoothing / (double)(how->words - 1);
}

static double run_token(const plain_head *how, int64_t token, double scale, double *dlogits)
{
    double *logits = malloc((size_t)how->words * sizeof *logits), top = -INFINITY, sum = 0, loss = 0;
    for (int64_t v = 0; v < how->words; v++) {
        logits[v] = 0;
        for (int64_t f = 0; f < how->features; f++)
            logits[v] += how->x[token * how->features + f] * how->w[v * how->features + f];
        top = fmax(top, logits[v]);
    }
    for (int64_t v = 0; v < how->words; v++)
        sum += exp(logits[v] - top);
    int32_t target = how->targets[token];
    for (int64_t v = 0; v < how->words; v++) {
        double log_p = logits[v] - top - log(sum), share = target_share(how, v, target);
        bool is_ignored = target == how->ignored;
        if (share != 0 && !is_ignored)
            loss -= share * log_p;
        dlogits[v] = is_ignored ? 0 : scale * (exp(logits[v] - top) / sum - share);
    }
    free(logits);
    return loss;
}

double plain_head_run(const plain_head *how, double scale, double *losses, double *dlogits, double *dw, double *dx)
{
    int64_t words = how->words, features = how->features;
    double *row = malloc((size_t)words * sizeof *row), sum = 0;
    if (dw != NULL)
        memset(dw, 0, (size_t)(words * features) * sizeof *dw);
    if (dx != NULL)
        memset(dx, 0, (size_t)(how->tokens * features) * sizeof *dx);
    for (int64_t t = 0; t < how->tokens; t++) {
        double loss = run_token(how, t, scale, row);
        sum += loss;
        if (losses != NULL)
            losses[t] = loss;
        if (dlogits != NULL)
            memcpy(dlogits + t * words, row, (size_t)words * sizeof *row);
        for (int64_t v = 0; v < words; v++)
            for (int64_t f = 0; f < features; f++) {
                if (dw != NULL)
                    dw[v * features + f] += row[v] * how->x[t * features + f];
                if (dx != NULL)
                    dx[t * features + f] += row[v] * how->w[v * features + f];
            }
    }
    free(row);
    return sum;
}
