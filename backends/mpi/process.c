/* backends/mpi/process.c - MPI and this process: which MPI, who initialises, who finalises; see backend.h.
 *
 * Two MPIs in one process do not work: both define MPI_Send. So a module refuses when the other library is
 * initialised, when the program was linked to the other one (its symbols are global and would be found first), or
 * when the launcher's environment is the other's, since its own would then start as a world of one rank.
 *
 * Open MPI opens components that look for its symbols globally; a library that came in through a module is local to it.
 * It is therefore made global before MPI_Init.
 *
 * Whether the library takes device memory is asked with functions that not all have, so they are looked up by name: in
 * the global scope first, where a tool may stand before MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int instances;
static bool is_initialised_here;

#ifdef OPEN_MPI
static const char other_name[] = "MPICH";
static const char *const other_files[] = { "libmpich.so.12", "libmpi.so.12", NULL };
static const char other_symbol[] = "MPIR_Process";
#else
static const char other_name[] = "Open MPI";
static const char *const other_files[] = { "libmpi.so.40", "libmpi.so.80", NULL };
static const char other_symbol[] = "ompi_mpi_comm_world";
#endif

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static bool is_launched_by_open_mpi(void)
{
    return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK");
}

static bool is_launched_by_mpich(void)
{
    return is_set("PMI_RANK") && (is_set("PMI_SIZE") || is_set("HYDI_CONTROL_FD"));
}

static bool is_launched_by_own(void)
{
#ifdef OPEN_MPI
    return is_launched_by_open_mpi();
#else
    return is_launched_by_mpich();
#endif
}

static bool is_launched_by_other(void)
{
#ifdef OPEN_MPI
    return is_launched_by_mpich() && !is_launched_by_open_mpi();
#else
    return is_launched_by_open_mpi() && !is_launched_by_mpich();
#endif
}

static bool is_other_initialised(void)
{
    for (int i = 0; other_files[i] != NULL; i++) {
        void *handle = dlopen(other_files[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle == NULL)
            continue;
        int (*initialized)(int *);
        int flag = 0;
        *(void **)&initialized = dlsym(handle, "MPI_Initialized");
        if (initialized != NULL)
            initialized(&flag);
        dlclose(handle);
        if (flag)
            return true;
    }
    return false;
}

static bool is_program_linked_to_other(void)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    bool is_there = program != NULL && dlsym(program, other_symbol) != NULL;
    if (program != NULL)
        dlclose(program);
    return is_there;
}

bool mpi_is_running(void)
{
    int is_initialised = 0, is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    return is_initialised && !is_finalised;
}

static bool is_over(void)
{
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    return is_finalised != 0;
}

static const char finalised_text[] = "MPI was finalised in this process and cannot be started a second time";

/* May be asked after MPI_Init only. */
bool mpi_is_cuda_aware(void)
{
    int (*query)(void);
    if (!mpi_is_running())
        return false;
#ifndef OPEN_MPI
    enum { GPU_CUDA = 0 }; /* MPIX_GPU_SUPPORT_CUDA */
    int (*gpu_query)(int, int *);
    int is_supported = 0;
    *(void **)&gpu_query = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    if (gpu_query != NULL && gpu_query(GPU_CUDA, &is_supported) == MPI_SUCCESS && is_supported)
        return true;
#endif
    *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    return query != NULL && query() != 0;
}

static const char *device_text(void)
{
    return !mpi_is_running() ? "" : mpi_is_cuda_aware() ? ", takes device memory" : ", takes no device memory";
}

kith_status mpi_available(char *reason, size_t reason_nbytes)
{
    if (is_other_initialised() || is_program_linked_to_other()) {
        snprintf(reason, reason_nbytes, "this process runs %s", other_name);
    } else if (is_launched_by_other()) {
        snprintf(reason, reason_nbytes, "this process was started by the launcher of %s", other_name);
    } else if (is_over()) {
        snprintf(reason, reason_nbytes, "%s", finalised_text);
    } else {
        char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        int length = 0;
        MPI_Get_library_version(text, &length);
        text[strcspn(text, ",\n")] = '\0';
        for (char *at = text; *at != '\0'; at++)
            *at = *at == '\t' ? ' ' : *at;
        snprintf(reason, reason_nbytes, "%s, %s%s", text,
                 mpi_is_running()       ? "initialised"
                 : is_launched_by_own() ? "started by its launcher"
                                        : "not started by its launcher",
                 device_text());
        return KITH_OK;
    }
    return KITH_ERR_UNSUPPORTED;
}

static void make_global(void)
{
#ifdef OPEN_MPI
    Dl_info info;
    if (dladdr((const void *)MPI_COMM_WORLD, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
#endif
}

/* A rank that ends with an error, or in the middle of its work, must not wait for the others in MPI_Finalize: its
 * launcher notices, and ends them. */
static void on_process_exit(int status, void *arg)
{
    (void)arg;
    if (status == 0 && instances == 0 && mpi_is_running())
        MPI_Finalize();
}

static int initialise(void)
{
    int provided;
    make_global();
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code == MPI_SUCCESS && !is_initialised_here) {
        is_initialised_here = true;
        on_exit(on_process_exit, NULL);
    }
    return code;
}

kith_status mpi_launch(int may_init, int *rank, int *size)
{
    kith_status status = KITH_ERR_UNSUPPORTED;
    pthread_mutex_lock(&lock);
    bool is_running = mpi_is_running();
    if (!is_running && may_init && !is_over() && is_launched_by_own())
        is_running = initialise() == MPI_SUCCESS;
    if (is_running && MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
        MPI_Comm_size(MPI_COMM_WORLD, size) == MPI_SUCCESS)
        status = KITH_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

kith_status mpi_launch_broadcast(void *buffer, size_t nbytes)
{
    MPI_Errhandler kept;
    int code = MPI_SUCCESS;
    if (!mpi_is_running())
        return KITH_ERR_UNSUPPORTED;
    mpi_world_errors_begin(&kept);
    for (size_t done = 0; done < nbytes && code == MPI_SUCCESS; done += 1u << 30) {
        size_t piece = nbytes - done < 1u << 30 ? nbytes - done : 1u << 30;
        code = MPI_Bcast((unsigned char *)buffer + done, (int)piece, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    mpi_world_errors_end(&kept);
    return code == MPI_SUCCESS ? KITH_OK : KITH_ERR_IO;
}

static kith_status check_threads(const kith_be_host *host)
{
    int provided = MPI_THREAD_SINGLE, is_main = 0;
    MPI_Query_thread(&provided);
    MPI_Is_thread_main(&is_main);
    if (host->is_threads)
        return host->fail(KITH_ERR_UNSUPPORTED,
                          "backend mpi: a process is one rank of MPI, but here several ranks live in "
                          "one process as threads");
    if (provided < MPI_THREAD_SERIALIZED && !is_main)
        return host->fail(KITH_ERR_UNSUPPORTED,
                          "backend mpi: MPI was initialised with MPI_THREAD_%s, so only the thread that "
                          "called MPI_Init may use it",
                          provided == MPI_THREAD_SINGLE ? "SINGLE" : "FUNNELED");
    return KITH_OK;
}

kith_status mpi_process_enter(const kith_be_host *host)
{
    kith_status status = KITH_OK;
    pthread_mutex_lock(&lock);
    if (is_over())
        status = host->fail(KITH_ERR_UNSUPPORTED, "backend mpi: %s", finalised_text);
    else if (!mpi_is_running() && initialise() != MPI_SUCCESS)
        status = host->fail(KITH_ERR_NO_RESOURCE, "backend mpi: MPI_Init_thread failed");
    if (status == KITH_OK)
        status = check_threads(host);
    if (status == KITH_OK)
        instances++;
    pthread_mutex_unlock(&lock);
    return status;
}

void mpi_process_leave(void)
{
    pthread_mutex_lock(&lock);
    instances--;
    pthread_mutex_unlock(&lock);
}

void mpi_world_errors_begin(MPI_Errhandler *kept)
{
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, kept);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

void mpi_world_errors_end(MPI_Errhandler *kept)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, *kept);
    MPI_Errhandler_free(kept);
}
