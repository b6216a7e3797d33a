/* tests/layers/cuda_help.c - twins of matrices on host and device (see cuda_help.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include "core/reduce/convert.h"
#include "layers/compute/arith.h"
#include "layers/compute/loops.h"

#include <ctype.h>
#include <dlfcn.h>
#include <kith/kith.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, GAP_BYTE = 0xa5 };

static const ki_device_ops *module;
static void *stream;
static ki_compute *host_table, *gpu_table;
static char sentence[1024];
static twin twins[MOST];
static twin_ids all_ids[MOST];
static int twin_count, ids_count;
static uint64_t state = 1;

uint32_t cuda_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

static double uniform(void)
{
    return ((double)cuda_word() + 0.5) * 0x1p-32;
}

/* ---- the module ---- */

static kith_status told(kith_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

static const char *setting(const char *name, const char *default_value)
{
    char variable[128] = "KITH_";
    for (size_t i = 0; name[i] != '\0' && i + 6 < sizeof variable; i++)
        variable[i + 5] = (char)toupper((unsigned char)name[i]);
    const char *value = getenv(variable);
    return value != NULL ? value : default_value;
}

static const ki_device_host device_host = { sizeof device_host, told, setting };

const char *cuda_sentence(void)
{
    return sentence;
}

const ki_device_ops *cuda_module(void)
{
    return module;
}

const ki_device_ops *cuda_open_module(void)
{
    char file[1024];
    const char *folder = getenv("KITH_BUILD_DIR");
    snprintf(file, sizeof file, "%s/lib/%s/libkith_cuda.so", folder != NULL ? folder : ".", KITH_MODULE_SUBDIR);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        print_message("skipped: %s\n", dlerror());
        return NULL;
    }
    ki_device_fn function;
    *(void **)&function = dlsym(handle, KI_DEVICE_SYMBOL);
    assert_non_null(function);
    const ki_device_ops *ops = function();
    assert_int_equal(ops->abi, KI_DEVICE_ABI);
    assert_true(ops->struct_size >= sizeof *ops);
    ops->begin(&device_host);
    return ops;
}

static void must(kith_status status, const char *what)
{
    if (status != KITH_OK)
        fail_msg("%s: %s: %s", what, kith_status_name(status), sentence);
}

int cuda_setup(void **unused)
{
    char reason[512];
    (void)unused;
    module = cuda_open_module();
    if (module == NULL)
        exit(77);
    if (module->available(reason, sizeof reason) != KITH_OK) {
        print_message("skipped: %s\n", reason);
        exit(77);
    }
    if (ki_compute_open_host(1, &host_table) == KITH_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", kith_error_detail());
        exit(77);
    }
    must(module->stream_create(0, &stream), "stream_create");
    must(module->compute_open(0, stream, 0, &gpu_table), "compute_open");
    assert_string_equal(gpu_table->ops->name, "cuda");
    return 0;
}

int cuda_teardown(void **unused)
{
    (void)unused;
    ki_compute_close(gpu_table);
    ki_compute_close(host_table);
    must(module->stream_destroy(0, stream), "stream_destroy");
    return 0;
}

/* ---- matrices ---- */

static size_t nbytes_of(ki_mat m)
{
    return (size_t)(m.rows * m.stride) * kith_dtype_nbytes(m.dtype);
}

static void set_at(ki_mat m, size_t at, double value)
{
    if (m.dtype == KITH_F64)
        ((double *)m.data)[at] = value;
    else if (m.dtype == KITH_F32)
        ((float *)m.data)[at] = (float)value;
    else if (m.dtype == KITH_BF16)
        ((uint16_t *)m.data)[at] = ki_narrow_bf16_f64(value);
    else
        ((uint16_t *)m.data)[at] = narrow_f16((float)value);
}

static double value_at(ki_mat m, size_t at)
{
    if (m.dtype == KITH_F64)
        return ((const double *)m.data)[at];
    if (m.dtype == KITH_F32)
        return (double)((const float *)m.data)[at];
    const uint16_t bits = ((const uint16_t *)m.data)[at];
    return (double)(m.dtype == KITH_BF16 ? ki_widen_bf16(bits) : widen_f16(bits));
}

/* What the device has in its type, as it is in the host's. */
static double rounded(kith_dtype dtype, double value)
{
    return dtype == KITH_F16 ? (double)widen_f16(narrow_f16((float)value)) : value;
}

static kith_dtype host_dtype(kith_dtype dtype)
{
    return dtype == KITH_F16 ? KITH_F32 : dtype;
}

static void copy(void *to, const void *from, size_t nbytes)
{
    must(module->copy(0, stream, to, from, nbytes), "copy");
    must(module->stream_synchronize(0, stream), "stream_synchronize");
}

/* A matrix of the device's type on the host, with the numbers of t.host. */
static ki_mat image_of(twin t)
{
    ki_mat image = t.device;
    image.data = malloc(nbytes_of(image) + 1);
    assert_non_null(image.data);
    memset(image.data, GAP_BYTE, nbytes_of(image));
    for (int64_t row = 0; row < image.rows; row++)
        for (int64_t col = 0; col < image.cols; col++)
            set_at(image, (size_t)(row * image.stride + col), value_at(t.host, (size_t)(row * t.host.stride + col)));
    return image;
}

static void upload(twin t)
{
    ki_mat image = image_of(t);
    copy(t.device.data, image.data, nbytes_of(image));
    free(image.data);
}

static twin make(const cuda_case *c, kith_dtype dtype, int64_t rows, int64_t cols)
{
    twin t = { { NULL, rows, cols, cols + c->gap, host_dtype(dtype) }, { NULL, rows, cols, cols + c->gap, dtype } };
    assert_true(twin_count < MOST);
    t.host.data = malloc(nbytes_of(t.host) + 1);
    assert_non_null(t.host.data);
    memset(t.host.data, GAP_BYTE, nbytes_of(t.host));
    must(module->alloc(0, nbytes_of(t.device) > 0 ? nbytes_of(t.device) : 1, &t.device.data), "alloc");
    twins[twin_count++] = t;
    return t;
}

twin twin_none(void)
{
    return (twin){ { 0 }, { 0 } };
}

static void fill(twin t, double deviation)
{
    for (int64_t row = 0; row < t.host.rows; row++)
        for (int64_t col = 0; col < t.host.cols; col++) {
            double value = deviation * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
            set_at(t.host, (size_t)(row * t.host.stride + col), rounded(t.device.dtype, value));
        }
    upload(t);
}

twin twin_random(const cuda_case *c, kith_dtype dtype, int64_t rows, int64_t cols, double deviation)
{
    twin t = make(c, dtype, rows, cols);
    fill(t, deviation);
    return t;
}

twin twin_zeros(const cuda_case *c, kith_dtype dtype, int64_t rows, int64_t cols)
{
    return twin_random(c, dtype, rows, cols, 0);
}

twin twin_copy(const cuda_case *c, twin from)
{
    twin t = make(c, from.device.dtype, from.host.rows, from.host.cols);
    memcpy(t.host.data, from.host.data, nbytes_of(from.host));
    upload(t);
    return t;
}

void twin_set(twin t, int64_t row, int64_t col, double value)
{
    set_at(t.host, (size_t)(row * t.host.stride + col), rounded(t.device.dtype, value));
    upload(t);
}

double twin_host_at(twin t, int64_t row, int64_t col)
{
    return value_at(t.host, (size_t)(row * t.host.stride + col));
}

twin_ids ids_of(int64_t count, const int32_t *values)
{
    twin_ids ids = { malloc((size_t)count * sizeof(int32_t) + 1), NULL, count };
    assert_true(ids_count < MOST && ids.host != NULL);
    if (values != NULL)
        memcpy(ids.host, values, (size_t)count * sizeof(int32_t));
    else
        memset(ids.host, 0, (size_t)count * sizeof(int32_t));
    must(module->alloc(0, (size_t)count * sizeof(int32_t) + 1, (void **)&ids.device), "alloc");
    copy(ids.device, ids.host, (size_t)count * sizeof(int32_t));
    all_ids[ids_count++] = ids;
    return ids;
}

twin_ids ids_random(int64_t count, int64_t low, int64_t high)
{
    int32_t *values = (int32_t *)malloc((size_t)count * sizeof *values + 1);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)(low + (int64_t)(cuda_word() % (uint64_t)(high - low)));
    twin_ids ids = ids_of(count, values);
    free(values);
    return ids;
}

static void free_all(void)
{
    while (twin_count > 0) {
        twin t = twins[--twin_count];
        free(t.host.data);
        must(module->free(0, t.device.data), "free");
    }
    while (ids_count > 0) {
        twin_ids ids = all_ids[--ids_count];
        free(ids.host);
        must(module->free(0, ids.device), "free");
    }
}

/* ---- comparison ---- */

static const char *name_of(const cuda_case *c)
{
    static char name[128];
    snprintf(name, sizeof name, "%s %lld x %lld, gap %lld", kith_dtype_name(c->dtype), (long long)c->rows,
             (long long)c->cols, (long long)c->gap);
    return name;
}

void cuda_both(const cuda_case *c, const char *what, kith_status host, kith_status gpu)
{
    if (host != KITH_OK)
        fail_msg("%s of %s on the host: %s: %s", what, name_of(c), kith_status_name(host), kith_error_detail());
    if (gpu != KITH_OK)
        fail_msg("%s of %s on the device: %s: %s", what, name_of(c), kith_status_name(gpu), sentence);
}

static double rounding_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 0x1p-53 : dtype == KITH_F32 ? 0x1p-24 : dtype == KITH_BF16 ? 0x1p-8 : 0x1p-11;
}

static bool is_simulated(void)
{
    return getenv("KITH_SIMGPU_KERNELS") != NULL;
}

static bool has_fused(void)
{
    return strcmp(host_table->loops->isa, "generic") != 0;
}

static bool wants_bits(cuda_exactness exactness)
{
    return exactness == CUDA_SAME || (exactness == CUDA_FUSED && has_fused()) ||
           (exactness == CUDA_LIBM && has_fused() && is_simulated());
}

static bool is_near(double wanted, double got, kith_dtype stored, kith_dtype wide, double units)
{
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got);
    if (isinf(wanted) || isinf(got))
        return wanted == got;
    const double least = stored == KITH_F16 ? 0x1p-24 : 0; /* smallest f16 */
    return fabs(wanted - got) <=
           2 * rounding_of(stored) * fabs(wanted) + units * rounding_of(wide) * (1 + fabs(wanted)) + least;
}

static bool is_same(double wanted, double got)
{
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got);
    return wanted == got && signbit(wanted) == signbit(got);
}

/* What was compared is rounded on the host too, so that later calls have the same numbers. */
static void settle(twin t)
{
    for (int64_t row = 0; row < t.host.rows; row++)
        for (int64_t col = 0; col < t.host.cols; col++)
            set_at(t.host, (size_t)(row * t.host.stride + col), rounded(t.device.dtype, twin_host_at(t, row, col)));
}

void cuda_compare(const cuda_case *c, const char *what, twin t, cuda_exactness exactness, double units)
{
    ki_mat got = t.device;
    got.data = malloc(nbytes_of(got) + 1);
    assert_non_null(got.data);
    copy(got.data, t.device.data, nbytes_of(got));
    const size_t element = kith_dtype_nbytes(got.dtype);
    for (int64_t row = 0; row < got.rows; row++) {
        for (int64_t col = 0; col < got.cols; col++) {
            const double wanted = rounded(got.dtype, twin_host_at(t, row, col));
            const double value = value_at(got, (size_t)(row * got.stride + col));
            const bool is_right =
                wants_bits(exactness) ? is_same(wanted, value) : is_near(wanted, value, got.dtype, c->wide, units);
            if (!is_right)
                fail_msg("%s of %s at (%lld, %lld): wanted %.17g (the host's), got %.17g", what, name_of(c),
                         (long long)row, (long long)col, wanted, value);
        }
        const unsigned char *gap = (const unsigned char *)got.data + (size_t)(row * got.stride + got.cols) * element;
        for (size_t b = 0; b < (size_t)(got.stride - got.cols) * element; b++)
            if (gap[b] != GAP_BYTE)
                fail_msg("%s of %s wrote behind row %lld", what, name_of(c), (long long)row);
    }
    free(got.data);
    settle(t);
}

void ids_same(const cuda_case *c, const char *what, twin_ids ids)
{
    int32_t *got = (int32_t *)malloc((size_t)ids.count * sizeof *got + 1);
    assert_non_null(got);
    copy(got, ids.device, (size_t)ids.count * sizeof *got);
    for (int64_t i = 0; i < ids.count; i++)
        if (got[i] != ids.host[i])
            fail_msg("%s of %s at %lld: wanted %d (the host's), got %d", what, name_of(c), (long long)i, ids.host[i],
                     got[i]);
    free(got);
}

/* ---- cases ---- */

void cuda_shape(int64_t rows, int64_t cols, int64_t gap, void (*check)(const cuda_case *c))
{
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const cuda_case c = { host_table, gpu_table, dtypes[d], ki_accumulator_of(dtypes[d]), rows, cols, gap };
        check(&c);
        free_all();
    }
}

void cuda_everywhere(void (*check)(const cuda_case *c))
{
    static const int64_t shapes[][3] = {
        { 0, 7, 0 },  { 1, 1, 0 },   { 5, 0, 3 },   { 5, 7, 0 },   { 5, 7, 3 },
        { 7, 64, 8 }, { 5, 513, 3 }, { 3, 520, 8 }, { 70, 24, 0 }, { 3, 1100, 0 },
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        cuda_shape(shapes[s][0], shapes[s][1], shapes[s][2], check);
}
