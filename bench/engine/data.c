/* bench/engine/data.c - fills and checks buffers. The pattern is explained in data.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "data.h"

#include <string.h>

static const struct {
    const char *name;
    size_t nbytes;
} dtype_rows[BENCH_DTYPE_COUNT] = {
    [BENCH_F32] = { "f32", 4 },
    [BENCH_F64] = { "f64", 8 },
    [BENCH_BF16] = { "bf16", 2 },
    [BENCH_INT32] = { "int32", 4 },
};

const char *bench_dtype_name(bench_dtype dtype)
{
    return dtype_rows[dtype].name;
}

size_t bench_dtype_nbytes(bench_dtype dtype)
{
    return dtype_rows[dtype].nbytes;
}

bool bench_dtype_parse(const char *name, bench_dtype *dtype)
{
    for (int i = 0; i < BENCH_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_rows[i].name) == 0) {
            *dtype = (bench_dtype)i;
            return true;
        }
    }
    return false;
}

void bench_dtype_store(bench_dtype dtype, int value, void *element)
{
    float f32 = (float)value;
    double f64 = value;
    int32_t int32 = value;
    uint32_t bits;
    uint16_t bf16;
    switch (dtype) {
    case BENCH_F64:
        memcpy(element, &f64, sizeof(f64));
        break;
    case BENCH_BF16: /* whole numbers up to 256 have their bits in the upper half */
        memcpy(&bits, &f32, sizeof(bits));
        bf16 = (uint16_t)(bits >> 16);
        memcpy(element, &bf16, sizeof(bf16));
        break;
    case BENCH_INT32:
        memcpy(element, &int32, sizeof(int32));
        break;
    default:
        memcpy(element, &f32, sizeof(f32));
        break;
    }
}

double bench_dtype_load(bench_dtype dtype, const void *element)
{
    float f32;
    double f64;
    int32_t int32;
    uint16_t bf16;
    uint32_t bits;
    switch (dtype) {
    case BENCH_F64:
        memcpy(&f64, element, sizeof(f64));
        return f64;
    case BENCH_BF16:
        memcpy(&bf16, element, sizeof(bf16));
        bits = (uint32_t)bf16 << 16;
        memcpy(&f32, &bits, sizeof(f32));
        return f32;
    case BENCH_INT32:
        memcpy(&int32, element, sizeof(int32));
        return int32;
    default:
        memcpy(&f32, element, sizeof(f32));
        return f32;
    }
}

static unsigned int piece_offset(int rank, uint32_t iteration, size_t piece)
{
    uint64_t key = (uint64_t)piece * 0x9e3779b97f4a7c15u + (uint64_t)(uint32_t)rank * 0xbf58476d1ce4e5b9u +
                   (uint64_t)iteration * 0x94d049bb133111ebu;
    key ^= key >> 31;
    key *= 0xd6e8feb86659fd93u;
    return (unsigned int)(key >> 32) % BENCH_DATA_PERIOD;
}

int bench_data_value(int rank, uint32_t iteration, size_t index)
{
    unsigned int offset = piece_offset(rank, iteration, index / BENCH_DATA_PIECE);
    return (int)((index % BENCH_DATA_PERIOD + offset) % BENCH_DATA_PERIOD);
}

void bench_data_init(bench_data *data, bench_dtype dtype)
{
    data->dtype = dtype;
    data->nbytes = bench_dtype_nbytes(dtype);
    for (int j = 0; j < BENCH_DATA_PIECE + BENCH_DATA_PERIOD; j++) {
        bench_dtype_store(dtype, j % BENCH_DATA_PERIOD, data->pattern + (size_t)j * data->nbytes);
    }
}

void bench_data_fill(const bench_data *data, const bench_shape *shape, uint32_t iteration, void *send)
{
    for (size_t i = 0; i < shape->send_count; i += BENCH_DATA_PIECE) {
        size_t left = shape->send_count - i;
        size_t count = left < BENCH_DATA_PIECE ? left : BENCH_DATA_PIECE;
        size_t start = (size_t)bench_data_value(shape->rank, iteration, i);
        memcpy((unsigned char *)send + i * data->nbytes, data->pattern + start * data->nbytes, count * data->nbytes);
    }
}

static int expected_value(const bench_shape *shape, uint32_t iteration, int from, size_t index)
{
    if (from >= 0) {
        return bench_data_value(from, iteration, index);
    }
    int sum = 0;
    for (int r = 0; r < shape->size; r++) {
        sum += bench_data_value(r, iteration, index);
    }
    return sum;
}

static bool element_is_right(const bench_data *data, const bench_shape *shape, uint32_t iteration, const void *recv,
                             size_t i, bench_data_error *error)
{
    unsigned char wanted[8];
    const unsigned char *got = (const unsigned char *)recv + i * data->nbytes;
    int from;
    size_t index;
    bench_shape_source(shape, i, &from, &index);
    int value = expected_value(shape, iteration, from, index);
    bench_dtype_store(data->dtype, value, wanted);
    if (memcmp(wanted, got, data->nbytes) == 0) {
        return true;
    }
    *error = (bench_data_error){ .index = i, .wanted = value, .got = bench_dtype_load(data->dtype, got) };
    return false;
}

/* The expected elements of one run inside one piece repeat every 31: one period is computed, then doubled. */
static void build_expected(bench_data *data, const bench_shape *shape, uint32_t iteration, int from, size_t index,
                           size_t count)
{
    size_t built = count < BENCH_DATA_PERIOD ? count : BENCH_DATA_PERIOD;
    for (size_t k = 0; k < built; k++) {
        bench_dtype_store(data->dtype, expected_value(shape, iteration, from, index + k),
                          data->expected + k * data->nbytes);
    }
    while (built < count) {
        size_t more = built < count - built ? built : count - built;
        memcpy(data->expected + built * data->nbytes, data->expected, more * data->nbytes);
        built += more;
    }
}

bool bench_data_check(bench_data *data, const bench_shape *shape, uint32_t iteration, const void *recv,
                      bench_data_error *error)
{
    size_t i = 0;
    while (i < shape->recv_count) {
        int from;
        size_t index;
        bench_shape_source(shape, i, &from, &index);
        size_t count = bench_shape_run(shape, i);
        size_t in_piece = BENCH_DATA_PIECE - index % BENCH_DATA_PIECE;
        count = count < in_piece ? count : in_piece;
        build_expected(data, shape, iteration, from, index, count);
        if (memcmp(data->expected, (const unsigned char *)recv + i * data->nbytes, count * data->nbytes) != 0) {
            while (element_is_right(data, shape, iteration, recv, i, error)) {
                i++;
            }
            return false;
        }
        i += count;
    }
    return true;
}

bool bench_data_check_samples(const bench_data *data, const bench_shape *shape, uint32_t iteration, const void *recv,
                              bench_data_error *error)
{
    size_t count = shape->recv_count;
    if (count == 0) {
        return true;
    }
    bool is_right = element_is_right(data, shape, iteration, recv, 0, error) &&
                    element_is_right(data, shape, iteration, recv, count - 1, error);
    for (size_t k = 1; k <= 6 && is_right; k++) {
        size_t i = (count / 7 * k + iteration) % count;
        is_right = element_is_right(data, shape, iteration, recv, i, error);
    }
    return is_right;
}
