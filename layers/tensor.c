/* layers/tensor.c - views: arithmetic on shapes and strides, nothing is touched.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#define COUNT_MOST ((int64_t)1 << 62)

const char *kith_layout_name(kith_layout layout)
{
    switch (layout) {
    case KITH_REPLICATED:
        return "replicated";
    case KITH_SPLIT:
        return "split";
    case KITH_PARTIAL:
        return "partial";
    case KITH_LAYOUT_UNKNOWN:
        break;
    }
    return "unknown";
}

static kith_tensor no_tensor(void)
{
    kith_tensor none;
    memset(&none, 0, sizeof none);
    return none;
}

static bool is_shape(int dim_count, const int64_t *shape)
{
    if (shape == NULL || dim_count < 1 || dim_count > KITH_TENSOR_DIMS)
        return false;
    int64_t count = 1;
    for (int d = 0; d < dim_count; d++)
        if (shape[d] < 0 || __builtin_mul_overflow(count, shape[d], &count) || count > COUNT_MOST)
            return false;
    return true;
}

kith_tensor kith_tensor_view(void *data, kith_dtype dtype, int dim_count, const int64_t *shape)
{
    kith_tensor tensor = no_tensor();
    if (!is_shape(dim_count, shape) || kith_dtype_nbytes(dtype) == 0)
        return tensor;
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.dim_count = dim_count;
    int64_t stride = 1;
    for (int d = dim_count - 1; d >= 0; d--) {
        tensor.shape[d] = shape[d];
        tensor.strides[d] = stride;
        stride *= shape[d] > 0 ? shape[d] : 1;
    }
    return tensor;
}

int64_t kith_tensor_count(const kith_tensor *tensor)
{
    if (tensor == NULL || tensor->dim_count == 0)
        return 0;
    int64_t count = 1;
    for (int d = 0; d < tensor->dim_count; d++)
        count *= tensor->shape[d];
    return count;
}

int kith_tensor_is_contiguous(const kith_tensor *tensor)
{
    if (tensor == NULL || tensor->dim_count == 0)
        return 0;
    if (kith_tensor_count(tensor) == 0)
        return 1;
    int64_t stride = 1;
    for (int d = tensor->dim_count - 1; d >= 0; d--) {
        if (tensor->shape[d] > 1 && tensor->strides[d] != stride)
            return 0;
        stride *= tensor->shape[d];
    }
    return 1;
}

static kith_tensor view_of(const kith_tensor *tensor)
{
    kith_tensor view = *tensor;
    view.buffer = NULL;
    return view;
}

static bool has_dim(const kith_tensor *tensor, int dim)
{
    return tensor != NULL && dim >= 0 && dim < tensor->dim_count;
}

kith_tensor kith_tensor_narrow(const kith_tensor *tensor, int dim, int64_t first, int64_t count)
{
    if (!has_dim(tensor, dim) || first < 0 || count < 0 || first > tensor->shape[dim] - count)
        return no_tensor();
    kith_tensor view = view_of(tensor);
    view.shape[dim] = count;
    if (view.data != NULL)
        view.data = (char *)view.data + first * view.strides[dim] * (int64_t)kith_dtype_nbytes(view.dtype);
    return view;
}

kith_tensor kith_tensor_transpose(const kith_tensor *tensor, int dim_a, int dim_b)
{
    if (!has_dim(tensor, dim_a) || !has_dim(tensor, dim_b))
        return no_tensor();
    kith_tensor view = view_of(tensor);
    view.shape[dim_a] = tensor->shape[dim_b], view.shape[dim_b] = tensor->shape[dim_a];
    view.strides[dim_a] = tensor->strides[dim_b], view.strides[dim_b] = tensor->strides[dim_a];
    if (view.layout == KITH_SPLIT)
        view.split_dim = view.split_dim == dim_a ? dim_b : view.split_dim == dim_b ? dim_a : view.split_dim;
    return view;
}

/* True when the elements of a row lie side by side and rows follow each other at one stride. */
static bool has_even_rows(const kith_tensor *tensor)
{
    int last = tensor->dim_count - 1;
    if (tensor->shape[last] > 1 && tensor->strides[last] != 1)
        return false;
    for (int d = last - 1; d > 0; d--)
        if (tensor->shape[d - 1] > 1 && tensor->strides[d - 1] != tensor->strides[d] * tensor->shape[d])
            return false;
    return true;
}

static int64_t row_stride(const kith_tensor *tensor)
{
    int last = tensor->dim_count - 1;
    return last > 0 && ki_rows(tensor) > 1 ? tensor->strides[last - 1] : tensor->shape[last];
}

/* What is split along the last dimension still is when that stays as it is; what is split along the first, too, when
 * the rows below it stay together. Else nobody knows. */
static void keep_layout(const kith_tensor *from, kith_tensor *view)
{
    view->layout = from->layout;
    if (from->layout != KITH_SPLIT)
        return;
    int last = from->dim_count - 1, new_last = view->dim_count - 1;
    bool has_same_features = from->shape[last] == view->shape[new_last] && last > 0 && new_last > 0;
    if (from->split_dim == last && (has_same_features || last == new_last) &&
        from->shape[last] == view->shape[new_last])
        view->split_dim = new_last;
    else if (from->split_dim == 0 && has_same_features)
        view->split_dim = 0;
    else
        view->layout = KITH_LAYOUT_UNKNOWN;
}

kith_tensor kith_tensor_reshape(const kith_tensor *tensor, int dim_count, const int64_t *shape)
{
    if (tensor == NULL || tensor->dim_count == 0 || !is_shape(dim_count, shape))
        return no_tensor();
    kith_tensor view = kith_tensor_view(tensor->data, tensor->dtype, dim_count, shape);
    if (kith_tensor_count(&view) != kith_tensor_count(tensor))
        return no_tensor();
    keep_layout(tensor, &view);
    if (kith_tensor_is_contiguous(tensor))
        return view;
    if (!has_even_rows(tensor) || shape[dim_count - 1] != ki_features(tensor))
        return no_tensor();
    int64_t stride = row_stride(tensor);
    for (int d = dim_count - 2; d >= 0; d--) {
        view.strides[d] = stride;
        stride *= shape[d];
    }
    return view;
}

void kith_split_range(int64_t n, int ranks, int rank, int64_t *first, int64_t *count)
{
    *first = *count = 0;
    if (n < 0 || ranks < 1 || rank < 0 || rank >= ranks)
        return;
    int64_t each = n / ranks, more = n % ranks;
    *first = each * rank + (rank < more ? rank : more);
    *count = each + (rank < more);
}

int64_t ki_rows(const kith_tensor *tensor)
{
    int64_t rows = 1;
    for (int d = 0; d < tensor->dim_count - 1; d++)
        rows *= tensor->shape[d];
    return rows;
}

bool ki_has_rows(const kith_tensor *tensor)
{
    return has_even_rows(tensor);
}

ki_mat ki_mat_of(const kith_tensor *tensor)
{
    ki_mat mat = { tensor->data, ki_rows(tensor), ki_features(tensor), row_stride(tensor), tensor->dtype };
    return mat;
}

static void *moved(const ki_mat *mat, int64_t elements)
{
    return mat->data == NULL ? NULL : (char *)mat->data + elements * (int64_t)kith_dtype_nbytes(mat->dtype);
}

ki_mat ki_mat_rows(ki_mat mat, int64_t first, int64_t count)
{
    mat.data = moved(&mat, first * mat.stride);
    mat.rows = count;
    return mat;
}

ki_mat ki_mat_cols(ki_mat mat, int64_t first, int64_t count)
{
    mat.data = moved(&mat, first);
    mat.cols = count;
    return mat;
}
