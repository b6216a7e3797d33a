/* tools/tune/link_rows.c - see link_rows.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "link_rows.h"

#include "../draw.h"
#include "../output.h"
#include <kith/context.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef KITH_HAVE_JANSSON
#include <jansson.h>

extern const ki_command ki_command_bench;

struct tune_link_rows {
    json_t *rows, *absent; /* lists */
    json_t *meta;          /* of the first file; NULL: none yet */
    json_t *info;          /* what kith info says */
    size_t class_count;    /* that rows are of */
};

tune_link_rows *tune_link_rows_create(void)
{
    char *text = NULL;
    json_error_t error;
    tune_link_rows *self = calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    self->rows = json_array();
    self->absent = json_array();
    if (kith_info_json(&text) == KITH_OK)
        self->info = json_loads(text, 0, &error);
    kith_free(text);
    if (self->rows != NULL && self->absent != NULL && self->info != NULL)
        return self;
    tune_link_rows_free(self);
    return NULL;
}

void tune_link_rows_free(tune_link_rows *self)
{
    if (self == NULL)
        return;
    json_decref(self->rows);
    json_decref(self->absent);
    json_decref(self->meta);
    json_decref(self->info);
    free(self);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

bool tune_link_backend_works(const tune_link_rows *self, const char *backend, char *reason, size_t nbytes)
{
    const json_t *list = json_object_get(self->info, "backends");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (strcmp(text_of(row, "name"), backend) != 0)
            continue;
        snprintf(reason, nbytes, "%s", text_of(row, "reason"));
        return json_is_true(json_object_get(row, "available"));
    }
    snprintf(reason, nbytes, "this kith has no backend %s", backend);
    return false;
}

/* What the user said, in the environment or a file of settings; NULL: nothing. */
static const char *users_value(const tune_link_rows *self, const char *name)
{
    const json_t *list = json_object_get(self->info, "config");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (strcmp(text_of(row, "env"), name) == 0)
            return strcmp(text_of(row, "origin"), "default") != 0 ? text_of(row, "value") : NULL;
    }
    return getenv(name);
}

static void forget_setting(const tune_link_rows *self, json_t *settings, const char *name)
{
    const char *value = users_value(self, name);
    if (value != NULL)
        json_object_set_new(settings, name, json_string(value));
    else
        json_object_del(settings, name);
}

/* The link of a row stands for what its class forced; what the user said comes back. */
static void forget_forced(const tune_link_rows *self, const tune_class *of_class)
{
    json_t *settings = json_object_get(self->meta, "settings");
    for (size_t i = 0; i < 2 && of_class->settings[i][0] != NULL; i++)
        forget_setting(self, settings, of_class->settings[i][0]);
    if (strcmp(of_class->backend, "nccl") == 0) { /* for its log */
        forget_setting(self, settings, "NCCL_DEBUG");
        forget_setting(self, settings, "NCCL_DEBUG_FILE");
    }
}

bool tune_link_add(tune_link_rows *self, const tune_class *of_class, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *rows = json_object_get(root, "rows");
    size_t count = json_array_size(rows);
    for (size_t i = 0; i < count; i++)
        json_object_set_new(json_array_get(rows, i), "link", json_string(of_class->name));
    if (count > 0)
        json_array_extend(self->rows, rows);
    self->class_count += count > 0;
    if (count > 0 && self->meta == NULL) {
        self->meta = json_incref(json_object_get(root, "meta"));
        forget_forced(self, of_class);
    }
    json_decref(root);
    return count > 0;
}

/* A reason as long as a library's list of all that it tried ends at a word. */
static void shorten(const char *reason, char *text, size_t nbytes)
{
    size_t most = nbytes - sizeof "...", end = most;
    if (strlen(reason) < nbytes) {
        snprintf(text, nbytes, "%s", reason);
        return;
    }
    while (most > 0 && ((unsigned char)reason[most] & 0xc0) == 0x80) /* not inside a character of UTF-8 */
        most--;
    while (end > 0 && reason[end] != ' ')
        end--;
    while (end > 0 && strchr(" ,;:.", reason[end - 1]) != NULL)
        end--;
    snprintf(text, nbytes, "%.*s...", (int)(end > 0 ? end : most), reason);
}

bool tune_link_absent(tune_link_rows *self, const char *link, const char *reason)
{
    enum { REASON_NBYTES = 280 }; /* below what any part of the library cuts a sentence to */
    char text[REASON_NBYTES];
    shorten(reason, text, sizeof text);
    return json_array_append_new(self->absent, json_pack("{s:s, s:s}", "link", link, "reason", text)) == 0;
}

size_t tune_link_row_count(const tune_link_rows *self)
{
    return json_array_size(self->rows);
}

size_t tune_link_class_count(const tune_link_rows *self)
{
    return self->class_count;
}

/* ---- files ---- */

/* Ends the report with what is dumped; takes over the value. */
static int write_value(json_t *value, const char *path)
{
    ki_output output;
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (text == NULL || !ki_output_open(&output, &ki_command_bench)) {
        free(text);
        return KI_EXIT_USAGE;
    }
    fprintf(output.stream, "%s\n", text);
    free(text);
    return ki_output_close(&output, path, false);
}

static void write_cell(FILE *out, const json_t *cell)
{
    if (json_is_string(cell))
        fputs(json_string_value(cell), out); /* names: no comma, no quotation mark */
    else if (json_is_number(cell))
        fprintf(out, "%.12g", json_number_value(cell));
    else if (json_is_boolean(cell))
        fputs(json_is_true(cell) ? "true" : "false", out);
}

/* The columns of the first row, which all have. */
static int write_csv(const tune_link_rows *self, const char *path)
{
    ki_output output;
    json_t *head = json_array_get(self->rows, 0), *cell;
    const char *key, *comma = "";
    if (!ki_output_open(&output, &ki_command_bench))
        return KI_EXIT_USAGE;
    json_object_foreach(head, key, cell)
    {
        fprintf(output.stream, "%s%s", comma, key);
        comma = ",";
    }
    fputc('\n', output.stream);
    for (size_t i = 0; i < json_array_size(self->rows); i++) {
        comma = "";
        json_object_foreach(head, key, cell)
        {
            fputs(comma, output.stream);
            write_cell(output.stream, json_object_get(json_array_get(self->rows, i), key));
            comma = ",";
        }
        fputc('\n', output.stream);
    }
    return ki_output_close(&output, path, false);
}

/* Takes over nothing; the signal stands behind the name of the format, as in a file of one class. */
static json_t *make_save(const tune_link_rows *self, const char *cut_off)
{
    json_t *root = json_pack("{s:s}", "format", "kith-results-1");
    if (cut_off != NULL)
        json_object_set_new(root, "cut_off", json_string(cut_off));
    json_object_set(root, "meta", self->meta);
    json_object_set(root, "rows", self->rows);
    json_object_set(root, "absent_links", self->absent);
    return root;
}

int tune_link_write(const tune_link_rows *self, const char *save, const char *json, const char *csv,
                    const char *cut_off)
{
    int status = write_value(make_save(self, cut_off), save);
    if (status == KI_EXIT_OK && json != NULL)
        status = write_value(json_incref(self->rows), json[0] != 0 ? json : NULL);
    if (status == KI_EXIT_OK && csv != NULL)
        status = write_csv(self, csv[0] != 0 ? csv : NULL);
    return status;
}

/* ---- the table ---- */

/* Rows that differ in link and figures alone stand on one line. */
static bool is_same_point(const json_t *a, const json_t *b)
{
    static const char *const keys[] = { "op",    "dtype", "redop",  "memory", "place", "mode",
                                        "group", "ranks", "nbytes", "src",    "dst" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

/* Up to where the lines have one heading. */
static bool is_same_block(const json_t *a, const json_t *b)
{
    static const char *const keys[] = { "op",   "dtype", "redop", "memory", "place",
                                        "mode", "group", "ranks", "src",    "dst" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

enum { LINKS_MAX = 16, COLUMN = 14 };

typedef struct columns {
    const char *links[LINKS_MAX];
    size_t count;
} columns;

static columns find_columns(const tune_link_rows *self)
{
    columns found = { .count = 0 };
    for (size_t i = 0; i < json_array_size(self->rows); i++) {
        const char *link = text_of(json_array_get(self->rows, i), "link");
        size_t at = 0;
        while (at < found.count && strcmp(found.links[at], link) != 0)
            at++;
        if (at == found.count && at < LINKS_MAX)
            found.links[found.count++] = link;
    }
    return found;
}

static void print_head(FILE *out, const json_t *row, const columns *wanted)
{
    const json_t *src = json_object_get(row, "src");
    fprintf(out, "\n%s, %s", text_of(row, "op"), text_of(row, "dtype"));
    if (strcmp(text_of(row, "redop"), "none") != 0)
        fprintf(out, " %s", text_of(row, "redop"));
    fprintf(out, ", %s memory, %.0f ranks", text_of(row, "memory"), json_number_value(json_object_get(row, "ranks")));
    if (json_is_number(src))
        fprintf(out, ", ranks %.0f and %.0f", json_number_value(src), json_number_value(json_object_get(row, "dst")));
    fprintf(out, ": median us, and bus GB/s\n%10s", "size");
    for (size_t i = 0; i < wanted->count; i++)
        fprintf(out, " %*s", COLUMN, wanted->links[i]);
    fputs("\n", out);
}

static void print_point(FILE *out, const json_t *row)
{
    char text[48] = "";
    const json_t *time = json_object_get(row, "time_us_median"), *busbw = json_object_get(row, "busbw_gbps");
    if (row == NULL)
        snprintf(text, sizeof text, "-");
    else if (!json_is_number(time))
        snprintf(text, sizeof text, "?");
    else
        snprintf(text, sizeof text, "%.4g %6.4g", json_number_value(time), json_number_value(busbw));
    fprintf(out, " %*s", COLUMN, text);
}

static void print_line(const tune_link_rows *self, FILE *out, const json_t *point, const columns *wanted)
{
    char size[32];
    fprintf(out, "%10s", ki_text_bytes(size, sizeof size, json_number_value(json_object_get(point, "nbytes"))));
    for (size_t c = 0; c < wanted->count; c++) {
        const json_t *found = NULL;
        for (size_t i = 0; found == NULL && i < json_array_size(self->rows); i++) {
            const json_t *row = json_array_get(self->rows, i);
            if (strcmp(text_of(row, "link"), wanted->links[c]) == 0 && is_same_point(row, point))
                found = row;
        }
        print_point(out, found);
    }
    fputs("\n", out);
}

/* Whether an earlier row stands for this point. */
static bool is_repeated(const tune_link_rows *self, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_same_point(json_array_get(self->rows, i), json_array_get(self->rows, index)))
            return true;
    return false;
}

void tune_link_print(const tune_link_rows *self, FILE *out)
{
    columns wanted = find_columns(self);
    const json_t *before = NULL;
    for (size_t i = 0; i < json_array_size(self->rows); i++) {
        const json_t *row = json_array_get(self->rows, i);
        if (is_repeated(self, i))
            continue;
        if (before == NULL || !is_same_block(before, row))
            print_head(out, row, &wanted);
        print_line(self, out, row, &wanted);
        before = row;
    }
    fputs("\n", out);
    tune_link_print_absent(self, out);
}

void tune_link_print_absent(const tune_link_rows *self, FILE *out)
{
    for (size_t i = 0; i < json_array_size(self->absent); i++) {
        const json_t *row = json_array_get(self->absent, i);
        fprintf(out, "absent: %s (%s)\n", text_of(row, "link"), text_of(row, "reason"));
    }
}

#else

tune_link_rows *tune_link_rows_create(void)
{
    return NULL;
}

void tune_link_rows_free(tune_link_rows *self)
{
    (void)self;
}

bool tune_link_backend_works(const tune_link_rows *self, const char *backend, char *reason, size_t nbytes)
{
    (void)self, (void)backend, (void)reason, (void)nbytes;
    return false;
}

bool tune_link_add(tune_link_rows *self, const tune_class *of_class, const char *path)
{
    (void)self, (void)of_class, (void)path;
    return false;
}

bool tune_link_absent(tune_link_rows *self, const char *link, const char *reason)
{
    (void)self, (void)link, (void)reason;
    return false;
}

size_t tune_link_row_count(const tune_link_rows *self)
{
    (void)self;
    return 0;
}

size_t tune_link_class_count(const tune_link_rows *self)
{
    (void)self;
    return 0;
}

int tune_link_write(const tune_link_rows *self, const char *save, const char *json, const char *csv,
                    const char *cut_off)
{
    (void)self, (void)save, (void)json, (void)csv, (void)cut_off;
    return KI_EXIT_USAGE;
}

void tune_link_print(const tune_link_rows *self, FILE *out)
{
    (void)self, (void)out;
}

void tune_link_print_absent(const tune_link_rows *self, FILE *out)
{
    (void)self, (void)out;
}

#endif
