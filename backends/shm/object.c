/* backends/shm/object.c - one piece of shared memory: how it is made, named to other processes, mapped and counted.
 *
 * A memfd has no name and no size limit of a file system; other processes of the same user open it through
 * /proc/<pid>/fd/<n> of its owner. Where that is refused, a file in the directory of the setting shm_dir takes its
 * place, reserved in full (a full tmpfs would otherwise kill at the first touch), and unlinked as soon as everybody
 * has mapped it. Both leave nothing behind when all ranks are killed. Device and inode tell that the opened object is
 * the one that was meant.
 *
 * Ranks that are threads of one process share one mapping: a table of this process, keyed by the object's random
 * number.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the table of mappings of this process ---- */

typedef struct mapping {
    struct mapping *next;
    uint64_t nonce;
    unsigned char *base;
    size_t nbytes;
    int users;
} mapping;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *table;

static mapping *table_find(uint64_t nonce)
{
    mapping *entry = table;
    while (entry != NULL && entry->nonce != nonce)
        entry = entry->next;
    return entry;
}

/* ---- making ---- */

static uint64_t random_number(void)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number || number == 0)
        number =
            (uint64_t)shm_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() ^ (uint64_t)(uintptr_t)&number;
    return number;
}

uint64_t shm_process_number(void)
{
    static uint64_t number;
    static pid_t owner; /* a child made by fork() is another process */
    pthread_mutex_lock(&table_lock);
    if (owner != getpid()) {
        owner = getpid();
        number = random_number();
    }
    uint64_t result = number;
    pthread_mutex_unlock(&table_lock);
    return result;
}

/* Fills in what identifies the open object. */
static bool describe(shm_object *object, size_t nbytes)
{
    struct stat about;
    if (fstat(object->fd, &about) != 0)
        return false;
    object->handle.nonce = random_number();
    object->handle.nbytes = nbytes;
    object->handle.device = (uint64_t)about.st_dev;
    object->handle.inode = (uint64_t)about.st_ino;
    object->handle.pid = getpid();
    object->handle.is_valid = 1;
    return true;
}

static kith_status create_memfd(size_t nbytes, shm_object *object)
{
    object->fd = memfd_create("kith", MFD_CLOEXEC);
    if (object->fd < 0)
        return KITH_ERR_NO_RESOURCE;
    object->handle.fd = object->fd;
    if (ftruncate(object->fd, (off_t)nbytes) == 0 && describe(object, nbytes))
        return KITH_OK;
    shm_object_close(object);
    return KITH_ERR_NO_RESOURCE;
}

static kith_status fail_to_reserve(const kith_be_host *host, const shm_object *object, size_t nbytes,
                                   const char *advice, int error)
{
    struct statvfs system;
    unsigned long long free_nbytes = 0;
    if (fstatvfs(object->fd, &system) == 0)
        free_nbytes = (unsigned long long)system.f_bavail * system.f_frsize;
    return host->fail(KITH_ERR_NO_RESOURCE,
                      "shared memory file %s needs %zu bytes, %llu are free there (%s); a larger file system, another "
                      "KITH_SHM_DIR or %s helps",
                      object->handle.path, nbytes, free_nbytes, strerror(error), advice);
}

static kith_status create_file(shm_instance *instance, size_t nbytes, const char *advice, shm_object *object)
{
    const kith_be_host *host = instance->host;
    object->handle.fd = -1;
    int length = snprintf(object->handle.path, sizeof object->handle.path, "%s/kith-%016llx",
                          instance->settings.directory, (unsigned long long)random_number());
    if (length < 0 || (size_t)length >= sizeof object->handle.path)
        return host->fail(KITH_ERR_INVALID_ARG, "KITH_SHM_DIR is longer than %zu bytes",
                          sizeof object->handle.path - 22);
    object->fd = open(object->handle.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (object->fd < 0)
        return host->fail(KITH_ERR_NO_RESOURCE, "cannot create the shared memory file %s: %s", object->handle.path,
                          strerror(errno));
    int error = posix_fallocate(object->fd, 0, (off_t)nbytes);
    kith_status status = KITH_OK;
    if (error != 0)
        status = fail_to_reserve(host, object, nbytes, advice, error);
    else if (!describe(object, nbytes))
        status = host->fail(KITH_ERR_NO_RESOURCE, "cannot look at %s: %s", object->handle.path, strerror(errno));
    if (status != KITH_OK)
        shm_object_close(object);
    return status;
}

kith_status shm_object_create(shm_instance *instance, size_t nbytes, const char *advice, shm_object *object)
{
    memset(object, 0, sizeof *object);
    return advice == NULL ? create_memfd(nbytes, object) : create_file(instance, nbytes, advice, object);
}

void shm_object_close(shm_object *object)
{
    if (object->fd >= 0)
        close(object->fd);
    if (object->handle.path[0] != '\0')
        unlink(object->handle.path);
    object->fd = -1;
    object->handle.path[0] = '\0';
    object->handle.is_valid = 0;
}

/* ---- mapping ---- */

static int open_object(const shm_handle *handle)
{
    char path[64];
    if (handle->fd >= 0)
        snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)handle->pid, handle->fd);
    int fd = open(handle->fd >= 0 ? path : handle->path, O_RDWR | O_CLOEXEC);
    struct stat about;
    if (fd >= 0 && (fstat(fd, &about) != 0 || (uint64_t)about.st_dev != handle->device ||
                    (uint64_t)about.st_ino != handle->inode || (uint64_t)about.st_size < handle->nbytes)) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

static void *map_object(const shm_handle *handle, const shm_object *own, void *at)
{
    int fd = own != NULL ? own->fd : open_object(handle);
    if (fd < 0)
        return MAP_FAILED;
    void *base = mmap(at, handle->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, 0);
    int error = errno;
    if (own == NULL)
        close(fd);
    errno = error;
    return base;
}

/* Holds table_lock. */
static kith_status map_new(const shm_handle *handle, const shm_object *own, void *at, unsigned char **base)
{
    mapping *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return KITH_ERR_NO_MEMORY;
    void *address = map_object(handle, own, at);
    if (address == MAP_FAILED) {
        int error = errno;
        free(entry);
        errno = error;
        return KITH_ERR_NO_RESOURCE;
    }
    *entry = (mapping){ table, handle->nonce, address, handle->nbytes, 1 };
    table = entry;
    *base = address;
    return KITH_OK;
}

kith_status shm_map(shm_instance *instance, const shm_handle *handle, const shm_object *own, void *at, bool is_quiet,
                    unsigned char **base)
{
    pthread_mutex_lock(&table_lock);
    mapping *entry = table_find(handle->nonce);
    kith_status status = KITH_OK;
    if (entry != NULL) {
        entry->users++;
        *base = entry->base;
    } else {
        status = map_new(handle, own, at, base);
    }
    int error = errno;
    pthread_mutex_unlock(&table_lock);
    if (status == KITH_OK || is_quiet)
        return status;
    if (status == KITH_ERR_NO_MEMORY)
        return instance->host->fail(status, "no memory for the record of a mapping");
    if (handle->fd >= 0)
        return instance->host->fail(status, "cannot map %llu bytes of shared memory from process %lld: %s",
                                    (unsigned long long)handle->nbytes, (long long)handle->pid, strerror(error));
    return instance->host->fail(status, "cannot map the shared memory file %s (%llu bytes): %s", handle->path,
                                (unsigned long long)handle->nbytes, strerror(error));
}

void shm_unmap(uint64_t nonce, bool keep)
{
    pthread_mutex_lock(&table_lock);
    for (mapping **link = &table; *link != NULL; link = &(*link)->next) {
        mapping *entry = *link;
        if (entry->nonce != nonce)
            continue;
        if (--entry->users == 0) {
            *link = entry->next;
            if (!keep)
                munmap(entry->base, entry->nbytes);
            free(entry);
        }
        break;
    }
    pthread_mutex_unlock(&table_lock);
}
