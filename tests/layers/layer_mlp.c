/* tests/layers/layer_mlp.c - the feed-forward layer: against plain arithmetic, on any layout.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_check.h"

#include <math.h>

enum { FEATURES = 6, INNER = 7, BATCH = 2 };

SUBJECT_FUNCTIONS(mlp)

static void make_mlp(kith_layers *layers, const void *options, subject *made)
{
    kith_mlp *mlp;
    REQUIRE_OK(kith_mlp_create(layers, options, &mlp));
    made->layer = mlp;
    made->forward = mlp_forward, made->backward = mlp_backward;
    made->in = made->out = FEATURES;
}

static kith_mlp_options options_of(kith_activation activation, int is_gated, int has_bias)
{
    kith_mlp_options options = KITH_MLP_OPTIONS_INIT;
    options.name = "mlp";
    options.features = FEATURES, options.inner_features = INNER;
    options.activation = activation;
    options.is_gated = is_gated, options.has_bias = has_bias;
    return options;
}

static double activated(kith_activation kind, double x)
{
    if (kind == KITH_GELU)
        return x * (1 + erf(x / sqrt(2))) / 2;
    if (kind == KITH_GELU_TANH)
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return x / (1 + exp(-x));
}

/* One inner feature of a token. */
static double inner_of(const kith_layers *layers, const char *part, const kith_tensor *x, int64_t row, int64_t j)
{
    char name[64];
    snprintf(name, sizeof name, "mlp.%s.weight", part);
    const kith_param *weight = kith_layers_find_param(layers, name);
    snprintf(name, sizeof name, "mlp.%s.bias", part);
    const kith_param *bias = kith_layers_find_param(layers, name);
    double sum = bias != NULL ? element(&bias->value, j) : 0;
    for (int64_t i = 0; i < FEATURES; i++)
        sum += element(x, row * FEATURES + i) * element(&weight->value, j * FEATURES + i);
    return sum;
}

static void check_values(const kith_mlp_options *options)
{
    recipe how = { make_mlp, options, 3, BATCH, fraction };
    subject s;
    make_subject(&how, layers_alone(KITH_F64), 0, &s);
    kith_tensor x = input_of(&s, KITH_F64, &how), y, dx;
    run_subject(&s, &x, &x, &y, &dx);
    const kith_param *down = kith_layers_find_param(s.layers, "mlp.down.weight");
    const kith_param *bias = kith_layers_find_param(s.layers, "mlp.down.bias");
    for (int64_t r = 0; r < 3 * BATCH; r++)
        for (int64_t o = 0; o < FEATURES; o++) {
            double wanted = bias != NULL && !options->is_bias_left_out ? element(&bias->value, o) : 0;
            for (int64_t j = 0; j < INNER; j++) {
                double up = inner_of(s.layers, "up", &x, r, j);
                double active = options->is_gated
                                    ? activated(options->activation, inner_of(s.layers, "gate", &x, r, j)) * up
                                    : activated(options->activation, up);
                wanted += active * element(&down->value, o * INNER + j);
            }
            double got = element(&y, r * FEATURES + o);
            if (!(fabs(got - wanted) < 1e-13))
                rank_fail(__FILE__, __LINE__, "y[%d, %d] is %.17g, wanted %.17g", (int)r, (int)o, got, wanted);
        }
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(x.data);
    end_subject(&s);
}

/* Every activation, gated or not, with and without biases. */
void case_mlp(rank_info *info)
{
    for (int way = 0; way < 6; way++) {
        kith_mlp_options options = options_of((kith_activation)(way % 3), way / 3, way % 2 == 0);
        options.is_bias_left_out = way == 2;
        recipe how = { make_mlp, &options, info->size + 1, BATCH, fraction };
        check_values(&options);
        require_layouts_agree(info, &how, KITH_F64, 1e-13, 1);
        if (way % 3 == 1) {
            require_layouts_agree(info, &how, KITH_F32, 3e-6, 1);
            require_layouts_agree(info, &how, KITH_BF16, 0.06, 1);
        }
    }
}

void case_mlp_gradients(rank_info *info)
{
    for (int way = 0; way < 6; way++) {
        kith_mlp_options options = options_of((kith_activation)(way % 3), way / 3, way % 2 == 0);
        recipe how = { make_mlp, &options, 3, BATCH, fraction };
        require_gradients(info, &how, way % 2);
    }
}

/* Numbers so large that every activation is 0 or the identity: all sums are exact, all layouts have the same bits. */
static double thousands(unsigned seed, int64_t index)
{
    return 1024 * whole_number(seed, index);
}

void case_mlp_exact(rank_info *info)
{
    for (int way = 0; way < 6; way++) {
        kith_mlp_options options = options_of((kith_activation)(way % 3), way / 3, 0);
        recipe how = { make_mlp, &options, info->size + 1, BATCH, thousands };
        require_layouts_agree(info, &how, way % 2 == 0 ? KITH_F32 : KITH_F64, 0, 1);
    }
}

static kith_tensor of_numbers(double *values, int64_t rows, int64_t cols)
{
    return kith_tensor_view(values, KITH_F64, 2, (const int64_t[]){ rows, cols });
}

/* gate 0, 1, 2, 3 and up 1, 2, 3, 4: sum of silu(k) (k + 1). Dealing rows of [gate; up] as if they were one part would
 * give 11.432728 on two ranks. */
void case_mlp_golden(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_mlp_options options = options_of(KITH_SILU, 1, 0);
    options.features = 1, options.inner_features = 4;
    kith_mlp *mlp;
    REQUIRE_OK(kith_mlp_create(layers, &options, &mlp));
    double gate[] = { 0, 1, 2, 3 }, up[] = { 1, 2, 3, 4 }, down[] = { 1, 1, 1, 1 }, one = 1;
    kith_tensor whole_gate = of_numbers(gate, 4, 1), whole_up = of_numbers(up, 4, 1),
                whole_down = of_numbers(down, 1, 4);
    REQUIRE_OK(kith_param_load(kith_layers_find_param(layers, "mlp.gate.weight"), &whole_gate));
    REQUIRE_OK(kith_param_load(kith_layers_find_param(layers, "mlp.up.weight"), &whole_up));
    REQUIRE_OK(kith_param_load(kith_layers_find_param(layers, "mlp.down.weight"), &whole_down));
    kith_tape *tape = tape_of(layers, 1, 1);
    kith_tensor x = of_numbers(&one, 1, 1), y;
    REQUIRE_OK(kith_mlp_forward(mlp, tape, &x, &y));
    if (!(fabs(element(&y, 0) - 18.177789) < 1e-6))
        rank_fail(__FILE__, __LINE__, "SwiGLU gives %.9g, wanted 18.177789", element(&y, 0));
    kith_tensor_release(&y);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Too few features, wrong shapes, a wrong order of backward; failures leave the tape as it was. */
void case_mlp_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_mlp_options options = options_of(KITH_GELU, 0, 1);
    kith_mlp *mlp, *other;
    options.inner_features = info->size - 1;
    REQUIRE_STATUS(kith_mlp_create(layers, &options, &mlp), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("at least one for each of the");
    options.inner_features = options.features = (int64_t)1 << 40;
    REQUIRE_STATUS(kith_mlp_create(layers, &options, &mlp), KITH_ERR_NO_MEMORY);
    options.features = FEATURES, options.inner_features = INNER, options.activation = (kith_activation)3;
    REQUIRE_STATUS(kith_mlp_create(layers, &options, &mlp), KITH_ERR_INVALID_ARG);
    options.activation = KITH_GELU;
    REQUIRE_OK(kith_mlp_create(layers, &options, &mlp));
    size_t params = kith_layers_param_count(layers);
    kith_layers_memory before, after;
    kith_layers_get_memory(layers, &before);
    REQUIRE_STATUS(kith_mlp_create(layers, &options, &other), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("there is a parameter mlp.up.weight already");
    kith_layers_get_memory(layers, &after);
    REQUIRE(kith_layers_param_count(layers) == params && before.parameters == after.parameters);
    options.name = NULL;
    REQUIRE_OK(kith_mlp_create(layers, &options, &other));
    kith_tape *tape = tape_of(layers, 2, BATCH);
    kith_tensor x = numbers(KITH_F64, 2 * BATCH, FEATURES, 1, fraction), y, z, dx;
    kith_tensor narrow = kith_tensor_narrow(&x, 1, 0, 3), few = kith_tensor_narrow(&x, 0, 0, 1);
    REQUIRE_STATUS(kith_mlp_forward(mlp, tape, &narrow, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("kith_mlp_forward: x has 3 features");
    REQUIRE_STATUS(kith_mlp_backward(mlp, tape, &x, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_mlp_forward(mlp, tape, &x, &y));
    REQUIRE_OK(kith_mlp_forward(other, tape, &y, &z));
    size_t depth = kith_tape_depth(tape);
    REQUIRE_STATUS(kith_mlp_backward(mlp, tape, &x, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_mlp_backward(other, tape, &few, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_tape_depth(tape) == depth);
    REQUIRE_OK(kith_mlp_backward(other, tape, &x, NULL));
    REQUIRE_OK(kith_mlp_backward(mlp, tape, &x, NULL));
    REQUIRE(kith_tape_depth(tape) == 0);
    kith_tensor_release(&y), kith_tensor_release(&z);
    free(x.data);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}
