/* core/base/log.c - one process-wide sink for log lines.
 *
 * The sink is called with a mutex held, so lines never interleave and the caller's function is never entered twice at
 * once. A sink that calls back into the library may cause lines of its own: these are dropped (the thread is marked
 * while it is inside the sink), otherwise it would wait for itself.
 *
 * The level is read without the mutex: a line that is off costs one relaxed load. UNREAD means that the environment has
 * not been looked at yet; the first line does that.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { UNREAD = -1, LINE_NBYTES = 1280, PATH_NBYTES = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int current_level = UNREAD;
static kith_log_fn sink;
static void *sink_arg;
static int file = -1; /* of KITH_LOG_FILE; -1: stderr */

static _Thread_local int thread_rank = -1;
static _Thread_local int is_in_sink;

static const char *const level_names[] = { "none", "error", "warn", "info", "debug", "trace", "data" };

static void write_all(int fd, const char *text, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(fd, text, nbytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nowhere left to complain */
        text += n;
        nbytes -= (size_t)n;
    }
}

static void default_sink(void *arg, kith_log_level level, const char *line)
{
    (void)arg;
    char text[LINE_NBYTES + 32];
    int n = snprintf(text, sizeof text, "kith %s: %s\n", level_names[level], line);
    if (n > 0)
        write_all(file >= 0 ? file : STDERR_FILENO, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* %h becomes the host's name, %p the process id, %% a percent sign; anything else stays. */
static void expand_path(const char *pattern, char *path, size_t nbytes)
{
    size_t used = 0;
    path[0] = '\0';
    for (const char *p = pattern; *p && used + 1 < nbytes; p++) {
        char piece[256] = { *p, '\0' };
        if (p[0] == '%' && p[1] == 'h') {
            if (gethostname(piece, sizeof piece - 1) != 0)
                strcpy(piece, "localhost");
            p++;
        } else if (p[0] == '%' && p[1] == 'p') {
            snprintf(piece, sizeof piece, "%ld", (long)getpid());
            p++;
        } else if (p[0] == '%' && p[1] == '%') {
            p++;
        }
        int n = snprintf(path + used, nbytes - used, "%s", piece);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void close_file(void)
{
    if (file >= 0)
        close(file);
    file = -1;
}

static void open_file(const char *pattern)
{
    char path[PATH_NBYTES];
    expand_path(pattern, path, sizeof path);
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (file < 0) {
        char line[PATH_NBYTES + 128];
        snprintf(line, sizeof line, "KITH_LOG_FILE=%s cannot be opened (%s), logging to stderr", path, strerror(errno));
        default_sink(NULL, KITH_LOG_WARN, line);
    }
}

static int level_by_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof level_names / sizeof level_names[0]); i++) {
        if (strcasecmp(name, level_names[i]) == 0)
            return i;
    }
    return -1;
}

/* Lock held. */
static void use_environment(void)
{
    const char *name = getenv("KITH_LOG"), *path = getenv("KITH_LOG_FILE");
    int level = name && *name ? level_by_name(name) : path && *path ? KITH_LOG_WARN : KITH_LOG_NONE;
    close_file();
    sink = default_sink;
    sink_arg = NULL;
    if (level < 0) { /* the user wants lines and mistyped how many: warnings are shown, this one first */
        char line[256];
        snprintf(line, sizeof line, "KITH_LOG=%s is no level, using warn; valid: none error warn info debug trace data",
                 name);
        default_sink(NULL, KITH_LOG_WARN, line);
        level = KITH_LOG_WARN;
    }
    if (level > KITH_LOG_NONE && path && *path)
        open_file(path);
    atomic_store_explicit(&current_level, level, memory_order_relaxed);
}

int ki_log_is_on(kith_log_level level)
{
    int current = atomic_load_explicit(&current_level, memory_order_relaxed);
    if (__builtin_expect(current == UNREAD, 0)) {
        pthread_mutex_lock(&lock);
        if (atomic_load_explicit(&current_level, memory_order_relaxed) == UNREAD)
            use_environment();
        current = atomic_load_explicit(&current_level, memory_order_relaxed);
        pthread_mutex_unlock(&lock);
    }
    return level > KITH_LOG_NONE && (int)level <= current;
}

void ki_log(kith_log_level level, const char *format, ...)
{
    if (!ki_log_is_on(level) || is_in_sink)
        return;
    char line[LINE_NBYTES];
    int used = thread_rank >= 0 ? snprintf(line, sizeof line, "rank %d: ", thread_rank) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);

    is_in_sink = 1;
    pthread_mutex_lock(&lock);
    if ((int)level <= atomic_load_explicit(&current_level, memory_order_relaxed))
        sink(sink_arg, level, line);
    pthread_mutex_unlock(&lock);
    is_in_sink = 0;
}

void ki_log_set_rank(int rank)
{
    thread_rank = rank;
}

void kith_log_set(kith_log_fn fn, void *arg, kith_log_level level)
{
    if (is_in_sink) /* from inside the sink: it holds the lock */
        return;
    pthread_mutex_lock(&lock);
    if (fn) {
        close_file();
        sink = fn;
        sink_arg = arg;
        int clamped = level < KITH_LOG_NONE ? KITH_LOG_NONE : level > KITH_LOG_DATA ? KITH_LOG_DATA : (int)level;
        atomic_store_explicit(&current_level, clamped, memory_order_relaxed);
    } else {
        use_environment();
    }
    pthread_mutex_unlock(&lock);
}
