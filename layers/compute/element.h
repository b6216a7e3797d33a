/* layers/compute/element.h - what norms, losses, rotary positions, initial weights and optimizers do to one element,
 * for the loops of the host and for the kernels of a GPU. arith.h is the arithmetic that these stand on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_ELEMENT_H
#define KI_LAYERS_ELEMENT_H

#include "compute.h"
#include "philox.h"

/* AdamW's numbers of a step, as they go to each element. */
typedef struct ki_adamw_step {
    double grad_scale, beta1, rest1, beta2, rest2, kept, rate, root, epsilon;
} ki_adamw_step;

static inline ki_adamw_step ki_adamw_step_of(const ki_adamw *how)
{
    const double step = (double)how->step;
    ki_adamw_step s;
    s.grad_scale = how->grad_scale;
    s.beta1 = how->beta1;
    s.rest1 = 1 - how->beta1;
    s.beta2 = how->beta2;
    s.rest2 = 1 - how->beta2;
    s.kept = 1 - how->learning_rate * how->weight_decay;
    s.rate = how->learning_rate / (1 - pow(how->beta1, step));
    s.root = 1 / sqrt(1 - pow(how->beta2, step));
    s.epsilon = how->epsilon;
    return s;
}

/* The two normal numbers of a counter, by Box and Muller: word 0 gives the radius, word 1 the angle. */
KI_ARITH void ki_normal_pair(uint64_t seed, uint64_t counter, uint32_t site, double deviation, double pair[2])
{
    uint32_t w0 = (uint32_t)counter, w1 = (uint32_t)(counter >> 32), w2 = site, w3 = 0;
    ki_philox(ki_philox_key_of(seed), &w0, &w1, &w2, &w3);
    const double unit = 1.0 / 4294967296.0;
    const double radius = deviation * sqrt(-2.0 * log(((double)w0 + 1.0) * unit)); /* of (0, 1] */
    const double turn = (double)w1 * unit;
#ifdef __CUDA_ARCH__
    sincospi(2.0 * turn, &pair[1], &pair[0]); /* needs no reduction of large angles, and so no local memory */
#else
    pair[0] = cos(6.283185307179586476925 * turn);
    pair[1] = sin(6.283185307179586476925 * turn);
#endif
    pair[0] *= radius;
    pair[1] *= radius;
}

#define KI_ELEMENTS(real, type)                                                                                        \
    /* A factor of dropout: what is dropped becomes 0 also when it is no number. */                                    \
    KI_ARITH real ki_drop_##type(real x, real factor)                                                                  \
    {                                                                                                                  \
        return factor != (real)0 ? x * factor : (real)0;                                                               \
    }                                                                                                                  \
    KI_ARITH real ki_normalized_##type(real x, real center, real rstd, real weight)                                    \
    {                                                                                                                  \
        return (x - center) * rstd * weight;                                                                           \
    }                                                                                                                  \
    KI_ARITH real ki_norm_dx_##type(real x, real center, real rstd, real weight, real dy, real g_mean,                 \
                                    real g_xhat_mean)                                                                  \
    {                                                                                                                  \
        return rstd * (dy * weight - g_mean - (x - center) * rstd * g_xhat_mean);                                      \
    }                                                                                                                  \
    /* share: scale / the row's sum; of_all: what smoothing takes from every class. */                                 \
    KI_ARITH real ki_loss_dlogit_##type(real x, real top, real share, real of_all)                                     \
    {                                                                                                                  \
        return ki_exp_##type(x - top) * share - of_all;                                                                \
    }                                                                                                                  \
    /* Cosine and sine of a + b; as is, or of -(a + b). */                                                             \
    KI_ARITH void ki_add_angles_##type(double cos_a, double sin_a, double cos_b, double sin_b, double sign,            \
                                       real *cosine, real *sine)                                                       \
    {                                                                                                                  \
        *cosine = (real)(cos_a * cos_b - sin_a * sin_b);                                                               \
        *sine = (real)(sign * (sin_a * cos_b + cos_a * sin_b));                                                        \
    }                                                                                                                  \
    KI_ARITH void ki_turn_##type(real cosine, real sine, real *low, real *high)                                        \
    {                                                                                                                  \
        const real a = *low, b = *high;                                                                                \
        *low = a * cosine - b * sine;                                                                                  \
        *high = b * cosine + a * sine;                                                                                 \
    }                                                                                                                  \
    KI_ARITH void ki_step_adamw_##type(const ki_adamw_step *s, real grad, real *m, real *v, real *weight)              \
    {                                                                                                                  \
        const real g = (real)s->grad_scale * grad;                                                                     \
        const real new_m = (real)s->beta1 * *m + (real)s->rest1 * g;                                                   \
        const real new_v = (real)s->beta2 * *v + (real)s->rest2 * (g * g);                                             \
        *m = new_m;                                                                                                    \
        *v = new_v;                                                                                                    \
        *weight = (real)s->kept * *weight -                                                                            \
                  (real)s->rate * new_m / (ki_sqrt_##type(new_v) * (real)s->root + (real)s->epsilon);                  \
    }                                                                                                                  \
    KI_ARITH void ki_step_sgd_##type(real rate, real momentum, real decay, real grad_scale, real grad, real *m,        \
                                     real *weight)                                                                     \
    {                                                                                                                  \
        const real new_m = momentum * *m + grad_scale * grad + decay * *weight;                                        \
        *m = new_m;                                                                                                    \
        *weight -= rate * new_m;                                                                                       \
    }                                                                                                                  \
    /* total += sum; carry: what the additions before were short of (Kahan). */                                        \
    KI_ARITH void ki_add_carried_##type(real sum, real *total, real *carry)                                            \
    {                                                                                                                  \
        const real more = sum - *carry, all = *total + more, lost = (all - *total) - more;                             \
        *total = all;                                                                                                  \
        *carry = lost == lost ? lost : (real)0; /* an infinity stays one */                                            \
    }

KI_ELEMENTS(float, f32)
KI_ELEMENTS(double, f64)

#endif
