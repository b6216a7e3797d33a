/* layers/compute/blas.c - finds a CBLAS, tries it and asks for its name (see blas.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "blas.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names that distributions give libraries with the CBLAS interface, fast ones first. */
static const char *const candidates[] = {
    "libopenblas.so.0", "libopenblas.so", "libblis.so.4",     "libblis.so",    "libmkl_rt.so.3",
    "libmkl_rt.so.2",   "libmkl_rt.so",   "libarmpl_lp64.so", "libcblas.so.3", "libblas.so.3",
};

static ki_blas found;
static char reason[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* True when a product comes out right. A library with 64-bit indices takes the same names and reads rubbish. */
static bool multiplies(const ki_blas *blas)
{
    const float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 2, 3, 4, 5, 6 };
    const double da[6] = { 1, 2, 3, 4, 5, 6 }, db[6] = { 1, 2, 3, 4, 5, 6 };
    float c[4] = { 1, 1, 1, 1 };
    double dc[4] = { 1, 1, 1, 1 };
    blas->sgemm(KI_BLAS_ROW_MAJOR, KI_BLAS_AS_IS, KI_BLAS_AS_IS, 2, 2, 3, 2, a, 3, b, 2, 1, c, 2);
    blas->dgemm(KI_BLAS_ROW_MAJOR, KI_BLAS_AS_IS, KI_BLAS_TRANSPOSED, 2, 2, 3, 2, da, 3, db, 3, 1, dc, 2);
    return c[0] == 45 && c[1] == 57 && c[2] == 99 && c[3] == 129 && dc[0] == 29 && dc[1] == 65 && dc[2] == 65 &&
           dc[3] == 155;
}

static void ask_version(void *library, ki_blas *blas)
{
    union {
        void *address;
        const char *(*text)(void);
        void (*text_into)(char *text, int nbytes);
    } ask;
    if ((ask.address = dlsym(library, "openblas_get_config")) != NULL ||
        (ask.address = dlsym(library, "bli_info_get_version_str")) != NULL)
        snprintf(blas->version, sizeof blas->version, "%s", ask.text());
    else if ((ask.address = dlsym(library, "MKL_Get_Version_String")) != NULL)
        ask.text_into(blas->version, (int)sizeof blas->version - 1);
    size_t length = strlen(blas->version);
    while (length > 0 && blas->version[length - 1] == ' ')
        blas->version[--length] = '\0';
}

static void find_set_threads(void *library, ki_blas *blas)
{
    static const char *const names[] = { "openblas_set_num_threads", "MKL_Set_Num_Threads" };
    for (size_t i = 0; i < sizeof names / sizeof names[0] && blas->set_threads == NULL; i++)
        blas->set_threads = (void (*)(int))(uintptr_t)dlsym(library, names[i]);
}

/* NULL, or why this library is not the one. */
static const char *try_library(const char *name)
{
    void *library = ki_fault(KI_FAULT_OPEN) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return "cannot be opened";
    ki_blas blas = { .sgemm = (ki_sgemm_fn)(uintptr_t)dlsym(library, "cblas_sgemm"),
                     .dgemm = (ki_dgemm_fn)(uintptr_t)dlsym(library, "cblas_dgemm") };
    const char *why = NULL;
    if (blas.sgemm == NULL || blas.dgemm == NULL)
        why = "has no cblas_sgemm and cblas_dgemm";
    else if (!multiplies(&blas))
        why = "multiplies wrong (64-bit indices?)";
    if (why != NULL) {
        dlclose(library);
        return why;
    }
    snprintf(blas.library, sizeof blas.library, "%s", name);
    ask_version(library, &blas);
    find_set_threads(library, &blas);
    found = blas;
    return NULL;
}

static void look(void)
{
    const char *wanted = getenv("KITH_BLAS_LIBRARY");
    if (wanted != NULL && wanted[0] != '\0') {
        const char *why = try_library(wanted);
        if (why != NULL)
            snprintf(reason, sizeof reason, "KITH_BLAS_LIBRARY=%.200s %s", wanted, why);
        return;
    }
    size_t used = (size_t)snprintf(reason, sizeof reason,
                                   "none can be used (Debian package libopenblas0-pthread, or KITH_BLAS_LIBRARY names "
                                   "one); tried");
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const char *why = try_library(candidates[i]);
        if (why == NULL)
            return;
        if (used < sizeof reason)
            used += (size_t)snprintf(reason + used, sizeof reason - used, "%s %s", i > 0 ? "," : "", candidates[i]);
    }
}

kith_status ki_blas_get(const ki_blas **blas)
{
    pthread_once(&once, look);
    if (found.sgemm == NULL)
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "layers: no CBLAS: %s", reason);
    *blas = &found;
    return KITH_OK;
}

bool ki_blas_set_threads(const ki_blas *blas, int threads)
{
    if (blas->set_threads == NULL)
        return false;
    blas->set_threads(threads);
    return true;
}
