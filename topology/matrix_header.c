/* topology/matrix_header.c - finds the header, and names the columns.
 *
 * The matrix may stand anywhere in a text: behind a command line, inside a log, in a longer report. Its header is the
 * first line that names GPU after GPU (or one GPU, and "CPU Affinity" later). Terminals and mail wrap it, even inside
 * a word ("NUMA Affini", "ty"): lines between the header and the row of the first GPU belong to it. Some tools drop
 * the blanks between names ("NIC14NIC15", "NIC8CPU Affinity"); names end where the next one begins.
 *
 * What a logger writes before each line (a level and a time, "node01:", "[1,0]<stdout>:", "#") is seen at the header,
 * as what stands before its first name, and is taken off the lines that follow.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_DIGITS = 4,
    MOST_WRAPPED = 8,
    MOST_PREFIX = 256,
    STOP = 16 /* width of a column with CPUs or NUMA nodes */
};

/* ---- words ---- */

/* "GPU12" or "NIC3": length, and the number. 0: no. */
static size_t numbered_length(const char *at, const char *word, int *number)
{
    size_t length = strlen(word);
    if (strncmp(at, word, length) != 0 || !ki_is_digit(at[length]))
        return 0;
    *number = 0;
    size_t digits = 0;
    for (; ki_is_digit(at[length + digits]) && digits <= MOST_DIGITS; digits++)
        *number = *number * 10 + (at[length + digits] - '0');
    return digits > MOST_DIGITS ? 0 : length + digits;
}

static bool is_numbered(const char *at)
{
    int number;
    return numbered_length(at, "GPU", &number) > 0 || numbered_length(at, "NIC", &number) > 0;
}

/* Length of `word` at `at` when blanks do not count; 0: not there. */
static size_t spaced_length(const char *at, const char *word)
{
    const char *c = at;
    for (; *word != '\0'; word++) {
        c = ki_skip_blanks(c);
        if (*c++ != *word)
            return 0;
    }
    return (size_t)(c - at);
}

static bool has_spaced(const char *text, const char *word)
{
    for (; *text != '\0'; text++)
        if (*text == *word && spaced_length(text, word) > 0)
            return true;
    return false;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_' || c == '-' || c == '.';
}

/* ---- finding ---- */

/* Is what stands behind the first name of a line that of a header? */
static bool goes_on_as_header(const char *rest)
{
    ki_matrix_cell cell;
    rest = ki_skip_blanks(rest);
    if (is_numbered(rest) || spaced_length(rest, "CPUAff") > 0)
        return true;
    if (*rest == '\0' || ki_matrix_read_cell(&rest, &cell))
        return false;
    return is_name_char(*rest) && has_spaced(rest, "CPUAff");
}

const char *ki_matrix_find_header(const char *line)
{
    int number;
    for (const char *at = strstr(line, "GPU"); at != NULL; at = strstr(at + 1, "GPU")) {
        size_t length = numbered_length(at, "GPU", &number);
        if (at - line > MOST_PREFIX)
            break;
        if (length > 0 && (at == line || !is_name_char(at[-1])))
            return goes_on_as_header(at + length) ? at : NULL;
    }
    return NULL;
}

/* Is this the row of a GPU? Before the columns are known. */
static bool looks_like_row(const char *line)
{
    int number;
    ki_matrix_cell cell;
    size_t length = numbered_length(line, "GPU", &number);
    const char *rest = ki_skip_blanks(line + length);
    return length > 0 && ki_matrix_read_cell(&rest, &cell);
}

/* ---- prefixes ---- */

typedef struct prefix {
    char *text;    /* what stands before the header's first name, without blanks at its end */
    size_t length; /* 0: nothing */
    int words;
} prefix;

static prefix find_prefix(char *header, const char *first)
{
    prefix p = { .text = header, .length = (size_t)(first - header) };
    while (p.length > 0 && ki_is_blank(header[p.length - 1]))
        p.length--;
    for (size_t i = 0; i < p.length; i++)
        p.words += !ki_is_blank(header[i]) && (i == 0 || ki_is_blank(header[i - 1]));
    return p;
}

/* Skips the same text, else (times differ from line to line) as many words. */
static char *skip_prefix(const prefix *p, char *line)
{
    if (strncmp(line, p->text, p->length) == 0)
        line += p->length;
    else
        for (int i = 0; i < p->words; i++) {
            line += strspn(line, " \t");
            line += strcspn(line, " \t");
        }
    return line + strspn(line, " \t");
}

/* The header keeps the blanks that stand before its first name: they line it up with the rows. */
static void take_prefixes_off(ki_matrix *m, const char *first)
{
    char *header = m->text.lines[m->header].chars;
    prefix p = find_prefix(header, first);
    if (p.length == 0)
        return;
    m->has_prefixes = true;
    for (int i = m->header + 1; i < m->text.line_count; i++)
        m->text.lines[i].chars = skip_prefix(&p, m->text.lines[i].chars);
    m->text.lines[m->header].chars = header + p.length;
}

/* ---- wrapped lines ---- */

/* Joins the lines up to the first row to the header. */
static void join_header(ki_matrix *m)
{
    bool is_joined = false;
    for (int i = m->header + 1; i < m->text.line_count && i <= m->header + MOST_WRAPPED; i++) {
        const char *line = m->text.lines[i].chars;
        if (looks_like_row(ki_skip_blanks(line)))
            break;
        if (*ki_skip_blanks(line) == '\0')
            continue;
        ki_matrix_join_lines(&m->text, m->header, i);
        is_joined = true;
    }
    if (is_joined)
        m->wrapped_line = m->text.lines[m->header].number;
}

/* Is "CPU Affinity" in the header, or in what was wrapped? Text that only begins like a header has it not. */
static bool is_header(const ki_matrix *m, int index)
{
    char joined[1024];
    size_t used = 0;
    for (int i = index; i < m->text.line_count && i <= index + MOST_WRAPPED; i++) {
        const char *line = m->text.lines[i].chars;
        if (i > index && looks_like_row(ki_skip_blanks(line)))
            break;
        if (has_spaced(line, "CPUAffinity"))
            return true;
        size_t length = strlen(line);
        const char *end_of_line = length > 100 ? line + length - 100 : line;
        length = strlen(end_of_line);
        if (used + length >= sizeof joined)
            break;
        memcpy(joined + used, end_of_line, length + 1);
        used += length;
        if (has_spaced(joined, "CPUAffinity"))
            return true;
    }
    return false;
}

/* ---- columns ---- */

static bool is_same(ki_slice a, ki_slice b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static kith_status add_device(ki_matrix *m, const char *at, size_t length, bool is_nic, int number)
{
    ki_matrix_device device = { .name = { at, length }, .is_nic = is_nic, .number = number, .line = -1 };
    int nic_count = m->device_count - m->gpu_count;
    if (is_nic ? nic_count >= KI_MAX_NICS : m->gpu_count >= KI_MAX_GPUS)
        return ki_matrix_refuse(m, m->header, "more than %d %s", is_nic ? KI_MAX_NICS : KI_MAX_GPUS,
                                is_nic ? "NICs" : "GPUs");
    if (!is_nic && nic_count > 0)
        return ki_matrix_refuse(m, m->header, "%.*s stands behind a NIC in the header", (int)length, at);
    for (int i = 0; i < m->device_count; i++)
        if (is_same(m->devices[i].name, device.name) || (!is_nic && m->devices[i].number == number))
            return ki_matrix_refuse(m, m->header, "the header names %.*s twice", (int)length, at);
    m->devices[m->device_count++] = device;
    m->gpu_count += !is_nic;
    return KITH_OK;
}

/* Length of a device name of older drivers ("mlx5_0"), which ends at a blank or where another column begins. */
static size_t name_length(const char *at)
{
    size_t length = 0;
    while (is_name_char(at[length])) {
        const char *here = at + length;
        if (length > 0 && (is_numbered(here) || spaced_length(here, "CPUAffinity") > 0 ||
                           (strncmp(here, "mlx", 3) == 0 && ki_is_digit(here[3]) && ki_is_digit(here[-1]))))
            break;
        length++;
    }
    return length;
}

static kith_status read_device(ki_matrix *m, const char **at)
{
    int number = -1;
    size_t length = numbered_length(*at, "GPU", &number);
    bool is_nic = length == 0;
    if (is_nic)
        length = numbered_length(*at, "NIC", &number);
    if (length == 0) {
        number = -1;
        length = name_length(*at);
        if (length == 0 || length > 64 || !islower((unsigned char)**at))
            return ki_matrix_refuse(m, m->header, "'%.12s' in the header is neither a GPU, a NIC nor \"CPU Affinity\"",
                                    *at);
    }
    const char *name = *at;
    *at += length;
    return add_device(m, name, length, is_nic, number);
}

/* Rows stand below the words of the header when both are lined up with blanks. */
static bool is_lined_up(const ki_matrix *m)
{
    const char *line = m->text.lines[m->header].chars;
    return m->wrapped_line == 0 && !m->has_prefixes && *line == ' ' && strchr(line, '\t') == NULL;
}

/* The columns behind the devices. */
static kith_status read_affinity_columns(ki_matrix *m, const char *at)
{
    const char *line = m->text.lines[m->header].chars;
    size_t cpus_at = (size_t)(at - line);
    at = ki_skip_blanks(at + spaced_length(at, "CPUAffinity"));
    size_t numa_at = (size_t)(at - line), length = spaced_length(at, "NUMAAffinity");
    m->has_numa = length > 0;
    at = ki_skip_blanks(at + length);
    size_t memory_numa_at = (size_t)(at - line);
    length = m->has_numa ? spaced_length(at, "GPUNUMAID") : 0;
    m->has_memory_numa = length > 0;
    at = ki_skip_blanks(at + length);
    if (*at != '\0')
        return ki_matrix_refuse(m, m->header, "'%.24s' in the header is no column that is known", at);
    if (is_lined_up(m) && numa_at - cpus_at == STOP && (!m->has_memory_numa || memory_numa_at - numa_at == STOP)) {
        m->cpus_at = cpus_at;
        m->numa_at = m->has_numa ? numa_at : 0;
        m->memory_numa_at = m->has_memory_numa ? memory_numa_at : 0;
    }
    return KITH_OK;
}

static kith_status read_columns(ki_matrix *m)
{
    const char *at = ki_skip_blanks(m->text.lines[m->header].chars);
    m->devices = (ki_matrix_device *)calloc(KI_MAX_GPUS + KI_MAX_NICS, sizeof *m->devices);
    if (m->devices == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the columns", m->source->name);
    while (*at != '\0') {
        if (spaced_length(at, "CPUAffinity") > 0)
            return read_affinity_columns(m, at);
        kith_status status = read_device(m, &at);
        if (status != KITH_OK)
            return status;
        at = ki_skip_blanks(at);
    }
    return ki_matrix_refuse(m, m->header, "the header ends before \"CPU Affinity\"");
}

kith_status ki_matrix_read_header(ki_matrix *m)
{
    const char *first = NULL;
    int almost = -1;
    for (m->header = 0; m->header < m->text.line_count; m->header++) {
        first = ki_matrix_find_header(m->text.lines[m->header].chars);
        if (first != NULL && is_header(m, m->header))
            break;
        if (first != NULL && almost < 0)
            almost = m->header;
    }
    if (m->header == m->text.line_count && almost >= 0)
        return ki_matrix_refuse(m, almost, "the header ends before \"CPU Affinity\"");
    if (m->header == m->text.line_count)
        return ki_matrix_refuse(m, -1, "there is no header of a matrix (\"GPU0  GPU1 ... CPU Affinity\")");
    take_prefixes_off(m, first);
    join_header(m);
    return read_columns(m);
}

/* A name ends at a blank or at a cell, which is written in capitals. */
static bool is_end_of_name(char c)
{
    return c == '\0' || ki_is_blank(c) || isupper((unsigned char)c);
}

int ki_matrix_row_of(const ki_matrix *m, const char *line, const char **rest)
{
    line = ki_skip_blanks(line);
    for (int i = 0; i < m->device_count; i++) {
        ki_slice name = m->devices[i].name;
        if (strncmp(line, name.at, name.length) != 0 || !is_end_of_name(line[name.length]))
            continue;
        *rest = line + name.length;
        return i;
    }
    return -1;
}
