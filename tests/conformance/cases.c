/* tests/conformance/cases.c - cases --case NAME [--backend NAME] [-n RANKS] [--threads | --environment]
 *                                   [--set name=value]... [--timeout SECONDS]
 *
 * Exit status 77: skipped. `cases --list` prints the names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <string.h>

static const conformance_case *const tables[] = { cases_numbers, cases_data,    cases_reports,
                                                  cases_choice,  cases_joining, cases_network };
enum { TABLES = sizeof tables / sizeof tables[0], SETTINGS = 16 };

void case_folder_make(char *path, size_t nbytes)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, nbytes, "%s/kith-case-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(path) == NULL)
        abort();
}

void case_folder_remove(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0)
        fprintf(stderr, "cases: %s is left behind\n", path);
}

void case_use_group(kith_group *group)
{
    enum { COUNT = 100000 };
    int n = kith_group_size(group), rank = kith_group_rank(group);
    int *x = (int *)malloc(COUNT * sizeof *x), mine = rank, theirs = -1;
    REQUIRE(x != NULL && n > 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = i + rank;
    REQUIRE_OK(kith_all_reduce(group, x, x, COUNT, KITH_INT32, KITH_SUM));
    for (int i = 0; i < COUNT; i++)
        REQUIRE(x[i] == n * i + n * (n - 1) / 2);
    REQUIRE_OK(kith_sendrecv(group, &mine, 1, (rank + 1) % n, 0, &theirs, 1, (rank + n - 1) % n, 0, KITH_INT32));
    REQUIRE(theirs == (rank + n - 1) % n);
    free(x);
}

static const conformance_case *find(const char *name)
{
    for (int t = 0; t < TABLES; t++)
        for (const conformance_case *c = tables[t]; c->name != NULL; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

static int list(void)
{
    for (int t = 0; t < TABLES; t++)
        for (const conformance_case *c = tables[t]; c->name != NULL; c++)
            puts(c->name);
    return 0;
}

static int usage(const char *why)
{
    fprintf(stderr,
            "cases: %s\nusage: cases --case NAME [--backend NAME] [-n RANKS] [--threads | --environment] "
            "[--set name=value]... [--timeout SECONDS] | --list\n",
            why);
    return 2;
}

static int run(const char *name, run_options *options)
{
    const conformance_case *found = find(name);
    if (found == NULL)
        return usage("no such case");
    int failed = found->run != NULL ? found->run(options) : run_ranks(options, found->on_rank, NULL);
    if (failed == CASE_SKIPPED)
        return 77;
    if (failed > 0)
        fprintf(stderr, "cases: %s: %d of %d ranks failed\n", name, failed, options->size);
    return failed > 0;
}

int main(int argc, char **argv)
{
    static kith_setting settings[SETTINGS];
    run_options options = { .mode = LAUNCH_FORK, .size = 4, .settings = settings, .timeout_s = 100 };
    const char *name = "";
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--list") == 0)
            return list();
        if (strcmp(option, "--threads") == 0 || strcmp(option, "--environment") == 0) {
            options.mode = option[2] == 't' ? LAUNCH_THREADS : LAUNCH_ENVIRONMENT;
            continue;
        }
        if (value == NULL)
            return usage("an option lacks its value");
        i++;
        if (strcmp(option, "--case") == 0)
            name = value;
        else if (strcmp(option, "--backend") == 0)
            options.backend = value;
        else if (strcmp(option, "-n") == 0)
            options.size = atoi(value);
        else if (strcmp(option, "--timeout") == 0)
            options.timeout_s = atoi(value);
        else if (strcmp(option, "--set") == 0 && options.setting_count < SETTINGS && strchr(value, '=') != NULL) {
            char *equals = strchr(argv[i], '=');
            *equals = '\0';
            settings[options.setting_count++] = (kith_setting){ argv[i], equals + 1 };
        } else
            return usage(option);
    }
    return run(name, &options);
}
