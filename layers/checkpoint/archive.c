/* layers/checkpoint/archive.c - see archive.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "archive.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/file.h"
#include "crc32.h"
#include "disk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "model.safetensors"
#define INDEX "model.safetensors.index.json"

static kith_status no_memory(const char *path)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its header", path);
}

/* ---- one file ---- */

static kith_status read_header(ki_archive_file *file)
{
    unsigned char prefix[KI_HEADER_PREFIX];
    uint64_t nbytes = 0;
    if (file->nbytes < KI_HEADER_PREFIX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged or foreign: %lld bytes are no safetensors file",
                             file->path, (long long)file->nbytes);
    kith_status status = ki_disk_read(file->fd, file->path, prefix, sizeof prefix, 0);
    if (status != KITH_OK)
        return status;
    for (int i = KI_HEADER_PREFIX - 1; i >= 0; i--)
        nbytes = nbytes << 8 | prefix[i];
    if (nbytes > KI_HEADER_MOST || (int64_t)nbytes > file->nbytes - KI_HEADER_PREFIX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: damaged or foreign: a header of %llu bytes in a file of %lld (at most 100 MB); is "
                             "it a safetensors file, and whole?",
                             file->path, (unsigned long long)nbytes, (long long)file->nbytes);
    char *text = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes + 1);
    if (text == NULL)
        return no_memory(file->path);
    status = ki_disk_read(file->fd, file->path, text, nbytes, KI_HEADER_PREFIX);
    if (status == KITH_OK) {
        file->header_crc = ki_crc32(ki_crc32(0, prefix, sizeof prefix), text, nbytes);
        status = ki_header_parse(file->path, text, nbytes, file->nbytes, &file->header);
    }
    free(text);
    return status;
}

/* Takes path over, also when it fails. */
static kith_status open_file(ki_archive *archive, char *path)
{
    ki_archive_file *grown = ki_fault(KI_FAULT_ALLOC)
                                 ? NULL
                                 : realloc(archive->files, (size_t)(archive->file_count + 1) * sizeof *archive->files);
    if (grown == NULL) {
        kith_status status = no_memory(path);
        free(path);
        return status;
    }
    archive->files = grown;
    ki_archive_file *file = &grown[archive->file_count++];
    *file = (ki_archive_file){ .path = path, .fd = -1 };
    kith_status status = ki_disk_open(path, &file->fd, &file->nbytes);
    return status == KITH_OK ? read_header(file) : status;
}

/* ---- all together ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ki_stored *)a)->name, ((const ki_stored *)b)->name);
}

static kith_status join(ki_archive *archive)
{
    size_t total = 0;
    for (int i = 0; i < archive->file_count; i++)
        total += archive->files[i].header.count;
    archive->tensors = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((total + 1) * sizeof *archive->tensors);
    if (archive->tensors == NULL)
        return no_memory(archive->path);
    for (int i = 0; i < archive->file_count; i++)
        for (size_t t = 0; t < archive->files[i].header.count; t++) {
            archive->tensors[archive->count] = archive->files[i].header.tensors[t];
            archive->tensors[archive->count++].file = i;
        }
    qsort(archive->tensors, archive->count, sizeof *archive->tensors, by_name);
    for (size_t i = 1; i < archive->count; i++)
        if (strcmp(archive->tensors[i - 1].name, archive->tensors[i].name) == 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %.200s is in %s and in %s", archive->path,
                                 archive->tensors[i].name, archive->files[archive->tensors[i - 1].file].path,
                                 archive->files[archive->tensors[i].file].path);
    return KITH_OK;
}

const ki_stored *ki_archive_find(const ki_archive *archive, const char *name)
{
    ki_stored wanted = { .name = name };
    return bsearch(&wanted, archive->tensors, archive->count, sizeof *archive->tensors, by_name);
}

/* ---- an index of several ---- */

static int find_file(const ki_archive *archive, const char *name)
{
    for (int i = 0; i < archive->file_count; i++) {
        const char *slash = strrchr(archive->files[i].path, '/');
        if (strcmp(slash + 1, name) == 0)
            return i;
    }
    return -1;
}

static kith_status open_indexed(ki_archive *archive, const ki_index *index)
{
    kith_status status = KITH_OK;
    int last = -1; /* neighbours are mostly in the same one */
    for (size_t i = 0; i < index->count && status == KITH_OK; i++) {
        char *path;
        const char *file = index->entries[i].file;
        if (last >= 0 && strcmp(strrchr(archive->files[last].path, '/') + 1, file) == 0)
            continue;
        last = find_file(archive, file);
        if (last >= 0)
            continue;
        status = ki_disk_join(archive->path, file, &path);
        if (status == KITH_OK)
            status = open_file(archive, path);
        last = archive->file_count - 1;
    }
    return status;
}

static kith_status check_index(const ki_archive *archive, const ki_index *index)
{
    for (size_t i = 0; i < index->count; i++) {
        const ki_stored *tensor = ki_archive_find(archive, index->entries[i].tensor);
        if (tensor == NULL || find_file(archive, index->entries[i].file) != tensor->file)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %.200s is not in %.200s, where " INDEX " has it",
                                 archive->path, index->entries[i].tensor, index->entries[i].file);
    }
    return KITH_OK;
}

static kith_status open_index(ki_archive *archive, const char *path)
{
    char *text = NULL;
    size_t nbytes;
    ki_index index = { 0 };
    kith_status status = ki_file_read(path, KI_HEADER_MOST, &text, &nbytes);
    if (status == KITH_OK)
        status = ki_index_parse(path, text, nbytes, &index);
    if (status == KITH_OK)
        status = open_indexed(archive, &index);
    if (status == KITH_OK)
        status = join(archive);
    if (status == KITH_OK)
        status = check_index(archive, &index);
    ki_index_fini(&index);
    free(text);
    return status;
}

/* One file has everything, or an index says which have. */
static kith_status open_folder(ki_archive *archive)
{
    char *model = NULL, *index = NULL;
    kith_status status = ki_disk_join(archive->path, MODEL, &model);
    if (status == KITH_OK)
        status = ki_disk_join(archive->path, INDEX, &index);
    if (status == KITH_OK && access(model, F_OK) == 0) {
        status = open_file(archive, model);
        model = NULL;
        if (status == KITH_OK)
            status = join(archive);
    } else if (status == KITH_OK && access(index, F_OK) == 0) {
        status = open_index(archive, index);
    } else if (status == KITH_OK) {
        status = ki_fail_quiet(KITH_ERR_IO, "%s: has neither " MODEL " nor " INDEX, archive->path);
    }
    free(model);
    free(index);
    return status;
}

static kith_status open_single(ki_archive *archive)
{
    char *path = ki_fault(KI_FAULT_ALLOC) ? NULL : strdup(archive->path);
    if (path == NULL)
        return no_memory(archive->path);
    kith_status status = open_file(archive, path);
    return status == KITH_OK ? join(archive) : status;
}

kith_status ki_archive_open(const char *path, ki_archive *archive)
{
    struct stat info;
    ki_archive made = { .path = path };
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    kith_status status = is_folder ? open_folder(&made) : open_single(&made);
    if (status == KITH_OK)
        *archive = made;
    else
        ki_archive_close(&made);
    return status;
}

void ki_archive_close(ki_archive *archive)
{
    for (int i = 0; i < archive->file_count; i++) {
        if (archive->files[i].fd >= 0)
            close(archive->files[i].fd);
        free(archive->files[i].path);
        ki_header_fini(&archive->files[i].header);
    }
    free(archive->files);
    free(archive->tensors);
    *archive = (ki_archive){ 0 };
}
