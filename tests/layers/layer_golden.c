/* tests/layers/layer_golden.c - whole models against PyTorch's numbers.
 *
 * golden/ has losses and gradients of Hugging Face's GPT-2, LLaMA and Mixtral of tiny sizes, and the script that makes
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <math.h>
#include <string.h>

/* 1 or -1, as in make_golden.py. */
static double sign_of(const char *name, int which, int64_t index)
{
    unsigned seed = (seed_of_name(name) + 1000 * ((unsigned)which + 1)) & 0xffff;
    return (double)(scrambled(seed, index) & 1) * 2 - 1;
}

/* Distance of a gradient to the golden one, estimated from its products with signs. */
static void check_gradient(kith_layers *layers, const char *line, double tolerance)
{
    char name[128];
    long long count;
    double norm, golden[PROJECTIONS];
    int read = sscanf(line, "%127s %lld %lf %lf %lf %lf %lf %lf %lf %lf %lf", name, &count, &norm, &golden[0],
                      &golden[1], &golden[2], &golden[3], &golden[4], &golden[5], &golden[6], &golden[7]);
    REQUIRE(read == 3 + PROJECTIONS);
    kith_param *param = kith_layers_find_param(layers, name);
    if (param == NULL)
        rank_fail(__FILE__, __LINE__, "there is no parameter %s", name);
    kith_tensor whole = kith_tensor_view(NULL, param->grad.dtype, param->dim_count, param->global_shape);
    REQUIRE(kith_tensor_count(&whole) == count);
    whole.data = malloc((size_t)count * kith_dtype_nbytes(whole.dtype));
    REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
    double squares = 0;
    for (int j = 0; j < PROJECTIONS; j++) {
        double dot = -golden[j];
        for (int64_t i = 0; i < count; i++)
            dot += sign_of(name, j, i) * element(&whole, i);
        squares += dot * dot / PROJECTIONS;
    }
    if (!(sqrt(squares) <= tolerance * (norm + 1e-3)))
        rank_fail(__FILE__, __LINE__, "%s: the gradient is about %g away from the golden one, whose norm is %g", name,
                  sqrt(squares), norm);
    free(whole.data);
}

static void compare_with_golden(setup *s, const family *f, double loss_tolerance, double grad_tolerance)
{
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/tests/layers/golden/%s.txt", getenv("KITH_SOURCE_DIR"), f->name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        rank_fail(__FILE__, __LINE__, "%s cannot be opened", path);
    int gradients = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        double loss;
        if (line[0] == '#')
            continue;
        if (sscanf(line, "loss %lf", &loss) == 1) {
            double mine = s->loss.sum / (double)s->loss.count;
            if (!(fabs(mine - loss) <= loss_tolerance * loss))
                rank_fail(__FILE__, __LINE__, "%s: the loss is %.17g, PyTorch's %.17g", f->name, mine, loss);
            continue;
        }
        check_gradient(s->layers, line, grad_tolerance);
        gradients++;
    }
    fclose(file);
    REQUIRE((size_t)gradients == kith_layers_param_count(s->layers));
}

static void golden(rank_info *info, family f)
{
    for (int sp = 0; sp < 2; sp++) {
        for (int is_f64 = 0; is_f64 < 2; is_f64++) {
            kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
            options.config = &f.config;
            setup s = make_setup(layers_over(info, info->size, is_f64 ? KITH_F64 : KITH_F32, sp), &options);
            step(&s);
            compare_with_golden(&s, &f, is_f64 ? f.tolerance : 1e-5, is_f64 ? f.tolerance : 1e-4);
            end_setup(&s);
        }
    }
}

void case_transformer_gpt2(rank_info *info)
{
    golden(info, gpt2());
}

void case_transformer_llama(rank_info *info)
{
    if (info->size != 3) // 2 key heads go to 1, 2 or 4 ranks
        golden(info, llama());
}

void case_transformer_mixtral(rank_info *info)
{
    if (info->size != 3)
        golden(info, mixtral());
}
