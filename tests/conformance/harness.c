/* tests/conformance/harness.c - see harness.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int current_rank = -1;
static _Thread_local int current_size;
static _Thread_local jmp_buf *escape; /* of a rank that is a thread */

void rank_fail(const char *file, int line, const char *format, ...)
{
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *slash = strrchr(file, '/');
    fprintf(stderr, "FAILED rank %d of %d, %s:%d: %s\n", current_rank, current_size, slash != NULL ? slash + 1 : file,
            line, text);
    fflush(stderr);
    if (escape != NULL)
        longjmp(*escape, 1);
    _exit(1);
}

void require_text(const char *file, int line, const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        rank_fail(file, line, "the text lacks \"%s\": %s", part, text);
}

typedef struct run {
    const run_options *options;
    rank_function function;
    const char *argument;
    shared_board *board;
    pid_t *pids; /* of the ranks; here, so that LeakSanitizer finds it in a rank's process as well */
    char store[128];
} run;

typedef struct rank_thread {
    const run *run;
    int rank, failed;
    pthread_t thread;
} rank_thread;

static const run *current_run;

kith_status join_ranks(const rank_info *info, const kith_init_options *changes, kith_ctx **ctx)
{
    const run *r = current_run;
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    if (changes != NULL)
        options = *changes;
    if (r->options->mode != LAUNCH_ENVIRONMENT) {
        options.rank = info->rank;
        options.size = info->size;
        if (options.store == NULL)
            options.store = r->store;
    }
    if (options.backend == NULL)
        options.backend = r->options->backend;
    if (options.settings == NULL) {
        options.settings = r->options->settings;
        options.setting_count = r->options->setting_count;
    }
    if (options.device == NULL)
        options.device = getenv("KITH_TEST_DEVICE"); /* the suites' buffers lie there (memory.h) */
    if (options.timeout_ms == 0)
        options.timeout_ms = r->options->timeout_ms;
    return kith_init(&options, ctx);
}

static void run_rank(const run *r, int rank)
{
    rank_info info = { .rank = rank,
                       .size = r->options->size,
                       .board = r->board,
                       .argument = r->argument,
                       .is_thread = r->options->mode == LAUNCH_THREADS };
    current_rank = rank;
    current_size = info.size;
    if (r->options->joins_itself) {
        r->function(&info);
        return;
    }
    REQUIRE_OK(join_ranks(&info, NULL, &info.ctx));
    info.world = kith_world(info.ctx);
    current_rank = info.rank = kith_rank(info.ctx);
    current_size = info.size = kith_size(info.ctx);
    r->function(&info);
    REQUIRE_OK(kith_finalize(info.ctx));
}

/* ---- threads ---- */

static void *thread_main(void *arg)
{
    rank_thread *self = (rank_thread *)arg;
    jmp_buf here;
    escape = &here;
    self->failed = 1;
    if (setjmp(here) == 0) {
        run_rank(self->run, self->rank);
        self->failed = 0;
    } else {
        fprintf(stderr, "FAILED a rank that is a thread: the program ends\n");
        _exit(1);
    }
    escape = NULL;
    return NULL;
}

static int run_threads(const run *r)
{
    int size = r->options->size, failed = 0;
    rank_thread *threads = (rank_thread *)calloc((size_t)size, sizeof *threads);
    alarm((unsigned)r->options->timeout_s);
    for (int i = 0; i < size; i++) {
        threads[i].run = r;
        threads[i].rank = i;
        if (pthread_create(&threads[i].thread, NULL, thread_main, &threads[i]) != 0)
            abort();
    }
    for (int i = 0; i < size; i++) {
        pthread_join(threads[i].thread, NULL);
        failed += threads[i].failed;
    }
    alarm(0);
    free(threads);
    return failed;
}

/* ---- processes ---- */

static pid_t fork_rank(const run *r, int rank)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&r->board->pids[rank % 64], getpid());
    if (r->options->hosts > 1) {
        char host[32];
        snprintf(host, sizeof host, "host%d", rank * r->options->hosts / r->options->size);
        setenv("KITH_HOSTID", host, 1);
    }
    run_rank(r, rank);
    exit(0);
}

static bool is_good_end(const run *r, int rank, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status) && r->options->may_die && WTERMSIG(status) == SIGKILL)
        return true;
    if (WIFSIGNALED(status))
        fprintf(stderr, "FAILED rank %d was killed by signal %d\n", rank, WTERMSIG(status));
    return false;
}

static int run_processes(run *r)
{
    int size = r->options->size, left = size, failed = 0;
    pid_t *pids = r->pids = (pid_t *)calloc((size_t)size, sizeof *pids);
    if (pids == NULL)
        abort();
    for (int i = 0; i < size; i++)
        pids[i] = fork_rank(r, i);
    time_t end = time(NULL) + r->options->timeout_s;
    while (left > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            if (time(NULL) > end) {
                fprintf(stderr, "FAILED %d of %d ranks were not done after %d s\n", left, size, r->options->timeout_s);
                failed += left;
                break;
            }
            usleep(2000);
            continue;
        }
        for (int i = 0; i < size; i++) {
            if (pids[i] != pid)
                continue;
            pids[i] = 0;
            left--;
            failed += !is_good_end(r, i, status);
        }
        if (failed > 0)
            break;
    }
    for (int i = 0; i < size; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    }
    free(pids);
    r->pids = NULL;
    return failed;
}

static void choose_store(run *r)
{
    static int number;
    if (r->options->mode == LAUNCH_THREADS) {
        snprintf(r->store, sizeof r->store, "inproc://conformance-%d-%d", (int)getpid(), number++);
        return;
    }
    const char *folder = getenv("TMPDIR");
    snprintf(r->store, sizeof r->store, "tcp://127.0.0.1:0?file=%s/kith-conformance-%d-%d",
             folder != NULL ? folder : "/tmp", (int)getpid(), number++);
}

int run_ranks(const run_options *options, rank_function function, const char *argument)
{
    run r = { .options = options, .function = function, .argument = argument };
    r.board = (shared_board *)mmap(NULL, sizeof *r.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.board == MAP_FAILED)
        abort();
    choose_store(&r);
    current_run = &r;
    int failed = 0;
    if (options->mode == LAUNCH_THREADS)
        failed = run_threads(&r);
    else if (options->mode == LAUNCH_FORK)
        failed = run_processes(&r);
    else
        run_rank(&r, -1);
    munmap(r.board, sizeof *r.board);
    return failed;
}
