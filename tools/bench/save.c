/* tools/bench/save.c - where rows go: --json, --csv, --save.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../json.h"
#include "../output.h"
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const ki_command ki_command_bench;

/* NULL for "": standard output. */
static const char *path_of(const char *file)
{
    return file[0] != '\0' ? file : NULL;
}

static int write_json(const bench_rows *rows, const char *file)
{
    ki_output output;
    if (!ki_output_open(&output, &ki_command_bench))
        return KI_EXIT_USAGE;
    bench_rows_json(rows, output.stream);
    fputc('\n', output.stream);
    return ki_output_close(&output, path_of(file), false);
}

static int write_csv(const bench_rows *rows, const char *file)
{
    ki_output output;
    if (!ki_output_open(&output, &ki_command_bench))
        return KI_EXIT_USAGE;
    bench_rows_csv(rows, output.stream);
    return ki_output_close(&output, path_of(file), false);
}

static int write_save(const bench_rows *rows, const char *file, int stop_signal, const char *const *hosts,
                      int host_count)
{
    ki_output output;
    const char *command = getenv(BENCH_COMMAND_VARIABLE);
    if (!ki_output_open(&output, &ki_command_bench))
        return KI_EXIT_USAGE;
    ki_json_restart();
    ki_json_open(output.stream, NULL, '{');
    ki_json_string(output.stream, "format", "kith-results-1");
    if (stop_signal != 0)
        ki_json_string(output.stream, "cut_off", stop_signal == SIGTERM ? "SIGTERM" : "SIGINT");
    bench_machine_json(output.stream, command != NULL ? command : "", hosts, host_count);
    fputs(", \"rows\": ", output.stream);
    bench_rows_json(rows, output.stream);
    fputs("}\n", output.stream);
    return ki_output_close(&output, file, false);
}

bool bench_prints_rows(const bench_options *options)
{
    return (options->json != NULL && options->json[0] == '\0') || (options->csv != NULL && options->csv[0] == '\0');
}

/* A file that is there must be writable, and a file; else its folder. */
static bool is_writable(const char *file)
{
    char folder[4096];
    struct stat there;
    if (stat(file, &there) == 0 && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (access(file, F_OK) == 0)
        return access(file, W_OK) == 0;
    const char *slash = strrchr(file, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - file) + 1 : 1, slash != NULL ? file : ".");
    return access(folder, W_OK) == 0;
}

bool bench_can_write(const bench_options *options, char *sentence, size_t nbytes)
{
    const char *const files[] = { options->json, options->csv, options->save };
    for (int i = 0; i < 3; i++) {
        if (files[i] == NULL || files[i][0] == '\0' || is_writable(files[i]))
            continue;
        snprintf(sentence, nbytes, "cannot write %s: %s", files[i], strerror(errno));
        return false;
    }
    return true;
}

int bench_write(const bench_options *options, const bench_rows *rows, int stop_signal, const char *const *hosts,
                int host_count)
{
    int json = KI_EXIT_OK, csv = KI_EXIT_OK, save = KI_EXIT_OK;
    if (options->json != NULL)
        json = write_json(rows, options->json);
    if (options->csv != NULL)
        csv = write_csv(rows, options->csv);
    if (options->save != NULL) /* also after a failure: what was measured is worth more than the order of complaints */
        save = write_save(rows, options->save, stop_signal, hosts, host_count);
    return json != KI_EXIT_OK ? json : csv != KI_EXIT_OK ? csv : save;
}
