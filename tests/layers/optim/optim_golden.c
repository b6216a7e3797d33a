/* tests/layers/optim/optim_golden.c - ten steps against PyTorch's AdamW and SGD (golden/make_golden.py).
 *
 * On several ranks each step's gradient lies on one of them, so that sums are exact and the numbers the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <string.h>

enum { STEPS = 10, ROWS = 7, COLS = 5 };

typedef struct recipe {
    const char *name;
    kith_optim_kind kind;
    double decay, clip, momentum;
    int decays_all;
    double tolerance; /* PyTorch divides by the norm + 1e-6 when it clips */
} recipe;

static const recipe recipes[] = {
    { "adamw", KITH_ADAMW, 0.1, 0, 0, 0, 1e-13 },        { "adamw_clipped", KITH_ADAMW, 0.1, 0.5, 0, 0, 1e-6 },
    { "adamw_all", KITH_ADAMW, 0.3, 0, 0, 1, 1e-13 },    { "sgd", KITH_SGD, 0, 0, 0, 0, 1e-13 },
    { "sgd_momentum", KITH_SGD, 0.1, 0, 0.9, 0, 1e-13 }, { "sgd_clipped", KITH_SGD, 0.1, 0.5, 0.9, 0, 1e-6 },
};

static FILE *open_golden(const char *name)
{
    char path[512], line[128], wanted[64];
    snprintf(path, sizeof path, "%s/tests/layers/optim/golden/optim.txt", getenv("KITH_SOURCE_DIR"));
    snprintf(wanted, sizeof wanted, "case %s\n", name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        rank_fail(__FILE__, __LINE__, "%s cannot be opened", path);
    while (fgets(line, sizeof line, file) != NULL)
        if (strcmp(line, wanted) == 0)
            return file;
    rank_fail(__FILE__, __LINE__, "%s has no case %s", path, name);
}

static double next_number(FILE *file)
{
    double number;
    REQUIRE(fscanf(file, "%lf", &number) == 1);
    return number;
}

/* Numbers of a parameter as make_golden.py has them; step -1: values. */
static void fill(const kith_param *param, const kith_tensor *tensor, int step)
{
    unsigned seed = seed_of_name(param->name) + 1 + (unsigned)step;
    for (int64_t i = 0; i < kith_tensor_count(tensor); i++)
        put_element(tensor, i, fraction(seed, i));
}

static void run(rank_info *info, const recipe *r, int is_sharded, kith_dtype dtype)
{
    grid_layers grid = layers_on_grid(info, 1, dtype, 0, 0);
    add_linear(grid.layers, "linear", KITH_LINEAR_WHOLE, ROWS, COLS, 1);
    kith_param *params[] = { kith_layers_find_param(grid.layers, "linear.weight"),
                             kith_layers_find_param(grid.layers, "linear.bias") };
    for (int p = 0; p < 2; p++)
        fill(params[p], &params[p]->value, -1);
    kith_optim_options options = options_of(info, &grid);
    options.kind = r->kind, options.beta2 = 0.95, options.momentum = r->momentum;
    options.weight_decay = r->decay, options.decays_all = r->decays_all, options.clip_norm = r->clip;
    options.allows_unused = 1, options.is_sharded = is_sharded;
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(grid.layers, &options, &optim));
    FILE *golden = open_golden(r->name);
    double tolerance = dtype == KITH_F64 ? r->tolerance : 1e-5;
    for (int step = 0; step < STEPS; step++) {
        kith_optim_result result;
        REQUIRE_OK(kith_optim_begin(optim, 1));
        for (int p = 0; p < 2 && step % info->size == info->rank; p++)
            fill(params[p], &params[p]->grad, step);
        REQUIRE_OK(kith_optim_step(optim, 0.01 * (step + 1), &result));
        double norm = next_number(golden), factor = r->clip > 0 && norm > r->clip ? r->clip / norm : 1;
        REQUIRE_NEAR(result.grad_norm, norm, dtype == KITH_F64 ? 1e-14 : 1e-6);
        REQUIRE_NEAR(result.clip_factor, factor, dtype == KITH_F64 ? 1e-14 : 1e-6);
        REQUIRE(result.step == step + 1);
    }
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < kith_tensor_count(&params[p]->value); i++)
            REQUIRE_NEAR(element(&params[p]->value, i), next_number(golden), tolerance);
    fclose(golden);
    REQUIRE_SAME_HASH(info->world, grid.layers);
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(grid.layers));
}

void case_golden(rank_info *info)
{
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
            run(info, &recipes[i], is_sharded, KITH_F64);
            run(info, &recipes[i], is_sharded, KITH_F32);
        }
}
