/* core/base/library.c - see library.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { WHY_NBYTES = 384 };

int ki_library_find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* Opened and fitting; else NULL with why, and whether it could be opened. */
static void *open_one(const ki_library_search *search, const char *file, char why[WHY_NBYTES], int *could_open)
{
    why[0] = '\0';
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    *could_open = handle != NULL;
    if (handle == NULL) {
        const char *words = dlerror();
        snprintf(why, WHY_NBYTES, "%s", words != NULL ? words : file);
        return NULL;
    }
    if (search->fits == NULL || search->fits(search->arg, handle, why, WHY_NBYTES))
        return handle;
    dlclose(handle);
    return NULL;
}

static void *open_asked(const ki_library_search *search, char *reason, size_t reason_nbytes)
{
    char why[WHY_NBYTES];
    int could_open;
    void *handle = open_one(search, search->asked, why, &could_open);
    if (handle == NULL && could_open)
        snprintf(reason, reason_nbytes, "%s", why);
    else if (handle == NULL)
        snprintf(reason, reason_nbytes, "%s that %s names cannot be opened: %s", search->title, search->setting, why);
    return handle;
}

/* A file that nobody installed is not worth a word; one that is there and does not load is, as when a library that it
 * needs is not there: the loader's words then begin with that one's name. */
static int is_absent(const char *file, const char *why)
{
    return strncmp(why, file, strlen(file)) == 0 && strstr(why, "No such file") != NULL;
}

static void note(const char *file, const char *why, char *refused, size_t refused_nbytes)
{
    const size_t length = strlen(refused);
    const char *between = length > 0 ? "; " : "";
    const int names_it = strncmp(why, file, strlen(file)) == 0; /* as the loader's words do */
    if (length < refused_nbytes && strstr(refused, why) == NULL)
        snprintf(refused + length, refused_nbytes - length, "%s%s%s%s", between, names_it ? "" : file,
                 names_it ? "" : ": ", why);
}

static void say_missing(const ki_library_search *search, char *reason, size_t reason_nbytes)
{
    size_t length = (size_t)snprintf(reason, reason_nbytes, "%s is not installed: none of", search->title);
    for (const char *const *file = search->files; *file != NULL && length < reason_nbytes; file++)
        length +=
            (size_t)snprintf(reason + length, reason_nbytes - length, "%s %s", file == search->files ? "" : ",", *file);
    if (length < reason_nbytes)
        snprintf(reason + length, reason_nbytes - length, " is found (%s may name the file)", search->setting);
}

void *ki_library_open(const ki_library_search *search, char *reason, size_t reason_nbytes, char *refused,
                      size_t refused_nbytes)
{
    char why[WHY_NBYTES];
    refused[0] = '\0';
    if (search->asked != NULL && search->asked[0] != '\0')
        return open_asked(search, reason, reason_nbytes);
    for (const char *const *file = search->files; *file != NULL; file++) {
        int could_open;
        void *handle = open_one(search, *file, why, &could_open);
        if (handle != NULL)
            return handle;
        if (could_open || !is_absent(*file, why))
            note(*file, why, refused, refused_nbytes);
    }
    if (refused[0] != '\0')
        snprintf(reason, reason_nbytes, "%s cannot be used: %s", search->title, refused);
    else
        say_missing(search, reason, reason_nbytes);
    return NULL;
}
