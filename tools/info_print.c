/* tools/info_print.c - lays the library's JSON report out in columns, at most 100 wide.
 *
 * Every list of objects becomes a table through one function: a column for each key that was asked for, as wide as its
 * longest cell, the last one wrapped. Unknown keys are not an error: the report may come from a newer library.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "info_print.h"

#ifdef KITH_HAVE_JANSSON
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100
#define CELL_MAX 512
#define COLUMN_MAX 36 /* a longer cell pushes its row, not the table */
#define LAST_COLUMN_MIN 30

typedef struct column {
    const char *key, *title;
    int width;
} column;

/* Text of a value in a table. */
static void cell_text(const json_t *value, char *text, size_t nbytes)
{
    text[0] = '\0';
    if (json_is_string(value))
        snprintf(text, nbytes, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(text, nbytes, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value))
        snprintf(text, nbytes, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, nbytes, "%g", json_real_value(value));
    else if (json_is_array(value)) {
        size_t index, used = 0;
        json_t *entry;
        char one[CELL_MAX];
        json_array_foreach(value, index, entry)
        {
            cell_text(entry, one, sizeof(one));
            if (used < nbytes)
                used += (size_t)snprintf(text + used, nbytes - used, "%s%s", index == 0 ? "" : ", ", one);
        }
    }
}

/* Prints text at the current column `indent`, wrapped at spaces so that no line passes WIDTH. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
    int room = WIDTH - indent < LAST_COLUMN_MIN ? LAST_COLUMN_MIN : WIDTH - indent;
    while ((int)strlen(text) > room) {
        int cut = room;
        while (cut > 0 && text[cut] != ' ')
            cut--;
        if (cut == 0) cut = (int)strcspn(text, " ");
        fprintf(out, "%.*s\n", cut, text);
        text += cut;
        text += strspn(text, " ");
        if (*text == '\0') return;
        fprintf(out, "%*s", indent, "");
    }
    fprintf(out, "%s\n", text);
}

static void print_row(FILE *out, const column *columns, size_t count, const json_t *row)
{
    char text[CELL_MAX];
    int indent = 2, pending = 2;
    for (size_t i = 0; i < count; i++) {
        if (row == NULL)
            snprintf(text, sizeof(text), "%s", columns[i].title);
        else
            cell_text(json_object_get(row, columns[i].key), text, sizeof(text));
        if (text[0] == '\0' && i + 1 == count) break;
        fprintf(out, "%*s", pending, "");
        if (i + 1 == count) {
            print_wrapped(out, text, indent);
            return;
        }
        int nbytes = (int)strlen(text);
        fputs(text, out);
        indent += columns[i].width + 2;
        pending = nbytes < columns[i].width ? columns[i].width - nbytes + 2 : 2;
    }
    fputc('\n', out);
}

/* A table of rows; columns that are empty in every row are left out. */
static void print_table(FILE *out, const json_t *rows, const column *wanted, size_t wanted_count)
{
    column columns[8];
    size_t count = 0, index;
    json_t *row;
    char text[CELL_MAX];
    for (size_t i = 0; i < wanted_count && count < sizeof(columns) / sizeof(columns[0]); i++) {
        int width = 0;
        json_array_foreach(rows, index, row)
        {
            cell_text(json_object_get(row, wanted[i].key), text, sizeof(text));
            int nbytes = (int)strlen(text) < COLUMN_MAX ? (int)strlen(text) : COLUMN_MAX;
            width = nbytes > width ? nbytes : width;
        }
        if (width == 0) continue;
        int title = (int)strlen(wanted[i].title);
        columns[count++] = (column){ wanted[i].key, wanted[i].title, width > title ? width : title };
    }
    if (count == 0) {
        fputs("  none\n", out);
        return;
    }
    print_row(out, columns, count, NULL);
    json_array_foreach(rows, index, row) print_row(out, columns, count, row);
}

/* A table with the keys that the rows have, in the order in which they come. */
static void print_any_table(FILE *out, const json_t *rows)
{
    column columns[8];
    size_t count = 0, index;
    json_t *row, *value;
    const char *key;
    json_array_foreach(rows, index, row)
    {
        if (json_is_string(row)) fprintf(out, "  %s\n", json_string_value(row));
        json_object_foreach(row, key, value)
        {
            bool is_new = count < sizeof(columns) / sizeof(columns[0]);
            for (size_t i = 0; i < count; i++)
                is_new &= strcmp(columns[i].key, key) != 0;
            if (is_new) columns[count++] = (column){ key, key, 0 };
        }
    }
    if (count > 0) print_table(out, rows, columns, count);
}

/* A row for each module of a backend that has several. */
static json_t *list_modules(const json_t *backends)
{
    json_t *rows = json_array(), *backend, *module;
    size_t i, k;
    json_array_foreach(backends, i, backend)
    {
        const json_t *modules = json_object_get(backend, "modules");
        if (json_array_size(modules) < 2) json_array_append(rows, backend);
        else
            json_array_foreach(modules, k, module)
            {
                json_t *row = json_copy(module);
                json_object_set(row, "name", json_object_get(backend, "name"));
                json_array_append_new(rows, row);
            }
    }
    return rows;
}

/* What multiplies the matrices of layers on the host. */
static void print_blas(FILE *out, const json_t *blas)
{
    static const column columns[] = { { "library", "CBLAS", 0 },
                                      { "available", "usable", 0 },
                                      { "reason", "why, or what it has", 0 } };
    if (blas == NULL) return;
    json_t *rows = json_array();
    json_array_append(rows, (json_t *)blas);
    fputs("\nMatrix products\n", out);
    print_table(out, rows, columns, sizeof(columns) / sizeof(columns[0]));
    json_decref(rows);
}

static void print_overview(FILE *out, const json_t *report)
{
    static const column backends[] = { { "name", "backend", 0 },
                                       { "variant", "variant", 0 },
                                       { "available", "usable", 0 },
                                       { "version", "version", 0 },
                                       { "reason", "why, or what it has", 0 } };
    static const column devices[] = { { "name", "device", 0 },
                                      { "available", "usable", 0 },
                                      { "reason", "why, or what it has", 0 } };
    char text[CELL_MAX];
    cell_text(json_object_get(report, "version"), text, sizeof(text));
    fprintf(out, "kith %s\n", text);
    cell_text(json_object_get(report, "kernels"), text, sizeof(text));
    if (text[0] != '\0') fprintf(out, "reduction kernels: %s\n", text);
    fputs("\nBackends\n", out);
    json_t *modules = list_modules(json_object_get(report, "backends"));
    print_table(out, modules, backends, sizeof(backends) / sizeof(backends[0]));
    json_decref(modules);
    fputs("\nDevices\n", out);
    print_table(out, json_object_get(report, "devices"), devices, sizeof(devices) / sizeof(devices[0]));
    print_blas(out, json_object_get(report, "blas"));
    fputs("\nMore: kith info --config, --algorithms, --json\n", out);
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One block for each owner (core first), so that the long list has an order. */
static void print_config(FILE *out, const json_t *config)
{
    static const column columns[] = {
        { "env", "variable", 0 }, { "value", "value", 0 }, { "origin", "set by", 0 }, { "help", "meaning", 0 }
    };
    size_t count = 0, index, row_count = json_array_size(config);
    json_t *row;
    const char **owners = calloc(row_count + 1, sizeof(*owners));
    if (owners == NULL) return;
    json_array_foreach(config, index, row)
    {
        const char *owner = json_string_value(json_object_get(row, "owner"));
        owner = owner == NULL ? "core" : owner;
        bool is_new = strcmp(owner, "core") != 0;
        for (size_t i = 0; i < count; i++)
            is_new &= strcmp(owners[i], owner) != 0;
        if (is_new) owners[count++] = owner;
    }
    qsort(owners, count, sizeof(*owners), compare_owners);
    memmove(owners + 1, owners, count * sizeof(*owners));
    owners[0] = "core";
    for (size_t i = 0; i <= count; i++) {
        json_t *block = json_array();
        json_array_foreach(config, index, row)
        {
            const char *owner = json_string_value(json_object_get(row, "owner"));
            if (strcmp(owner == NULL ? "core" : owner, owners[i]) == 0) json_array_append(block, row);
        }
        fprintf(out, "%sSettings of %s\n", i == 0 ? "" : "\n", owners[i]);
        print_table(out, block, columns, sizeof(columns) / sizeof(columns[0]));
        json_decref(block);
    }
    free(owners);
}

static void print_algorithms(FILE *out, const json_t *algorithms)
{
    static const column columns[] = { { "collective", "collective", 0 },
                                      { "name", "algorithm", 0 },
                                      { "deterministic", "same bits", 0 },
                                      { "cost", "cost", 0 } };
    fputs("Algorithms; p ranks, n bytes, a: latency of a message, b: time of a byte\n", out);
    print_table(out, json_object_get(algorithms, "list"), columns, sizeof(columns) / sizeof(columns[0]));
    fputs("\nRules by which they are chosen; the first that fits; 0: no limit\n", out);
    print_any_table(out, json_object_get(algorithms, "table"));
}

bool ki_info_print(FILE *out, const char *json, const ki_info_parts *parts, char *error, size_t error_nbytes)
{
    json_error_t cause;
    json_t *report = json_loads(json, 0, &cause);
    if (!json_is_object(report)) {
        snprintf(error, error_nbytes, "the library's report is not JSON: %s (line %d)", cause.text, cause.line);
        json_decref(report);
        return false;
    }
    if (parts->has_config) print_config(out, json_object_get(report, "config"));
    if (parts->has_config && parts->has_algorithms) fputc('\n', out);
    if (parts->has_algorithms) print_algorithms(out, json_object_get(report, "algorithms"));
    if (!parts->has_config && !parts->has_algorithms) print_overview(out, report);
    json_decref(report);
    return true;
}

#else

bool ki_info_print(FILE *out, const char *json, const ki_info_parts *parts, char *error, size_t error_nbytes)
{
    (void)out, (void)json, (void)parts;
    snprintf(error, error_nbytes, "this kith was built without jansson, which the text needs; use --json");
    return false;
}

#endif
