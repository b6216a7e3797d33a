/* tests/layers/layer_linear.c - linear layers and what moves tensors between layouts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <string.h>

/* A column-parallel layer into a row-parallel one, with biases: [tokens, IN] -> [tokens, INNER] -> [tokens, OUT]. */
enum { IN = 6, INNER = 7, OUT = 5, BATCH = 2 };

typedef struct pair {
    kith_layers *layers;
    kith_linear *column, *row;
    kith_tape *tape;
    int is_sequence_parallel;
    int64_t sequence;
} pair;

static void make_pair(kith_layers *layers, int is_sequence_parallel, int64_t sequence,
                      double (*make)(unsigned seed, int64_t index), pair *made)
{
    kith_linear_options up = KITH_LINEAR_OPTIONS_INIT, down = KITH_LINEAR_OPTIONS_INIT;
    up.name = "up", up.in_features = IN, up.has_bias = 1;
    up.out_features = INNER;
    down.name = "down", down.kind = KITH_LINEAR_ROW, down.in_features = INNER, down.out_features = OUT;
    down.has_bias = 1;
    made->layers = layers;
    made->is_sequence_parallel = is_sequence_parallel;
    made->sequence = sequence;
    REQUIRE_OK(kith_linear_create(layers, &up, &made->column));
    REQUIRE_OK(kith_linear_create(layers, &down, &made->row));
    load_params(layers, make);
    made->tape = tape_of(layers, sequence, BATCH);
}

/* Forward and backward of whole x and dy; y and dx of this rank. */
static void run_pair(pair *p, const kith_tensor *x, const kith_tensor *dy, kith_tensor *y, kith_tensor *dx)
{
    kith_tensor mine = shard_of(p->layers, x, p->sequence, BATCH, p->is_sequence_parallel);
    kith_tensor dy_mine = shard_of(p->layers, dy, p->sequence, BATCH, p->is_sequence_parallel);
    kith_tensor hidden, dhidden;
    mine = brought(p->layers, &mine), dy_mine = brought(p->layers, &dy_mine);
    REQUIRE_OK(kith_linear_forward(p->column, p->tape, &mine, &hidden));
    REQUIRE_OK(kith_linear_forward(p->row, p->tape, &hidden, y));
    kith_tensor_release(&hidden);
    REQUIRE(kith_tape_depth(p->tape) == 2);
    REQUIRE_OK(kith_linear_backward(p->row, p->tape, &dy_mine, &dhidden));
    REQUIRE_OK(kith_linear_backward(p->column, p->tape, &dhidden, dx));
    kith_tensor_release(&dhidden);
    REQUIRE(kith_tape_depth(p->tape) == 0);
    REQUIRE_OK(kith_tape_weight_grads(p->tape));
    REQUIRE_OK(kith_layers_finish_grads(p->layers));
    kith_tensor_release(&mine), kith_tensor_release(&dy_mine);
}

static void end_pair(pair *p)
{
    kith_tape_destroy(p->tape);
    REQUIRE_OK(kith_layers_destroy(p->layers));
}

/* y = (x Wu^T + bu) Wd^T + bd in f64, written out. */
static void reference(kith_layers *alone, const kith_tensor *x, double *y)
{
    const kith_param *wu = kith_layers_find_param(alone, "up.weight"), *bu = kith_layers_find_param(alone, "up.bias");
    const kith_param *wd = kith_layers_find_param(alone, "down.weight"),
                     *bd = kith_layers_find_param(alone, "down.bias");
    for (int64_t r = 0; r < x->shape[0]; r++) {
        double hidden[INNER];
        for (int64_t j = 0; j < INNER; j++) {
            hidden[j] = element(&bu->value, j);
            for (int64_t i = 0; i < IN; i++)
                hidden[j] += element(x, r * IN + i) * element(&wu->value, j * IN + i);
        }
        for (int64_t o = 0; o < OUT; o++) {
            y[r * OUT + o] = element(&bd->value, o);
            for (int64_t j = 0; j < INNER; j++)
                y[r * OUT + o] += hidden[j] * element(&wd->value, o * INNER + j);
        }
    }
}

static void compare_layouts(rank_info *info, int tp, kith_dtype dtype, int is_sequence_parallel, int is_split_backward,
                            double (*make)(unsigned seed, int64_t index), double tolerance)
{
    int64_t sequence = tp + 1;
    kith_layers *layers = layers_over(info, tp, dtype, is_sequence_parallel);
    if (layers == NULL)
        return;
    pair split, alone;
    make_pair(layers, is_sequence_parallel, sequence, make, &split);
    make_pair(layers_alone(dtype), 0, sequence, make, &alone);
    REQUIRE_OK(kith_tape_set_split_backward(split.tape, is_split_backward));
    kith_tensor x = numbers(dtype, sequence * BATCH, IN, 1, make), dy = numbers(dtype, sequence * BATCH, OUT, 2, make);
    kith_tensor y, dx, wanted_y, wanted_dx;
    run_pair(&alone, &x, &dy, &wanted_y, &wanted_dx);
    run_pair(&split, &x, &dy, &y, &dx);
    double *plain = malloc((size_t)(sequence * BATCH * OUT) * sizeof *plain);
    reference(alone.layers, &x, plain);
    kith_tensor plain_y = kith_tensor_view(plain, KITH_F64, 2, (const int64_t[]){ sequence * BATCH, OUT });
    REQUIRE_EQUAL("y of one rank", &wanted_y, &plain_y, tolerance);
    kith_tensor mine = shard_of(layers, &wanted_y, sequence, BATCH, is_sequence_parallel);
    REQUIRE_EQUAL("y", &y, &mine, tolerance);
    mine = shard_of(layers, &wanted_dx, sequence, BATCH, is_sequence_parallel);
    REQUIRE_EQUAL("dx", &dx, &mine, tolerance);
    REQUIRE_SAME_GRADS(layers, alone.layers, tolerance);
    kith_tensor *all[] = { &y, &dx, &wanted_y, &wanted_dx };
    for (int i = 0; i < 4; i++)
        kith_tensor_release(all[i]);
    end_pair(&split);
    end_pair(&alone);
    free(plain), free(x.data), free(dy.data);
}

void case_linear(rank_info *info)
{
    for (int sp = 0; sp < 2; sp++)
        for (int later = 0; later < 2; later++) {
            compare_layouts(info, info->size, KITH_F64, sp, later, fraction, 1e-14);
            compare_layouts(info, info->size, KITH_F32, sp, later, fraction, 3e-6);
        }
}

/* Sums of whole numbers are exact, in bf16 up to 256, so every layout gives the same bits. */
void case_linear_exact(rank_info *info)
{
    for (int sp = 0; sp < 2; sp++) {
        compare_layouts(info, info->size, KITH_F32, sp, 0, whole_number, 0);
        compare_layouts(info, info->size, KITH_F64, sp, 1, whole_number, 0);
    }
}

/* q in units of 2 features, k and v of fewer units than some ranks: a rank computes the columns of its units. */
static const kith_linear_part parts[] = { { "q", 4, 2 }, { "k", 2, 2 }, { "v", 1, 3 } };
enum { PARTS = 3, PARTS_OUT = 4 * 2 + 2 * 2 + 3 };

static kith_linear *make_parts(kith_layers *layers)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = "qkv", options.in_features = IN, options.parts = parts, options.part_count = PARTS;
    options.has_bias = 1;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    load_params(layers, whole_number);
    return linear;
}

/* Columns of all features that this rank has, as many as its y is wide. */
static int64_t columns_of(kith_linear *linear, int64_t *columns)
{
    int64_t at = 0, count = 0;
    for (int p = 0; p < PARTS; p++) {
        int64_t first, units;
        REQUIRE_OK(kith_linear_units(linear, p, &first, &units));
        for (int64_t f = first * parts[p].unit_features; f < (first + units) * parts[p].unit_features; f++)
            columns[count++] = at + f;
        at += parts[p].units * parts[p].unit_features;
    }
    return count;
}

/* The mapping of 2.8's kind: 4 ranks, 2 units of k: ranks 0 and 1 have unit 0. */
static void check_units(rank_info *info, kith_linear *linear)
{
    int64_t first, count;
    REQUIRE_OK(kith_linear_units(linear, 1, &first, &count));
    if (info->size == 4)
        REQUIRE(first == info->rank / 2 && count == 1);
    REQUIRE(kith_linear_weight(linear, 1)->global_shape[0] == 4);
    REQUIRE(kith_linear_weight(linear, 1)->copies == (info->size == 4 ? 2 : 1));
}

void case_linear_parts(rank_info *info)
{
    enum { TOKENS = 3 };
    if (info->size == 3) { // 2 units of k go to 1, 2 or 4 ranks
        kith_layers *layers = layers_over(info, 3, KITH_F64, 0);
        kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
        options.in_features = IN, options.parts = parts, options.part_count = PARTS;
        kith_linear *linear;
        REQUIRE_STATUS(kith_linear_create(layers, &options, &linear), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("at least 3 are needed, or a divisor of 3");
        REQUIRE_OK(kith_layers_destroy(layers));
        return;
    }
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0), *alone = layers_alone(KITH_F64);
    kith_linear *linear = make_parts(layers), *whole = make_parts(alone);
    check_units(info, linear);
    kith_tape *tape = tape_of(layers, TOKENS, 1), *tape_alone = tape_of(alone, TOKENS, 1);
    kith_tensor x = numbers(KITH_F64, TOKENS, IN, 1, whole_number), y, wanted, dx, wanted_dx;
    REQUIRE_OK(kith_linear_forward(linear, tape, &x, &y));
    REQUIRE_OK(kith_linear_forward(whole, tape_alone, &x, &wanted));
    int64_t columns[PARTS_OUT], count = columns_of(linear, columns);
    REQUIRE(y.shape[1] == count);
    for (int64_t r = 0; r < TOKENS; r++)
        for (int64_t c = 0; c < count; c++)
            REQUIRE(element(&y, r * count + c) == element(&wanted, r * PARTS_OUT + columns[c]));
    /* Where a unit has copies, each is used by other heads: their gradients differ and are added. */
    kith_tensor dy = numbers(KITH_F64, TOKENS, count, (unsigned)info->rank + 10, whole_number);
    kith_tensor dy_whole = numbers(KITH_F64, TOKENS, PARTS_OUT, 0, whole_number);
    memset(dy_whole.data, 0, TOKENS * PARTS_OUT * sizeof(double));
    for (int64_t r = 0; r < TOKENS; r++)
        for (int64_t c = 0; c < count; c++)
            ((double *)dy_whole.data)[r * PARTS_OUT + columns[c]] = element(&dy, r * count + c);
    REQUIRE_OK(kith_all_reduce(info->world, dy_whole.data, dy_whole.data, TOKENS * PARTS_OUT, KITH_F64, KITH_SUM));
    REQUIRE_OK(kith_linear_backward(linear, tape, &dy, &dx));
    REQUIRE_OK(kith_linear_backward(whole, tape_alone, &dy_whole, &wanted_dx));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    REQUIRE_EQUAL("dx", &dx, &wanted_dx, 0);
    REQUIRE_SAME_GRADS(layers, alone, 0);
    kith_tensor *all[] = { &y, &wanted, &dx, &wanted_dx };
    for (int i = 0; i < 4; i++)
        kith_tensor_release(all[i]);
    kith_tape_destroy(tape), kith_tape_destroy(tape_alone);
    REQUIRE_OK(kith_layers_destroy(layers));
    REQUIRE_OK(kith_layers_destroy(alone));
    free(x.data), free(dy.data), free(dy_whole.data);
}

/* Output gathered, input whole: the layouts between them are the replicated ones of one rank. */
void case_linear_gathered(rank_info *info)
{
    enum { TOKENS = 3 };
    kith_linear *linears[2][2];
    kith_layers *layers[2] = { layers_over(info, info->size, KITH_F64, 0), layers_alone(KITH_F64) };
    kith_tensor x = numbers(KITH_F64, TOKENS, IN, 1, whole_number),
                dy = numbers(KITH_F64, TOKENS, OUT, 2, whole_number);
    kith_tensor y[2], hidden[2], dhidden[2], dx[2];
    for (int i = 0; i < 2; i++) {
        kith_linear_options up = KITH_LINEAR_OPTIONS_INIT, down = KITH_LINEAR_OPTIONS_INIT;
        up.name = "up", up.in_features = IN, up.out_features = INNER, up.is_output_gathered = 1;
        down.name = "down", down.kind = KITH_LINEAR_ROW, down.in_features = INNER, down.out_features = OUT;
        down.is_input_whole = 1;
        REQUIRE_OK(kith_linear_create(layers[i], &up, &linears[i][0]));
        REQUIRE_OK(kith_linear_create(layers[i], &down, &linears[i][1]));
        load_params(layers[i], whole_number);
        kith_tape *tape = tape_of(layers[i], TOKENS, 1);
        REQUIRE_OK(kith_linear_forward(linears[i][0], tape, &x, &hidden[i]));
        REQUIRE_OK(kith_linear_forward(linears[i][1], tape, &hidden[i], &y[i]));
        REQUIRE_OK(kith_linear_backward(linears[i][1], tape, &dy, &dhidden[i]));
        REQUIRE_OK(kith_linear_backward(linears[i][0], tape, &dhidden[i], &dx[i]));
        kith_tape_destroy(tape);
    }
    REQUIRE_EQUAL("hidden", &hidden[0], &hidden[1], 0);
    REQUIRE_EQUAL("y", &y[0], &y[1], 0);
    REQUIRE_EQUAL("dhidden", &dhidden[0], &dhidden[1], 0);
    REQUIRE_EQUAL("dx", &dx[0], &dx[1], 0);
    REQUIRE_SAME_GRADS(layers[0], layers[1], 0);
    for (int i = 0; i < 2; i++) {
        kith_tensor_release(&y[i]), kith_tensor_release(&hidden[i]);
        kith_tensor_release(&dhidden[i]), kith_tensor_release(&dx[i]);
        REQUIRE_OK(kith_layers_destroy(layers[i]));
    }
    free(x.data), free(dy.data);
}

/* One forward and backward of the pair: how often and how much, by kith/layers.h. */
void case_linear_traffic(rank_info *info)
{
    for (int sp = 0; sp < 2; sp++) {
        int64_t sequence = 2 * info->size, tokens = sequence * BATCH;
        pair p;
        make_pair(layers_over(info, info->size, KITH_F32, sp), sp, sequence, whole_number, &p);
        kith_tensor x = numbers(KITH_F32, tokens, IN, 1, whole_number),
                    dy = numbers(KITH_F32, tokens, OUT, 2, whole_number);
        kith_tensor y, dx;
        kith_layers_reset_traffic(p.layers);
        run_pair(&p, &x, &dy, &y, &dx);
        kith_layers_traffic t;
        kith_layers_get_traffic(p.layers, &t);
        uint64_t some = info->size > 1;
        uint64_t plain = some && !sp, split = some && sp;
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == plain);
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == plain);
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_ALL_GATHER] == split);
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_REDUCE_SCATTER] == split);
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_GATHER] == 2 * split); // dy, and x again
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_REDUCE_SCATTER] == split);
        REQUIRE(t.ops[KITH_PHASE_FINISH][KITH_ALL_REDUCE] == split); // of down's bias
        REQUIRE(t.elements[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == plain * (uint64_t)(tokens * OUT));
        REQUIRE(t.nbytes[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == plain * (uint64_t)(tokens * IN * 4));
        REQUIRE(t.elements[KITH_PHASE_FORWARD][KITH_ALL_GATHER] == split * (uint64_t)(tokens * IN));
        kith_tensor_release(&y), kith_tensor_release(&dx);
        end_pair(&p);
        free(x.data), free(dy.data);
    }
}

/* Wrong calls: a status and a sentence, and nothing is left behind. */
void case_linear_misuse(rank_info *info)
{
    pair p;
    make_pair(layers_over(info, info->size, KITH_F64, 0), 0, 2, fraction, &p);
    kith_tensor x = numbers(KITH_F64, 2 * BATCH, IN, 1, fraction), y, hidden, dx;
    kith_tensor narrow = kith_tensor_narrow(&x, 1, 0, IN - 1), turned = kith_tensor_transpose(&x, 0, 1);
    REQUIRE_STATUS(kith_linear_forward(p.column, p.tape, &narrow, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has 5 features in its last dimension, wanted 6");
    turned.shape[1] = IN; // as wide as it must be, but with a column's stride
    REQUIRE_STATUS(kith_linear_forward(p.column, p.tape, &turned, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("strides");
    kith_tensor f32 = x;
    f32.dtype = KITH_F32;
    REQUIRE_STATUS(kith_linear_forward(p.column, p.tape, &f32, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("is of f32, wanted f64");
    REQUIRE_STATUS(kith_linear_backward(p.column, p.tape, &x, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_linear_forward(p.column, p.tape, &x, &hidden));
    REQUIRE_OK(kith_linear_forward(p.row, p.tape, &hidden, &y));
    REQUIRE_STATUS(kith_linear_backward(p.column, p.tape, &hidden, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("the last forward on the tape is that of down");
    if (info->size > 1) { // debug mode: a partial sum where a replicated tensor is wanted
        kith_tensor partial = x;
        partial.layout = KITH_PARTIAL;
        REQUIRE_STATUS(kith_linear_forward(p.column, p.tape, &partial, &dx), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("is partial over the tensor-parallel ranks, wanted replicated");
    }
    REQUIRE_STATUS(kith_layers_destroy(p.layers), KITH_ERR_BUSY);
    kith_tensor_release(&y), kith_tensor_release(&hidden);
    end_pair(&p);
    free(x.data);
}

/* Reductions and gathers of facts 2.8 and of public reports: sums of ranks, gathers along the last dimension. */
void case_regions(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    int t = info->size;
    double own[4], sum = 0;
    for (int i = 0; i < 4; i++)
        own[i] = info->rank;
    for (int r = 0; r < t; r++)
        sum += r; // 6 for four ranks
    kith_tensor x = kith_tensor_view(own, KITH_F64, 2, (const int64_t[]){ 2, 2 }), y;
    REQUIRE_OK(kith_tensor_all_reduce(layers, KITH_PHASE_FORWARD, &x, &y));
    for (int i = 0; i < 4; i++)
        REQUIRE(element(&y, i) == sum);
    kith_tensor_release(&y);
    kith_tensor turned = kith_tensor_transpose(&x, 0, 1);
    turned.shape[0] = 1; // not contiguous in the order of its indices
    turned.strides[1] = 2;
    REQUIRE_STATUS(kith_tensor_all_reduce(layers, KITH_PHASE_FORWARD, &turned, &y), KITH_ERR_INVALID_ARG);

    /* column (r + 1) of [[1, 2, ..], [11, 12, ..]] on rank r, gathered along the last dimension, and taken apart */
    double column[2] = { info->rank + 1, info->rank + 11 };
    kith_tensor part = kith_tensor_view(column, KITH_F64, 2, (const int64_t[]){ 2, 1 }), whole, again, summed;
    REQUIRE_OK(kith_tensor_all_gather(layers, KITH_PHASE_FORWARD, 1, 1, t, &part, &whole));
    for (int r = 0; r < t; r++)
        REQUIRE(element(&whole, r) == r + 1 && element(&whole, t + r) == r + 11);
    REQUIRE_OK(kith_tensor_split(layers, 1, 1, &whole, &again));
    REQUIRE_EQUAL("split", &again, &part, 0);
    whole.layout = KITH_PARTIAL; // t equal summands
    REQUIRE_OK(kith_tensor_reduce_scatter(layers, KITH_PHASE_FORWARD, 1, 1, &whole, &summed));
    REQUIRE(element(&summed, 0) == t * column[0] && element(&summed, 1) == t * column[1]);
    kith_tensor *all[] = { &whole, &again, &summed };
    for (int i = 0; i < 3; i++)
        kith_tensor_release(all[i]);
    REQUIRE_OK(kith_layers_destroy(layers));
}
