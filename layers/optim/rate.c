/* layers/optim/rate.c - learning rates and loss scaling: pure functions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/optim.h>

#include <math.h>
#include <stddef.h>

static const char *const rate_names[] = { "constant", "linear", "cosine" };
static const char *const optim_names[] = { "adamw", "sgd" };

const char *kith_rate_kind_name(kith_rate_kind kind)
{
    size_t number = (size_t)kind;
    return number < sizeof rate_names / sizeof rate_names[0] ? rate_names[number] : NULL;
}

const char *kith_optim_kind_name(kith_optim_kind kind)
{
    size_t number = (size_t)kind;
    return number < sizeof optim_names / sizeof optim_names[0] ? optim_names[number] : NULL;
}

/* How much of the way down lies behind: 0 at the end of the warm-up, 1 at rate->steps. */
static double share_of(const kith_rate *rate, int64_t step)
{
    int64_t length, gone = step - rate->warmup; // both at least 0
    if (__builtin_sub_overflow(rate->steps, rate->warmup, &length) || length <= 0 || gone >= length)
        return 1;
    return (double)gone / (double)length;
}

double kith_rate_at(const kith_rate *rate, int64_t step)
{
    if (rate == NULL || step < 0)
        return NAN;
    if (step < rate->warmup)
        return rate->peak * ((double)step + 1) / (double)rate->warmup;
    double share = share_of(rate, step);
    switch (rate->kind) {
    case KITH_RATE_CONSTANT:
        return rate->peak;
    case KITH_RATE_LINEAR:
        return rate->minimum + (rate->peak - rate->minimum) * (1 - share);
    case KITH_RATE_COSINE:
        return rate->minimum + (rate->peak - rate->minimum) / 2 * (1 + cos(3.14159265358979323846 * share));
    }
    return NAN;
}

int kith_loss_scale_update(kith_loss_scale *scale, double grad_norm)
{
    if (scale == NULL)
        return isfinite(grad_norm);
    if (!isfinite(grad_norm)) {
        if (scale->scale > 1) /* below, gradients of f16 vanish, and what is not finite is not so for their size */
            scale->scale = fmax(scale->scale * scale->backoff, 1);
        scale->good_steps = 0;
        return 0;
    }
    scale->good_steps++;
    if (scale->good_steps >= scale->growth_interval) {
        if (isfinite(scale->scale * scale->growth))
            scale->scale *= scale->growth;
        scale->good_steps = 0;
    }
    return 1;
}
