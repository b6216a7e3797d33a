/* tests/conformance/main.c - conformance --suite NAME --backend NAME -n RANKS [--threads | --environment] [--argument
 * TEXT]
 *             [--set name=value]... [--timeout SECONDS] [--hosts H: ranks pretend to be on H hosts]
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"

#include <string.h>

static const struct suite {
    const char *name;
    rank_function function;
} suites[] = {
    { "collectives", suite_collectives }, { "groups", suite_groups },
    { "messages", suite_messages },       { "async", suite_async },
    { "determinism", suite_determinism }, { "large", suite_large },
};

static kith_setting settings[32];

static int usage(const char *why)
{
    fprintf(stderr,
            "conformance: %s\nusage: conformance --suite NAME --backend NAME -n RANKS [--threads | --environment] "
            "[--argument TEXT] [--set name=value]... [--timeout SECONDS]\n",
            why);
    return 2;
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = 2, .settings = settings, .timeout_s = 300 };
    const char *suite = "collectives", *argument = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--threads") == 0) {
            options.mode = LAUNCH_THREADS;
            continue;
        }
        if (strcmp(argv[i], "--environment") == 0) {
            options.mode = LAUNCH_ENVIRONMENT;
            continue;
        }
        if (value == NULL)
            return usage("an option lacks its value");
        i++;
        if (strcmp(argv[i - 1], "--suite") == 0)
            suite = value;
        else if (strcmp(argv[i - 1], "--backend") == 0)
            options.backend = value;
        else if (strcmp(argv[i - 1], "-n") == 0)
            options.size = atoi(value);
        else if (strcmp(argv[i - 1], "--argument") == 0)
            argument = value;
        else if (strcmp(argv[i - 1], "--timeout") == 0)
            options.timeout_s = atoi(value);
        else if (strcmp(argv[i - 1], "--hosts") == 0)
            options.hosts = atoi(value);
        else if (strcmp(argv[i - 1], "--set") == 0 && options.setting_count < 32 && strchr(value, '=') != NULL) {
            char *equals = strchr(argv[i], '=');
            *equals = '\0';
            settings[options.setting_count++] = (kith_setting){ argv[i], equals + 1 };
        } else
            return usage(argv[i - 1]);
    }
    for (size_t s = 0; s < sizeof suites / sizeof suites[0]; s++) {
        if (strcmp(suites[s].name, suite) != 0)
            continue;
        int failed = run_ranks(&options, suites[s].function, argument);
        if (failed > 0)
            fprintf(stderr, "conformance %s: %d of %d ranks failed\n", suite, failed, options.size);
        return failed > 0;
    }
    return usage("no such suite");
}
