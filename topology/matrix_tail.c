/* topology/matrix_tail.c - what stands behind the cells of a GPU's row: "0-55,112-167   0   N/A".
 *
 * Up to three values: CPUs near the GPU, NUMA nodes of these CPUs, and the NUMA node that is the GPU's memory. Each
 * may be N/A; CPUs and NUMA nodes may be blank, together, when no allowed CPU is near. A row with all its values has
 * one meaning. A row with fewer values has blank ones, or has lost the blanks between two of them; then all readings
 * are listed that are possible for the row alone, and matrix_affinity.c decides.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix_tail.h"

#include "sets.h"
#include <string.h>

enum { SPLIT_NBYTES = 24 /* a NUMA list that runs into a CPU list is not longer */ };

/* ---- lists ---- */

static bool read_number(const char **at, const char *end, int *number)
{
    if (*at == end || !ki_is_digit(**at))
        return false;
    for (*number = 0; *at < end && ki_is_digit(**at); ++*at)
        if ((*number = *number * 10 + (**at - '0')) >= KI_CPU_LIMIT)
            return false;
    return true;
}

/* The next "7" or "0-31" of a list at *at, and the comma behind it. False where it is no list. */
static bool next_range(const char **at, const char *end, int *from, int *to)
{
    if (!read_number(at, end, from))
        return false;
    *to = *from;
    if (*at < end && **at == '-') {
        ++*at;
        if (!read_number(at, end, to))
            return false;
    }
    while (*at < end && (**at == ',' || ki_is_blank(**at)))
        ++*at;
    return true;
}

/* A list as nvidia-smi writes it: ascending, all below limit, one comma between ranges. */
static bool is_list(ki_slice list, int limit)
{
    const char *at = list.at, *end = list.at + list.length;
    int from, to, last = -1;
    while (at < end) {
        if (!next_range(&at, end, &from, &to) || from <= last || to < from || to >= limit)
            return false;
        last = to;
    }
    return last >= 0 && ki_is_digit(end[-1]) && memmem(list.at, list.length, ",,", 2) == NULL;
}

int ki_list_count(ki_slice list, int *last)
{
    const char *at = list.at, *end = list.at + list.length;
    int from, to, count = 0;
    while (at < end && next_range(&at, end, &from, &to)) {
        count += to - from + 1;
        *last = to > *last ? to : *last;
    }
    return count;
}

bool ki_list_intersects(ki_slice a, ki_slice b)
{
    const char *x = a.at, *y = b.at, *x_end = a.at + a.length, *y_end = b.at + b.length;
    int x_from, x_to, y_from, y_to;
    bool has_x = next_range(&x, x_end, &x_from, &x_to), has_y = next_range(&y, y_end, &y_from, &y_to);
    while (has_x && has_y) {
        if (x_from <= y_to && y_from <= x_to)
            return true;
        if (x_to < y_to)
            has_x = x < x_end && next_range(&x, x_end, &x_from, &x_to);
        else
            has_y = y < y_end && next_range(&y, y_end, &y_from, &y_to);
    }
    return false;
}

bool ki_list_is_equal(ki_slice a, ki_slice b)
{
    return a.length == b.length && (a.at == NULL) == (b.at == NULL) &&
           (a.at == NULL || memcmp(a.at, b.at, a.length) == 0);
}

/* ---- one row ---- */

static int column_count(const ki_matrix *m)
{
    return 1 + m->has_numa + m->has_memory_numa;
}

/* A list, with the blanks that may stand behind its commas. */
static size_t list_length(const char *at)
{
    size_t length = 0;
    while (true) {
        length += strspn(at + length, "0123456789,-");
        if (length == 0 || at[length - 1] != ',' || !ki_is_digit(*ki_skip_blanks(at + length)))
            return length;
        length = (size_t)(ki_skip_blanks(at + length) - at);
    }
}

static kith_status read_items(const ki_matrix *m, int gpu, ki_tail *r)
{
    const ki_matrix_device *device = &m->devices[gpu];
    for (const char *at = device->tail;;) {
        const char *before = at;
        at = ki_skip_blanks(at);
        if (*at == '\0')
            return KITH_OK;
        ki_tail_item next = { .is_na = strncmp(at, "N/A", 3) == 0 };
        next.text = (ki_slice){ at, next.is_na ? 3 : list_length(at) };
        for (const char *c = before; c < at; c++)
            next.tabs += *c == '\t';
        if (next.text.length == 0)
            return ki_matrix_refuse(m, device->line, "'%.16s' in the row of GPU%d is neither a list of numbers nor N/A",
                                    at, device->number);
        if (r->item_count == KI_TAIL_ITEMS)
            return ki_matrix_refuse(m, device->line, "more than %d values behind the cells of GPU%d", KI_TAIL_ITEMS,
                                    device->number);
        r->items[r->item_count++] = next;
        at += next.text.length;
    }
}

static void add_reading(ki_tail *r, const ki_reading *added)
{
    if (r->reading_count < KI_TAIL_READINGS)
        r->readings[r->reading_count++] = *added;
}

static bool fits_column(int column, ki_slice text)
{
    if (column == 0)
        return is_list(text, KI_CPU_LIMIT);
    if (!is_list(text, KI_MATRIX_NUMA_LIMIT))
        return false;
    return column == 1 || memchr(text.at, ',', text.length) == NULL;
}

/* All ways to fill the columns from `column` on with the items from `at` on (of the first one, what stands behind
 * `offset`), with `splits` more values than there are items. */
static void list_readings(ki_tail *r, int column, int columns, int at, size_t offset, int splits, ki_reading so_far)
{
    if (column == columns) {
        if (at == r->item_count && splits == 0)
            add_reading(r, &so_far);
        return;
    }
    if (at == r->item_count)
        return;
    ki_slice *value = column == 0 ? &so_far.cpus : column == 1 ? &so_far.numa : &so_far.memory_numa;
    const ki_tail_item *from = &r->items[at];
    if (from->is_na) {
        *value = (ki_slice){ NULL, 0 };
        list_readings(r, column + 1, columns, at + 1, 0, splits, so_far);
        return;
    }
    ki_slice rest = { from->text.at + offset, from->text.length - offset };
    *value = rest;
    if (fits_column(column, rest) && (column < 2 || memchr(rest.at, '-', rest.length) == NULL))
        list_readings(r, column + 1, columns, at + 1, 0, splits, so_far);
    size_t first = splits > 0 && rest.length > SPLIT_NBYTES ? rest.length - SPLIT_NBYTES : 1;
    for (size_t i = first; splits > 0 && i < rest.length; i++) {
        *value = (ki_slice){ rest.at, i };
        if (ki_is_digit(rest.at[i - 1]) && ki_is_digit(rest.at[i]) && fits_column(column, *value))
            list_readings(r, column + 1, columns, at, offset + i, splits - 1, so_far);
    }
}

/* Does an item stand exactly below a word of the header? `at` 0: that cannot be compared. */
static bool is_below(const ki_matrix *m, const ki_tail *r, const ki_tail_item *item, size_t at)
{
    return at > 0 && item->text.at == m->text.lines[m->devices[r->gpu].line].chars + at;
}

/* Does the only list stand in the column of NUMA nodes, with nothing in the place of CPUs? */
static bool is_numa_alone(const ki_matrix *m, const ki_tail *r)
{
    const ki_tail_item *list = &r->items[0];
    if (!m->has_numa || list->is_na || !is_list(list->text, KI_MATRIX_NUMA_LIMIT))
        return false;
    return list->tabs > 0 ? list->tabs > 1 : is_below(m, r, list, m->numa_at);
}

/* Does the list stand in the column of CPUs, with nothing in the place of NUMA nodes? Had it run into a NUMA node, what
 * follows would have moved. */
static bool is_cpus_alone(const ki_matrix *m, const ki_tail *r)
{
    const ki_tail_item *list = &r->items[0], *end = &r->items[1];
    if (!m->has_memory_numa || list->is_na || !end->is_na || !is_list(list->text, KI_CPU_LIMIT))
        return false;
    return end->tabs > 0 ? list->tabs == 1 && end->tabs > 2
                         : is_below(m, r, list, m->cpus_at) && is_below(m, r, end, m->memory_numa_at);
}

/* What a row can mean that has fewer values than columns. The last of three columns is never blank. */
static void read_short_row(const ki_matrix *m, ki_tail *r)
{
    int columns = column_count(m), lists = 0, missing = columns - r->item_count;
    for (int i = 0; i < r->item_count; i++)
        lists += !r->items[i].is_na;
    ki_reading blank = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    if (lists == 0) {
        if (r->item_count > 0 || !m->has_memory_numa)
            add_reading(r, &blank);
        return;
    }
    if (missing != 1)
        return;
    if (lists == 1 && is_numa_alone(m, r) && (r->item_count == 1 || r->items[1].is_na)) {
        blank.numa = r->items[0].text;
        add_reading(r, &blank);
    } else if (r->item_count == 2 && is_cpus_alone(m, r)) {
        blank.cpus = r->items[0].text;
        r->is_without_numa = true;
        add_reading(r, &blank);
    } else {
        r->must_be_parted = !r->items[0].is_na && !is_list(r->items[0].text, KI_CPU_LIMIT);
        list_readings(r, 0, columns, 0, 0, missing, blank);
    }
}

/* Nothing had to be parted: all values are there, or some are blank. */
static bool is_certain(const ki_tail *r, int columns)
{
    const ki_reading *only = &r->readings[0];
    return r->item_count == columns || (r->reading_count == 1 && (only->cpus.at == NULL || only->numa.at == NULL));
}

kith_status ki_matrix_read_tail(const ki_matrix *m, int gpu, ki_tail *r)
{
    const ki_matrix_device *device = &m->devices[gpu];
    *r = (ki_tail){ .gpu = gpu, .same_as = -1, .chosen = -1 };
    kith_status status = read_items(m, gpu, r);
    if (status != KITH_OK)
        return status;
    int columns = column_count(m);
    ki_reading blank = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    if (r->item_count > columns)
        return ki_matrix_refuse(m, device->line,
                                "the row of GPU%d has %d values behind its cells, the header has %d "
                                "columns for them",
                                device->number, r->item_count, columns);
    if (r->item_count == columns)
        list_readings(r, 0, columns, 0, 0, 0, blank);
    else
        read_short_row(m, r);
    if (r->item_count == 0 && r->reading_count == 0)
        return ki_matrix_refuse(m, device->line, "the row of GPU%d ends behind its cells; it is cut off",
                                device->number);
    if (r->reading_count == 0)
        return ki_matrix_refuse(m, device->line, "the end of the row of GPU%d, '%.40s', cannot be read as %s",
                                device->number, ki_skip_blanks(device->tail),
                                columns == 1   ? "CPUs"
                                : columns == 2 ? "CPUs and NUMA nodes"
                                               : "CPUs, NUMA nodes and the number of the GPU's memory");
    r->chosen = is_certain(r, columns) ? 0 : -1;
    return KITH_OK;
}
