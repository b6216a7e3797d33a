/* tests/tools/rank_program.c - plays a rank: does one thing that a launcher must cope with. It knows nothing of the
 * library.
 *
 *     rank_program environment                 prints the variables that a rank gets, sorted by rank by the reader
 *     rank_program exit RANK STATUS            that rank exits with STATUS, the others sleep
 *     rank_program die RANK SIGNAL             that rank sends itself SIGNAL, the others sleep
 *     rank_program stubborn RANK STATUS FOLDER ignores SIGTERM; that rank exits with STATUS once all others are there
 *     rank_program catch SIGNAL FOLDER         says "ready" by a file, waits for SIGNAL, prints "caught", exits with 0
 *     rank_program family KIND FOLDER          starts a grandchild (plain, session, double); both sleep
 *     rank_program leave FOLDER                starts a grandchild and exits with 0 at once
 *     rank_program lines COUNT NBYTES          writes COUNT lines of NBYTES letters in odd pieces, to stdout and stderr
 *     rank_program input                       prints how many bytes standard input has
 *     rank_program processors                  prints the processors that it may use
 *     rank_program sleep                       sleeps
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLEEP_S 300

static int rank;

static void sleep_long(void)
{
    for (int i = 0; i < SLEEP_S; i++)
        sleep(1);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "(unset)" : value;
}

/* FOLDER/KIND.RANK with the process id, renamed into place so that a reader never sees it half. */
static void write_pid(const char *folder, const char *kind)
{
    char path[512], half[520];
    snprintf(path, sizeof(path), "%s/%s.%d", folder, kind, rank);
    snprintf(half, sizeof(half), "%s~", path);
    FILE *file = fopen(half, "w");
    if (file == NULL) exit(90);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    if (rename(half, path) != 0) exit(91);
}

static int print_environment(void)
{
    static const char *const names[] = { "KITH_RANK",       "KITH_SIZE",       "KITH_LOCAL_RANK",
                                         "KITH_LOCAL_SIZE", "KITH_STORE",      "KITH_SECRET",
                                         "KITH_BACKEND",    "OMP_NUM_THREADS", "EXTRA" };
    char text[2048];
    size_t used = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s=%s ", names[i], variable(names[i]));
    text[used - 1] = '\n';
    return write(STDOUT_FILENO, text, used) == (ssize_t)used ? 0 : 92;
}

static int is_there(const char *folder, const char *kind, int other)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%d", folder, kind, other);
    return access(path, F_OK) == 0;
}

static int be_stubborn(int chosen, int status, const char *folder)
{
    signal(SIGTERM, SIG_IGN);
    write_pid(folder, "stubborn");
    int size = atoi(variable("KITH_SIZE"));
    for (int other = 0; rank == chosen && other < size;) {
        if (is_there(folder, "stubborn", other))
            other++;
        else
            usleep(2000);
    }
    if (rank == chosen) return status;
    sleep_long();
    return 93;
}

static volatile sig_atomic_t was_caught;

static void on_signal(int number)
{
    (void)number;
    was_caught = 1;
}

static int catch_signal(int number, const char *folder)
{
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    sigprocmask(SIG_BLOCK, &blocked, &old);
    signal(number, on_signal);
    write_pid(folder, "ready");
    while (!was_caught)
        sigsuspend(&old);
    dprintf(STDOUT_FILENO, "caught %d\n", number);
    return 0;
}

static void start_grandchild(const char *kind, const char *folder)
{
    if (fork() != 0) return;
    if (strcmp(kind, "session") == 0) setsid();
    if (strcmp(kind, "double") == 0 && (setsid() < 0 || fork() != 0)) _exit(0);
    write_pid(folder, "grandchild");
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sleep_long();
    _exit(0);
}

static int write_lines(int count, int nbytes)
{
    char line[8192];
    for (int i = 0; i < count; i++) {
        int fd = i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO;
        memset(line, 'a' + rank % 26, (size_t)nbytes);
        line[nbytes] = '\n';
        int left = nbytes + 1, piece = 1 + (i * 37 + rank) % nbytes; /* two writes, cut anywhere */
        for (char *p = line; left > 0; piece = left) {
            ssize_t written = write(fd, p, (size_t)(piece < left ? piece : left));
            if (written < 0) return 94;
            p += written;
            left -= (int)written;
        }
    }
    return 0;
}

static int count_input(void)
{
    char buffer[4096];
    long total = 0;
    ssize_t nbytes;
    while ((nbytes = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0)
        total += nbytes;
    dprintf(STDOUT_FILENO, "rank %d read %ld\n", rank, total);
    return nbytes < 0 ? 95 : 0;
}

static int print_processors(void)
{
    cpu_set_t set;
    char text[8192];
    int used = snprintf(text, sizeof(text), "rank %d:", rank);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 96;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) used += snprintf(text + used, sizeof(text) - (size_t)used, " %zu", i);
    dprintf(STDOUT_FILENO, "%s\n", text);
    return 0;
}

static int end_or_sleep(int chosen, int status, int number)
{
    if (rank != chosen) sleep_long();
    if (number != 0) {
        signal(number, SIG_DFL); /* sanitizers catch SIGSEGV */
        raise(number);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    rank = atoi(variable("KITH_RANK"));
    if (strcmp(what, "environment") == 0) return print_environment();
    if (strcmp(what, "exit") == 0 && argc == 4) return end_or_sleep(atoi(argv[2]), atoi(argv[3]), 0);
    if (strcmp(what, "die") == 0 && argc == 4) return end_or_sleep(atoi(argv[2]), 97, atoi(argv[3]));
    if (strcmp(what, "stubborn") == 0 && argc == 5) return be_stubborn(atoi(argv[2]), atoi(argv[3]), argv[4]);
    if (strcmp(what, "catch") == 0 && argc == 4) return catch_signal(atoi(argv[2]), argv[3]);
    if (strcmp(what, "lines") == 0 && argc == 4) return write_lines(atoi(argv[2]), atoi(argv[3]));
    if (strcmp(what, "input") == 0) return count_input();
    if (strcmp(what, "processors") == 0) return print_processors();
    if (strcmp(what, "family") == 0 && argc == 4)
        start_grandchild(argv[2], argv[3]);
    else if (strcmp(what, "leave") == 0 && argc == 3) {
        start_grandchild("plain", argv[2]);
        while (!is_there(argv[2], "grandchild", rank))
            usleep(2000);
        return 0;
    } else if (strcmp(what, "sleep") != 0) {
        return 98;
    }
    sleep_long();
    return 99;
}
