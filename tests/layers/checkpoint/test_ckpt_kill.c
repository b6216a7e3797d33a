/* tests/layers/checkpoint/test_ckpt_kill.c - a process that saves again and again is killed at random moments: the
 * newest checkpoint is whole every time, and never older than the one before.
 *
 * The program runs itself, as a saver and as a reader, so that each has a process of its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* nftw() */
#include <ftw.h>
#include <kith/checkpoint.h>
#include <kith/kith.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { KILLS = 30, WIDTH = 32, CUT_MS = 60 };

typedef struct job {
    kith_transformer_config config;
    kith_layers *layers;
    kith_checkpoint_place place;
} job;

static int is_made(job *j)
{
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    kith_transformer *transformer;
    *j = (job){ .config = KITH_TRANSFORMER_CONFIG_INIT, .place = KITH_CHECKPOINT_PLACE_INIT };
    place.blas_threads = 1;
    options.config = &j->config;
    j->place.config = &j->config;
    kith_transformer_gpt2(&j->config, WIDTH, 2, 4, 301, 16);
    if (kith_layers_create(&place, &j->layers) != KITH_OK ||
        kith_transformer_create(j->layers, &options, &transformer) != KITH_OK)
        return 0;
    j->place.layers = j->layers;
    return 1;
}

/* Every weight is the count. Steps go round, so that most savings replace an older checkpoint. */
static int save_on(const char *folder, double count)
{
    job j;
    if (!is_made(&j))
        return 2;
    for (;; count++) {
        kith_checkpoint_number number = { "count", count };
        for (size_t i = 0; i < kith_layers_param_count(j.layers); i++)
            kith_param_fill(kith_layers_param(j.layers, i), count);
        if (kith_checkpoint_save(&j.place, folder, (int64_t)count / 5, &number, 1) != KITH_OK ||
            ((int64_t)count % 7 == 0 && kith_checkpoint_prune(NULL, folder, 2, -1) != KITH_OK)) {
            fprintf(stderr, "%s\n", kith_error_detail());
            return 3;
        }
    }
}

/* Says the count of the newest checkpoint, when all weights are of it. */
static int read_newest(const char *folder)
{
    job j;
    char *path = NULL;
    int64_t step;
    kith_checkpoint_number number = { "count", -1 };
    if (!is_made(&j) || kith_checkpoint_newest(NULL, folder, &path, &step) != KITH_OK ||
        kith_checkpoint_load(&j.place, path, &number, 1) != KITH_OK) {
        fprintf(stderr, "%s\n", kith_error_detail());
        return 2;
    }
    for (size_t i = 0; i < kith_layers_param_count(j.layers); i++) {
        const kith_param *param = kith_layers_param(j.layers, i);
        for (int64_t k = 0; k < kith_tensor_count(&param->value); k++)
            if (((const float *)param->value.data)[k] != (float)number.value)
                return 3;
    }
    kith_free(path);
    printf("%.0f\n", number.value);
    return kith_layers_destroy(j.layers) == KITH_OK ? 0 : 4;
}

static pid_t start_saver(const char *folder, double count)
{
    char text[32];
    snprintf(text, sizeof text, "%.0f", count);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_ckpt_kill", "save", folder, text, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static double count_of_newest(const char *folder)
{
    char command[512];
    double count = -1;
    snprintf(command, sizeof command, "/proc/%ld/exe read %s", (long)getpid(), folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    int read = fscanf(pipe, "%lf", &count);
    int status = pclose(pipe);
    if (read != 1 || status != 0)
        fail_msg("the newest checkpoint does not load: status %d", status);
    return count;
}

static void sleep_ms(int ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

/* Kills need not hit the same moment on the next run, so the seed is the time, and is told. */
static void test_kill(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    char folder[256], first[300];
    unsigned seed = (unsigned)time(NULL);
    double count = 1;
    snprintf(folder, sizeof folder, "%.200s/ckpt_XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(first, sizeof first, "%s/step-00000000/kith.json", folder);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = start_saver(folder, count);
        int status, waited = 0;
        assert_true(pid > 0);
        while (i == 0 && access(first, F_OK) != 0 && waited++ < 20000)
            sleep_ms(1);
        sleep_ms(20 + rand() % CUT_MS);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status))
            fail_msg("the saver ended by itself, with status %d", WEXITSTATUS(status));
        double newest = count_of_newest(folder);
        assert_true(newest >= count - 1); /* the one that was whole before this saver began */
        count = newest + 1;
    }
    print_message("%.0f checkpoints in %d lives\n", count - 1, KILLS);
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "save") == 0)
        return save_on(argv[2], atof(argv[3]));
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return read_newest(argv[2]);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_kill) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
