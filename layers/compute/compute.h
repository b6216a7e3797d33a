/* layers/compute/compute.h - the arithmetic of models, behind one table.
 *
 * Layers decide what is computed and what is communicated; nothing in layers/ outside this folder touches an element
 * of a tensor. A table exists for the host (host.c: GEMM by a CBLAS that is opened at run time, loops that compilers
 * turn into vector code) and for dry runs (dry.c: does nothing, for counting memory and messages of shapes that no
 * machine here could hold). A GPU's comes from the module of its kind (cuda/): matrices, ids, rows, targets and columns
 * are device memory there, functions return when the work is in the stream, and those that write to the host (sums,
 * check_ids) wait for it; kv_map stays the host's.
 *
 * Matrices. Kernels see tensors as ki_mat: rows * cols elements, neighbours in a row side by side, rows `stride`
 * elements apart. Tokens are rows, features are columns.
 *
 * Types. T is the storage type of activations and weights: f32, f64, bf16 or f16. A(T) is what sums are formed in and
 * what statistics and losses are stored in: f32 for f32, bf16 and f16, f64 for f64. Gradients of parameters are A(T)
 * and are added to. All matrices of one call are T unless the comment says A, int32 or another type.
 *
 * Results of a kernel depend on its arguments alone: the same bits for the same shapes and values, however often it
 * is called and whatever number of threads it has (products excepted, where that is for the BLAS to keep: gemm.c).
 * Rows are independent where the mathematics has them so: a row's result does not depend on how many rows
 * the matrix has (GEMM excepted, where BLAS chooses).
 *
 * Every function returns KITH_OK, or a status with its sentence (no memory for scratch, a dtype that the table has no
 * loop for). Shapes, and that what must be A is A, are the layers' business and are asserted. Inputs and outputs may
 * be the same matrix only where the comment says "in place". Counts of 0 are fine.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_COMPUTE_H
#define KI_LAYERS_COMPUTE_H

#include <kith/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ki_compute ki_compute;
struct ki_space; /* core/device/space.h */

typedef struct ki_mat {
    void *data;
    int64_t rows, cols;
    int64_t stride; /* elements from a row to the next, >= cols */
    kith_dtype dtype;
} ki_mat;

typedef enum ki_transpose { KI_AS_IS, KI_TRANSPOSED } ki_transpose;

typedef enum ki_activation { KI_GELU_EXACT, KI_GELU_TANH, KI_SILU } ki_activation;

/* Dropout. An element is kept when the 32-bit word of the generator at its coordinates is at least
 * `probability` * 2^32 (rounded), and is then multiplied by 1 / (1 - probability). The words come from Philox4x32-10
 * (Salmon et al., SC11; Random123) with key = seed and counter = (feature / 4, position, sample, site): word
 * feature % 4. So a mask depends on what an element is and not on which rank holds it, and nothing is saved. */
typedef struct ki_dropout {
    double probability; /* 0: off; below 1 */
    uint64_t seed;
    uint32_t site;         /* which dropout of the model */
    uint32_t first_sample; /* of row 0 ... */
    uint32_t batch;        /* row r is position first_position + r / batch of sample first_sample + r % batch */
    uint32_t first_position;
    uint32_t first_feature; /* of column 0 */
} ki_dropout;

/* softmax(scale * q k^T) v for all heads of a batch, computed in blocks: nothing of size sequence * sequence is kept.
 * Rows of q, k, v are tokens, sequence-major: row = position * batch + sample. Head h lies in columns
 * [h * head_dim, (h + 1) * head_dim) of q and out; its key head is h / (heads / kv_heads) in k and v when kv_map is
 * NULL, else kv_map[h]. */
typedef struct ki_attention {
    int64_t batch, sequence, kv_sequence;
    int64_t heads, kv_heads, head_dim; /* of this rank */
    const int32_t *kv_map;             /* [heads] */
    double scale;
    bool is_causal;      /* position i sees keys 0 .. i + kv_sequence - sequence */
    ki_dropout dropout;  /* of the probabilities: word key % 4 of counter (key / 4, query, sample, site * 65536 + head),
                           with key a position of k, query = first_position + position of q, sample = first_sample +
                           number in the batch, head = first_head + number here; batch, first_feature are not used */
    uint32_t first_head; /* global number of head 0, for dropout */
} ki_attention;

typedef struct ki_adamw {
    double learning_rate, beta1, beta2, epsilon, weight_decay; /* decoupled decay: w -= lr * decay * w */
    int64_t step;                                              /* 1 for the first, for the bias corrections */
    double grad_scale;                                         /* gradients are multiplied by it first (clipping) */
} ki_adamw;

/* What check_ids() saw. */
typedef struct ki_ids_found {
    int64_t counted; /* ids that are not ignored */
    int64_t row;     /* the first that is neither in [0, limit) nor ignored ... */
    int32_t id;      /* ... and what it is; row -1: there is none */
} ki_ids_found;

typedef struct ki_compute_ops {
    const char *name; /* "host", "dry", "cuda" */

    /* c = alpha * op(a) op(b) + beta * c. a, b: T; c: T or A(T). beta 0: c may hold anything, NaN too. bf16 and
     * f16 are summed in f32 over all of k and rounded once. */
    kith_status (*gemm)(ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                        double beta, ki_mat c);

    /* c = op(a) op(b) + bias[0, :], all T; a table may have NULL, then gemm() and bias_add() do it. As those two in
     * f32 and f64; of f16 and bf16 the sum of product and bias is rounded once, where those two round twice. */
    kith_status (*gemm_bias)(ki_compute *self, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat bias,
                             ki_mat c);

    /* ---- element by element ---- */

    kith_status (*fill)(ki_compute *self, ki_mat y, double value);
    /* y = x, with conversion between any two of f32, f64, bf16, f16, rounded once. */
    kith_status (*copy)(ki_compute *self, ki_mat x, ki_mat y);
    /* y += alpha * x; x: T or A(T), y: T or A(T). */
    kith_status (*add)(ki_compute *self, double alpha, ki_mat x, ki_mat y);
    /* y *= alpha. */
    kith_status (*scale)(ki_compute *self, double alpha, ki_mat y);
    /* y[r, :] += bias[0, :]. */
    kith_status (*bias_add)(ki_compute *self, ki_mat bias, ki_mat y);
    /* grad[0, :] += sum of the rows of dy. grad: A. */
    kith_status (*bias_grad)(ki_compute *self, ki_mat dy, ki_mat grad);
    /* y = act(x + bias); bias.data NULL: none. In place. Exact gelu: x * (1 + erf(x / sqrt 2)) / 2. Tanh form: 0.5 x
     * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). silu: x / (1 + exp(-x)). */
    kith_status (*activation)(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y);
    /* dx = dy * act'(x + bias). In place: dx may be dy. */
    kith_status (*activation_grad)(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy, ki_mat dx);
    /* y = act(gate) * up: SwiGLU with silu. */
    kith_status (*gated)(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y);
    kith_status (*gated_grad)(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate,
                              ki_mat dup);
    /* y = residual + dropout(x + bias); residual.data, bias.data NULL: none. In place: y may be x or residual. With
     * probability 0 it is an addition or a copy. */
    kith_status (*dropout_add)(ki_compute *self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual,
                               ki_mat y);
    /* dx = dropout(dy): the same mask. In place. */
    kith_status (*dropout_grad)(ki_compute *self, const ki_dropout *dropout, ki_mat dy, ki_mat dx);

    /* ---- norms: over the columns of each row; weight, bias: [1, cols]; statistics: A, [rows, 1] ---- */

    /* y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + epsilon), var with 1 / cols. bias.data NULL:
     * none. */
    kith_status (*layer_norm)(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y,
                              ki_mat mean, ki_mat rstd);
    /* dx written; weight_grad, bias_grad: A, added to; bias_grad.data NULL: none. In place: dx may be dy. */
    kith_status (*layer_norm_grad)(ki_compute *self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy,
                                   ki_mat dx, ki_mat weight_grad, ki_mat bias_grad);
    /* y = x * rstd * weight, rstd = 1 / sqrt(mean of x^2 + epsilon). */
    kith_status (*rms_norm)(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd);
    kith_status (*rms_norm_grad)(ki_compute *self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx,
                                 ki_mat weight_grad);

    /* ---- attention ---- */

    /* q: [sequence * batch, heads * head_dim], k, v: [kv_sequence * batch, kv_heads * head_dim], out as q; lse: A,
     * [sequence * batch, heads], the logarithm of each row's sum of exp(score). Rows that see no key: out 0. */
    kith_status (*attention)(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                             ki_mat lse);
    /* dq, dk, dv written (dk, dv summed over the heads that share a key head). */
    kith_status (*attention_grad)(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                                  ki_mat lse, ki_mat dout, ki_mat dq, ki_mat dk, ki_mat dv);
    /* Rotary positions, in place, on heads of head_dim columns: pairs (i, i + head_dim / 2) are turned by position *
     * base^(-2 i / head_dim) (GPT-NeoX, LLaMA in Hugging Face's form). Row r is position r / batch. is_inverse: turned
     * back, which is the gradient. */
    kith_status (*rotary)(ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x);

    /* ---- embedding and loss; ids: int32, [rows, 1] ---- */

    /* Looks for ids outside [0, limit), but for `ignored` (0: none, as that is inside). */
    kith_status (*check_ids)(ki_compute *self, const int32_t *ids, int64_t rows, int64_t limit, int32_t ignored,
                             ki_ids_found *found);
    /* y[r, :] = table[ids[r] - first, :] when first <= ids[r] < first + table.rows, else 0. */
    kith_status (*gather_rows)(ki_compute *self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y);
    /* grad[ids[r] - first, :] += dy[r, :], rows in ascending order. grad: A. */
    kith_status (*scatter_rows)(ki_compute *self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad);
    /* Largest of each row, -inf for no columns. max: A, [rows, 1]. NaN propagates. */
    kith_status (*row_max)(ki_compute *self, ki_mat x, ki_mat max);
    /* Of logits [rows, cols] that are columns first .. first + cols of the vocabulary: sums: A, [rows, 2 or 3] =
     * (sum of exp(x - max), logit of the target minus max or 0 when it is not among these columns, sum of x - max). The
     * third number is for smoothing alone; without it ranks have less to add up. */
    kith_status (*loss_sums)(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max,
                             ki_mat sums);
    /* losses[r] = log(sums[r, 0]) - ((1 - smoothing) * sums[r, 1] + smoothing / vocabulary * sums[r, 2]); 0 where
     * targets[r] == ignored. A. The rows of sums are complete; those of two numbers want smoothing 0. smoothing is
     * PyTorch's, which gives every class its part; Megatron-LM gives alpha to all but the target, which is smoothing =
     * alpha * vocabulary / (vocabulary - 1). */
    kith_status (*losses)(ki_compute *self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing,
                          int64_t vocabulary, ki_mat losses);
    /* dlogits = scale * (softmax - (1 - smoothing) [c is the target] - smoothing / vocabulary), 0 where ignored. In
     * place: dlogits may be logits. */
    kith_status (*loss_grad)(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, int32_t ignored,
                             double smoothing, int64_t vocabulary, double scale, ki_mat max, ki_mat sums,
                             ki_mat dlogits);

    /* ---- mixture of experts ---- */

    /* Rows of probabilities. x: T or A; y: A. */
    kith_status (*softmax)(ki_compute *self, ki_mat x, ki_mat y);
    /* dx = y * (dy - sum of y * dy over the row); y, dy: A; dx: T or A. */
    kith_status (*softmax_grad)(ki_compute *self, ki_mat y, ki_mat dy, ki_mat dx);
    /* The k largest of each row in descending order, ties to the lower column; NaN comes before numbers, so that it is
     * seen. k is at most x.cols. x: A; values: A, [rows, k]; columns:
     * [rows * k]. */
    kith_status (*top_k)(ki_compute *self, ki_mat x, int64_t k, ki_mat values, int32_t *columns);
    /* y[i, :] = weights[i] * x[rows[i], :]; weights (A, [y.rows, 1]) may have data NULL: 1. Rows of -1 give 0.
     * rows NULL: i. */
    kith_status (*pick_rows)(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y);
    /* y[rows[i], :] += weights[i] * x[i, :], i in ascending order; rows of -1 are skipped; y: T or A. */
    kith_status (*add_rows)(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y);
    /* dots[i] = sum over columns of a[i, :] * b[i, :]. dots: A, [rows, 1]. */
    kith_status (*row_dots)(ki_compute *self, ki_mat a, ki_mat b, ki_mat dots);

    /* ---- parameters ---- */

    /* Normal numbers of mean 0, element (row, col) keyed by its global place e = (first_row + row) * global_cols +
     * first_col + col: Philox with key = seed and counter (e / 2 in 64 bits, site, 0) gives words w0, w1; Box-Muller
     * in f64 makes of them sqrt(-2 ln((w0 + 1) / 2^32)) times cos(2 pi w1 / 2^32) for an even e, sin for an odd one. */
    kith_status (*normal)(ki_compute *self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col,
                          int64_t global_cols, double deviation, ki_mat y);
    /* Sums in f64, in a fixed order. */
    kith_status (*sum_elements)(ki_compute *self, ki_mat x, double *sum);
    kith_status (*sum_squares)(ki_compute *self, ki_mat x, double *sum);
    /* Loshchilov and Hutter's AdamW on master weights. weight, m, v, grad: A; stored: T, a rounded copy of weight, or
     * data NULL. */
    kith_status (*adamw)(ki_compute *self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight,
                         ki_mat stored);
    /* m = momentum * m + grad_scale * grad + decay * weight; weight -= lr * m; m.data NULL: no momentum. */
    kith_status (*sgd)(ki_compute *self, double learning_rate, double momentum, double decay, double grad_scale,
                       ki_mat grad, ki_mat m, ki_mat weight, ki_mat stored);
} ki_compute_ops;

/* A table with what it needs at work; one for each rank, used by one thread at a time. */
struct ki_compute {
    const ki_compute_ops *ops;
    const struct ki_blas *blas;   /* host: what GEMM calls (blas.h) */
    const struct ki_loops *loops; /* host: the loops for this CPU (loops.h) */
    struct ki_pool *pool;         /* host: this rank's threads (pool.h), NULL: one */
    void *scratch;                /* grows to the largest that was asked for */
    size_t scratch_nbytes;
    /* Of another module: waits for all work before, with the deadlines of communication in it; NULL: without end. */
    kith_status (*wait)(const struct ki_space *space);
    const struct ki_space *space;
    void (*close)(ki_compute *self); /* frees a table of another module and all it has; NULL: made by libkith */
};

/* The host's table. threads: how many threads its functions may use, the caller's among them. They cut calls and
 * products into parts; the BLAS is told, for the whole process, to keep to the thread that calls it. 0: functions use
 * one, the BLAS as many as it does by itself. KITH_ERR_UNSUPPORTED when no CBLAS can be opened; the detail says which
 * were tried. (host.c) */
kith_status ki_compute_open_host(int threads, ki_compute **compute);
/* The table that does nothing. (dry.c) */
kith_status ki_compute_open_dry(ki_compute **compute);
void ki_compute_close(ki_compute *compute);

/* Takes the host's loops for another instruction set: "generic", "avx2", "avx512". False when they cannot run here. For
 * tests; KITH_KERNELS does it from outside. (host.c) */
bool ki_compute_select_loops(ki_compute *compute, const char *isa);

/* At least nbytes of scratch, aligned to 64 bytes, valid until the next call of this function; any function of the
 * table may call it. (compute.c) */
kith_status ki_compute_scratch(ki_compute *compute, size_t nbytes, void **scratch);

/* A(T). */
static inline kith_dtype ki_accumulator_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? KITH_F64 : KITH_F32;
}

#endif
