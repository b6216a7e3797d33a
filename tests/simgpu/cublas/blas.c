/* tests/simgpu/cublas/blas.c - the CBLAS behind the products, found as libkith finds it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static sim_blas found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void try_library(const char *name)
{
    void *library = found.sgemm == NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL)
        return;
    void *sgemm = dlsym(library, "cblas_sgemm"), *dgemm = dlsym(library, "cblas_dgemm");
    if (sgemm == NULL || dgemm == NULL)
        return;
    memcpy(&found.sgemm, &sgemm, sizeof sgemm);
    memcpy(&found.dgemm, &dgemm, sizeof dgemm);
}

static void look(void)
{
    static const char *const candidates[] = {
        "libopenblas.so.0", "libopenblas.so", "libblis.so.4",     "libblis.so",    "libmkl_rt.so.3",
        "libmkl_rt.so.2",   "libmkl_rt.so",   "libarmpl_lp64.so", "libcblas.so.3", "libblas.so.3",
    };
    const char *wanted = getenv("KITH_BLAS_LIBRARY");
    if (wanted != NULL && wanted[0] != '\0')
        try_library(wanted);
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0] && found.sgemm == NULL; i++)
        try_library(candidates[i]);
}

const sim_blas *sim_blas_get(void)
{
    pthread_once(&once, look);
    return found.sgemm == NULL ? NULL : &found;
}
