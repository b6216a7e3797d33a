/* core/base/error.c - the detail text of the last failure, one buffer a thread.
 *
 * The text is formatted into a second buffer first, so that the arguments may point into the stored text (adding
 * context to it).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "error.h"
#include "log.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char detail[KI_DETAIL_NBYTES];
static _Thread_local unsigned long failure_count;
static _Thread_local kith_status last_status;

static void store_detail(kith_status status, const char *format, va_list args)
{
    char text[KI_DETAIL_NBYTES];
    vsnprintf(text, sizeof text, format, args);
    strcpy(detail, text);
    failure_count++;
    last_status = status;
}

kith_status ki_fail(kith_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    store_detail(status, format, args);
    va_end(args);
    ki_log(KITH_LOG_ERROR, "%s: %s", kith_status_name(status), detail);
    return status;
}

kith_status ki_fail_quiet(kith_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    store_detail(status, format, args);
    va_end(args);
    return status;
}

kith_status ki_fail_context(kith_status status, const char *format, ...)
{
    char text[KI_DETAIL_NBYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    strncat(text, ": ", sizeof text - 1 - strlen(text));
    strncat(text, detail, sizeof text - 1 - strlen(text));
    strcpy(detail, text);
    return status;
}

unsigned long ki_error_count(kith_status *last)
{
    *last = last_status;
    return failure_count;
}

const char *kith_error_detail(void)
{
    return detail;
}
