/* tests/layers/test_cuda_parameters.c - a GPU's initial weights, sums to the host, optimizers and products.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_normal(const cuda_case *c)
{
    for (int64_t odd = 0; odd < 2; odd++) {
        twin y = twin_zeros(c, c->dtype, c->rows, c->cols);
        cuda_both(c, "normal", HOST(c, normal, 99, 5, 3, 2 + odd, 7001, 0.02, y.host),
                  GPU(c, normal, 99, 5, 3, 2 + odd, 7001, 0.02, y.device));
        cuda_compare(c, "normal", y, CUDA_LIBM, 1);
    }
}

static void check_sums(const cuda_case *c)
{
    double wanted = 1, got = 2;
    twin x = twin_random(c, c->dtype, c->rows, c->cols, 1);
    cuda_both(c, "sum_elements", HOST(c, sum_elements, x.host, &wanted), GPU(c, sum_elements, x.device, &got));
    if (wanted != got)
        fail_msg("sum_elements: wanted %.17g (the host's), got %.17g", wanted, got);
    cuda_both(c, "sum_squares", HOST(c, sum_squares, x.host, &wanted), GPU(c, sum_squares, x.device, &got));
    if (wanted != got)
        fail_msg("sum_squares: wanted %.17g (the host's), got %.17g", wanted, got);
}

static void check_adamw(const cuda_case *c)
{
    for (int with_copy = 0; with_copy < 2; with_copy++) {
        ki_adamw how = { 1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 0.5 };
        twin weight = twin_random(c, c->wide, c->rows, c->cols, 1), m = twin_zeros(c, c->wide, c->rows, c->cols);
        twin v = twin_zeros(c, c->wide, c->rows, c->cols);
        twin stored = with_copy ? twin_zeros(c, c->dtype, c->rows, c->cols) : twin_none();
        for (how.step = 1; how.step <= 3; how.step++) {
            twin grad = twin_random(c, c->wide, c->rows, c->cols, 1);
            cuda_both(c, "adamw", HOST(c, adamw, &how, grad.host, m.host, v.host, weight.host, stored.host),
                      GPU(c, adamw, &how, grad.device, m.device, v.device, weight.device, stored.device));
        }
        cuda_compare(c, "adamw weight", weight, CUDA_SAME, 0);
        cuda_compare(c, "adamw m", m, CUDA_SAME, 0);
        cuda_compare(c, "adamw v", v, CUDA_SAME, 0);
        if (with_copy)
            cuda_compare(c, "adamw stored", stored, CUDA_SAME, 0);
    }
}

static void check_sgd(const cuda_case *c)
{
    for (int with_momentum = 0; with_momentum < 2; with_momentum++) {
        twin weight = twin_random(c, c->wide, c->rows, c->cols, 1), grad = twin_random(c, c->wide, c->rows, c->cols, 1);
        twin m = with_momentum ? twin_random(c, c->wide, c->rows, c->cols, 1) : twin_none();
        twin stored = with_momentum ? twin_zeros(c, c->dtype, c->rows, c->cols) : twin_none();
        cuda_both(c, "sgd", HOST(c, sgd, 0.1, 0.9, 0.01, 0.5, grad.host, m.host, weight.host, stored.host),
                  GPU(c, sgd, 0.1, 0.9, 0.01, 0.5, grad.device, m.device, weight.device, stored.device));
        cuda_compare(c, "sgd weight", weight, CUDA_SAME, 0);
        if (!with_momentum)
            continue;
        cuda_compare(c, "sgd m", m, CUDA_SAME, 0);
        cuda_compare(c, "sgd stored", stored, CUDA_SAME, 0);
    }
}

static void parameters(void **state)
{
    (void)state;
    cuda_everywhere(check_normal);
    cuda_everywhere(check_sums);
    cuda_everywhere(check_adamw);
    cuda_everywhere(check_sgd);
}

/* ---- products: rows x cols is c; sums are cuBLAS's own ---- */

static void check_product(const cuda_case *c, ki_transpose of_a, ki_transpose of_b, int64_t k, bool is_wide,
                          double beta)
{
    const bool a_turned = of_a == KI_TRANSPOSED, b_turned = of_b == KI_TRANSPOSED;
    twin a = twin_random(c, c->dtype, a_turned ? k : c->rows, a_turned ? c->rows : k, 1);
    twin b = twin_random(c, c->dtype, b_turned ? c->cols : k, b_turned ? k : c->cols, 1);
    twin y = twin_random(c, is_wide ? c->wide : c->dtype, c->rows, c->cols, 1);
    if (beta == 0 && c->rows > 0 && c->cols > 0)
        twin_set(y, 0, 0, NAN); /* what is there counts for nothing */
    cuda_both(c, "gemm", HOST(c, gemm, of_a, of_b, 0.5, a.host, b.host, beta, y.host),
              GPU(c, gemm, of_a, of_b, 0.5, a.device, b.device, beta, y.device));
    cuda_compare(c, "gemm", y, CUDA_NEAR, 8 + 4 * sqrt((double)k) + (double)k);
}

static void check_products(const cuda_case *c)
{
    for (int of = 0; of < 4; of++)
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            check_product(c, of & 1 ? KI_TRANSPOSED : KI_AS_IS, of & 2 ? KI_TRANSPOSED : KI_AS_IS, 11, is_wide, 0);
            check_product(c, of & 1 ? KI_TRANSPOSED : KI_AS_IS, of & 2 ? KI_TRANSPOSED : KI_AS_IS, 70, is_wide, 1);
        }
    check_product(c, KI_AS_IS, KI_AS_IS, 0, false, 0);
    check_product(c, KI_AS_IS, KI_AS_IS, 0, false, -2);
}

/* -2 to 2, so that sums of products are exact in all types. */
static twin small_integers(const cuda_case *c, int64_t rows, int64_t cols)
{
    twin t = twin_zeros(c, c->dtype, rows, cols);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < cols; col++)
            twin_set(t, row, col, (double)((row * 7 + col * 3 + rows) % 5 - 2));
    return t;
}

static void check_biased(const cuda_case *c)
{
    for (int of = 0; of < 4; of++) {
        const ki_transpose of_a = of & 1 ? KI_TRANSPOSED : KI_AS_IS, of_b = of & 2 ? KI_TRANSPOSED : KI_AS_IS;
        const int64_t k = 21;
        twin a = of & 1 ? small_integers(c, k, c->rows) : small_integers(c, c->rows, k);
        twin b = of & 2 ? small_integers(c, c->cols, k) : small_integers(c, k, c->cols);
        twin bias = small_integers(c, 1, c->cols), y = twin_random(c, c->dtype, c->rows, c->cols, 1);
        for (int again = 0; again < 2; again++) { /* the second time the algorithm is known */
            cuda_both(c, "gemm", HOST(c, gemm, of_a, of_b, 1, a.host, b.host, 0, y.host),
                      GPU(c, gemm_bias, of_a, of_b, a.device, b.device, bias.device, y.device));
            cuda_both(c, "gemm_bias", HOST(c, bias_add, bias.host, y.host), KITH_OK);
            cuda_compare(c, "gemm_bias", y, CUDA_SAME, 0);
        }
    }
}

/* (1 + 2^-7) (1 + 3 * 2^-7) - 1 is 2^-5 + 3 * 2^-14: bf16 has 2^-5 where the product is rounded first. So it is where
 * cublasLt has no algorithm (KITH_SIMGPU_FAULT), which is asked once. */
static void check_rounded_once(const cuda_case *c)
{
    if (c->dtype != KITH_BF16)
        return;
    const char *fault = getenv("KITH_SIMGPU_FAULT");
    const uint16_t wanted = fault != NULL && strcmp(fault, "heuristic:1") == 0 ? 0x3d00 : 0x3d01;
    twin a = twin_zeros(c, c->dtype, 1, 1), b = twin_zeros(c, c->dtype, 1, 1), y = twin_zeros(c, c->dtype, 1, 1);
    twin bias = twin_zeros(c, c->dtype, 1, 1);
    twin_set(a, 0, 0, 1 + 0x1p-7);
    twin_set(b, 0, 0, 1 + 3 * 0x1p-7);
    twin_set(bias, 0, 0, -1);
    memcpy(y.host.data, &wanted, sizeof wanted);
    for (int again = 0; again < 2; again++) {
        cuda_both(c, "gemm_bias", KITH_OK,
                  GPU(c, gemm_bias, KI_AS_IS, KI_TRANSPOSED, a.device, b.device, bias.device, y.device));
        cuda_compare(c, "gemm_bias", y, CUDA_SAME, 0);
    }
}

static void biased(void **state)
{
    (void)state;
    cuda_shape(1, 1, 0, check_rounded_once);
    cuda_shape(0, 5, 0, check_biased);
    cuda_shape(1, 1, 0, check_biased);
    cuda_shape(9, 13, 3, check_biased);
    cuda_shape(40, 24, 8, check_biased);
}

static void products(void **state)
{
    (void)state;
    cuda_shape(0, 5, 0, check_products);
    cuda_shape(5, 0, 3, check_products);
    cuda_shape(1, 1, 0, check_products);
    cuda_shape(9, 13, 3, check_products);
    cuda_shape(40, 24, 8, check_products);
}

static void refuse_mixture(const cuda_case *c)
{
    twin a = twin_zeros(c, c->dtype, 2, 2), y = twin_zeros(c, KITH_F64, 2, 2);
    if (c->dtype != KITH_F64)
        assert_int_equal(GPU(c, gemm, KI_AS_IS, KI_AS_IS, 1, a.device, a.device, 0, y.device), KITH_ERR_UNSUPPORTED);
}

static void refusals(void **state)
{
    (void)state;
    cuda_shape(2, 2, 0, refuse_mixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),
        cmocka_unit_test(products),
        cmocka_unit_test(biased),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, cuda_setup, cuda_teardown);
}
