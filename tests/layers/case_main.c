/* tests/layers/case_main.c - runs one case of a program on n ranks; see case_main.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "case_main.h"
#include "layer_cases.h"

#include <string.h>

static const named_case *find(const named_case *cases, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    return NULL;
}

static const named_case *chosen;

static void run_chosen(rank_info *info)
{
    chosen->run(info);
    end_device();
}

static int usage(const char *program, const char *why)
{
    fprintf(stderr, "%s: %s\nusage: %s --case NAME -n RANKS [--threads|--environment] [--backend B] [--timeout S]\n",
            program, why, program);
    return 2;
}

int case_main(int argc, char **argv, const char *program, const named_case *cases, size_t count)
{
    run_options options = { .mode = LAUNCH_FORK, .size = 1, .timeout_s = 60 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            for (size_t c = 0; c < count; c++)
                puts(cases[c].name);
            return 0;
        }
        if (strcmp(argv[i], "--threads") == 0 || strcmp(argv[i], "--environment") == 0) {
            options.mode = argv[i][2] == 't' ? LAUNCH_THREADS : LAUNCH_ENVIRONMENT;
            continue;
        }
        if (i + 1 == argc)
            return usage(program, "an option lacks its value, or is unknown");
        const char *option = argv[i], *value = argv[++i];
        if (strcmp(option, "--case") == 0)
            chosen = find(cases, count, value);
        else if (strcmp(option, "-n") == 0)
            options.size = atoi(value);
        else if (strcmp(option, "--backend") == 0)
            options.backend = value;
        else if (strcmp(option, "--timeout") == 0)
            options.timeout_s = atoi(value);
        else
            return usage(program, "unknown option");
    }
    if (chosen == NULL)
        return usage(program, "no such case");
    return run_ranks(&options, run_chosen, NULL) == 0 ? 0 : 1;
}
