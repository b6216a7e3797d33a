/* A C program that uses an installed Kith: sums rank + 1 and checks it. Prints "sum <s> of <n>" on rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <stdio.h>

int main(void)
{
    kith_ctx *ctx;
    if (kith_init(NULL, &ctx) != KITH_OK) {
        fprintf(stderr, "%s\n", kith_error_detail());
        return 1;
    }
    int size = kith_size(ctx);
    int32_t sum = kith_rank(ctx) + 1;
    kith_status status = kith_all_reduce(kith_world(ctx), &sum, &sum, 1, KITH_INT32, KITH_SUM);
    if (status != KITH_OK) fprintf(stderr, "%s\n", kith_error_detail());
    if (kith_rank(ctx) == 0) printf("sum %d of %d\n", (int)sum, size);
    kith_finalize(ctx);
    return status != KITH_OK || sum != size * (size + 1) / 2;
}
