/* tests/layers/test_cuda_elements.c - a GPU's functions that work element by element, against the host's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include <math.h>
#include <string.h>

static const kith_dtype types[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };

static void check_fill_scale(const cuda_case *c)
{
    twin y = twin_random(c, c->dtype, c->rows, c->cols, 1);
    cuda_both(c, "scale", HOST(c, scale, -1.7, y.host), GPU(c, scale, -1.7, y.device));
    cuda_compare(c, "scale", y, CUDA_SAME, 0);
    cuda_both(c, "fill", HOST(c, fill, y.host, 0.3), GPU(c, fill, y.device, 0.3));
    cuda_compare(c, "fill", y, CUDA_SAME, 0);
}

/* Conversions between any two types: infinities, NaN, halves of the last place, numbers that a type cannot hold. */
static void check_copy(const cuda_case *c)
{
    static const double odd[] = { INFINITY,   -INFINITY,   NAN,   -0.0, 1 + 0x1p-9,
                                  1 + 0x3p-9, 1 + 0x1p-12, 70000, 1e-7, 1e300 };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        twin x = twin_random(c, c->dtype, c->rows, c->cols, 1), y = twin_zeros(c, types[t], c->rows, c->cols);
        for (int64_t i = 0; i < (int64_t)(sizeof odd / sizeof odd[0]) && i < c->cols && c->rows > 0 && c->cols < 100;
             i++)
            twin_set(x, 0, i, odd[i]);
        cuda_both(c, "copy", HOST(c, copy, x.host, y.host), GPU(c, copy, x.device, y.device));
        /* The host's twin of f16 was rounded to f32 on its way. */
        const bool is_twice = c->dtype == KITH_F64 && types[t] == KITH_F16;
        cuda_compare(c, "copy", y, is_twice ? CUDA_NEAR : CUDA_SAME, 0);
    }
}

static void check_add(const cuda_case *c)
{
    for (int way = 0; way < 4; way++) {
        twin x = twin_random(c, way & 1 ? c->wide : c->dtype, c->rows, c->cols, 1);
        twin y = twin_random(c, way & 2 ? c->wide : c->dtype, c->rows, c->cols, 1);
        cuda_both(c, "add", HOST(c, add, 0.7, x.host, y.host), GPU(c, add, 0.7, x.device, y.device));
        cuda_compare(c, "add", y, CUDA_SAME, 0);
    }
}

static void check_bias(const cuda_case *c)
{
    twin bias = twin_random(c, c->dtype, 1, c->cols, 1), y = twin_random(c, c->dtype, c->rows, c->cols, 1);
    twin grad = twin_random(c, c->wide, 1, c->cols, 1);
    cuda_both(c, "bias_add", HOST(c, bias_add, bias.host, y.host), GPU(c, bias_add, bias.device, y.device));
    cuda_compare(c, "bias_add", y, CUDA_SAME, 0);
    cuda_both(c, "bias_grad", HOST(c, bias_grad, y.host, grad.host), GPU(c, bias_grad, y.device, grad.device));
    cuda_compare(c, "bias_grad", grad, CUDA_SAME, 0);
}

static void check_activations(const cuda_case *c)
{
    for (int kind = KI_GELU_EXACT; kind <= KI_SILU; kind++)
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            twin x = twin_random(c, c->dtype, c->rows, c->cols, 2), y = twin_zeros(c, c->dtype, c->rows, c->cols);
            twin bias = with_bias ? twin_random(c, c->dtype, 1, c->cols, 1) : twin_none();
            twin dx = twin_random(c, c->dtype, c->rows, c->cols, 1);
            cuda_both(c, "activation", HOST(c, activation, (ki_activation)kind, x.host, bias.host, y.host),
                      GPU(c, activation, (ki_activation)kind, x.device, bias.device, y.device));
            cuda_compare(c, "activation", y, CUDA_LIBM, 8);
            cuda_both(c, "activation_grad",
                      HOST(c, activation_grad, (ki_activation)kind, x.host, bias.host, dx.host, dx.host),
                      GPU(c, activation_grad, (ki_activation)kind, x.device, bias.device, dx.device, dx.device));
            cuda_compare(c, "activation_grad", dx, CUDA_LIBM, 16);
        }
}

static void check_gated(const cuda_case *c)
{
    for (int kind = KI_GELU_EXACT; kind <= KI_SILU; kind++) {
        twin gate = twin_random(c, c->dtype, c->rows, c->cols, 2), up = twin_random(c, c->dtype, c->rows, c->cols, 1);
        twin y = twin_zeros(c, c->dtype, c->rows, c->cols), dy = twin_random(c, c->dtype, c->rows, c->cols, 1);
        twin dgate = twin_zeros(c, c->dtype, c->rows, c->cols), dup = twin_zeros(c, c->dtype, c->rows, c->cols);
        cuda_both(c, "gated", HOST(c, gated, (ki_activation)kind, gate.host, up.host, y.host),
                  GPU(c, gated, (ki_activation)kind, gate.device, up.device, y.device));
        cuda_compare(c, "gated", y, CUDA_LIBM, 8);
        cuda_both(c, "gated_grad",
                  HOST(c, gated_grad, (ki_activation)kind, gate.host, up.host, dy.host, dgate.host, dup.host),
                  GPU(c, gated_grad, (ki_activation)kind, gate.device, up.device, dy.device, dgate.device, dup.device));
        cuda_compare(c, "dgate", dgate, CUDA_LIBM, 32);
        cuda_compare(c, "dup", dup, CUDA_LIBM, 16);
    }
}

static void check_dropout(const cuda_case *c)
{
    static const double probabilities[] = { 0, 0.1, 0.9999999999 };
    for (uint32_t i = 0; i < 3; i++) {
        const ki_dropout how = { probabilities[i], UINT64_C(0x123456789abcdef), 7, 3, 2, 5, 10 + i };
        twin x = twin_random(c, c->dtype, c->rows, c->cols, 1), y = twin_zeros(c, c->dtype, c->rows, c->cols);
        twin bias = i > 0 ? twin_random(c, c->dtype, 1, c->cols, 1) : twin_none();
        twin residual = i < 2 ? twin_random(c, c->dtype, c->rows, c->cols, 1) : twin_none();
        cuda_both(c, "dropout_add", HOST(c, dropout_add, &how, x.host, bias.host, residual.host, y.host),
                  GPU(c, dropout_add, &how, x.device, bias.device, residual.device, y.device));
        cuda_compare(c, "dropout_add", y, CUDA_SAME, 0);
        cuda_both(c, "dropout_grad", HOST(c, dropout_grad, &how, x.host, x.host),
                  GPU(c, dropout_grad, &how, x.device, x.device));
        cuda_compare(c, "dropout_grad", x, CUDA_SAME, 0);
    }
}

static void elements(void **state)
{
    (void)state;
    cuda_everywhere(check_fill_scale);
    cuda_everywhere(check_copy);
    cuda_everywhere(check_add);
}

static void biases(void **state)
{
    (void)state;
    cuda_everywhere(check_bias);
}

static void activations(void **state)
{
    (void)state;
    cuda_everywhere(check_activations);
    cuda_everywhere(check_gated);
}

static void dropout(void **state)
{
    (void)state;
    cuda_everywhere(check_dropout);
}

static void refuse_integers(const cuda_case *c)
{
    twin y = twin_zeros(c, c->dtype, 2, 3), x = twin_zeros(c, c->dtype == KITH_F64 ? KITH_F32 : KITH_F64, 1, 3);
    ki_mat whole = y.device;
    whole.dtype = KITH_INT32;
    assert_int_equal(GPU(c, fill, whole, 1), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(cuda_sentence(), "fill"));
    assert_int_equal(GPU(c, bias_add, x.device, y.device), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(cuda_sentence(), "computes with one type"));
}

static void refusals(void **state)
{
    (void)state;
    cuda_shape(2, 3, 0, refuse_integers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements), cmocka_unit_test(biases),   cmocka_unit_test(activations),
        cmocka_unit_test(dropout),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, cuda_setup, cuda_teardown);
}
