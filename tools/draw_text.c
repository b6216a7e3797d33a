/* tools/draw_text.c - texts that are safe to draw, whatever the file said that they come from.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

#include <math.h>
#include <string.h>

/* Bytes of the valid UTF-8 character at p, 0 when there is none. Overlong forms, surrogates and what lies above
 * U+10FFFF are not valid, and neither are control characters, which XML forbids. */
static size_t character_nbytes(const unsigned char *p)
{
    static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (p[0] < 0x80)
        return p[0] >= 0x20 && p[0] != 0x7f;
    size_t nbytes = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    unsigned code = p[0] & (0xffu >> (nbytes + 1));
    for (size_t i = 1; i < nbytes; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool is_valid = code >= least[nbytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) && code >= 0xa0;
    bool turns_text = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069); /* could hide words */
    return is_valid && !turns_text && code != 0xfffe && code != 0xffff ? nbytes : 0;
}

void ki_text_clean(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0';) {
        size_t nbytes = character_nbytes((const unsigned char *)p);
        if (nbytes == 0) {
            *to++ = *p == '\t' || *p == '\n' || *p == '\r' ? ' ' : '?';
            p++;
            continue;
        }
        memmove(to, p, nbytes);
        to += nbytes;
        p += nbytes;
    }
    *to = '\0';
}

double ki_text_width(const char *text, double font, bool is_bold)
{
    /* Of DejaVu Sans, in 1/100 of the size, from the blank to the tilde. */
    static const unsigned char advance[] = {
        32, 40, 46, 84, 64, 95, 78, 27, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
        64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
        60, 79, 69, 63, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63,
        63, 28, 28, 58, 28, 97, 63, 61, 63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
    };
    double width = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p >= 0x20 && *p < 0x7f)
            width += advance[*p - 0x20];
        else if (*p >= 0xe1)
            width += 100; /* ideographs and symbols */
        else if (*p >= 0xc0)
            width += 66;
    }
    return width / 100 * font * (is_bold ? 1.12 : 1);
}

void ki_text_escape(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; p != NULL && *p != '\0';) {
        size_t nbytes = character_nbytes(p);
        if (*p == '<')
            fputs("&lt;", out);
        else if (*p == '>')
            fputs("&gt;", out);
        else if (*p == '&')
            fputs("&amp;", out);
        else if (*p == '"')
            fputs("&quot;", out);
        else if (*p == '\'')
            fputs("&#39;", out);
        else if (nbytes == 0)
            fputc(*p == '\t' || *p == '\n' || *p == '\r' ? ' ' : '?', out);
        else
            fwrite(p, 1, nbytes, out);
        p += nbytes == 0 ? 1 : nbytes;
    }
}

void ki_text_ranges(char *buffer, size_t nbytes, const int *numbers, int count)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int i = 0, end; i < count && used < nbytes; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;)
            end++;
        const char *comma = i == 0 ? "" : ", ";
        if (end - i == 1)
            used += (size_t)snprintf(buffer + used, nbytes - used, "%s%d", comma, numbers[i]);
        else
            used += (size_t)snprintf(buffer + used, nbytes - used, "%s%d%s%d", comma, numbers[i],
                                     end - i == 2 ? ", " : "-", numbers[end - 1]);
    }
    if (used >= nbytes && nbytes > 4)
        memcpy(buffer + nbytes - 4, "...", 4);
}

const char *ki_text_time(char *buffer, size_t nbytes, double seconds)
{
    if (!isfinite(seconds) || seconds < 0)
        snprintf(buffer, nbytes, "?");
    else if (seconds >= 1)
        snprintf(buffer, nbytes, "%.3g s", seconds);
    else if (seconds >= 1e-3)
        snprintf(buffer, nbytes, "%.3g ms", seconds * 1e3);
    else
        snprintf(buffer, nbytes, "%.3g us", seconds * 1e6);
    return buffer;
}

const char *ki_text_gbps(char *buffer, size_t nbytes, double gbps)
{
    if (gbps > 0 && isfinite(gbps))
        snprintf(buffer, nbytes, "%.4g GB/s", gbps);
    else
        snprintf(buffer, nbytes, "?");
    return buffer;
}

const char *ki_text_bytes(char *buffer, size_t nbytes, double value)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, nbytes, "%.4g %s", value, units[unit]);
    return buffer;
}
