/* tools/json.c - see json.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* One log is written at a time, by one thread: whether something stands before on its level. */
static bool needs_comma;

static void begin(FILE *out, const char *key)
{
    if (needs_comma)
        fputs(", ", out);
    if (key != NULL)
        fprintf(out, "\"%s\": ", key);
    needs_comma = true;
}

void ki_json_open(FILE *out, const char *key, char bracket)
{
    begin(out, key);
    fputc(bracket, out);
    needs_comma = false;
}

void ki_json_close(FILE *out, char bracket)
{
    fputc(bracket, out);
    needs_comma = true;
}

void ki_json_number(FILE *out, const char *key, double value)
{
    char text[40];
    begin(out, key);
    if (!isfinite(value))
        snprintf(text, sizeof text, "null");
    else if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, sizeof text, "%.0f", value);
    else
        snprintf(text, sizeof text, "%.17g", value);
    char *comma = strchr(text, ',');
    if (comma != NULL)
        *comma = '.';
    fputs(text, out);
}

void ki_json_bits(FILE *out, const char *key, uint64_t value)
{
    begin(out, key);
    fprintf(out, "%llu", (unsigned long long)value);
}

void ki_json_string(FILE *out, const char *key, const char *value)
{
    begin(out, key);
    fputc('"', out);
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void ki_json_bool(FILE *out, const char *key, int value)
{
    begin(out, key);
    fputs(value ? "true" : "false", out);
}

void ki_json_raw(FILE *out, const char *key, const char *text)
{
    begin(out, key);
    if (text == NULL)
        fputs("null", out);
    for (; text != NULL && *text != '\0'; text++)
        if (*text != '\n' && *text != '\r')
            fputc(*text, out);
}

void ki_json_restart(void)
{
    needs_comma = false;
}

void ki_json_line(FILE *out)
{
    fputc('\n', out);
    fflush(out);
    needs_comma = false;
}
