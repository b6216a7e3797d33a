/* tests/layers/layer_help.c - what the cases of layers share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <math.h>
#include <string.h>

/* One for each rank, as ranks may be threads. NULL: there is no device. */
static _Thread_local kith_stream *stream_of_rank;

void put_on_device(rank_info *info, kith_layers_options *options)
{
    kith_device *device = kith_ctx_device(kith_group_ctx(info->world));
    if (device != NULL && stream_of_rank == NULL)
        REQUIRE_OK(kith_stream_create(device, &stream_of_rank));
    options->device = device;
    options->stream = stream_of_rank;
}

void end_device(void)
{
    REQUIRE_OK(kith_stream_destroy(stream_of_rank));
    stream_of_rank = NULL;
}

static int is_on_device(const void *memory)
{
    kith_memory kind = KITH_MEMORY_HOST;
    if (stream_of_rank == NULL || memory == NULL)
        return 0;
    REQUIRE_OK(kith_memory_kind(memory, &kind, NULL));
    return kind == KITH_MEMORY_DEVICE;
}

static void copy(void *to, const void *from, size_t nbytes)
{
    REQUIRE_OK(kith_stream_copy(stream_of_rank, to, from, nbytes));
    REQUIRE_OK(kith_stream_synchronize(stream_of_rank));
}

kith_tensor brought(kith_layers *layers, const kith_tensor *tensor)
{
    kith_tensor there = *tensor, made;
    there.buffer = NULL;
    if (kith_layers_stream(layers) == NULL || is_on_device(tensor->data))
        return there;
    REQUIRE_OK(kith_tensor_create(layers, tensor->dtype, tensor->dim_count, tensor->shape, &made));
    REQUIRE_OK(kith_tensor_write(layers, &made, tensor->data,
                                 (size_t)kith_tensor_count(tensor) * kith_dtype_nbytes(tensor->dtype)));
    made.layout = tensor->layout, made.split_dim = tensor->split_dim;
    return made;
}

kith_tensor on_host(const kith_tensor *tensor)
{
    kith_tensor here = kith_tensor_view(NULL, tensor->dtype, tensor->dim_count, tensor->shape);
    size_t nbytes = (size_t)kith_tensor_count(tensor) * kith_dtype_nbytes(tensor->dtype);
    REQUIRE(kith_tensor_is_contiguous(tensor));
    here.data = malloc(nbytes > 0 ? nbytes : 1);
    REQUIRE(here.data != NULL);
    if (is_on_device(tensor->data))
        copy(here.data, tensor->data, nbytes);
    else if (nbytes > 0)
        memcpy(here.data, tensor->data, nbytes);
    return here;
}

kith_layers *layers_over(rank_info *info, int tp, kith_dtype dtype, int is_sequence_parallel)
{
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_split(info->world, info->rank < tp ? 0 : KITH_NO_COLOR, info->rank, NULL, &group));
    if (group == NULL)
        return NULL;
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.tp = group;
    options.is_sequence_parallel = is_sequence_parallel;
    put_on_device(info, &options);
    options.is_debug = 1;
    options.seed = 42;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    return layers;
}

kith_layers *layers_alone(kith_dtype dtype)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.is_debug = 1;
    options.seed = 42;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    return layers;
}

kith_tape *tape_of(kith_layers *layers, int64_t sequence, int64_t batch)
{
    kith_tape *tape;
    REQUIRE_OK(kith_tape_create(layers, &tape));
    kith_batch what = KITH_BATCH_INIT;
    what.sequence = sequence;
    what.batch = batch;
    REQUIRE_OK(kith_tape_begin(tape, &what));
    return tape;
}

/* splitmix64 */
uint64_t scrambled(unsigned seed, int64_t index)
{
    uint64_t z = ((uint64_t)seed << 40) + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15) + 1;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double whole_number(unsigned seed, int64_t index)
{
    return (double)(scrambled(seed, index) % 9) - 4;
}

double fraction(unsigned seed, int64_t index)
{
    return (double)(scrambled(seed, index) >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

/* Finite numbers, by arithmetic that is exact in f64. */
static uint16_t f16_of(double value)
{
    double size = fabs(value);
    int exponent = size < 0x1p-14 ? -14 : ilogb(size);
    double steps = rint(ldexp(size, 10 - exponent));
    uint32_t bits = steps >= 2048 && exponent == 15 ? 0x7c00u : (uint32_t)(steps + 1024.0 * (exponent + 14));
    return (uint16_t)(bits | (signbit(value) ? 0x8000u : 0u));
}

static double value_of_f16(uint16_t half)
{
    int exponent = half >> 10 & 31, digits = half & 1023;
    double size = exponent == 0 ? ldexp(digits, -24) : ldexp(1024 + digits, exponent - 25);
    if (exponent == 31)
        size = digits == 0 ? (double)INFINITY : (double)NAN;
    return half & 0x8000 ? -size : size;
}

static void put(void *data, kith_dtype dtype, int64_t i, double value)
{
    if (dtype == KITH_F64)
        ((double *)data)[i] = value;
    else if (dtype == KITH_F32)
        ((float *)data)[i] = (float)value;
    else if (dtype == KITH_F16)
        ((uint16_t *)data)[i] = f16_of(value);
    else {
        float f = (float)value;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

void put_element(const kith_tensor *tensor, int64_t i, double value)
{
    double element[1];
    if (is_on_device(tensor->data)) {
        size_t nbytes = kith_dtype_nbytes(tensor->dtype);
        put(element, tensor->dtype, 0, value);
        copy((char *)tensor->data + (size_t)i * nbytes, element, nbytes);
        return;
    }
    put(tensor->data, tensor->dtype, i, value);
}

double element(const kith_tensor *tensor, int64_t i)
{
    if (is_on_device(tensor->data)) {
        double bits[1];
        size_t nbytes = kith_dtype_nbytes(tensor->dtype);
        kith_tensor one = kith_tensor_view(bits, tensor->dtype, 1, (const int64_t[]){ 1 });
        copy(bits, (const char *)tensor->data + (size_t)i * nbytes, nbytes);
        return element(&one, 0);
    }
    if (tensor->dtype == KITH_F64)
        return ((const double *)tensor->data)[i];
    if (tensor->dtype == KITH_F32)
        return (double)((const float *)tensor->data)[i];
    if (tensor->dtype == KITH_F16)
        return value_of_f16(((const uint16_t *)tensor->data)[i]);
    uint32_t bits = (uint32_t)((const uint16_t *)tensor->data)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

kith_tensor numbers(kith_dtype dtype, int64_t rows, int64_t cols, unsigned seed,
                    double (*make)(unsigned seed, int64_t index))
{
    size_t count = (size_t)(rows * cols);
    void *data = malloc(count > 0 ? count * kith_dtype_nbytes(dtype) : 1);
    REQUIRE(data != NULL);
    for (int64_t i = 0; i < rows * cols; i++)
        put(data, dtype, i, make(seed, i));
    return kith_tensor_view(data, dtype, 2, (const int64_t[]){ rows, cols });
}

unsigned seed_of_name(const char *name)
{
    unsigned seed = 5381;
    for (; *name != '\0'; name++)
        seed = seed * 33 + (unsigned char)*name;
    return seed & 0xffff;
}

void load_params(kith_layers *layers, double (*make)(unsigned seed, int64_t index))
{
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        kith_param *param = kith_layers_param(layers, i);
        int64_t cols = param->dim_count > 1 ? param->global_shape[1] : 1;
        kith_tensor whole = numbers(KITH_F64, param->global_shape[0], cols, seed_of_name(param->name), make);
        kith_tensor shaped = kith_tensor_reshape(&whole, param->dim_count, param->global_shape);
        REQUIRE_OK(kith_param_load(param, &shaped));
        free(whole.data);
    }
}

void require_equal(const char *file, int line, const char *what, const kith_tensor *got, const kith_tensor *wanted,
                   double tolerance)
{
    if (kith_tensor_count(got) != kith_tensor_count(wanted))
        rank_fail(file, line, "%s: %lld elements, wanted %lld", what, (long long)kith_tensor_count(got),
                  (long long)kith_tensor_count(wanted));
    if (!kith_tensor_is_contiguous(got) || !kith_tensor_is_contiguous(wanted))
        rank_fail(file, line, "%s: only contiguous tensors can be compared", what);
    kith_tensor got_here = on_host(got), wanted_here = on_host(wanted);
    for (int64_t i = 0; i < kith_tensor_count(got); i++) {
        double a = element(&got_here, i), b = element(&wanted_here, i);
        if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
            rank_fail(file, line, "%s: element %lld is %.17g, wanted %.17g", what, (long long)i, a, b);
    }
    free(got_here.data), free(wanted_here.data);
}

void require_same_grads(const char *file, int line, kith_layers *layers, kith_layers *alone, double tolerance)
{
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        kith_param *param = kith_layers_param(layers, i);
        const kith_param *reference = kith_layers_find_param(alone, param->name);
        if (reference == NULL)
            rank_fail(file, line, "%s: the reference has no such parameter", param->name);
        kith_tensor whole = kith_tensor_view(NULL, param->grad.dtype, param->dim_count, param->global_shape);
        whole.data = calloc((size_t)kith_tensor_count(&whole) + 1, kith_dtype_nbytes(whole.dtype));
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
        require_equal(file, line, param->name, &whole, &reference->grad, tolerance);
        free(whole.data);
    }
}

kith_tensor shard_of(kith_layers *layers, const kith_tensor *whole, int64_t sequence, int64_t batch,
                     int is_sequence_parallel)
{
    if (!is_sequence_parallel)
        return kith_tensor_narrow(whole, 0, 0, whole->shape[0]);
    int64_t first, count;
    kith_split_range(sequence, kith_layers_tp_size(layers), kith_layers_tp_rank(layers), &first, &count);
    return kith_tensor_narrow(whole, 0, first * batch, count * batch);
}
