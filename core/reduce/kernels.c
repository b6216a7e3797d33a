/* core/reduce/kernels.c - which instruction set's kernels are used. Chosen once a process, at the first reduction.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernels.h"
#include "../base/log.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool is_runnable(const ki_kernels *kernels)
{
#ifdef KI_HAS_X86_KERNELS
    /* The compiler's run-time check asks the operating system for the registers too. */
    if (kernels == &ki_kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (kernels == &ki_kernels_avx2)
        return __builtin_cpu_supports("avx2");
#endif
    return kernels == &ki_kernels_generic;
}

const ki_kernels *ki_kernels_at(size_t index)
{
    static const ki_kernels *const all[] = {
#ifdef KI_HAS_X86_KERNELS
        &ki_kernels_avx512,
        &ki_kernels_avx2,
#endif
        &ki_kernels_generic,
    };
#ifdef KI_HAS_X86_KERNELS
    __builtin_cpu_init();
#endif
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (is_runnable(all[i]) && index-- == 0)
            return all[i];
    }
    return NULL;
}

static const ki_kernels *find(const char *isa)
{
    const ki_kernels *kernels;
    for (size_t i = 0; (kernels = ki_kernels_at(i)) != NULL; i++) {
        if (strcmp(kernels->isa, isa) == 0)
            return kernels;
    }
    return NULL;
}

static const ki_kernels *choose(void)
{
    const ki_kernels *best = ki_kernels_at(0);
    const char *wanted = getenv("KITH_KERNELS");
    if (wanted == NULL || wanted[0] == '\0' || strcmp(wanted, "auto") == 0)
        return best;
    const ki_kernels *found = find(wanted);
    if (found == NULL)
        ki_log(KITH_LOG_WARN,
               "KITH_KERNELS=%s does not name kernels that run on this CPU; using %s (valid: auto, generic, "
               "avx2, avx512, as far as the CPU has them)",
               wanted, best->isa);
    return found != NULL ? found : best;
}

static const ki_kernels *_Atomic in_use;

const ki_kernels *ki_kernels_get(void)
{
    const ki_kernels *kernels = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (__builtin_expect(kernels == NULL, 0)) {
        kernels = choose(); /* several threads may do this: they choose the same */
        atomic_store_explicit(&in_use, kernels, memory_order_relaxed);
    }
    return kernels;
}

bool ki_kernels_select(const char *isa)
{
    const ki_kernels *found = find(isa);
    if (found != NULL)
        atomic_store_explicit(&in_use, found, memory_order_relaxed);
    return found != NULL;
}

const char *ki_kernels_isa(void)
{
    return ki_kernels_get()->isa;
}
