/* kith/tensor.h - views of numbers: what layers take and give.
 *
 *     float x[6] = { ... };
 *     kith_tensor t = kith_tensor_view(x, KITH_F32, 2, (const int64_t[]){ 3, 2 });     // [3, 2], the caller's memory
 *     kith_tensor half = kith_tensor_narrow(&t, 0, 0, 2);                              // its first two rows
 *
 * A tensor is a small struct that is copied freely: pointer, dtype, shape, strides. Its memory belongs to the caller,
 * who keeps it as long as something uses it, or to the layers (kith/layers.h). Memory of layers is counted: each tensor
 * that kith_tensor_create(), a layer or kith_tensor_retain() hands out is one reference and needs one
 * kith_tensor_release(); views of it are not references.
 *
 * Activations have the shape [sequence, batch, features], or [tokens, features] with token = position * batch + sample:
 * with the sequence first, its shards are contiguous.
 *
 * Layouts. What a tensor is on the ranks of a tensor-parallel group: the same everywhere, a piece along one dimension,
 * or one summand of the true value. Layers write it; where the caller made the tensor it is unknown unless he says so.
 * Layers in debug mode compare it with what they need (kith_layers_options.is_debug).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TENSOR_H
#define KITH_TENSOR_H

#include <kith/dtype.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KITH_TENSOR_DIMS 4

typedef enum kith_layout {
    KITH_LAYOUT_UNKNOWN = 0,
    KITH_REPLICATED, /* equal on all ranks */
    KITH_SPLIT,      /* along split_dim, in the order of ranks */
    KITH_PARTIAL     /* the sum over ranks is the value */
} kith_layout;

struct kith_layers;
struct kith_buffer;

typedef struct kith_tensor {
    void *data; /* element [0, 0, ...]; NULL in dry runs */
    kith_dtype dtype;
    int dim_count; /* 0: no tensor */
    int64_t shape[KITH_TENSOR_DIMS];
    int64_t strides[KITH_TENSOR_DIMS]; /* in elements */
    kith_layout layout;
    int split_dim;              /* with KITH_SPLIT */
    struct kith_buffer *buffer; /* the layers' memory that it is a reference to; NULL: the caller's memory, or a view */
} kith_tensor;

/* "replicated", "split", "partial", "unknown". Static storage. */
KITH_API const char *kith_layout_name(kith_layout layout);

/* A contiguous view of the caller's memory. shape: [dim_count], each >= 0. Wrong arguments (dim_count outside 1 ..
 * KITH_TENSOR_DIMS, a negative size, a count beyond 2^62, no dtype) give a tensor with dim_count 0, which every
 * function refuses. */
KITH_API kith_tensor kith_tensor_view(void *data, kith_dtype dtype, int dim_count, const int64_t *shape);

/* Elements; 0 for no tensor. */
KITH_API int64_t kith_tensor_count(const kith_tensor *tensor);

/* 1 when elements lie side by side in the order of their indices. */
KITH_API int kith_tensor_is_contiguous(const kith_tensor *tensor);

/* Views, of which none is a reference: what they show must outlive them. Arguments outside the tensor give a tensor
 * with dim_count 0. narrow: `count` indices of one dimension from `first` on. transpose: two dimensions change
 * places. reshape: a contiguous tensor, or one whose rows (last dimension) are kept, in another shape of the same
 * count. */
KITH_API kith_tensor kith_tensor_narrow(const kith_tensor *tensor, int dim, int64_t first, int64_t count);
KITH_API kith_tensor kith_tensor_transpose(const kith_tensor *tensor, int dim_a, int dim_b);
KITH_API kith_tensor kith_tensor_reshape(const kith_tensor *tensor, int dim_count, const int64_t *shape);

/* A contiguous tensor in memory of layers: one reference. Its content is not set (NaN in debug mode). In a dry run data
 * is NULL and the bytes are counted. KITH_ERR_NO_MEMORY. Local. */
KITH_API kith_status kith_tensor_create(struct kith_layers *layers, kith_dtype dtype, int dim_count,
                                        const int64_t *shape, kith_tensor *tensor);

/* One more reference to the same memory. Of the caller's memory, and of views, it is a copy of the struct: the caller
 * keeps what is behind it, and a release does nothing. KITH_ERR_INVALID_ARG for no tensor. */
KITH_API kith_status kith_tensor_retain(const kith_tensor *tensor, kith_tensor *reference);

/* Gives a reference back and makes it no tensor (dim_count 0). In debug mode memory whose last reference went is filled
 * with NaN. Does nothing for no tensor and for the caller's memory. */
KITH_API void kith_tensor_release(kith_tensor *tensor);

/* ---- numbers of tensors, wherever they are ---- */

/* Contiguous tensors, of layers or of the caller's memory on the host or on the layers' device; nbytes are the tensor's
 * own, numbers is ordinary memory of the host. read: waits until the layers' work so far is done and the numbers are
 * there. write: numbers may change as soon as it returns. copy: from one tensor to another of the same dtype and count,
 * in the order of the layers' work. KITH_ERR_INVALID_ARG says what does not fit. Local. */
KITH_API kith_status kith_tensor_read(struct kith_layers *layers, const kith_tensor *tensor, void *numbers,
                                      size_t nbytes);
KITH_API kith_status kith_tensor_write(struct kith_layers *layers, const kith_tensor *tensor, const void *numbers,
                                       size_t nbytes);
KITH_API kith_status kith_tensor_copy(struct kith_layers *layers, const kith_tensor *from, const kith_tensor *to);

/* How n things are dealt to `ranks` ranks: as evenly as possible, the lower ranks get one more. *first and *count: the
 * part of `rank`. This is how layers split heads, features, vocabularies, experts and sequences. */
KITH_API void kith_split_range(int64_t n, int ranks, int rank, int64_t *first, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
