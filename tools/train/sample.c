/* tools/train/sample.c - from logits to a token: greedy, temperature, top-k.
 *
 * A token is found by walking through the probabilities in the order of ids, not of likelihood. Logits of other layouts
 * differ in the last bits, and this way two tokens that are equally likely do not change places because of that: with
 * the same seed another layout gives the same text, but where the number that decides falls within such a difference.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include <math.h>
#include <stdlib.h>

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static int64_t likeliest(const double *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* weights become those of the top_k largest logits, 0 for all others; of equals the first ones are in. */
static void keep_top(const double *logits, int64_t count, int64_t top_k, double *weights)
{
    for (int64_t i = 0; i < count; i++)
        weights[i] = logits[i];
    qsort(weights, (size_t)count, sizeof *weights, descending);
    double last = weights[top_k - 1];
    int64_t equals = 0; /* of last, that are in */
    for (int64_t i = 0; i < top_k; i++)
        equals += weights[i] == last;
    for (int64_t i = 0; i < count; i++) {
        bool is_in = logits[i] > last || (logits[i] == last && equals > 0);
        equals -= is_in && logits[i] == last;
        weights[i] = is_in ? 1 : 0;
    }
}

int64_t train_sample(const double *logits, int64_t count, double temperature, int64_t top_k, double uniform,
                     double *scratch)
{
    double sum = 0, walked = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(logits[i]))
            return -1;
    int64_t best = likeliest(logits, count);
    if (temperature == 0 || top_k == 1)
        return best;
    if (top_k > 0 && top_k < count)
        keep_top(logits, count, top_k, scratch);
    else
        for (int64_t i = 0; i < count; i++)
            scratch[i] = 1;
    for (int64_t i = 0; i < count; i++) {
        scratch[i] *= exp((logits[i] - logits[best]) / temperature);
        sum += scratch[i];
    }
    for (int64_t i = 0; i < count; i++) {
        walked += scratch[i];
        if (scratch[i] > 0)
            last = i;
        if (walked > uniform * sum)
            return i;
    }
    return last; /* uniform is so near to 1 that rounding passed it */
}

/* splitmix64 with `number` steps from a start that depends on the seed. */
double train_uniform(uint64_t seed, uint64_t number)
{
    uint64_t x = (seed + 1) * 0xd1342543de82ef95u + number * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}
