/* tools/bench/bench.c - the command itself, and -n (tools/launch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"
#include "../flags.h"
#include "../launch.h"
#include "../tune/links.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int bench_main(int argc, char **argv);
const ki_command ki_command_bench = { "bench", "Measure collectives and messages over any backend", bench_help,
                                      bench_main };

bool bench_is_other_rank(void)
{
    static const char *const variables[] = { "KITH_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        long rank;
        if (text != NULL)
            return ki_parse_long(text, 1, LONG_MAX, &rank);
    }
    return false;
}

/* A word as a shell would read it again. */
static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=,./:@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fprintf(out, " %s", word);
        return;
    }
    fputs(" '", out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

/* The line as it was typed, for the files of results; kept when this process was started by -n. */
static void keep_command(int argc, char **argv)
{
    char *line = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&line, &nbytes);
    if (out == NULL)
        return;
    fputs("kith", out);
    for (int i = 0; i < argc; i++)
        print_word(out, argv[i]);
    if (fclose(out) == 0)
        setenv(BENCH_COMMAND_VARIABLE, line, 0);
    free(line);
}

/* What is wrong with the words, rank 0 says alone. */
static int read_silently(int argc, char **argv, bench_options *options, char **rest)
{
    int kept = bench_is_other_rank() ? dup(STDERR_FILENO) : -1, null = kept >= 0 ? open("/dev/null", O_WRONLY) : -1;
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    int status = bench_options_read(argc, argv, options, rest);
    if (null >= 0) {
        dup2(kept, STDERR_FILENO);
        close(null);
        if (status != KI_EXIT_OK) /* whoever started the ranks ends all when one leaves: not before rank 0 has spoken */
            usleep(BENCH_SPEAKING_US);
    }
    if (kept >= 0)
        close(kept);
    return status;
}

static int read_and_run(int argc, char **argv, bench_options *options, char **words)
{
    words[0] = "kith";
    int status = argc > 1 ? read_silently(argc, argv, options, words + 1) : KI_FLAGS_HELP;
    if (status == KI_FLAGS_HELP) {
        fputs(bench_help, stdout);
        return KI_EXIT_OK;
    }
    if (status != KI_EXIT_OK)
        return status;
    return options->rank_count > 0 ? ki_launch("bench", options->rank_count, words) : bench_run_rank(options);
}

static int bench_main(int argc, char **argv)
{
    bench_options options = { 0 };
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL) {
        perror("kith bench");
        return KI_EXIT_USAGE;
    }
    keep_command(argc, argv);
    int status = tune_bench_is_asked(argc, argv) ? tune_bench(argc, argv) : read_and_run(argc, argv, &options, words);
    bench_options_free(&options);
    free(words);
    return status;
}
