/* core/base/file.h - a file as one text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_FILE_H
#define KI_BASE_FILE_H

#include <kith/status.h>
#include <stddef.h>

/* The file at path, or standard input for "-", with a zero behind it; freed with free(). KITH_ERR_IO: it cannot be
 * read. KITH_ERR_INVALID_ARG: it has nbytes_most bytes or more. */
kith_status ki_file_read(const char *path, size_t nbytes_most, char **text, size_t *nbytes);

#endif
