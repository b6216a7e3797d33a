/* core/base/number.c - see number.h. strtod() and printf() use the decimal point of the current locale, which belongs
 * to the program; so the point is exchanged on the way in and out.
 *
 * Long plans are millions of numbers, so most are written without printf(): whole ones, and fractions in the range that
 * times have. Such a fraction is m / 2^s. With j digits behind the point it becomes n = round(m 10^j / 2^s), and reads
 * back as itself when n / 10^j is nearer to it than half of the distance to its neighbours, 1 / 2^s: so the first j of
 * which 2 |n 2^s - m 10^j| < 10^j holds gives the shortest text. All of it fits into 128 bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "number.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static size_t count_digits(const char *text, size_t length, size_t from)
{
    size_t i = from;
    while (i < length && isdigit((unsigned char)text[i]))
        i++;
    return i - from;
}

/* How much of the text is [+-] digits [. digits] [e [+-] digits], with a digit before or behind the point: nothing
 * hexadecimal, no "inf". 0: it does not begin with a number. */
static size_t decimal_length(const char *text, size_t length)
{
    size_t i = length > 0 && (text[0] == '-' || text[0] == '+'), digits = count_digits(text, length, i);
    i += digits;
    if (i < length && text[i] == '.') {
        size_t behind = count_digits(text, length, i + 1);
        i += digits + behind > 0 ? 1 + behind : 0;
        digits += behind;
    }
    if (digits == 0)
        return 0;
    if (i == length || (text[i] != 'e' && text[i] != 'E'))
        return i;
    size_t sign = i + 1 < length && (text[i + 1] == '-' || text[i + 1] == '+');
    size_t power = count_digits(text, length, i + 1 + sign);
    return power > 0 ? i + 1 + sign + power : i;
}

#define LENGTH_MAX 64

/* The decimal number of that length. */
static bool convert(const char *text, size_t length, double *value)
{
    char copy[2 * LENGTH_MAX];
    const char *point = localeconv()->decimal_point;
    size_t used = 0;
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

bool ki_number_parse(const char *text, size_t length, double *value)
{
    return length > 0 && length <= LENGTH_MAX && decimal_length(text, length) == length && convert(text, length, value);
}

size_t ki_number_scan(const char *text, double *value)
{
    size_t length = decimal_length(text, strlen(text));
    return length > 0 && length <= LENGTH_MAX && convert(text, length, value) ? length : 0;
}

/* ---- writing ---- */

size_t ki_number_write_integer(int64_t value, char buffer[KI_NUMBER_NBYTES])
{
    char digits[24];
    size_t count = 0, length = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        buffer[length++] = '-';
    while (count > 0)
        buffer[length++] = digits[--count];
    buffer[length] = '\0';
    return length;
}

static bool is_whole(double value)
{
    return value > -1e15 && value < 1e15 && floor(value) >= value;
}

#define FRACTION_MIN 0.01 /* 17 digits of less need a j beyond 19, whose 10^j is more than 64 bits */
#define FRACTION_DIGITS 18

/* whole.digits with `count` of them, zeros in front included. */
static size_t write_fraction(bool is_negative, uint64_t n, uint64_t power, int count, char *buffer)
{
    size_t length = ki_number_write_integer((int64_t)(n / power), buffer + is_negative);
    if (is_negative)
        buffer[0] = '-';
    length += is_negative;
    buffer[length] = '.';
    n %= power;
    for (int i = count; i > 0; i--, n /= 10)
        buffer[length + (size_t)i] = (char)('0' + n % 10);
    length += (size_t)count + 1;
    buffer[length] = '\0';
    return length;
}

/* value is no whole number, and of the range. 0: it takes more digits than are tried. */
static size_t try_fraction(double value, char *buffer)
{
    typedef unsigned __int128 wide;
    int exponent;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53), power = 1;
    int s = 53 - exponent; /* at least 4, as value is below 1e15 and no whole number; at most 59 */
    /* below a power of two the neighbours are nearer by half */
    uint64_t parts = m == UINT64_C(1) << 52 ? 4 : 2;
    for (int j = 1; j <= FRACTION_DIGITS; j++) {
        power *= 10;
        wide exact = (wide)m * power, n = (exact + ((wide)1 << (s - 1))) >> s;
        if (n >> 63 != 0)
            return 0;
        wide rounded = n << s, off = rounded > exact ? rounded - exact : exact - rounded;
        if (parts * off < power)
            return write_fraction(value < 0, (uint64_t)n, power, j, buffer);
    }
    return 0;
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

size_t ki_number_write(double value, char buffer[KI_NUMBER_NBYTES])
{
    if (!isfinite(value))
        return (size_t)snprintf(buffer, KI_NUMBER_NBYTES, "null");
    if (is_whole(value))
        return ki_number_write_integer((int64_t)value, buffer);
    double size = fabs(value);
    size_t length = size >= FRACTION_MIN && size < 1e15 ? try_fraction(value, buffer) : 0;
    if (length > 0)
        return length;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, KI_NUMBER_NBYTES, "%.*g", digits, value);
        double back = strtod(buffer, NULL);
        if (back >= value && back <= value)
            break;
    }
    use_point(buffer);
    return strlen(buffer);
}

const char *ki_number_text(double value, int digits, char buffer[KI_NUMBER_NBYTES])
{
    if (digits <= 0) {
        ki_number_write(value, buffer);
        return buffer;
    }
    snprintf(buffer, KI_NUMBER_NBYTES, "%.*g", digits, value);
    use_point(buffer);
    return buffer;
}
