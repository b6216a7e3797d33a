/* layers/compute/cuda/launch.h - the table's state, and how its functions launch kernels.
 *
 * A function looks at the types of its matrices, fills the struct that its kernel takes (args.h), and launches it in
 * the table's stream. Nothing waits, but for functions whose result the host reads (sums, ids).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_LAUNCH_H
#define KI_LAYERS_CUDA_LAUNCH_H

#include "args.h"
#include "core/device/cuda/cuda.h"
#include "cublas.h"

/* Rotary angles that are on the device: those of the last call. */
typedef struct ki_angles {
    double base;
    int64_t half, positions;
    kith_dtype real;
    void *memory; /* [positions, 2 * half] */
    size_t nbytes;
} ki_angles;

/* Products with a bias (lt.c): what tells one from another, and the algorithm for it. */
enum { KI_LT_PLANS = 16 };

typedef struct ki_lt_shape {
    int64_t sizes[6];       /* rows and columns of c, k; row strides of a, b, c */
    uint32_t alignments[4]; /* of a, b, bias, c in bytes */
    uint32_t kind;          /* type and transposes */
    uint32_t none;          /* 0: shapes are compared as bytes, and this would be padding */
} ki_lt_shape;

_Static_assert(sizeof(ki_lt_shape) == 6 * sizeof(int64_t) + 6 * sizeof(uint32_t), "no padding");

typedef struct ki_lt_plan {
    ki_lt_shape shape;
    bool is_known, has_algorithm;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_nbytes;
} ki_lt_plan;

typedef struct ki_lt_plans {
    ki_lt_plan all[KI_LT_PLANS];
    int next;
} ki_lt_plans;

typedef struct ki_device_compute {
    ki_compute base; /* what layers hold */
    int ordinal;
    cudaStream_t stream;
    const ki_cublas *cublas;
    cublasHandle_t handle;
    bool is_tf32;
    void *pool;    /* what memory below comes from, in the order of the stream; NULL: the device has none */
    void *scratch; /* of the device; grows to the largest that was asked for */
    size_t scratch_nbytes;
    void *pinned; /* of the host: what a function reads back */
    size_t pinned_nbytes;
    ki_angles angles;
    ki_lt_plans plans;
} ki_device_compute;

static inline ki_device_compute *ki_device_of(ki_compute *self)
{
    return (ki_device_compute *)(void *)self;
}

/* Until the stream's work before is done. A host that stands in CUDA hears of no peer that is gone, so a rank's layers
 * have their own way to wait. */
kith_status ki_wait_for_stream(ki_device_compute *self);

/* ---- types ---- */

/* Number of a storage type among those of types.h: f32, f64, bf16, f16; -1: another. */
int ki_storage_of(kith_dtype dtype);

/* Bytes of an element of a storage type. */
size_t ki_nbytes_of(kith_dtype dtype);

/* "layers: <function> of <type>: the cuda device computes with ..." */
kith_status ki_refuse(const char *function, kith_dtype dtype);

/* Fails unless `dtype` is what matrices in `wanted` have; those without data are not looked at. */
kith_status ki_expect(const char *function, kith_dtype dtype, int count, const ki_mat *matrices);

/* ---- launching ---- */

/* Which fatbin a kernel is in: one for each .cu file (fatbins.c). */
typedef enum ki_fatbin {
    KI_IN_ACTIVATION,
    KI_IN_ATTENTION,
    KI_IN_ELEMENTS,
    KI_IN_LOSS,
    KI_IN_NORM,
    KI_IN_PARAMETERS,
    KI_IN_ROWS,
    KI_FATBINS
} ki_fatbin;

typedef struct ki_fatbin_bytes {
    const char *name;
    const void *bytes;
} ki_fatbin_bytes;

extern const ki_fatbin_bytes ki_fatbins[KI_FATBINS];

/* How a kernel's names end: not at all, in its storage type, in two of them. */
typedef enum ki_suffix { KI_ALONE, KI_TYPED, KI_MIXED } ki_suffix;

/* A kernel for each type, found at its first launch. One static object in the file that launches it. */
typedef struct ki_kernel {
    ki_fatbin in;
    const char *name; /* ki_<name>_<type> in the .cu file */
    ki_suffix suffix;
    cudaKernel_t found[16]; /* by storage type, or 4 * first + second; atomic */
} ki_kernel;

typedef struct ki_grid {
    uint32_t x, y, threads;
} ki_grid;

/* Chunks of `chunk` elements of each row (KI_EACH_CHUNK); a warp for each row (KI_EACH_ROW); a thread for each of
 * `count` (ki_grid_thread). */
ki_grid ki_grid_of_chunks(ki_mat m, int64_t chunk);
ki_grid ki_grid_of_rows(int64_t rows);
ki_grid ki_grid_of(int64_t count);

/* Elements of 16 bytes of the narrower type: N of the kernel. */
int64_t ki_chunk_of(kith_dtype a, kith_dtype b);

/* Loads every kernel on the current device, which is `ordinal`; once a process and device. */
kith_status ki_load_kernels(const ki_cuda *cuda, int ordinal);

/* first, second: storage types as far as the kernel's names have them. args: the kernel's struct. */
kith_status ki_launch(ki_device_compute *self, ki_kernel *kernel, kith_dtype first, kith_dtype second, ki_grid grid,
                      const void *args);

/* A matrix without gaps between its rows, as one long row. Of `count` matrices (data NULL: none) of one shape, when it
 * holds for all. */
void ki_flatten(int count, ki_mat *const *matrices);

/* ---- memory ---- */

/* Memory for work of the stream, and back: nothing waits for work that uses it, where the device has pools. */
kith_status ki_take_memory(ki_device_compute *self, size_t nbytes, void **memory);
kith_status ki_give_memory(ki_device_compute *self, void *memory);

/* At least nbytes on the device, aligned to 256 bytes, valid until the next call: work that is in the stream may use
 * it. */
kith_status ki_device_scratch(ki_device_compute *self, size_t nbytes, void **scratch);

/* Copies nbytes of the device to the host and waits for them; *host is valid until the next call. */
kith_status ki_read_back(ki_device_compute *self, const void *from, size_t nbytes, const void **host);

/* nbytes of device memory to zero. */
kith_status ki_zero(ki_device_compute *self, void *ptr, size_t nbytes);

/* ---- sums over rows, in groups of KI_GROUP_ROWS (elements.c) ---- */

int64_t ki_groups_of(int64_t rows);
/* grad[0, :] += the rows of sums (A), in their order, with what rounding takes off carried along. */
kith_status ki_add_groups(ki_device_compute *self, ki_mat sums, ki_mat grad);

/* ---- products (gemm.c) ---- */

/* `count` products c = alpha * op(a) op(b) + beta * c; strides: elements from one's matrix to the next one's. */
typedef struct ki_batch {
    int64_t count, a_stride, b_stride, c_stride;
} ki_batch;

kith_status ki_multiply(ki_device_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                        double beta, ki_mat c, ki_batch batch);

/* Status of a product that cuBLAS was asked for. */
kith_status ki_told_by_cublas(const ki_device_compute *self, cublasStatus_t status);

/* ---- rows of the table ---- */

kith_status ki_cuda_gemm(ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                         double beta, ki_mat c);
kith_status ki_cuda_gemm_bias(ki_compute *self, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat bias,
                              ki_mat c);
void ki_fill_elements(ki_compute_ops *ops);
void ki_fill_activations(ki_compute_ops *ops);
void ki_fill_norms(ki_compute_ops *ops);
void ki_fill_losses(ki_compute_ops *ops);
void ki_fill_rows(ki_compute_ops *ops);
void ki_fill_parameters(ki_compute_ops *ops);
void ki_fill_attention(ki_compute_ops *ops);
void ki_fill_rotary(ki_compute_ops *ops);

/* Frees what rotary keeps. */
void ki_drop_angles(ki_device_compute *self);

#endif
