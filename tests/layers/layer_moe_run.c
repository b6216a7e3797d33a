/* tests/layers/layer_moe_run.c - the layer under test on a grid of ranks, and how it is compared.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_moe.h"

#include <math.h>
#include <string.h>

moe_grid moe_grid_of(rank_info *info, int tp)
{
    moe_grid grid = { NULL, NULL, tp, info->size / tp, info->rank % tp, info->rank / tp, 0, info };
    REQUIRE(info->size % tp == 0);
    REQUIRE_OK(kith_group_split(info->world, grid.ep_rank, info->rank, NULL, &grid.tp));
    REQUIRE_OK(kith_group_split(info->world, grid.tp_rank, info->rank, NULL, &grid.ep));
    return grid;
}

/* Matrix of an expert, or the router (expert -1), among a batch's numbers. */
static kith_tensor matrix_of(const moe_shape *shape, const double *all, int64_t expert, int is_down)
{
    const kith_moe_options *o = &shape->options;
    int64_t rows = expert < 0 ? o->experts : is_down ? o->features : o->inner_features;
    int64_t cols = expert >= 0 && is_down ? o->inner_features : o->features;
    int64_t at = expert < 0 ? 0 : expert * rows * cols;
    return kith_tensor_view((void *)(uintptr_t)(all + at), KITH_F64, 2, (const int64_t[]){ rows, cols });
}

/* The numbers of a parameter: of its value, or what its gradient should be. */
static kith_tensor numbers_of(const moe_shape *shape, const moe_numbers *n, const char *name, bool is_grad)
{
    long long expert = -1;
    char matrix[16] = "";
    if (strcmp(name, "moe.router.weight") == 0)
        return matrix_of(shape, is_grad ? n->drouter : n->router, -1, 0);
    if (sscanf(name, "moe.experts.%lld.%15[a-z].weight", &expert, matrix) != 2)
        rank_fail(__FILE__, __LINE__, "a parameter %s is not one of a mixture", name);
    if (strcmp(matrix, "gate") == 0)
        return matrix_of(shape, is_grad ? n->dgate : n->gate, expert, 0);
    if (strcmp(matrix, "up") == 0)
        return matrix_of(shape, is_grad ? n->dup : n->up, expert, 0);
    REQUIRE(strcmp(matrix, "down") == 0);
    return matrix_of(shape, is_grad ? n->ddown : n->down, expert, 1);
}

void moe_run_load(moe_run *run, const moe_shape *shape, const moe_numbers *numbers)
{
    for (size_t i = 0; i < kith_layers_param_count(run->layers); i++) {
        kith_param *param = kith_layers_param(run->layers, i);
        kith_tensor whole = numbers_of(shape, numbers, param->name, false);
        REQUIRE_OK(kith_param_load(param, &whole));
    }
}

void moe_run_create(const moe_grid *grid, const moe_shape *shape, const moe_numbers *numbers, kith_dtype dtype,
                    int is_sequence_parallel, moe_run *run)
{
    const moe_grid one = { NULL, NULL, 1, 1, 0, 0, 0, NULL };
    memset(run, 0, sizeof *run);
    run->grid = grid == NULL ? one : *grid;
    run->dtype = dtype;
    run->is_sequence_parallel = is_sequence_parallel;
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.tp = run->grid.tp;
    *(run->grid.is_data ? &options.data : &options.ep) = run->grid.ep;
    options.is_sequence_parallel = is_sequence_parallel;
    options.is_debug = 1;
    if (run->grid.info != NULL)
        put_on_device(run->grid.info, &options);
    REQUIRE_OK(kith_layers_create(&options, &run->layers));
    kith_moe_options of_moe = shape->options;
    of_moe.name = "moe";
    REQUIRE_OK(kith_moe_create(run->layers, &of_moe, &run->moe));
    moe_run_load(run, shape, numbers);
    REQUIRE_OK(kith_tape_create(run->layers, &run->tape));
}

/* This rank's rows of a batch, in the run's dtype; free(data). */
static kith_tensor own_rows(const moe_run *run, const moe_shape *shape, const double *all)
{
    int64_t tokens = moe_tokens(shape), features = shape->options.features, first = 0, count = shape->sequence;
    if (run->is_sequence_parallel)
        kith_split_range(shape->sequence, run->grid.tp_size, run->grid.tp_rank, &first, &count);
    kith_tensor whole = kith_tensor_view((void *)(uintptr_t)(all + run->grid.ep_rank * tokens * features), KITH_F64, 2,
                                         (const int64_t[]){ tokens, features });
    kith_tensor rows = kith_tensor_narrow(&whole, 0, first * shape->batch, count * shape->batch);
    kith_tensor own = numbers(run->dtype, count * shape->batch, features, 0, whole_number);
    for (int64_t i = 0; i < kith_tensor_count(&own); i++)
        put_element(&own, i, ((const double *)rows.data)[i]);
    return own;
}

/* Forward keeps the caller's x until backward; so does the test. */
static kith_tensor kept(kith_layers *layers, kith_tensor *own)
{
    kith_tensor made;
    REQUIRE_OK(kith_tensor_create(layers, own->dtype, 2, own->shape, &made));
    REQUIRE_OK(
        kith_tensor_write(layers, &made, own->data, (size_t)kith_tensor_count(own) * kith_dtype_nbytes(own->dtype)));
    free(own->data);
    return made;
}

void moe_run_forward(moe_run *run, const moe_shape *shape, const moe_numbers *numbers)
{
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = shape->sequence, batch.batch = shape->batch;
    REQUIRE_OK(kith_tape_begin(run->tape, &batch));
    kith_tensor own = own_rows(run, shape, numbers->x), x = kept(run->layers, &own);
    REQUIRE_OK(kith_moe_forward(run->moe, run->tape, &x, &run->y, &run->auxiliary, &run->dropped));
    kith_tensor_release(&x);
    REQUIRE(kith_tape_depth(run->tape) == 1);
}

void moe_run_backward(moe_run *run, const moe_shape *shape, const moe_numbers *numbers, double auxiliary_scale)
{
    kith_tensor own = own_rows(run, shape, numbers->dy), dy = kept(run->layers, &own);
    REQUIRE_OK(kith_moe_backward(run->moe, run->tape, &dy, auxiliary_scale, &run->dx));
    REQUIRE(kith_tape_depth(run->tape) == 0);
    REQUIRE_OK(kith_tape_weight_grads(run->tape));
    REQUIRE_OK(kith_layers_finish_grads(run->layers));
    kith_tensor_release(&dy);
}

void moe_run_destroy(moe_run *run)
{
    kith_layers_memory memory;
    kith_tensor_release(&run->y);
    kith_tensor_release(&run->dx);
    kith_tape_destroy(run->tape);
    kith_layers_get_memory(run->layers, &memory);
    if (memory.tensors != 0)
        rank_fail(__FILE__, __LINE__, "%llu bytes of tensors are left, wanted 0", (unsigned long long)memory.tensors);
    REQUIRE_OK(kith_layers_destroy(run->layers));
}

static void require_near(const char *file, int line, const char *what, int64_t i, double got, double wanted,
                         double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance * (1 + fabs(wanted))))
        rank_fail(file, line, "%s: element %lld is %.17g, wanted %.17g", what, (long long)i, got, wanted);
}

static void require_rows(const char *file, int line, const char *what, const moe_run *run, const moe_shape *shape,
                         const kith_tensor *got, const double *all, double tolerance)
{
    moe_run in_f64 = *run;
    in_f64.dtype = KITH_F64;
    kith_tensor wanted = own_rows(&in_f64, shape, all);
    if (kith_tensor_count(got) != kith_tensor_count(&wanted))
        rank_fail(file, line, "%s: %lld elements, wanted %lld", what, (long long)kith_tensor_count(got),
                  (long long)kith_tensor_count(&wanted));
    kith_tensor here = on_host(got);
    for (int64_t i = 0; i < kith_tensor_count(got); i++)
        require_near(file, line, what, i, element(&here, i), ((const double *)wanted.data)[i], tolerance);
    free(wanted.data), free(here.data);
}

static void require_grad(const char *file, int line, moe_run *run, const moe_shape *shape, kith_param *param,
                         const moe_numbers *wanted, double tolerance)
{
    kith_tensor expected = numbers_of(shape, wanted, param->name, true);
    kith_tensor whole = kith_tensor_view(NULL, param->grad.dtype, 2, param->global_shape);
    size_t count = (size_t)kith_tensor_count(&whole);
    whole.data = calloc(count, kith_dtype_nbytes(whole.dtype));
    REQUIRE(whole.data != NULL);
    REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
    if ((!param->is_expert || run->grid.is_data) && run->grid.ep_size > 1)
        REQUIRE_OK(kith_all_reduce(run->grid.ep, whole.data, whole.data, count, whole.dtype, KITH_SUM));
    for (int64_t i = 0; i < (int64_t)count; i++)
        require_near(file, line, param->name, i, element(&whole, i), ((const double *)expected.data)[i], tolerance);
    free(whole.data);
}

void moe_require_reference(const char *file, int line, moe_run *run, const moe_shape *shape, const moe_numbers *wanted,
                           double tolerance)
{
    require_rows(file, line, "y", run, shape, &run->y, wanted->y, tolerance);
    require_rows(file, line, "dx", run, shape, &run->dx, wanted->dx, tolerance);
    require_near(file, line, "the auxiliary loss", 0, run->auxiliary, wanted->auxiliary, tolerance);
    if (run->dropped != wanted->dropped[run->grid.ep_rank])
        rank_fail(file, line, "%lld choices were dropped, wanted %lld", (long long)run->dropped,
                  (long long)wanted->dropped[run->grid.ep_rank]);
    for (size_t i = 0; i < kith_layers_param_count(run->layers); i++)
        require_grad(file, line, run, shape, kith_layers_param(run->layers, i), wanted, tolerance);
}
