/* tools/tune/job.c - a program as a child: changed settings, what it says on stderr, signals that are passed on.
 *
 * A signal is noted and passed on, so that the child stops and hands over what it has; whoever runs one child after the
 * other asks for it with tune_job_caught(). A second one ends the child at once, as `kith bench` has it; a
 * third one, or one without a child, this process, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "links.h"

#include "../bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAME_REQUEST_US 300000.0 /* signals closer than this are one: timeout(1) sends two */

static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

static volatile sig_atomic_t child_pid, caught;
static double caught_at_us;
static struct sigaction before[NUMBER_COUNT];

/* The terminal's Ctrl-C reaches the child by itself; being told twice could be a second wish. */
static void take(int number, siginfo_t *info, void *context)
{
    double now = bench_now_us();
    int kept = errno;
    (void)context;
    if (caught != 0 && now - caught_at_us <= SAME_REQUEST_US)
        return;
    if (caught != 0) {
        for (int i = 0; i < NUMBER_COUNT; i++)
            signal(numbers[i], SIG_DFL);
        if (child_pid == 0)
            raise(number);
    } else {
        caught = number;
        caught_at_us = now;
    }
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, number);
    errno = kept;
}

void tune_job_listen(void)
{
    struct sigaction action = { .sa_sigaction = take, .sa_flags = SA_RESTART | SA_SIGINFO };
    caught = 0;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < NUMBER_COUNT; i++)
        sigaction(numbers[i], &action, &before[i]);
}

void tune_job_listen_no_more(void)
{
    for (int i = 0; i < NUMBER_COUNT; i++)
        sigaction(numbers[i], &before[i], NULL);
}

int tune_job_caught(void)
{
    return caught;
}

static void start(const char *path, char *const *words, const tune_class *of_class, const char *log_folder,
                  int error_fd)
{
    char log[512];
    for (size_t i = 0; of_class != NULL && i < 2 && of_class->settings[i][0] != NULL; i++)
        setenv(of_class->settings[i][0], of_class->settings[i][1], 1);
    if (log_folder != NULL) {
        snprintf(log, sizeof log, "%s/%%p", log_folder);
        setenv("NCCL_DEBUG", "INFO", 1);
        setenv("NCCL_DEBUG_FILE", log, 1);
    }
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0); /* as many ranks as were asked for, as -n has it */
    if (error_fd >= 0)
        dup2(error_fd, STDERR_FILENO);
    execvp(path != NULL ? path : "/proc/self/exe", words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", path != NULL ? path : "this program", strerror(errno));
    _exit(127);
}

/* Without what stands before it: "kith bench: ". Lines of dashes and blanks say nothing. */
static void keep_line(const char *line, char *reason, size_t nbytes)
{
    static const char prefix[] = "kith bench: ";
    line += strspn(line, " \t-=*\r");
    if (reason[0] != 0 || line[0] == 0 || line[0] == '[')
        return;
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        line += sizeof prefix - 1;
    snprintf(reason, nbytes, "%s", line);
}

/* What mpirun's long text says below its first line. */
static void add_way_out(char *reason, size_t nbytes)
{
    size_t used = strlen(reason);
    if (strstr(reason, "run as root") != NULL)
        snprintf(reason + used, nbytes - used,
                 "%s OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 allow it",
                 reason[used - 1] == '.' ? "" : ".");
}

static void read_reason(int fd, char *reason, size_t nbytes)
{
    FILE *in = fdopen(fd, "r");
    char *line = NULL;
    size_t room = 0;
    reason[0] = 0;
    while (in != NULL && getline(&line, &room, in) > 0) {
        line[strcspn(line, "\n")] = 0;
        keep_line(line, reason, nbytes);
    }
    add_way_out(reason, nbytes);
    free(line);
    if (in != NULL)
        fclose(in);
}

static int wait_for(pid_t pid, int *signal_number)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 127;
    child_pid = 0;
    *signal_number = caught != 0 ? (int)caught : WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Signals are held back until the child's number is known: none is lost between. */
static pid_t start_child(const char *path, char *const *words, const tune_class *of_class, const char *log_folder,
                         int error_fd)
{
    sigset_t held, mask;
    sigemptyset(&held);
    for (int i = 0; i < NUMBER_COUNT; i++)
        sigaddset(&held, numbers[i]);
    sigprocmask(SIG_BLOCK, &held, &mask);
    fflush(NULL);
    pid_t pid = caught == 0 ? fork() : -1;
    if (pid == 0) {
        tune_job_listen_no_more();
        sigprocmask(SIG_SETMASK, &mask, NULL);
        start(path, words, of_class, log_folder, error_fd);
    }
    child_pid = pid > 0 ? pid : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return pid;
}

int tune_job_run(const char *path, char *const *words, const tune_class *of_class, const char *log_folder, char *reason,
                 size_t nbytes, int *signal_number)
{
    int ends[2] = { -1, -1 };
    *signal_number = 0;
    if (reason != NULL && pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(reason, nbytes, "no pipe: %s", strerror(errno));
        return 127;
    }
    pid_t pid = start_child(path, words, of_class, log_folder, ends[1]);
    if (reason != NULL) {
        close(ends[1]);
        read_reason(ends[0], reason, nbytes);
    }
    *signal_number = caught;
    return pid > 0 ? wait_for(pid, signal_number) : 127;
}
