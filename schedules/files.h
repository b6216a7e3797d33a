/* schedules/files.h - a file as one text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_FILES_H
#define KI_SCHEDULES_FILES_H

#include <kith/status.h>
#include <stddef.h>

#define KI_FILE_NBYTES_MAX ((size_t)256 << 20)

/* The file at path, or standard input for "-", with a zero behind it; freed with free(). KITH_ERR_IO: it cannot be
 * read. KITH_ERR_INVALID_ARG: more than KI_FILE_NBYTES_MAX. */
kith_status ki_file_read(const char *path, char **text, size_t *nbytes);

#endif
