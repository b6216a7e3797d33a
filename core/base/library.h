/* core/base/library.h - opening a library of others at run time: the file that a setting names, else the first of
 * several that can be used.
 *
 * Modules compile this file too, since they link to nothing of libkith; it depends on libc alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_LIBRARY_H
#define KI_BASE_LIBRARY_H

#include <stddef.h>

typedef struct ki_library_search {
    const char *title;        /* "the CUDA runtime" */
    const char *setting;      /* "cudart_library" */
    const char *asked;        /* the file that the setting names, which is then the only one; NULL, "": none */
    const char *const *files; /* tried in this order, up to a NULL */
    /* 1 when the open library can be used; 0 with one sentence in why, and it is closed and the next one is tried.
     * NULL: every library can. */
    int (*fits)(void *arg, void *handle, char *why, size_t why_nbytes);
    void *arg;
} ki_library_search;

/* The handle, or NULL with one sentence in reason. refused: files that are there and were passed over, each with why,
 * separated by "; "; "" when there are none. */
void *ki_library_open(const ki_library_search *search, char *reason, size_t reason_nbytes, char *refused,
                      size_t refused_nbytes);

/* Puts the library's function into *function, a pointer to a function; 0 and NULL when it is missing. */
int ki_library_find(void *handle, const char *name, void *function);

#endif
