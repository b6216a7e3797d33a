/* layers/mlp.c - the feed-forward layer: column-parallel up (and gate), activation, row-parallel down.
 *
 * The activation lies between the two, on features that are this rank's own, so a pass communicates what the two linear
 * layers do and nothing else. gate and up are two parts of one matrix: each is dealt by itself, so that feature i of
 * the one meets feature i of the other on the same rank, however they are split. Both linear layers and `down` are
 * dealt by single features: any inner_features from the number of ranks on will do.
 *
 * Kept for backward: x (by up), what the activation was applied to (here), and its result (by down). The bias of up is
 * added inside the activation where that saves a pass over the features.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "linear.h"

struct kith_mlp {
    kith_layers *layers;
    const char *name;
    kith_mlp_options options;
    ki_activation activation;
    kith_linear *up, *down;
    int64_t features;     /* inner ones of this rank */
    bool is_bias_in_pass; /* the activation adds up's bias */
};

static kith_status check_options(kith_mlp *mlp)
{
    static const ki_activation kinds[] = { KI_GELU_EXACT, KI_GELU_TANH, KI_SILU }; // by kith_activation
    const kith_mlp_options *o = &mlp->options;
    if ((unsigned)o->activation > KITH_SILU)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: activation %d is none of KITH_GELU, KITH_GELU_TANH and KITH_SILU",
                       mlp->name, o->activation);
    if (o->features < 1 || o->inner_features < mlp->layers->tp_size)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: features %lld, inner_features %lld: wanted at least 1, and at least one for each of the %d "
                       "tensor-parallel ranks",
                       mlp->name, (long long)o->features, (long long)o->inner_features, mlp->layers->tp_size);
    mlp->activation = kinds[o->activation];
    return KITH_OK;
}

static kith_status make_up(kith_mlp *mlp)
{
    const kith_mlp_options *o = &mlp->options;
    const kith_linear_part gate = { "gate", o->inner_features, 1 }, up = { "up", o->inner_features, 1 };
    const kith_linear_part gated[] = { gate, up };
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = mlp->name;
    options.kind = KITH_LINEAR_COLUMN;
    options.in_features = o->features;
    options.parts = o->is_gated ? gated : &up;
    options.part_count = o->is_gated ? 2 : 1;
    options.has_bias = o->has_bias;
    options.is_bias_left_out = mlp->is_bias_in_pass;
    return kith_linear_create(mlp->layers, &options, &mlp->up);
}

static kith_status make_down(kith_mlp *mlp)
{
    const kith_mlp_options *o = &mlp->options;
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    kith_status status = ki_layers_join_name(mlp->layers, mlp->name, "down", &options.name);
    if (status != KITH_OK)
        return status;
    options.kind = KITH_LINEAR_ROW;
    options.in_features = o->inner_features;
    options.out_features = o->features;
    options.has_bias = o->has_bias;
    options.is_bias_left_out = o->is_bias_left_out;
    return kith_linear_create(mlp->layers, &options, &mlp->down);
}

static kith_status make(void *layer)
{
    kith_mlp *mlp = layer;
    mlp->is_bias_in_pass = mlp->options.has_bias && !mlp->options.is_gated;
    kith_status status = check_options(mlp);
    if (status == KITH_OK)
        status = make_up(mlp);
    if (status == KITH_OK)
        status = make_down(mlp);
    if (status == KITH_OK)
        mlp->features = mlp->down->in;
    return status;
}

kith_status kith_mlp_create(kith_layers *layers, const kith_mlp_options *options, kith_mlp **mlp)
{
    static const kith_mlp_options defaults = KITH_MLP_OPTIONS_INIT;
    static const ki_layer_type type = {
        "kith_mlp_create", "mlp", "KITH_MLP_OPTIONS_INIT", sizeof(kith_mlp), sizeof defaults, &defaults, make
    };
    return ki_layer_create(layers, &type, options, mlp);
}

kith_param *kith_mlp_down_bias(const kith_mlp *mlp)
{
    return mlp == NULL ? NULL : kith_linear_bias(mlp->down, 0);
}

static ki_mat bias_of(const kith_mlp *mlp)
{
    return mlp->is_bias_in_pass ? ki_mat_of(&kith_linear_bias(mlp->up, 0)->value) : ki_no_mat();
}

/* inner: [tokens, features], or [tokens, gate | up]. */
static kith_status activate(const kith_mlp *mlp, const kith_tensor *inner, kith_tensor *active)
{
    ki_compute *compute = mlp->layers->compute;
    int64_t n = mlp->features;
    ki_mat rows = ki_mat_of(inner);
    kith_status status = ki_tensor_create_like(mlp->layers, inner, n, active);
    if (status != KITH_OK)
        return status;
    if (mlp->options.is_gated)
        return compute->ops->gated(compute, mlp->activation, ki_mat_cols(rows, 0, n), ki_mat_cols(rows, n, n),
                                   ki_mat_of(active));
    return compute->ops->activation(compute, mlp->activation, rows, bias_of(mlp), ki_mat_of(active));
}

/* Takes dactive, whose memory is used again where the shape allows. */
static kith_status activate_grad(const kith_mlp *mlp, const kith_tensor *inner, kith_tensor *dactive,
                                 kith_tensor *dinner)
{
    ki_compute *compute = mlp->layers->compute;
    int64_t n = mlp->features;
    ki_mat rows = ki_mat_of(inner), dy = ki_mat_of(dactive);
    if (!mlp->options.is_gated) {
        *dinner = *dactive;
        memset(dactive, 0, sizeof *dactive);
        return compute->ops->activation_grad(compute, mlp->activation, rows, bias_of(mlp), dy, dy);
    }
    kith_status status = ki_tensor_create_like(mlp->layers, inner, ki_features(inner), dinner);
    if (status != KITH_OK)
        return status;
    ki_mat dx = ki_mat_of(dinner);
    status = compute->ops->gated_grad(compute, mlp->activation, ki_mat_cols(rows, 0, n), ki_mat_cols(rows, n, n), dy,
                                      ki_mat_cols(dx, 0, n), ki_mat_cols(dx, n, n));
    kith_tensor_release(dactive);
    return status;
}

kith_status kith_mlp_forward(kith_mlp *mlp, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_mlp_forward";
    if (mlp == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: mlp and y must not be NULL", function);
    kith_status status = ki_tape_enter(tape, mlp->layers, function, KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    ki_expected input = ki_linear_input(mlp->up, tape);
    size_t depth = tape->depth;
    kith_tensor inner = { 0 }, active = { 0 }, made = { 0 };
    KI_OR_GOTO(end, ki_expect(mlp->layers, "kith_mlp_forward: x", x, &input));
    KI_OR_GOTO(end, kith_linear_forward(mlp->up, tape, x, &inner));
    KI_OR_GOTO(end, activate(mlp, &inner, &active));
    KI_OR_GOTO(end, kith_linear_forward(mlp->down, tape, &active, &made));
    ki_saved saved = { .owner = mlp, .name = mlp->name, .numbers = { (int64_t)depth } };
    KI_OR_GOTO(end, ki_saved_keep(&saved, 0, &inner));
    KI_OR_GOTO(end, ki_tape_push(tape, &saved));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    kith_tensor_release(&inner);
    kith_tensor_release(&active);
    kith_tensor_release(&made);
    return status;
}

kith_status kith_mlp_backward(kith_mlp *mlp, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx)
{
    static const char function[] = "kith_mlp_backward";
    if (mlp == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: mlp must not be NULL", function);
    ki_saved saved = { 0 };
    kith_tensor dactive = { 0 }, dinner = { 0 };
    kith_status status;
    const ki_saved *top = NULL;
    KI_OR_GOTO(end, ki_tape_enter(tape, mlp->layers, function, KITH_PHASE_BACKWARD));
    KI_OR_GOTO(end, ki_tape_peek(tape, mlp, mlp->name, &top));
    ki_expected output = ki_linear_output(mlp->down, tape);
    if (output.rows < 0)
        output.rows = ki_rows(&top->tensors[0]);
    KI_OR_GOTO(end, ki_expect(mlp->layers, "kith_mlp_backward: dy", dy, &output));
    KI_OR_GOTO(end, ki_tape_pop(tape, mlp, mlp->name, &saved));
    KI_OR_GOTO(end, kith_linear_backward(mlp->down, tape, dy, &dactive));
    KI_OR_GOTO(end, activate_grad(mlp, &saved.tensors[0], &dactive, &dinner));
    ki_saved_release(&saved); // before up makes what it needs
    KI_OR_GOTO(end, kith_linear_backward(mlp->up, tape, &dinner, dx));
end:
    if (status != KITH_OK && saved.owner != NULL)
        ki_tape_drop(tape, (size_t)saved.numbers[0]);
    ki_saved_release(&saved);
    kith_tensor_release(&dactive);
    kith_tensor_release(&dinner);
    return status;
}
