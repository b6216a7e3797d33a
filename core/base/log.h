/* core/base/log.h - log lines to the caller's sink (see kith/status.h for levels).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_LOG_H
#define KI_BASE_LOG_H

#include <kith/status.h>

/* Cheap test before building an expensive line. */
int ki_log_is_on(kith_log_level level);

void ki_log(kith_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's world rank for the "rank %d" prefix of lines; -1: none. */
void ki_log_set_rank(int rank);

#endif
