/* schedules/numbers.c - see numbers.h. strtod() and printf() use the decimal point of the current locale, which belongs
 * to the program; so the point is exchanged on the way in and out.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "numbers.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [+-] digits [. digits] [e [+-] digits], with a digit before or behind the point: no hexadecimal, no "inf". */
static bool is_decimal(const char *text, size_t length)
{
    size_t i = 0, digits = 0;
    i += i < length && (text[i] == '-' || text[i] == '+');
    for (; i < length && isdigit((unsigned char)text[i]); i++)
        digits++;
    i += i < length && text[i] == '.';
    for (; i < length && isdigit((unsigned char)text[i]); i++)
        digits++;
    if (digits == 0 || i == length)
        return digits > 0;
    if (text[i] != 'e' && text[i] != 'E')
        return false;
    i++;
    i += i < length && (text[i] == '-' || text[i] == '+');
    for (digits = 0; i < length && isdigit((unsigned char)text[i]); i++)
        digits++;
    return digits > 0 && i == length;
}

bool ki_number_parse(const char *text, size_t length, double *value)
{
    char copy[128];
    const char *point = localeconv()->decimal_point;
    size_t used = 0;
    if (length > 64 || !is_decimal(text, length))
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *piece = text[i] == '.' ? point : &text[i];
        size_t nbytes = text[i] == '.' ? strlen(point) : 1;
        if (used + nbytes >= sizeof copy)
            return false;
        memcpy(copy + used, piece, nbytes);
        used += nbytes;
    }
    copy[used] = '\0';
    double parsed = strtod(copy, NULL);
    if (!isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

static void use_point(char *text)
{
    const char *point = localeconv()->decimal_point;
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(text, point);
    if (at == NULL)
        return;
    *at = '.';
    memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
}

/* Most times are whole: no need to try how many digits they take. */
static bool is_whole(double value)
{
    return value > -1e15 && value < 1e15 && floor(value) >= value;
}

const char *ki_number_text(double value, int digits, char buffer[KI_NUMBER_NBYTES])
{
    if (digits > 0) {
        snprintf(buffer, KI_NUMBER_NBYTES, "%.*g", digits, value);
    } else if (is_whole(value)) {
        snprintf(buffer, KI_NUMBER_NBYTES, "%" PRId64, (int64_t)value);
        return buffer;
    } else {
        snprintf(buffer, KI_NUMBER_NBYTES, "%.15g", value);
        double back = strtod(buffer, NULL);
        if (back < value || back > value)
            snprintf(buffer, KI_NUMBER_NBYTES, "%.17g", value);
    }
    use_point(buffer);
    return buffer;
}
