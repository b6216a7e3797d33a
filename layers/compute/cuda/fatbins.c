/* layers/compute/cuda/fatbins.c - the kernels' machine code, inside the module: what nvcc made of each .cu file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"

#define EMBED(name)                                                                                                    \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".balign 64\n"                                                                                             \
            ".globl ki_fatbin_" #name "\n"                                                                             \
            ".hidden ki_fatbin_" #name "\n"                                                                            \
            "ki_fatbin_" #name ":\n"                                                                                   \
            ".incbin \"" KI_FATBIN_DIR "/" #name ".fatbin\"\n"                                                         \
            ".popsection\n");                                                                                          \
    extern const char ki_fatbin_##name[] __attribute__((visibility("hidden")));

EMBED(activation)
EMBED(attention)
EMBED(elements)
EMBED(loss)
EMBED(norm)
EMBED(parameters)
EMBED(rows)

const ki_fatbin_bytes ki_fatbins[KI_FATBINS] = {
    [KI_IN_ACTIVATION] = { "activation", ki_fatbin_activation },
    [KI_IN_ATTENTION] = { "attention", ki_fatbin_attention },
    [KI_IN_ELEMENTS] = { "elements", ki_fatbin_elements },
    [KI_IN_LOSS] = { "loss", ki_fatbin_loss },
    [KI_IN_NORM] = { "norm", ki_fatbin_norm },
    [KI_IN_PARAMETERS] = { "parameters", ki_fatbin_parameters },
    [KI_IN_ROWS] = { "rows", ki_fatbin_rows },
};
