/* tools/run_sweep.c - finds and signals every process that descends from this one.
 *
 * Process groups are not enough: a daemon or a shell with job control leaves its parent's group. This process is a
 * child subreaper, so whatever leaves still descends from it, and /proc tells who is whose child. The picture is old
 * when it has been read (processes fork meanwhile), therefore callers repeat until waitpid() finds no child: each round
 * reaches at least the children that the last one orphaned.
 *
 * Children go first and their descendants a moment later: a child may be another `kith run`, whose second process then
 * cleans up by itself and removes its private folder.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_PAUSE_NS 5000000
#define CHILDREN_FIRST_ROUNDS 40 /* of SWEEP_PAUSE_NS */

typedef struct process {
    pid_t pid, parent;
    bool is_descendant;
} process;

/* Parent of a process from /proc/PID/stat: "PID (name) STATE PARENT ..."; the name may hold anything. -1: gone, or dead
 * already and only waiting to be reaped. */
static pid_t parent_of(const char *pid_text)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid_text);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t nbytes = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (nbytes <= 0) return -1;
    text[nbytes] = '\0';
    const char *after_name = strrchr(text, ')');
    if (after_name == NULL || strlen(after_name) < 5 || after_name[2] == 'X' || after_name[2] == 'Z') return -1;
    return (pid_t)strtol(after_name + 4, NULL, 10);
}

/* All processes of the machine. NULL when /proc cannot be read or memory is short. */
static process *processes_read(size_t *count)
{
    DIR *folder = opendir("/proc");
    process *list = NULL;
    size_t capacity = 0;
    *count = 0;
    if (folder == NULL) return NULL;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        pid_t parent = parent_of(entry->d_name);
        if (parent < 0) continue;
        if (*count == capacity) {
            process *larger = realloc(list, (capacity * 2 + 64) * sizeof(*list));
            if (larger == NULL) break;
            list = larger;
            capacity = capacity * 2 + 64;
        }
        list[(*count)++] = (process){ (pid_t)strtol(entry->d_name, NULL, 10), parent, false };
    }
    closedir(folder);
    return list;
}

/* Marks processes whose parent is self or marked, until a pass finds none. Pids grow along a line of descent except
 * where they wrapped, and /proc lists them in order, so two passes are the rule. */
static void mark_descendants(process *list, size_t count, pid_t self)
{
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (size_t i = 0; i < count; i++) {
            if (list[i].is_descendant) continue;
            bool is_marked = list[i].parent == self;
            for (size_t j = 0; j < count && !is_marked; j++)
                is_marked = list[j].is_descendant && list[j].pid == list[i].parent;
            list[i].is_descendant = is_marked;
            is_changed |= is_marked;
        }
    }
}

/* Signals the children, or all descendants. */
static size_t sweep(int signal_number, bool is_children_only)
{
    size_t count, found = 0;
    process *list = processes_read(&count);
    if (list == NULL) return 0;
    mark_descendants(list, count, getpid());
    for (size_t i = 0; i < count; i++) {
        bool is_meant = is_children_only ? list[i].parent == getpid() : list[i].is_descendant;
        if (is_meant && kill(list[i].pid, signal_number) == 0) found++;
    }
    free(list);
    return found;
}

size_t ki_sweep_descendants(int signal_number)
{
    return sweep(signal_number, false);
}

void ki_sweep_all(void)
{
    for (int round = 0;; round++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (pid < 0 && errno == ECHILD) return;
        if (round == 0)
            sweep(SIGKILL, true);
        else if (round >= CHILDREN_FIRST_ROUNDS)
            sweep(SIGKILL, false);
        nanosleep(&(struct timespec){ 0, SWEEP_PAUSE_NS }, NULL);
    }
}
