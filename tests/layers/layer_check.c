/* tests/layers/layer_check.c - layouts, finite differences and dry runs of any layer; see layer_check.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_check.h"

#include <math.h>
#include <string.h>

enum { X_SEED = 1, DY_SEED = 2, PROBES = 6 };

void make_subject(const recipe *how, kith_layers *layers, int is_sequence_parallel, subject *made)
{
    memset(made, 0, sizeof *made);
    made->layers = layers;
    made->sequence = how->sequence;
    made->batch = how->batch;
    made->is_sequence_parallel = is_sequence_parallel;
    how->make(layers, how->options, made);
    load_params(layers, how->numbers);
}

void end_subject(subject *made)
{
    kith_layers_memory memory;
    kith_layers_get_memory(made->layers, &memory);
    REQUIRE(memory.tensors == 0);
    REQUIRE_OK(kith_layers_destroy(made->layers));
}

kith_tensor input_of(const subject *s, kith_dtype dtype, const recipe *how)
{
    return numbers(dtype, how->sequence * how->batch, s->in, X_SEED, how->numbers);
}

kith_tensor output_grad_of(const subject *s, kith_dtype dtype, const recipe *how)
{
    return numbers(dtype, how->sequence * how->batch, s->out, DY_SEED, how->numbers);
}

static kith_tensor part_of(const subject *s, const kith_tensor *whole)
{
    return shard_of(s->layers, whole, s->sequence, s->batch, s->is_sequence_parallel);
}

static kith_tape *begin(const subject *s, int is_training)
{
    kith_tape *tape;
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = s->sequence, batch.batch = s->batch;
    batch.first_sample = s->first_sample;
    batch.is_training = is_training;
    REQUIRE_OK(kith_tape_create(s->layers, &tape));
    REQUIRE_OK(kith_tape_begin(tape, &batch));
    return tape;
}

void run_subject(subject *s, const kith_tensor *x, const kith_tensor *dy, kith_tensor *y, kith_tensor *dx)
{
    kith_tensor mine = part_of(s, x), dy_mine = part_of(s, dy);
    mine = brought(s->layers, &mine), dy_mine = brought(s->layers, &dy_mine);
    kith_tape *tape = begin(s, 1);
    REQUIRE_OK(kith_tape_set_split_backward(tape, s->is_split_backward));
    REQUIRE_OK(kith_layers_zero_grads(s->layers));
    REQUIRE_OK(s->forward(s->layer, tape, &mine, y));
    REQUIRE(kith_tape_depth(tape) > 0);
    REQUIRE_OK(s->backward(s->layer, tape, &dy_mine, dx));
    REQUIRE(kith_tape_depth(tape) == 0);
    REQUIRE_OK(kith_tape_weight_grads(tape));
    REQUIRE_OK(kith_layers_finish_grads(s->layers));
    kith_tape_destroy(tape);
    kith_tensor_release(&mine), kith_tensor_release(&dy_mine);
}

/* is_training 0: the same numbers, and nothing on the tape. */
static void evaluate(subject *s, const kith_tensor *x, const kith_tensor *wanted)
{
    kith_tape *tape = begin(s, 0);
    kith_tensor mine = part_of(s, x), y, dx;
    mine = brought(s->layers, &mine);
    REQUIRE_OK(s->forward(s->layer, tape, &mine, &y));
    REQUIRE(kith_tape_depth(tape) == 0);
    if (wanted != NULL)
        REQUIRE_EQUAL("y of an evaluation", &y, wanted, 0);
    REQUIRE_STATUS(s->backward(s->layer, tape, &y, &dx), KITH_ERR_INVALID_ARG);
    kith_tensor_release(&y), kith_tensor_release(&mine);
    kith_tape_destroy(tape);
}

void require_layouts_agree(rank_info *info, const recipe *how, kith_dtype dtype, double tolerance,
                           int is_same_in_evaluation)
{
    subject alone;
    make_subject(how, layers_alone(dtype), 0, &alone);
    kith_tensor x = input_of(&alone, dtype, how), dy = output_grad_of(&alone, dtype, how), wanted_y, wanted_dx;
    run_subject(&alone, &x, &dy, &wanted_y, &wanted_dx);
    for (int way = 0; way < 4; way++) {
        subject s;
        int is_sequence_parallel = way % 2;
        make_subject(how, layers_over(info, info->size, dtype, is_sequence_parallel), is_sequence_parallel, &s);
        s.is_split_backward = way / 2;
        kith_tensor y, dx, part;
        run_subject(&s, &x, &dy, &y, &dx);
        part = part_of(&s, &wanted_y);
        REQUIRE_EQUAL("y", &y, &part, tolerance);
        part = part_of(&s, &wanted_dx);
        REQUIRE_EQUAL("dx", &dx, &part, tolerance);
        REQUIRE_SAME_GRADS(s.layers, alone.layers, tolerance);
        evaluate(&s, &x, is_same_in_evaluation ? &y : NULL);
        kith_tensor_release(&y), kith_tensor_release(&dx);
        end_subject(&s);
    }
    kith_tensor_release(&wanted_y), kith_tensor_release(&wanted_dx);
    end_subject(&alone);
    free(x.data), free(dy.data);
}

/* ---- finite differences ---- */

typedef struct probe {
    rank_info *info;
    subject *s;
    kith_tensor x, dy; /* whole */
} probe;

/* Sum of y * dy over all ranks' positions. */
static double loss_of(const probe *p)
{
    subject *s = p->s;
    kith_tape *tape = begin(s, 1);
    kith_tensor mine = part_of(s, &p->x), weights = part_of(s, &p->dy), y, here;
    mine = brought(s->layers, &mine);
    REQUIRE_OK(s->forward(s->layer, tape, &mine, &y));
    double sum = 0;
    here = on_host(&y);
    for (int64_t i = 0; i < kith_tensor_count(&y); i++)
        sum += element(&here, i) * element(&weights, i);
    free(here.data);
    if (s->is_sequence_parallel)
        REQUIRE_OK(kith_all_reduce(p->info->world, &sum, &sum, 1, KITH_F64, KITH_SUM));
    kith_tensor_release(&y), kith_tensor_release(&mine);
    kith_tape_destroy(tape);
    return sum;
}

static double largest(const kith_tensor *tensor)
{
    double most = 0;
    for (int64_t i = 0; i < kith_tensor_count(tensor); i++)
        most = fmax(most, fabs(element(tensor, i)));
    return most;
}

/* values: f64 that `apply` brings to where the loss looks. */
static void compare_differences(const probe *p, const char *what, const kith_tensor *values, const kith_tensor *grad,
                                void (*apply)(kith_param *param, const kith_tensor *values), kith_param *param)
{
    double *at = values->data, scale = fmax(largest(grad), 1e-3); // some are zero: a bias of k without positions
    int64_t count = kith_tensor_count(values), step = count / PROBES > 0 ? count / PROBES : 1;
    const double h = 1e-4;
    for (int64_t i = 0; i < count; i += step) {
        double old = at[i], losses[4];
        for (int k = 0; k < 4; k++) { // f(-2h), f(-h), f(h), f(2h): fourth order
            at[i] = old + h * (k < 2 ? k - 2 : k - 1);
            apply(param, values);
            losses[k] = loss_of(p);
        }
        at[i] = old;
        apply(param, values);
        double difference = (losses[0] - 8 * losses[1] + 8 * losses[2] - losses[3]) / (12 * h);
        if (!(fabs(difference - element(grad, i)) <= 1e-6 * scale))
            rank_fail(__FILE__, __LINE__, "%s: gradient of element %lld is %.12g, differences give %.12g", what,
                      (long long)i, element(grad, i), difference);
    }
}

static void apply_param(kith_param *param, const kith_tensor *values)
{
    REQUIRE_OK(kith_param_load(param, values));
}

static void apply_input(kith_param *param, const kith_tensor *values)
{
    (void)param, (void)values; // the loss looks at x itself
}

static kith_tensor gathered(kith_param *param, kith_param_which which)
{
    kith_tensor whole = kith_tensor_view(NULL, KITH_F64, param->dim_count, param->global_shape);
    whole.data = calloc((size_t)kith_tensor_count(&whole), sizeof(double));
    REQUIRE_OK(kith_param_gather(param, which, &whole));
    return whole;
}

/* dx of all positions: each rank's at its place, others zero, summed. */
static kith_tensor whole_input_grad(const probe *p, const kith_tensor *dx)
{
    kith_tensor whole = kith_tensor_view(NULL, KITH_F64, 2, p->x.shape);
    size_t count = (size_t)kith_tensor_count(&whole);
    whole.data = calloc(count, sizeof(double));
    kith_tensor mine = part_of(p->s, &whole), here = on_host(dx);
    memcpy(mine.data, here.data, (size_t)kith_tensor_count(dx) * sizeof(double));
    free(here.data);
    if (p->s->is_sequence_parallel)
        REQUIRE_OK(kith_all_reduce(p->info->world, whole.data, whole.data, count, KITH_F64, KITH_SUM));
    return whole;
}

void require_gradients(rank_info *info, const recipe *how, int is_sequence_parallel)
{
    subject s;
    make_subject(how, layers_over(info, info->size, KITH_F64, is_sequence_parallel), is_sequence_parallel, &s);
    probe p = { info, &s, input_of(&s, KITH_F64, how), output_grad_of(&s, KITH_F64, how) };
    kith_tensor y, dx;
    run_subject(&s, &p.x, &p.dy, &y, &dx);
    kith_tensor input_grad = whole_input_grad(&p, &dx);
    compare_differences(&p, "x", &p.x, &input_grad, apply_input, NULL);
    for (size_t i = 0; i < kith_layers_param_count(s.layers); i++) {
        kith_param *param = kith_layers_param(s.layers, i);
        kith_tensor value = gathered(param, KITH_PARAM_VALUE), grad = gathered(param, KITH_PARAM_GRAD);
        compare_differences(&p, param->name, &value, &grad, apply_param, param);
        free(value.data), free(grad.data);
    }
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(input_grad.data), free(p.x.data), free(p.dy.data);
    end_subject(&s);
}

/* ---- dry runs ---- */

static void count(subject *s, const kith_tensor *x, const kith_tensor *dy, kith_layers_traffic *traffic,
                  kith_layers_memory *memory)
{
    kith_tensor y, dx;
    kith_layers_reset_traffic(s->layers);
    kith_layers_reset_memory_peak(s->layers);
    run_subject(s, x, dy, &y, &dx);
    kith_layers_get_traffic(s->layers, traffic);
    kith_layers_get_memory(s->layers, memory);
    kith_tensor_release(&y), kith_tensor_release(&dx);
}

void require_dry_run_counts(rank_info *info, const recipe *how, kith_dtype dtype, int is_sequence_parallel)
{
    subject real, dry;
    kith_layers_traffic traffic, dry_traffic;
    kith_layers_memory memory, dry_memory;
    make_subject(how, layers_over(info, info->size, dtype, is_sequence_parallel), is_sequence_parallel, &real);
    kith_tensor x = input_of(&real, dtype, how), dy = output_grad_of(&real, dtype, how);
    count(&real, &x, &dy, &traffic, &memory);
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.dry_tp = info->size;
    options.is_sequence_parallel = is_sequence_parallel;
    options.is_debug = 1;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    make_subject(how, layers, is_sequence_parallel, &dry);
    kith_tensor nothing_x = kith_tensor_view(NULL, dtype, 2, x.shape);
    kith_tensor nothing_dy = kith_tensor_view(NULL, dtype, 2, dy.shape);
    count(&dry, &nothing_x, &nothing_dy, &dry_traffic, &dry_memory);
    memset(traffic.wait_ns, 0, sizeof traffic.wait_ns); // and waits for nobody
    REQUIRE(info->rank != 0 || memcmp(&traffic, &dry_traffic, sizeof traffic) == 0);
    memory.cached = dry_memory.cached = 0; // a dry run allocates nothing
    bool has_copies = kith_layers_stream(real.layers) != NULL; // of x and dy, on the device
    REQUIRE(info->rank != 0 || has_copies || memcmp(&memory, &dry_memory, sizeof memory) == 0);
    free(x.data), free(dy.data);
    end_subject(&real);
    end_subject(&dry);
}
