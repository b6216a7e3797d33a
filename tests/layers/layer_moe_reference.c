/* tests/layers/layer_moe_reference.c - a mixture of experts by plain loops in f64.
 *
 * Written from the definition: probabilities by softmax over all experts, choices by sorting them, each expert a
 * function of one token, gradients by the chain rule with the expert's output at hand. Nothing is batched, sorted or
 * sent.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_moe.h"

#include <math.h>
#include <string.h>

#define EXPERTS_MOST 16
#define INNER_MOST 64

static double *zeros(int64_t count)
{
    double *made = (double *)calloc((size_t)count + 1, sizeof *made);
    REQUIRE(made != NULL);
    return made;
}

static double *filled(int64_t count, unsigned seed, double (*make)(unsigned seed, int64_t index), double scale)
{
    double *made = zeros(count);
    for (int64_t i = 0; i < count; i++)
        made[i] = scale * make(seed, i);
    return made;
}

void moe_numbers_create(const moe_shape *shape, int homes, double (*make)(unsigned seed, int64_t index),
                        moe_scales scales, moe_numbers *numbers)
{
    const kith_moe_options *o = &shape->options;
    int64_t values = homes * moe_tokens(shape) * o->features, of_router = o->experts * o->features;
    int64_t of_experts = o->experts * o->features * o->inner_features;
    memset(numbers, 0, sizeof *numbers);
    numbers->x = filled(values, 1, make, scales.x);
    numbers->dy = filled(values, 2, make, 1);
    numbers->router = filled(of_router, 3, make, shape->is_router_zero ? 0 : scales.router);
    numbers->gate = filled(of_experts, 4, make, scales.in);
    numbers->up = filled(of_experts, 5, make, scales.in);
    numbers->down = filled(of_experts, 6, make, scales.down);
    numbers->y = zeros(values), numbers->dx = zeros(values);
    numbers->drouter = zeros(of_router);
    numbers->dgate = zeros(of_experts), numbers->dup = zeros(of_experts), numbers->ddown = zeros(of_experts);
    numbers->dropped = (int64_t *)calloc((size_t)homes, sizeof *numbers->dropped);
    REQUIRE(numbers->dropped != NULL);
}

void moe_numbers_destroy(moe_numbers *n)
{
    double *const all[] = { n->x, n->dy, n->router,  n->gate,  n->up,  n->down,
                            n->y, n->dx, n->drouter, n->dgate, n->dup, n->ddown };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(n->dropped);
}

static double act(kith_activation kind, double x)
{
    if (kind == KITH_GELU)
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    if (kind == KITH_GELU_TANH)
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return x / (1 + exp(-x));
}

static double act_slope(kith_activation kind, double x)
{
    double pi = acos(-1);
    if (kind == KITH_GELU)
        return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * pi);
    if (kind == KITH_GELU_TANH) {
        double t = tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
    }
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

/* A token's way through the router. */
typedef struct choice_of_token {
    double probability[EXPERTS_MOST];
    int expert[EXPERTS_MOST]; /* [top_k] */
    double weight[EXPERTS_MOST];
    int is_taken[EXPERTS_MOST];
} token_choice;

static void choose(const moe_shape *shape, const moe_numbers *n, int64_t token, token_choice *c)
{
    const kith_moe_options *o = &shape->options;
    double logit[EXPERTS_MOST], largest = -INFINITY, total = 0, chosen = 0;
    int is_used[EXPERTS_MOST] = { 0 };
    REQUIRE(o->experts <= EXPERTS_MOST && o->inner_features <= INNER_MOST);
    for (int64_t e = 0; e < o->experts; e++) {
        logit[e] = 0;
        for (int64_t f = 0; f < o->features; f++)
            logit[e] += n->router[e * o->features + f] * n->x[token * o->features + f];
        largest = fmax(largest, logit[e]);
    }
    for (int64_t e = 0; e < o->experts; e++)
        total += c->probability[e] = exp(logit[e] - largest);
    for (int64_t e = 0; e < o->experts; e++)
        c->probability[e] /= total;
    for (int64_t k = 0; k < o->top_k; k++) {
        int best = -1;
        for (int e = 0; e < o->experts; e++)
            if (!is_used[e] && (best < 0 || logit[e] > logit[best]))
                best = e;
        is_used[best] = 1;
        c->expert[k] = best;
        c->weight[k] = c->probability[best];
        chosen += c->weight[k];
    }
    for (int64_t k = 0; o->is_normalized && k < o->top_k; k++)
        c->weight[k] /= chosen;
}

/* First choices of all tokens, then second ones, until an expert is full. */
static int64_t fill(const moe_shape *shape, token_choice *choices)
{
    const kith_moe_options *o = &shape->options;
    int64_t tokens = moe_tokens(shape), taken[EXPERTS_MOST] = { 0 }, dropped = 0;
    double capacity = ceil(o->capacity_factor * (double)(o->top_k * tokens) / (double)o->experts);
    for (int64_t k = 0; k < o->top_k; k++)
        for (int64_t t = 0; t < tokens; t++) {
            int e = choices[t].expert[k];
            choices[t].is_taken[k] = o->capacity_factor == 0 || (double)taken[e] < capacity;
            if (choices[t].is_taken[k])
                taken[e]++;
            else
                dropped++;
        }
    return dropped;
}

/* Row f of expert e's gate or up times the token. */
static double project(const moe_shape *shape, const double *weights, int e, int64_t f, const double *x)
{
    const kith_moe_options *o = &shape->options;
    double sum = 0;
    for (int64_t h = 0; h < o->features; h++)
        sum += weights[(e * o->inner_features + f) * o->features + h] * x[h];
    return sum;
}

/* y += weight * expert(x), its gradients, and what the weight's is: <dy, expert(x)>. */
static double apply(const moe_shape *shape, moe_numbers *n, int e, double weight, int64_t token)
{
    const kith_moe_options *o = &shape->options;
    int64_t H = o->features, F = o->inner_features;
    const double *x = n->x + token * H, *dy = n->dy + token * H;
    double *y = n->y + token * H, *dx = n->dx + token * H, dweight = 0;
    double up[INNER_MOST], gate[INNER_MOST], inner[INNER_MOST];
    for (int64_t f = 0; f < F; f++) {
        up[f] = project(shape, n->up, e, f, x);
        gate[f] = project(shape, n->gate, e, f, x);
        inner[f] = o->is_gated ? act(o->activation, gate[f]) * up[f] : act(o->activation, up[f]);
    }
    for (int64_t h = 0; h < H; h++) {
        double out = 0;
        for (int64_t f = 0; f < F; f++)
            out += n->down[(e * H + h) * F + f] * inner[f];
        y[h] += weight * out;
        dweight += dy[h] * out;
    }
    for (int64_t f = 0; f < F; f++) {
        double dinner = 0;
        for (int64_t h = 0; h < H; h++) {
            dinner += n->down[(e * H + h) * F + f] * weight * dy[h];
            n->ddown[(e * H + h) * F + f] += weight * dy[h] * inner[f];
        }
        double dgate = o->is_gated ? dinner * up[f] * act_slope(o->activation, gate[f]) : 0;
        double dup = dinner * (o->is_gated ? act(o->activation, gate[f]) : act_slope(o->activation, up[f]));
        for (int64_t h = 0; h < H; h++) {
            int64_t at = (e * F + f) * H + h;
            n->dgate[at] += dgate * x[h];
            n->dup[at] += dup * x[h];
            dx[h] += dup * n->up[at] + dgate * n->gate[at];
        }
    }
    return dweight;
}

/* From gradients of probabilities to those of the router and of x. */
static void back_through_router(const moe_shape *shape, moe_numbers *n, const token_choice *c,
                                const double *dprobability, int64_t token)
{
    const kith_moe_options *o = &shape->options;
    double mean = 0;
    for (int64_t e = 0; e < o->experts; e++)
        mean += c->probability[e] * dprobability[e];
    for (int64_t e = 0; e < o->experts; e++) {
        double dlogit = c->probability[e] * (dprobability[e] - mean);
        for (int64_t h = 0; h < o->features; h++) {
            n->drouter[e * o->features + h] += dlogit * n->x[token * o->features + h];
            n->dx[token * o->features + h] += dlogit * n->router[e * o->features + h];
        }
    }
}

static void add_token(const moe_shape *shape, moe_numbers *n, const token_choice *c, const double *of_balance,
                      int64_t token)
{
    const kith_moe_options *o = &shape->options;
    double dprobability[EXPERTS_MOST], dweight[EXPERTS_MOST] = { 0 }, chosen = 0, pull = 0;
    memcpy(dprobability, of_balance, sizeof dprobability);
    for (int64_t k = 0; k < o->top_k; k++) {
        if (c->is_taken[k])
            dweight[k] = apply(shape, n, c->expert[k], c->weight[k], token);
        chosen += c->probability[c->expert[k]];
        pull += dweight[k] * c->weight[k];
    }
    for (int64_t k = 0; k < o->top_k; k++) /* w_k = p_k / sum of chosen p */
        dprobability[c->expert[k]] += o->is_normalized ? (dweight[k] - pull) / chosen : dweight[k];
    back_through_router(shape, n, c, dprobability, token);
}

/* The auxiliary loss over all homes, and its gradient of each token's probabilities. */
static double balance(const moe_shape *shape, const token_choice *choices, int64_t all, double *gradient)
{
    const kith_moe_options *o = &shape->options;
    double loss = 0;
    for (int e = 0; e < o->experts; e++) {
        double f = 0, p = 0;
        for (int64_t t = 0; t < all; t++) {
            p += choices[t].probability[e] / (double)all;
            for (int64_t k = 0; k < o->top_k; k++)
                f += choices[t].expert[k] == e ? 1 / (double)all : 0;
        }
        loss += o->auxiliary_weight * (double)o->experts * f * p;
        gradient[e] = o->auxiliary_weight * (double)o->experts * f / (double)all;
    }
    return loss;
}

static void clear(const moe_shape *shape, int homes, moe_numbers *n)
{
    const kith_moe_options *o = &shape->options;
    size_t values = (size_t)(homes * moe_tokens(shape) * o->features) * sizeof(double);
    size_t of_experts = (size_t)(o->experts * o->features * o->inner_features) * sizeof(double);
    memset(n->y, 0, values), memset(n->dx, 0, values);
    memset(n->drouter, 0, (size_t)(o->experts * o->features) * sizeof(double));
    memset(n->dgate, 0, of_experts), memset(n->dup, 0, of_experts), memset(n->ddown, 0, of_experts);
}

void moe_reference(const moe_shape *shape, int homes, double auxiliary_scale, moe_numbers *numbers)
{
    int64_t tokens = moe_tokens(shape), all = homes * tokens;
    token_choice *choices = (token_choice *)calloc((size_t)all, sizeof *choices);
    double of_balance[EXPERTS_MOST] = { 0 };
    REQUIRE(choices != NULL);
    clear(shape, homes, numbers);
    for (int64_t t = 0; t < all; t++)
        choose(shape, numbers, t, &choices[t]);
    for (int h = 0; h < homes; h++)
        numbers->dropped[h] = fill(shape, choices + h * tokens);
    numbers->auxiliary = balance(shape, choices, all, of_balance);
    for (int e = 0; e < EXPERTS_MOST; e++)
        of_balance[e] *= auxiliary_scale;
    for (int64_t t = 0; t < all; t++)
        add_token(shape, numbers, &choices[t], of_balance, t);
    free(choices);
}
