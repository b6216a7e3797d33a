/* tests/layers/checkpoint/ckpt_cases.c - runs one case on n ranks: ckpt_cases --case layouts_gpt2 -n 4 [--threads].
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>

static const struct named_case {
    const char *name;
    rank_function run;
    int (*can_run)(void); /* NULL: always. Prints why it cannot */
} cases[] = {
    { "golden", case_golden, NULL },
    { "dtypes", case_dtypes, NULL },
    { "old_files", case_old_files, NULL },
    { "damage_bits", case_damage_bits, NULL },
    { "damage_cut", case_damage_cut, NULL },
    { "damage_foreign", case_damage_foreign, NULL },
    { "damage_weights", case_damage_weights, NULL },
    { "damage_header", case_damage_header, NULL },
    { "damage_index", case_damage_index, NULL },
    { "disk_unwritable", case_disk_unwritable, NULL },
    { "disk_twice", case_disk_twice, NULL },
    { "disk_full", case_disk_full, can_make_disk },
    { "layouts_gpt2", case_layouts_gpt2, NULL },
    { "layouts_llama", case_layouts_llama, NULL },
    { "layouts_mixtral", case_layouts_mixtral, NULL },
    { "layouts_bf16", case_layouts_bf16, NULL },
    { "layouts_wide", case_layouts_wide, NULL },
};
enum { CASES = sizeof cases / sizeof cases[0] };

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = 1, .timeout_s = 60 };
    const struct named_case *chosen = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0)
            options.mode = LAUNCH_THREADS;
        else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
            options.size = atoi(argv[++i]);
        else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
            options.timeout_s = atoi(argv[++i]);
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            for (int c = 0, at = ++i; c < CASES; c++)
                chosen = strcmp(cases[c].name, argv[at]) == 0 ? &cases[c] : chosen;
    }
    if (chosen == NULL) {
        fprintf(stderr, "usage: ckpt_cases --case NAME -n RANKS [--threads] [--timeout S]\n");
        return 2;
    }
    if (chosen->can_run != NULL && !chosen->can_run())
        return 77;
    return run_ranks(&options, chosen->run, NULL) == 0 ? 0 : 1;
}
