/* examples/hello.c - the smallest program: every rank brings a number, all get the sum.
 *
 *     kith run -n 4 -- hello            prints "ok: 10"
 *
 * The same text stands at the top of kith/kith.h and in README.md.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <stdio.h>

int main(void)
{
    kith_ctx *ctx;
    if (kith_init(NULL, &ctx) != KITH_OK) return fprintf(stderr, "%s\n", kith_error_detail()), 1;
    float x = (float)kith_rank(ctx) + 1;
    kith_status s = kith_all_reduce(kith_world(ctx), &x, &x, 1, KITH_F32, KITH_SUM);
    if (kith_rank(ctx) == 0) printf("%s: %g\n", kith_status_name(s), x);
    kith_finalize(ctx);
    return s != KITH_OK;
}
