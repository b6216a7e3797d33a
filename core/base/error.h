/* core/base/error.h - recording why something failed.
 *
 * The function that first knows the cause calls ki_fail(): it stores the sentence for the calling thread and logs it
 * once. Everyone above passes the status on, at most adding context with ki_fail_context().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_ERROR_H
#define KI_BASE_ERROR_H

#include <kith/status.h>

/* Stores the detail text, logs it at level error, returns status. */
kith_status ki_fail(kith_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stores the detail text without logging (for answers of queries and for texts that another rank has logged already).
 */
kith_status ki_fail_quiet(kith_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the stored detail. Returns status. */
kith_status ki_fail_context(kith_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many failures the calling thread has stored, and the status of the last one (KITH_OK: none): whoever called a
 * function of somebody else's can tell whether the detail is news, and goes with what was returned. */
unsigned long ki_error_count(kith_status *last);

#define KI_DETAIL_NBYTES 1024

#endif
