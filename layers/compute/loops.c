/* layers/compute/loops.c - which instruction set's loops are used.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "loops.h"
#include "core/base/log.h"
#include <stdlib.h>
#include <string.h>

static bool is_runnable(const ki_loops *loops)
{
#ifdef KI_HAS_X86_LOOPS
    /* The compiler's run-time check asks the operating system for the registers too. */
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (loops == &ki_loops_avx512)
        return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (loops == &ki_loops_avx2)
        return has_avx2;
#endif
    return loops == &ki_loops_generic;
}

const ki_loops *ki_loops_at(size_t index)
{
    static const ki_loops *const all[] = {
#ifdef KI_HAS_X86_LOOPS
        &ki_loops_avx512,
        &ki_loops_avx2,
#endif
        &ki_loops_generic,
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (is_runnable(all[i]) && index-- == 0)
            return all[i];
    }
    return NULL;
}

const ki_loops *ki_loops_choose(void)
{
    const ki_loops *loops, *best = ki_loops_at(0);
    const char *wanted = getenv("KITH_KERNELS");
    if (wanted == NULL || wanted[0] == '\0' || strcmp(wanted, "auto") == 0)
        return best;
    for (size_t i = 0; (loops = ki_loops_at(i)) != NULL; i++) {
        if (strcmp(loops->isa, wanted) == 0)
            return loops;
    }
    ki_log(KITH_LOG_WARN,
           "KITH_KERNELS=%s does not name loops of layers that run here; using %s (valid: auto, generic, "
           "avx2, avx512, as far as the CPU and the build have them)",
           wanted, best->isa);
    return best;
}
