/* tools/run_guard.c - the process that the user sees: passes signals and the terminal's input on, cleans up when the
 * launcher dies.
 *
 * Life: make the private folder, become a subreaper, block the signals and read them from a signalfd, fork the launcher
 * (run.h says why there are two), wait for it, kill whatever is left, remove the folder, return the launcher's status.
 *
 * Signals that were ignored when the command started (nohup, background jobs of a shell without job control) stay
 * ignored and are not passed on.
 *
 * Standard input: a file or a pipe is simply inherited by rank 0. A terminal is not: rank 0 is in a background process
 * group and would be stopped for reading from it. So the guard reads the terminal, while it is itself in the
 * foreground, and rank 0 reads a pipe.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };
#define FORWARDED_COUNT (sizeof(forwarded) / sizeof(forwarded[0]))

#define FOREGROUND_POLL_MS 500 /* how often to look whether the terminal has become ours */

/* The terminal's input on its way to rank 0. */
typedef struct terminal_input {
    int to_rank;       /* -1: no terminal, or the end was reached */
    size_t begin, end; /* bytes of buffer not yet passed on */
    char buffer[4096];
} terminal_input;

typedef struct guard {
    ki_run_inherited inherited;
    int signal_fd;
    int life_fds[2];
    pid_t launcher;
    int launcher_status; /* as waitpid() gives it */
    terminal_input input;
} guard;

static int fail_with_errno(const ki_run_options *options, const char *what)
{
    fprintf(stderr, "kith %s: %s: %s\n", options->name, what, strerror(errno));
    return KI_RUN_EXIT_FAILED;
}

/* Descriptors 0 to 2 must be open, or a pipe of ours would become somebody's standard stream. */
static int open_standard_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -1;
    } while (fd <= STDERR_FILENO);
    return close(fd);
}

static int store_folder_create(ki_run_options *options)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    int nbytes = snprintf(options->store_folder, sizeof(options->store_folder), "%s/kith-run-XXXXXX", parent);
    if (nbytes < 0 || (size_t)nbytes >= sizeof(options->store_folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkdtemp(options->store_folder) == NULL ? -1 : 0;
}

void ki_run_store_folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    if (folder != NULL) {
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
            unlinkat(dirfd(folder), entry->d_name, 0);
        closedir(folder);
    }
    rmdir(path);
}

/* Blocks what is forwarded, except what is ignored, and remembers how everything was. */
static int signals_take(guard *self)
{
    sigset_t taken;
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &self->inherited.actions[number]) != 0)
            self->inherited.actions[number].sa_handler = SIG_DFL;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    for (size_t i = 0; i < FORWARDED_COUNT; i++)
        if (self->inherited.actions[forwarded[i]].sa_handler != SIG_IGN)
            sigaddset(&taken, forwarded[i]);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would vanish without a status */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &taken, &self->inherited.mask) != 0)
        return -1;
    return self->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Prefixed output needs two descriptors a rank: raise the limit as far as allowed; ranks get the old one back. */
static void raise_file_limit(guard *self)
{
    getrlimit(RLIMIT_NOFILE, &self->inherited.files);
    struct rlimit raised = self->inherited.files;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
}

static _Noreturn void become_launcher(guard *self, const ki_run_options *options, int stdin_fd)
{
    setpgid(0, 0);
    prctl(PR_SET_NAME, "kith-launcher");
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* fork() does not inherit it */
    close(self->life_fds[1]);
    if (self->input.to_rank >= 0)
        close(self->input.to_rank);
    ki_run_handover handover = { &self->inherited, self->signal_fd, self->life_fds[0], stdin_fd };
    int status = ki_run_supervise(options, &handover);
    fflush(NULL);
    _exit(status);
}

static int launcher_start(guard *self, const ki_run_options *options)
{
    int stdin_fds[2] = { STDIN_FILENO, -1 };
    self->input.to_rank = -1;
    if (isatty(STDIN_FILENO)) {
        if (pipe2(stdin_fds, O_CLOEXEC) != 0)
            return -1;
        fcntl(stdin_fds[1], F_SETFL, O_NONBLOCK);
        self->input.to_rank = stdin_fds[1];
    }
    if (pipe2(self->life_fds, O_CLOEXEC) != 0)
        return -1;
    fflush(NULL);
    self->launcher = fork();
    if (self->launcher < 0)
        return -1;
    if (self->launcher == 0)
        become_launcher(self, options, stdin_fds[0]);
    setpgid(self->launcher, self->launcher);
    close(self->life_fds[0]);
    if (stdin_fds[0] != STDIN_FILENO)
        close(stdin_fds[0]);
    return 0;
}

static void terminal_close(terminal_input *input)
{
    close(input->to_rank);
    input->to_rank = -1;
}

static void terminal_advance(terminal_input *input, short terminal_events, short rank_events)
{
    if (rank_events & (POLLERR | POLLHUP)) {
        terminal_close(input); /* rank 0 does not read any more */
        return;
    }
    if (input->begin == input->end && terminal_events != 0) {
        ssize_t nbytes = read(STDIN_FILENO, input->buffer, sizeof(input->buffer));
        if (nbytes <= 0 && (nbytes == 0 || (errno != EINTR && errno != EAGAIN))) {
            if (nbytes == 0 || errno != EIO) /* EIO: in the background just now */
                terminal_close(input);
            return;
        }
        input->begin = 0;
        input->end = nbytes > 0 ? (size_t)nbytes : 0;
    }
    if (input->begin < input->end) {
        ssize_t nbytes = write(input->to_rank, input->buffer + input->begin, input->end - input->begin);
        if (nbytes > 0)
            input->begin += (size_t)nbytes;
        else if (errno != EAGAIN && errno != EINTR)
            terminal_close(input);
    }
}

/* Ctrl-Z: the ranks were told; now this process stops as its shell expects. Continues in here after SIGCONT. */
static void stop_self(const guard *self)
{
    sigset_t stop, old;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(self->launcher, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, &old); /* takes effect here */
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Reaps; true when the launcher was among the dead. Others can only be orphans that came here after its death. */
static bool reap(guard *self)
{
    bool is_launcher_dead = false;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == self->launcher) {
            self->launcher_status = status;
            is_launcher_dead = true;
        }
    }
    return is_launcher_dead;
}

/* Takes all pending signals; true when the launcher has ended. */
static bool take_signals(guard *self)
{
    struct signalfd_siginfo info;
    bool is_launcher_dead = false;
    while (read(self->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            is_launcher_dead |= reap(self);
        else if (number == SIGTSTP)
            stop_self(self);
        else if (!is_launcher_dead)
            kill(self->launcher, number);
    }
    return is_launcher_dead;
}

static void wait_for_launcher(guard *self)
{
    terminal_input *input = &self->input;
    while (true) {
        struct pollfd fds[3] = { { self->signal_fd, POLLIN, 0 }, { -1, POLLIN, 0 }, { -1, 0, 0 } };
        int timeout_ms = -1;
        if (input->to_rank >= 0) {
            bool is_full = input->begin < input->end;
            fds[1].fd = !is_full && tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
            fds[2] = (struct pollfd){ input->to_rank, (short)(is_full ? POLLOUT : 0), 0 };
            timeout_ms = fds[1].fd < 0 && !is_full ? FOREGROUND_POLL_MS : -1;
        }
        if (poll(fds, 3, timeout_ms) < 0 && errno != EINTR)
            return;
        if (fds[0].revents != 0 && take_signals(self))
            return;
        if (input->to_rank >= 0)
            terminal_advance(input, fds[1].fd < 0 ? 0 : fds[1].revents, fds[2].revents);
    }
}

static int exit_status(const guard *self, const ki_run_options *options)
{
    if (WIFEXITED(self->launcher_status))
        return WEXITSTATUS(self->launcher_status);
    int number = WTERMSIG(self->launcher_status);
    fprintf(stderr, "kith %s: its launcher process was killed by signal %d (SIG%s); all ranks were killed\n",
            options->name, number, sigabbrev_np(number) == NULL ? "?" : sigabbrev_np(number));
    return KI_RUN_EXIT_FAILED;
}

int ki_run_guard(ki_run_options *options)
{
    guard self = { .signal_fd = -1 };
    if (open_standard_streams() != 0)
        return fail_with_errno(options, "cannot open /dev/null");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return fail_with_errno(options, "cannot become the reaper of the ranks' processes");
    if (signals_take(&self) < 0)
        return fail_with_errno(options, "cannot take over the signals");
    raise_file_limit(&self);
    if (store_folder_create(options) != 0)
        return fail_with_errno(options, "cannot make a folder for the store's address (in TMPDIR or /tmp)");
    int status = KI_RUN_EXIT_FAILED;
    if (launcher_start(&self, options) == 0) {
        wait_for_launcher(&self);
        ki_sweep_all();
        status = exit_status(&self, options);
    } else {
        fail_with_errno(options, "cannot start the launcher process");
    }
    ki_run_store_folder_remove(options->store_folder);
    return status;
}
