/* core/registry.c - finding, opening and checking backend modules; see registry.h.
 *
 * The list of opened modules is process-wide and only grows; a mutex guards it. Modules are never closed: their
 * tables and the libraries behind them are in use until the process ends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "registry.h"

#include "../backends/shm/shm.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "text.h"
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_NBYTES 64
#ifndef KITH_MODULE_SUBDIR
#define KITH_MODULE_SUBDIR "kith"
#endif

typedef struct module {
    struct module *next;
    char name[NAME_NBYTES]; /* "ucx" */
    char path[PATH_MAX];    /* "" for the built-in */
    bool is_tried;
    kith_status status; /* of opening */
    char reason[512];
    kith_backend table; /* completed copy */
    const kith_backend *backend;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static module *modules;

/* ---- stubs for functions that a table may leave out ---- */

static kith_status no_available(char *reason, size_t nbytes)
{
    if (nbytes > 0)
        reason[0] = '\0';
    return KITH_OK;
}

static kith_status no_query(void *group, const kith_be_query *query, kith_be_answer *answer)
{
    (void)group, (void)query;
    memset(answer, 0, sizeof *answer);
    return KITH_OK;
}

static void no_group(void *group)
{
    (void)group;
}

static void no_close(void *be)
{
    (void)be;
}

static int always_drained(void *be)
{
    (void)be;
    return 1;
}

static void no_slot(void *group, kith_be_slot *slot)
{
    (void)group, (void)slot;
}

static void complete_table(kith_backend *table)
{
    if (table->available == NULL)
        table->available = no_available;
    if (table->query == NULL || table->coll_start == NULL)
        table->query = no_query;
    if (table->close == NULL)
        table->close = no_close;
    if (table->group_destroy == NULL)
        table->group_destroy = no_group;
    if (table->group_abort == NULL)
        table->group_abort = no_group;
    if (table->is_drained == NULL)
        table->is_drained = always_drained;
    if (table->coll_cancel == NULL)
        table->coll_cancel = no_slot;
}

/* ---- finding ---- */

static void add_module(const char *name, const char *path)
{
    module **end = &modules;
    for (; *end != NULL; end = &(*end)->next)
        if (strcmp((*end)->path, path) == 0 && strcmp((*end)->name, name) == 0)
            return;
    module *found = (module *)calloc(1, sizeof *found);
    if (found == NULL)
        return;
    snprintf(found->name, sizeof found->name, "%s", name);
    snprintf(found->path, sizeof found->path, "%s", path);
    *end = found;
}

/* "libkith_mpi_openmpi.so" -> "mpi"; false when it is no module's name. */
static bool module_name(const char *file, char *name)
{
    static const char prefix[] = "libkith_", suffix[] = ".so";
    size_t length = strlen(file), start = sizeof prefix - 1, end = sizeof suffix - 1;
    if (length <= start + end || strncmp(file, prefix, start) != 0 || strcmp(file + length - end, suffix) != 0)
        return false;
    size_t stop = strcspn(file + start, "_.");
    if (stop == 0 || stop >= NAME_NBYTES)
        return false;
    memcpy(name, file + start, stop);
    name[stop] = '\0';
    return strcmp(name, "cuda") != 0; /* the module of devices */
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    /* "openmpi" after "mpich" alphabetically; reversed, so that Open MPI, which yields when oversubscribed, is asked
     * first */
    return -strcmp((*a)->d_name, (*b)->d_name);
}

/* Called for each folder with modules; true: enough. */
typedef bool (*folder_visit)(void *arg, const char *folder);

/* One folder may be reached in several ways: modules are told apart by their real path. */
static bool scan_folder(void *arg, const char *given)
{
    struct dirent **entries;
    char folder[PATH_MAX];
    (void)arg;
    int count = realpath(given, folder) != NULL ? scandir(folder, &entries, NULL, compare_names) : -1;
    if (count < 0)
        return false;
    for (int i = 0; i < count; i++) {
        char name[NAME_NBYTES], path[PATH_MAX];
        if (module_name(entries[i]->d_name, name) &&
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path)
            add_module(name, path);
        free(entries[i]);
    }
    free(entries);
    return false;
}

static bool each_of_path(const char *path, folder_visit visit, void *arg)
{
    char folder[PATH_MAX];
    while (*path != '\0') {
        size_t length = strcspn(path, ":");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, path, length);
            folder[length] = '\0';
            if (visit(arg, folder))
                return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

/* The module folder next to libkith.so, wherever that was loaded from. */
static bool each_own_folder(folder_visit visit, void *arg)
{
    Dl_info info;
    if (dladdr((const void *)(uintptr_t)&ki_registry_find, &info) == 0 || info.dli_fname == NULL)
        return false;
    char folder[PATH_MAX], real[PATH_MAX];
    /* a program that was found on the PATH is told by the word that started it */
    if (realpath(strchr(info.dli_fname, '/') != NULL ? info.dli_fname : "/proc/self/exe", real) == NULL)
        return false;
    char *slash = strrchr(real, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    if (snprintf(folder, sizeof folder, "%s/%s", real, KITH_MODULE_SUBDIR) < (int)sizeof folder && visit(arg, folder))
        return true;
    /* a program that holds the library statically lies in bin/, beside lib/ */
    return snprintf(folder, sizeof folder, "%s/../lib/%s", real, KITH_MODULE_SUBDIR) < (int)sizeof folder &&
           visit(arg, folder);
}

static bool each_folder(folder_visit visit, void *arg)
{
    const char *path = getenv("KITH_BACKEND_PATH");
    return (path != NULL && each_of_path(path, visit, arg)) || each_own_folder(visit, arg);
}

/* Looks again each time: KITH_BACKEND_PATH may have changed. */
static void scan(void)
{
    add_module("shm", "");
    each_folder(scan_folder, NULL);
}

typedef struct wanted_file {
    const char *file;
    char *path;
    size_t nbytes;
} wanted_file;

static bool locate(void *arg, const char *folder)
{
    const wanted_file *wanted = (const wanted_file *)arg;
    return snprintf(wanted->path, wanted->nbytes, "%s/%s", folder, wanted->file) < (int)wanted->nbytes &&
           access(wanted->path, R_OK) == 0;
}

bool ki_registry_locate(const char *file, char *path, size_t nbytes)
{
    wanted_file wanted = { file, path, nbytes };
    return each_folder(locate, &wanted);
}

/* ---- opening ---- */

static kith_status refuse(module *m, const char *reason)
{
    snprintf(m->reason, sizeof m->reason, "%s", reason);
    return m->status = KITH_ERR_UNSUPPORTED;
}

static kith_status check_table(module *m, const kith_backend *given)
{
    char text[256];
    if (given == NULL)
        return refuse(m, KITH_BACKEND_SYMBOL "() returned NULL");
    if (given->abi != KITH_BACKEND_ABI) {
        snprintf(text, sizeof text, "backend interface %u, this library has %d", (unsigned)given->abi,
                 KITH_BACKEND_ABI);
        return refuse(m, text);
    }
    if (given->struct_size < offsetof(kith_backend, mem_alloc)) {
        snprintf(text, sizeof text, "table of %zu bytes is shorter than the interface's %zu", given->struct_size,
                 offsetof(kith_backend, mem_alloc));
        return refuse(m, text);
    }
    if (given->name == NULL || strcmp(given->name, m->name) != 0) {
        snprintf(text, sizeof text, "the module calls itself '%s', its file is named for '%s'",
                 given->name != NULL ? given->name : "(null)", m->name);
        return refuse(m, text);
    }
    memset(&m->table, 0, sizeof m->table);
    memcpy(&m->table, given, given->struct_size < sizeof m->table ? given->struct_size : sizeof m->table);
    if (m->table.open == NULL || m->table.group_create == NULL || m->table.send_start == NULL ||
        m->table.recv_start == NULL || m->table.msg_test == NULL || m->table.msg_cancel == NULL ||
        (m->table.coll_start != NULL && m->table.coll_test == NULL))
        return refuse(m, "open, group_create, send_start, recv_start, msg_test or msg_cancel is missing");
    complete_table(&m->table);
    m->backend = &m->table;
    return m->status = KITH_OK;
}

static kith_status open_module(module *m)
{
    if (m->is_tried)
        return m->status;
    m->is_tried = true;
    if (m->path[0] == '\0')
        return check_table(m, ki_shm_backend());
    void *handle = ki_fault(KI_FAULT_OPEN) ? NULL : dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        return refuse(m, why != NULL ? why : "cannot be opened");
    }
    kith_backend_fn function;
    *(void **)&function = dlsym(handle, KITH_BACKEND_SYMBOL);
    if (function == NULL) {
        dlclose(handle);
        return refuse(m, "no function " KITH_BACKEND_SYMBOL " in it");
    }
    return check_table(m, function());
}

static void ask(module *m, kith_status *status, char *reason, size_t nbytes)
{
    *status = open_module(m);
    if (*status != KITH_OK) {
        snprintf(reason, nbytes, "%s", m->reason);
        return;
    }
    reason[0] = '\0';
    *status = m->backend->available(reason, nbytes);
}

/* The usable one of that name. reasons: why the others are not. */
static kith_status find(const char *name, const kith_backend **backend, ki_text *reasons, bool *is_known)
{
    kith_status status = KITH_ERR_UNSUPPORTED;
    *is_known = false;
    pthread_mutex_lock(&lock);
    scan();
    for (module *m = modules; m != NULL && status != KITH_OK; m = m->next) {
        if (strcmp(m->name, name) != 0)
            continue;
        char reason[2048];
        ask(m, &status, reason, sizeof reason);
        if (status == KITH_OK)
            *backend = m->backend;
        else
            ki_text_add(reasons, "%s%s: %s", *is_known ? "; " : "", m->path[0] != '\0' ? m->path : "built in", reason);
        *is_known = true;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

bool ki_registry_can(const char *name)
{
    char why[512];
    return ki_registry_tell(name, why, sizeof why);
}

bool ki_registry_tell(const char *name, char *why, size_t nbytes)
{
    ki_text reasons = { 0 };
    const kith_backend *backend;
    bool is_known;
    kith_status status = find(name, &backend, &reasons, &is_known);
    if (is_known)
        snprintf(why, nbytes, "%s", ki_text_chars(&reasons));
    else
        snprintf(why, nbytes, "no module of the backend %s is installed", name);
    ki_text_fini(&reasons);
    return status == KITH_OK;
}

kith_status ki_registry_find(const char *name, const kith_backend **backend)
{
    ki_text reasons = { 0 };
    bool is_known;
    kith_status status = find(name, backend, &reasons, &is_known);
    if (!is_known) {
        char names[256];
        ki_registry_names(names, sizeof names);
        status = ki_fail(KITH_ERR_INVALID_ARG, "there is no backend '%s'; there are: %s", name, names);
    } else if (status != KITH_OK) {
        status = ki_fail(KITH_ERR_UNSUPPORTED, "backend %s cannot be used here: %s", name, ki_text_chars(&reasons));
    }
    ki_text_fini(&reasons);
    return status;
}

bool ki_registry_has(const char *name)
{
    bool is_there = false;
    pthread_mutex_lock(&lock);
    scan();
    for (module *m = modules; m != NULL; m = m->next)
        is_there |= strcmp(m->name, name) == 0;
    pthread_mutex_unlock(&lock);
    return is_there;
}

void ki_registry_each(ki_registry_visit visit, void *arg)
{
    pthread_mutex_lock(&lock);
    scan();
    for (module *m = modules, *next; m != NULL; m = next) {
        char reason[2048];
        kith_status status;
        ask(m, &status, reason, sizeof reason);
        next = m->next;
        pthread_mutex_unlock(&lock);
        visit(arg, m->name, m->path, m->backend, status, reason); /* may ask the registry itself */
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

void ki_registry_names(char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    pthread_mutex_lock(&lock);
    scan();
    for (module *m = modules; m != NULL; m = m->next) {
        bool is_repeated = false;
        for (module *before = modules; before != m; before = before->next)
            is_repeated |= strcmp(before->name, m->name) == 0;
        if (is_repeated || used + strlen(m->name) + 3 > nbytes)
            continue;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s", used > 0 ? ", " : "", m->name);
    }
    pthread_mutex_unlock(&lock);
}
