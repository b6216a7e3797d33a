/* core/base/file.c - see file.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "file.h"

#include "error.h"
#include "fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kith_status read_stream(FILE *file, const char *path, size_t nbytes_most, char **text, size_t *nbytes)
{
    size_t room = 64 * 1024, used = 0;
    char *chars = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(room + 1);
    while (chars != NULL) {
        used += fread(chars + used, 1, room - used, file);
        if (used < room || used >= nbytes_most)
            break;
        char *bigger = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(chars, 2 * room + 1);
        if (bigger == NULL)
            free(chars);
        chars = bigger;
        room *= 2;
    }
    if (chars == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the file", path);
    kith_status status = KITH_OK;
    if (ferror(file))
        status = ki_fail_quiet(KITH_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    else if (used >= nbytes_most)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: more than %zu MiB", path, nbytes_most >> 20);
    if (status != KITH_OK) {
        free(chars);
        return status;
    }
    chars[used] = '\0';
    *text = chars;
    *nbytes = used;
    return KITH_OK;
}

kith_status ki_file_read(const char *path, size_t nbytes_most, char **text, size_t *nbytes)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", nbytes_most, text, nbytes);
    struct stat info;
    FILE *file = ki_fault(KI_FAULT_OPEN) ? NULL : fopen(path, "rbe");
    if (file == NULL)
        return ki_fail_quiet(KITH_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(file);
        return ki_fail_quiet(KITH_ERR_IO, "%s: is a folder", path);
    }
    kith_status status = read_stream(file, path, nbytes_most, text, nbytes);
    fclose(file);
    return status;
}
