/* kith/dtype.h - element types of collectives and messages.
 *
 * f16 is IEEE binary16, bf16 the upper half of binary32, the fp8 types are OCP 8-bit: e4m3 (bias 7, no infinity,
 * largest 448) and e5m2 (bias 15, infinities, largest 57344). Reductions of these five accumulate in f32 and round
 * once, to nearest even; a sum beyond the range becomes infinity, or NaN in e4m3, which has none.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_DTYPE_H
#define KITH_DTYPE_H

#include <kith/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, number, name, bytes) */
#define KITH_DTYPE_TABLE(X)                                                                                            \
    X(KITH_INT8, 0, "int8", 1)                                                                                         \
    X(KITH_UINT8, 1, "uint8", 1)                                                                                       \
    X(KITH_INT16, 2, "int16", 2)                                                                                       \
    X(KITH_UINT16, 3, "uint16", 2)                                                                                     \
    X(KITH_INT32, 4, "int32", 4)                                                                                       \
    X(KITH_UINT32, 5, "uint32", 4)                                                                                     \
    X(KITH_INT64, 6, "int64", 8)                                                                                       \
    X(KITH_UINT64, 7, "uint64", 8)                                                                                     \
    X(KITH_F16, 8, "f16", 2)                                                                                           \
    X(KITH_BF16, 9, "bf16", 2)                                                                                         \
    X(KITH_F32, 10, "f32", 4)                                                                                          \
    X(KITH_F64, 11, "f64", 8)                                                                                          \
    X(KITH_F8E4M3, 12, "f8e4m3", 1)                                                                                    \
    X(KITH_F8E5M2, 13, "f8e5m2", 1)

typedef enum kith_dtype {
#define KITH_DTYPE_ENUM(symbol, number, name, nbytes) symbol = number,
    KITH_DTYPE_TABLE(KITH_DTYPE_ENUM)
#undef KITH_DTYPE_ENUM
} kith_dtype;

#define KITH_DTYPE_COUNT 14

/* Bytes of one element, 0 for a number that is no dtype. */
KITH_API size_t kith_dtype_nbytes(kith_dtype dtype);

/* "f32" and so on, "unknown dtype" otherwise. Static storage. */
KITH_API const char *kith_dtype_name(kith_dtype dtype);

/* The inverse of kith_dtype_name(). KITH_ERR_INVALID_ARG lists the valid names. */
KITH_API kith_status kith_dtype_parse(const char *name, kith_dtype *dtype);

#ifdef __cplusplus
}
#endif
#endif
