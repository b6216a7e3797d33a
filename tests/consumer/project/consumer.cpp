// The same from C++: a context owned by a unique_ptr, a vector as the buffer, the option macros.
//
// SPDX-License-Identifier: BSD-3-Clause
#include <kith/kith.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

struct leave {
    void operator()(kith_ctx *ctx) const { kith_finalize(ctx); }
};

int main()
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.timeout_ms = 60000;
    kith_ctx *raw = nullptr;
    if (kith_init(&options, &raw) != KITH_OK) {
        std::fprintf(stderr, "%s\n", kith_error_detail());
        return 1;
    }
    std::unique_ptr<kith_ctx, leave> ctx(raw);
    const int size = kith_size(ctx.get());
    std::vector<std::int32_t> sums(3, kith_rank(ctx.get()) + 1);
    kith_status status =
        kith_all_reduce(kith_world(ctx.get()), sums.data(), sums.data(), sums.size(), KITH_INT32, KITH_SUM);
    if (status != KITH_OK) std::fprintf(stderr, "%s\n", kith_error_detail());
    if (kith_rank(ctx.get()) == 0) std::printf("sum %d of %d\n", static_cast<int>(sums[2]), size);
    return status != KITH_OK || sums[2] != size * (size + 1) / 2;
}
