/* topology/matrix_cells.c - rows to cells.
 *
 * No class is the beginning of another one, and none begins with a digit, so cells can be read one after the other
 * with or without blanks between them: "SYSSYS", "XPIX", "NV12NODE", "SYS0-35,72-107". Only digits behind a last cell
 * NVn can belong to either side ("NV180-51"); then the same pair in the other row tells where the number ends.
 *
 * Each device of the header must have its row with as many cells as there are columns, X where row and column meet
 * and nowhere else. A row that ends early goes on in the next line when that holds nothing but cells (a wrapped
 * terminal); else the text was cut, and is refused. Only the rows of all NICs together may be missing: the rows of
 * GPUs say the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one cell ---- */

static const struct {
    const char *word;
    kith_link_type type;
} classes[] = { { "NODE", KITH_LINK_NODE },   { "SYS", KITH_LINK_SYS },     { "SOC", KITH_LINK_SYS },
                { "PHB", KITH_LINK_PHB },     { "PXB", KITH_LINK_PXB },     { "PIX", KITH_LINK_PIX },
                { "PSB", KITH_LINK_BOARD },   { "C2C", KITH_LINK_C2C },     { "X", KITH_LINK_SELF },
                { "N/A", KITH_LINK_UNKNOWN }, { "ERR!", KITH_LINK_UNKNOWN } };

static bool read_nvlinks(const char **at, ki_matrix_cell *cell)
{
    int count = 0;
    const char *c = *at + 2;
    for (; ki_is_digit(*c); c++)
        count = count < 255 ? count * 10 + (*c - '0') : count;
    *at = c;
    *cell = (ki_matrix_cell){ KITH_LINK_NVLINK, (unsigned char)(count < 255 ? count : 255) };
    return true;
}

bool ki_matrix_read_cell(const char **at, ki_matrix_cell *cell)
{
    if ((*at)[0] == 'N' && (*at)[1] == 'V' && ki_is_digit((*at)[2]))
        return read_nvlinks(at, cell);
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        size_t length = strlen(classes[i].word);
        if (strncmp(*at, classes[i].word, length) != 0)
            continue;
        *at += length;
        *cell = (ki_matrix_cell){ (unsigned char)classes[i].type, 0 };
        return true;
    }
    return false;
}

/* ---- one row ---- */

static ki_matrix_cell *cell_of(const ki_matrix *m, int row, int column)
{
    return &m->cells[(size_t)row * (size_t)m->device_count + (size_t)column];
}

static void note_glue(ki_matrix *m, int line)
{
    if (m->glued_count++ == 0)
        m->glued_line = m->text.lines[line].number;
}

/* Reads as many cells as there are, at most one for each column; *end is behind the last. */
static int read_cells(ki_matrix *m, int row, const char *rest, const char **end)
{
    int count = 0;
    *end = rest;
    while (count < m->device_count) {
        const char *at = ki_skip_blanks(*end);
        if (!ki_matrix_read_cell(&at, cell_of(m, row, count)))
            break;
        *end = at;
        count++;
    }
    return count;
}

/* How many neighbours have no blank between them, the name and the tail included. */
static void count_glue(ki_matrix *m, int line, const char *rest)
{
    ki_matrix_cell cell;
    int count = 0;
    for (const char *at = rest; count < m->device_count; count++) {
        if (!ki_is_blank(*at))
            note_glue(m, line);
        at = ki_skip_blanks(at);
        if (!ki_matrix_read_cell(&at, &cell))
            return;
        if (count + 1 == m->device_count && *at != '\0' && !ki_is_blank(*at))
            note_glue(m, line);
    }
}

/* Could this line be the rest of a wrapped row? Where all cells are there, only a tail can follow. */
static bool is_rest_of_row(const ki_matrix *m, int row, bool has_all_cells, int line)
{
    const char *rest, *chars = line < m->text.line_count ? m->text.lines[line].chars : "";
    const char *allowed = has_all_cells ? "NA0123456789,-/ \t" : "ABCDEHINOPSVXY0123456789,-/ \t";
    if ((has_all_cells && m->devices[row].is_nic) || ki_matrix_row_of(m, chars, &rest) >= 0)
        return false;
    return chars[strspn(chars, allowed)] == '\0' && chars[strcspn(chars, "ABCDEHINOPSVXY0123456789")] != '\0';
}

/* Joins the next line to this one. A number that ends here and one that begins there could be one number or two. */
static kith_status join_row(ki_matrix *m, int line, int next)
{
    const char *chars = m->text.lines[line].chars;
    size_t length = strlen(chars);
    bool is_unclear = length > 0 && ki_is_digit(chars[length - 1]) && ki_is_digit(*m->text.lines[next].chars);
    if (is_unclear)
        return ki_matrix_refuse(m, next,
                                "the line before is broken between two digits; one number or two cannot be told");
    ki_matrix_join_lines(&m->text, line, next);
    if (m->wrapped_line == 0)
        m->wrapped_line = m->text.lines[line].number;
    return KITH_OK;
}

/* Length of the word at `at`, for messages. */
static int word_length(const char *at)
{
    size_t length = strcspn(at, " \t");
    return length < 24 ? (int)length : 24;
}

static kith_status refuse_cells(const ki_matrix *m, int row, int line, int count, const char *end)
{
    ki_slice name = m->devices[row].name;
    end = ki_skip_blanks(end);
    if (*end == '\0')
        return ki_matrix_refuse(m, line, "the row of %.*s has %d cells where the header has %d columns; it is cut off",
                                (int)name.length, name.at, count, m->device_count);
    return ki_matrix_refuse(
        m, line,
        "cell %d of %d in the row of %.*s is '%.*s'; valid: X, NV and a number, PIX, PXB, PHB, NODE, "
        "SYS, SOC",
        count + 1, m->device_count, (int)name.length, name.at, word_length(end), end);
}

/* What stands in a cell of a row that was read. Returns its length. */
static int cell_text(const ki_matrix *m, int line, int column, const char **start)
{
    ki_matrix_cell cell;
    const char *at = m->text.lines[line].chars;
    *start = at;
    if (ki_matrix_row_of(m, at, &at) < 0)
        return 0;
    for (int i = 0; i <= column; i++) {
        *start = at = ki_skip_blanks(at);
        if (!ki_matrix_read_cell(&at, &cell))
            return 0;
    }
    return at - *start < 24 ? (int)(at - *start) : 24;
}

/* X on the diagonal only, numbers of links in range. */
static kith_status check_cells(const ki_matrix *m, int row, int line)
{
    ki_slice name = m->devices[row].name;
    for (int i = 0; i < m->device_count; i++) {
        const ki_matrix_cell *cell = cell_of(m, row, i);
        ki_slice column = m->devices[i].name;
        if ((cell->type == KITH_LINK_SELF) != (i == row))
            return ki_matrix_refuse(m, line, "the row of %.*s has %s in the column of %.*s", (int)name.length, name.at,
                                    i == row ? "no X" : "X", (int)column.length, column.at);
        bool is_open = i + 1 == m->device_count && m->devices[row].digits != NULL;
        if (cell->type != KITH_LINK_NVLINK || is_open)
            continue;
        if (cell->count == 0 || cell->count > KI_MATRIX_MOST_NVLINKS) {
            const char *text;
            int length = cell_text(m, line, i, &text);
            return ki_matrix_refuse(m, line, "the row of %.*s has %.*s in the column of %.*s; valid: 1 to %d",
                                    (int)name.length, name.at, length, text, (int)column.length, column.at,
                                    KI_MATRIX_MOST_NVLINKS);
        }
    }
    return KITH_OK;
}

/* Digits of a last cell NVn that may belong to the CPU list behind it. */
static const char *open_digits(const ki_matrix *m, int row, const char *end)
{
    if (cell_of(m, row, m->device_count - 1)->type != KITH_LINK_NVLINK || *end == '\0' || ki_is_blank(*end))
        return NULL;
    while (ki_is_digit(end[-1]))
        end--;
    return end;
}

static kith_status keep_row(ki_matrix *m, int row, int line, const char *end)
{
    ki_matrix_device *device = &m->devices[row];
    device->line = line;
    device->tail = end;
    device->digits = open_digits(m, row, end);
    if (device->is_nic && *ki_skip_blanks(end) != '\0')
        return ki_matrix_refuse(m, line, "'%.*s' stands behind the cells of %.*s", word_length(ki_skip_blanks(end)),
                                ki_skip_blanks(end), (int)device->name.length, device->name.at);
    return check_cells(m, row, line);
}

/* One row, with the lines it was wrapped into; *line is the last of them. */
static kith_status read_row(ki_matrix *m, int row, const char *rest, int *line)
{
    const char *end;
    int first = *line, count;
    size_t name_length = (size_t)(rest - m->text.lines[first].chars);
    if (m->devices[row].line >= 0)
        return ki_matrix_refuse(m, first, "a second row of %.*s; the first is in line %d",
                                (int)m->devices[row].name.length, m->devices[row].name.at,
                                m->text.lines[m->devices[row].line].number);
    while (true) {
        rest = m->text.lines[first].chars + name_length;
        count = read_cells(m, row, rest, &end);
        if (!is_rest_of_row(m, row, count == m->device_count, *line + 1))
            break;
        kith_status status = join_row(m, first, ++*line);
        if (status != KITH_OK)
            return status;
    }
    if (count < m->device_count)
        return refuse_cells(m, row, first, count, end);
    count_glue(m, first, rest);
    return keep_row(m, row, first, end);
}

/* ---- all rows ---- */

/* NICs without any row are fine: their cells are those of the GPUs' rows. */
static kith_status check_all_there(ki_matrix *m)
{
    int nic_rows = 0, missing = -1;
    for (int i = m->gpu_count; i < m->device_count; i++)
        nic_rows += m->devices[i].line >= 0;
    for (int i = 0; i < m->device_count; i++)
        if (m->devices[i].line < 0 && (i < m->gpu_count || nic_rows > 0) && missing < 0)
            missing = i;
    if (missing >= 0)
        return ki_matrix_refuse(m, m->end < m->text.line_count ? m->end : m->text.line_count - 1,
                                "the matrix ends here without a row of %.*s", (int)m->devices[missing].name.length,
                                m->devices[missing].name.at);
    return KITH_OK;
}

/* The number of links in a last cell that runs into the CPU list is that of the other row of the pair. */
static kith_status close_digits(ki_matrix *m)
{
    int last = m->device_count - 1;
    for (int i = 0; i < m->gpu_count; i++) {
        ki_matrix_device *device = &m->devices[i];
        if (device->digits == NULL)
            continue;
        char number[8];
        const ki_matrix_cell *other = cell_of(m, last, i);
        int length = snprintf(number, sizeof number, "%d", other->count);
        if (other->type != KITH_LINK_NVLINK || strncmp(device->digits, number, (size_t)length) != 0)
            return ki_matrix_refuse(m, device->line,
                                    "the last cell of GPU%d, 'NV%.12s', runs into the CPU list, and the "
                                    "row of GPU%d does not tell where it ends",
                                    device->number, device->digits, m->devices[last].number);
        *cell_of(m, i, last) = *other;
        device->tail = device->digits + length;
    }
    return KITH_OK;
}

/* An error instead of a class is fine where it fills a whole row, of a GPU that does not answer. */
static kith_status find_lost(ki_matrix *m)
{
    for (int i = 0; i < m->device_count; i++) {
        int errors = 0;
        for (int j = 0; j < m->device_count && m->devices[i].line >= 0; j++)
            errors += cell_of(m, i, j)->type == KITH_LINK_UNKNOWN;
        m->devices[i].is_lost = errors > 0 && errors == m->device_count - 1;
    }
    for (int i = 0; i < m->device_count; i++)
        for (int j = 0; j < m->device_count && m->devices[i].line >= 0; j++)
            if (cell_of(m, i, j)->type == KITH_LINK_UNKNOWN && !m->devices[i].is_lost && !m->devices[j].is_lost)
                return ki_matrix_refuse(m, m->devices[i].line, "the row of %.*s has no class in the column of %.*s",
                                        (int)m->devices[i].name.length, m->devices[i].name.at,
                                        (int)m->devices[j].name.length, m->devices[j].name.at);
    return KITH_OK;
}

kith_status ki_matrix_read_rows(ki_matrix *m)
{
    size_t n = (size_t)m->device_count;
    m->cells = (ki_matrix_cell *)calloc(n * n, sizeof *m->cells);
    if (m->cells == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for %zu rows", m->source->name, n);
    kith_status status = KITH_OK;
    for (m->end = m->header + 1; m->end < m->text.line_count && status == KITH_OK; m->end++) {
        const char *rest, *line = m->text.lines[m->end].chars;
        int row = ki_matrix_find_header(line) != NULL ? -1 : ki_matrix_row_of(m, line, &rest);
        if (row >= 0)
            status = read_row(m, row, rest, &m->end);
        else if (*ki_skip_blanks(line) != '\0')
            break;
    }
    if (status == KITH_OK)
        status = check_all_there(m);
    if (status == KITH_OK)
        status = close_digits(m);
    return status == KITH_OK ? find_lost(m) : status;
}

/* Weaker: a class further away, or fewer links. The classes are in that order. */
static ki_matrix_cell weaker(ki_matrix_cell a, ki_matrix_cell b)
{
    if (a.type != b.type)
        return a.type < b.type ? a : b;
    return a.count < b.count ? a : b;
}

ki_matrix_cell ki_matrix_relation(const ki_matrix *m, int a, int b)
{
    bool has_a = m->devices[a].line >= 0, has_b = m->devices[b].line >= 0;
    if (has_a && has_b)
        return weaker(*cell_of(m, a, b), *cell_of(m, b, a));
    return has_a ? *cell_of(m, a, b) : has_b ? *cell_of(m, b, a) : (ki_matrix_cell){ KITH_LINK_UNKNOWN, 0 };
}
