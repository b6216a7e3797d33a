/* layers/compute/cuda/types.h - the types that kernels are made for: X(storage type, name).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_TYPES_H
#define KI_LAYERS_CUDA_TYPES_H

#define KI_EACH_STORAGE(X) X(float, f32) X(double, f64) X(ki_bf16, bf16) X(ki_f16, f16)

#define KI_EACH_ACCUMULATOR(X) X(float, f32) X(double, f64)

/* X(storage of x, its name, storage of y, its name): T and A(T) in all four ways. */
#define KI_EACH_MIXTURE(X)                                                                                             \
    X(float, f32, float, f32)                                                                                          \
    X(double, f64, double, f64)                                                                                        \
    X(ki_bf16, bf16, ki_bf16, bf16)                                                                                    \
    X(ki_f16, f16, ki_f16, f16)                                                                                        \
    X(ki_bf16, bf16, float, f32)                                                                                       \
    X(float, f32, ki_bf16, bf16)                                                                                       \
    X(ki_f16, f16, float, f32)                                                                                         \
    X(float, f32, ki_f16, f16)

/* The rest of all pairs: for copies. */
#define KI_EACH_OTHER_MIXTURE(X)                                                                                       \
    X(float, f32, double, f64)                                                                                         \
    X(double, f64, float, f32)                                                                                         \
    X(ki_bf16, bf16, double, f64)                                                                                      \
    X(double, f64, ki_bf16, bf16)                                                                                      \
    X(ki_f16, f16, double, f64)                                                                                        \
    X(double, f64, ki_f16, f16)                                                                                        \
    X(ki_bf16, bf16, ki_f16, f16)                                                                                      \
    X(ki_f16, f16, ki_bf16, bf16)

#endif
