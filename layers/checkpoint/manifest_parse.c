/* layers/checkpoint/manifest_parse.c - reading kith.json.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/file.h"
#include "crc32.h"
#include "disk.h"
#include "lex.h"
#include "manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANIFEST_MOST ((size_t)1 << 30)

typedef struct reader {
    ki_lex lex;
    ki_manifest *manifest;
    char *names; /* where the next one goes */
    size_t sum_count, sum_room;
    size_t first_sums[KI_MANIFEST_FILES];
} reader;

static bool need_key(reader *in, const char *wanted)
{
    const char *key;
    if (!ki_lex_name(&in->lex, &in->names, &key) || !ki_lex_need(&in->lex, ':'))
        return false;
    in->names = in->names - strlen(key) - 1;
    return strcmp(key, wanted) == 0 || ki_lex_fail(&in->lex, "another key than " KI_MANIFEST_NAME " has here");
}

/* Hexadecimal digits of a string, all of them. */
static bool read_hex(reader *in, size_t digits, uint64_t *value)
{
    const char *text;
    if (!ki_lex_name(&in->lex, &in->names, &text))
        return false;
    in->names = in->names - strlen(text) - 1;
    if (strlen(text) != digits || strspn(text, "0123456789abcdef") != digits)
        return ki_lex_fail(&in->lex, "expected hexadecimal digits");
    *value = strtoull(text, NULL, 16);
    return true;
}

static bool read_crc(reader *in, uint32_t *crc)
{
    uint64_t value;
    if (!read_hex(in, 8, &value))
        return false;
    *crc = (uint32_t)value;
    return true;
}

static bool no_memory(reader *in)
{
    in->lex.status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for it", in->lex.name);
    return false;
}

/* ---- numbers ---- */

static bool read_number(reader *in)
{
    ki_manifest *manifest = in->manifest;
    kith_checkpoint_number *number = &manifest->read_numbers[manifest->number_count];
    uint64_t bits;
    if (!ki_lex_name(&in->lex, &in->names, &number->name) || !ki_lex_need(&in->lex, ':') ||
        !ki_lex_need(&in->lex, '{') || !need_key(in, "value") || !ki_lex_skip(&in->lex) ||
        !ki_lex_need(&in->lex, ',') || !need_key(in, "bits") || !read_hex(in, 16, &bits) || !ki_lex_need(&in->lex, '}'))
        return false;
    memcpy(&number->value, &bits, sizeof bits);
    manifest->number_count++;
    return true;
}

static bool read_numbers(reader *in)
{
    ki_manifest *manifest = in->manifest;
    manifest->read_numbers =
        ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(KI_MANIFEST_NUMBERS, sizeof *manifest->read_numbers);
    manifest->numbers = manifest->read_numbers;
    if (manifest->read_numbers == NULL)
        return no_memory(in);
    if (!need_key(in, "numbers") || !ki_lex_need(&in->lex, '{'))
        return false;
    if (ki_lex_take(&in->lex, '}'))
        return ki_lex_need(&in->lex, ',');
    do {
        if (manifest->number_count == KI_MANIFEST_NUMBERS)
            return ki_lex_fail(&in->lex, "more than 4096 numbers");
        if (!read_number(in))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    return ki_lex_need(&in->lex, '}') && ki_lex_need(&in->lex, ',');
}

/* ---- files ---- */

static bool add_sum(reader *in)
{
    ki_manifest *manifest = in->manifest;
    if (in->sum_count == in->sum_room) {
        size_t room = in->sum_room == 0 ? 256 : 2 * in->sum_room;
        ki_sum *grown = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(manifest->sums, room * sizeof *grown);
        if (grown == NULL)
            return no_memory(in);
        manifest->sums = grown;
        in->sum_room = room;
    }
    ki_sum *sum = &manifest->sums[in->sum_count];
    if (!ki_lex_name(&in->lex, &in->names, &sum->name) || !ki_lex_need(&in->lex, ':') || !read_crc(in, &sum->crc))
        return false;
    in->sum_count++;
    return true;
}

static bool read_file(reader *in)
{
    ki_manifest *manifest = in->manifest;
    if (manifest->file_count == KI_MANIFEST_FILES)
        return ki_lex_fail(&in->lex, "more files than a checkpoint has");
    ki_manifest_file *file = &manifest->files[manifest->file_count];
    in->first_sums[manifest->file_count] = in->sum_count;
    if (!ki_lex_need(&in->lex, '{') || !need_key(in, "name") || !ki_lex_name(&in->lex, &in->names, &file->name) ||
        !ki_lex_need(&in->lex, ',') || !need_key(in, "nbytes") || !ki_lex_whole(&in->lex, &file->nbytes) ||
        !ki_lex_need(&in->lex, ',') || !need_key(in, "crc32") || !read_crc(in, &file->crc) ||
        !ki_lex_need(&in->lex, ',') || !need_key(in, "tensors") || !ki_lex_need(&in->lex, '{'))
        return false;
    if (!ki_lex_take(&in->lex, '}')) {
        do {
            if (!add_sum(in))
                return false;
        } while (ki_lex_take(&in->lex, ','));
        if (!ki_lex_need(&in->lex, '}'))
            return false;
    }
    file->count = in->sum_count - in->first_sums[manifest->file_count++];
    return ki_lex_need(&in->lex, '}');
}

static bool read_files(reader *in)
{
    if (!need_key(in, "files") || !ki_lex_need(&in->lex, '['))
        return false;
    do {
        if (!read_file(in))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    for (size_t i = 0; i < in->manifest->file_count; i++) /* where they are now that no more come */
        in->manifest->files[i].sums = in->manifest->sums + in->first_sums[i];
    return ki_lex_need(&in->lex, ']');
}

/* ---- all of it ---- */

static bool read_steps(reader *in)
{
    int64_t format;
    if (!need_key(in, "format") || !ki_lex_whole(&in->lex, &format) || !ki_lex_need(&in->lex, ','))
        return false;
    if (format != 1)
        return ki_lex_fail(&in->lex, "a format of a later version; this one knows 1");
    if (!need_key(in, "step") || !ki_lex_whole(&in->lex, &in->manifest->step) || !ki_lex_need(&in->lex, ',') ||
        !need_key(in, "optimizer_steps"))
        return false;
    int64_t sign = ki_lex_take(&in->lex, '-') ? -1 : 1;
    if (!ki_lex_whole(&in->lex, &in->manifest->optimizer_steps))
        return false;
    in->manifest->optimizer_steps *= sign;
    return ki_lex_need(&in->lex, ',');
}

/* The sum stands before all that it is of. */
static bool check_crc(reader *in)
{
    uint32_t crc = 0;
    if (!ki_lex_need(&in->lex, '{') || !need_key(in, "crc32") || !read_crc(in, &crc) || !ki_lex_need(&in->lex, ','))
        return false;
    if (in->lex.at == in->lex.end || *in->lex.at != '\n')
        return ki_lex_fail(&in->lex, "expected the end of the line");
    in->lex.at++;
    if (ki_crc32(0, in->lex.at, (size_t)(in->lex.end - in->lex.at)) == crc)
        return true;
    in->lex.status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged: its own sum is another one", in->lex.name);
    return false;
}

kith_status ki_manifest_parse(const char *name, const char *text, size_t nbytes, ki_manifest *manifest)
{
    ki_manifest made = { 0 };
    reader in = { .lex = { name, text, text, text + nbytes, KITH_OK }, .manifest = &made };
    made.memory = in.names = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes + 1);
    if (made.memory == NULL)
        no_memory(&in);
    else if (check_crc(&in) && read_steps(&in) && read_numbers(&in) && read_files(&in) && ki_lex_need(&in.lex, '}') &&
             ki_lex_finish(&in.lex))
        *manifest = made;
    if (in.lex.status != KITH_OK)
        ki_manifest_fini(&made);
    return in.lex.status;
}

static kith_status check_files(const char *folder, const ki_manifest *manifest)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < manifest->file_count && status == KITH_OK; i++) {
        const ki_manifest_file *file = &manifest->files[i];
        struct stat info;
        char *path;
        status = ki_disk_join(folder, file->name, &path);
        if (status != KITH_OK)
            break;
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: is missing, or no file", path);
        else if (info.st_size != file->nbytes)
            status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged: has %lld bytes, was written with %lld", path,
                                   (long long)info.st_size, (long long)file->nbytes);
        free(path);
    }
    return status;
}

kith_status ki_manifest_read(const char *folder, ki_manifest *manifest)
{
    char *path, *text = NULL;
    size_t nbytes;
    ki_manifest made = { 0 };
    kith_status status = ki_disk_join(folder, KI_MANIFEST_NAME, &path);
    if (status != KITH_OK)
        return status;
    status = ki_file_read(path, MANIFEST_MOST, &text, &nbytes);
    if (status == KITH_OK)
        status = ki_manifest_parse(path, text, nbytes, &made);
    if (status == KITH_OK)
        status = check_files(folder, &made);
    if (status == KITH_OK)
        *manifest = made;
    else
        ki_manifest_fini(&made);
    free(text);
    free(path);
    return status;
}
