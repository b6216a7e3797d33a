/* tools/train/settle.c - what follows from the number of ranks: the sizes of the axes, and how a step is cut up.
 *
 * The global batch is what training sees: batches depend on it, the seed and the step alone. So it is kept the same for
 * all layouts where it can be: GLOBAL_BATCH samples unless it is said, rounded up to what the sizes that are said
 * divide. A microbatch then has the most samples, up to MICRO_BATCH, that leave each pipeline enough microbatches: at
 * least as many as it has stages, and a multiple of them, which the interleaved schedules ask for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GLOBAL_BATCH 16
#define MICRO_BATCH 4

static char *sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *sentence(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = strdup("memory is short");
    va_end(arguments);
    return text;
}

static int or_one(int size)
{
    return size > 0 ? size : 1;
}

/* ---- axes ---- */

/* "1, 2, 4, 8": whole numbers that divide `number`, the first dozen. */
static const char *divisors(int number, char *text, size_t nbytes)
{
    size_t used = 0;
    int listed = 0;
    for (int i = 1; i <= number && listed < 12; i++)
        if (number % i == 0) {
            used += (size_t)snprintf(text + used, nbytes - used, "%s%d", used > 0 ? ", " : "", i);
            listed++;
        }
    return text;
}

static char *wrong_world(const train_options *o, int64_t others, int world)
{
    char list[160], instead[64] = "";
    const char *are = world == 1 ? "is" : "are";
    if (o->dp == 0)
        return sentence("tp %d x pp %d x ep %d are %lld ranks, and there %s %d: start a multiple of %lld with -n, or "
                        "give sizes whose product is one of %s",
                        o->tp, o->pp, o->ep, (long long)others, are, world, (long long)others,
                        divisors(world, list, sizeof list));
    if (world % others == 0)
        snprintf(instead, sizeof instead, ", or give --dp %lld", (long long)(world / others));
    return sentence("tp %d x pp %d x dp %d x ep %d are %lld ranks, and there %s %d: start as many with -n%s", o->tp,
                    o->pp, o->dp, o->ep, (long long)others * o->dp, are, world, instead);
}

static char *settle_axes(train_options *o, int world)
{
    o->tp = or_one(o->tp);
    o->pp = or_one(o->pp);
    o->ep = or_one(o->ep);
    int64_t others = (int64_t)o->tp * o->pp; /* each at most 2^20 */
    if (__builtin_mul_overflow(others, o->ep, &others) || others > INT32_MAX)
        return sentence("tp %d x pp %d x ep %d are more ranks than can be", o->tp, o->pp, o->ep);
    if (world == 0)
        o->dp = or_one(o->dp);
    else if (o->dp == 0 && world % others == 0)
        o->dp = (int)(world / others);
    else if (o->dp == 0 || others * o->dp != world)
        return wrong_world(o, others, world);
    return NULL;
}

/* ---- batch ---- */

/* Samples of a microbatch, where `samples` of a step fall to each pipeline. */
static int64_t choose_micro_batch(int64_t samples, int64_t stages)
{
    for (int64_t n = MICRO_BATCH; n > 0; n--)
        if (samples % n == 0 && samples / n >= stages && samples / n % stages == 0)
            return n;
    for (int64_t n = MICRO_BATCH; n > 0; n--)
        if (samples % n == 0 && samples / n >= stages)
            return n;
    return 1;
}

/* May a microbatch have as many samples as before the run was resumed? */
static bool can_go_on(const train_options *o, int64_t samples, int64_t stages)
{
    if (o->kept_micro_batch < 1 || samples % o->kept_micro_batch != 0)
        return false;
    return stages == o->kept_stages || samples / o->kept_micro_batch % stages == 0;
}

/* "--batch 4 x --microbatches 3 x dp 2": what is said of the parts of a global batch. */
static const char *said(const train_options *o, int64_t replicas, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    if (o->micro_batch > 0)
        used += (size_t)snprintf(text, nbytes, "--batch %lld x ", (long long)o->micro_batch);
    if (o->microbatches > 0)
        used += (size_t)snprintf(text + used, nbytes - used, "--microbatches %lld x ", (long long)o->microbatches);
    if (o->ep > 1)
        snprintf(text + used, nbytes - used, "dp %lld x ep %d", (long long)(replicas / o->ep), o->ep);
    else
        snprintf(text + used, nbytes - used, "dp %lld", (long long)replicas);
    return text;
}

/* replicas: pipelines with samples of their own. */
static char *settle_batch(train_options *o, int64_t replicas, int64_t stages)
{
    char parts[128];
    int64_t unit; /* what the global batch is a multiple of */
    bool is_whole = o->micro_batch > 0 && o->microbatches > 0;
    if (__builtin_mul_overflow(replicas, o->micro_batch > 0 ? o->micro_batch : 1, &unit) ||
        __builtin_mul_overflow(unit, o->microbatches > 0 ? o->microbatches : 1, &unit) || unit > TRAIN_GLOBAL_BATCH_MAX)
        return sentence("a step of %s has more than %d samples", said(o, replicas, parts, sizeof parts),
                        TRAIN_GLOBAL_BATCH_MAX);
    if (o->global_batch == 0)
        o->global_batch = is_whole ? unit : (GLOBAL_BATCH + unit - 1) / unit * unit;
    if (is_whole && o->global_batch != unit)
        return sentence("--global-batch %lld: %s are %lld samples; leave one of them out", (long long)o->global_batch,
                        said(o, replicas, parts, sizeof parts), (long long)unit);
    if (o->global_batch % unit != 0)
        return sentence("--global-batch %lld cannot be dealt to %s: valid are multiples of %lld",
                        (long long)o->global_batch, said(o, replicas, parts, sizeof parts), (long long)unit);
    int64_t samples = o->global_batch / replicas;
    if (o->micro_batch == 0 && o->microbatches > 0)
        o->micro_batch = samples / o->microbatches;
    else if (o->micro_batch == 0)
        o->micro_batch = can_go_on(o, samples, stages) ? o->kept_micro_batch : choose_micro_batch(samples, stages);
    o->microbatches = samples / o->micro_batch;
    return NULL;
}

char *train_options_settle(train_options *options, int world)
{
    bool is_chosen = options->tp > 0 && options->pp > 0 && options->dp > 0 && options->ep > 0;
    if (options->is_auto && !is_chosen)
        return settle_batch(options, 1, 1);
    char *wrong = settle_axes(options, world);
    if (wrong != NULL)
        return wrong;
    return settle_batch(options, (int64_t)options->dp * options->ep, options->pp);
}
