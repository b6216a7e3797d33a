/* tools/compare/read.c - result files in their three forms:
 *
 *     {"format": "kith-results-1", "meta": {...}, "rows": [...]}     kith bench --save
 *     [...]                                                           kith bench --json
 *     {"format": "kith-bench-1", "machine": {...}, "rows": [...]}    the harness of bench/; kith-bench-peers-1 likewise
 *
 * Files may be anything: half, huge, of another program. The first thing that is wrong becomes one sentence with file
 * and place, and nothing is compared then. Keys that are not known here are passed over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../draw.h"
#include "compare.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ki_complain(ki_complaint *complaint, const char *format, ...)
{
    va_list arguments;
    if (complaint->text[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(complaint->text, sizeof(complaint->text), format, arguments);
    va_end(arguments);
    ki_text_clean(complaint->text);
}

bool ki_results_init(ki_results *self)
{
    memset(self, 0, sizeof(*self));
    return ki_words_init(&self->words);
}

void ki_results_fini(ki_results *self)
{
    ki_words_fini(&self->words);
    free(self->rows);
    free(self->absences);
    free(self->figures);
    self->rows = NULL;
    self->absences = NULL;
    self->figures = NULL;
}

const char *ki_fact_name(ki_fact fact)
{
    static const char *const names[KI_FACT_COUNT] = {
        [KI_FACT_DATE] = "Measured",     [KI_FACT_VERSION] = "Kith",
        [KI_FACT_HOSTS] = "Hosts",       [KI_FACT_CPU] = "CPU",
        [KI_FACT_CPUS] = "CPUs",         [KI_FACT_MEMORY] = "Memory",
        [KI_FACT_GPUS] = "GPUs",         [KI_FACT_KERNEL] = "Kernel",
        [KI_FACT_BACKENDS] = "Backends", [KI_FACT_CUT_OFF] = "Cut off by",
        [KI_FACT_TOPOLOGY] = "Topology", [KI_FACT_COMMAND] = "Command",
    };
    return names[fact];
}

/* ---- bytes ---- */

/* The whole file, with a zero behind it. NULL after a complaint. */
static char *read_bytes(const char *path, int fd, size_t *count, ki_complaint *complaint)
{
    char *bytes = NULL;
    size_t room = 0;
    ssize_t got = 1;
    for (*count = 0; got > 0 && *count <= KI_FILE_NBYTES_MAX; *count += got > 0 ? (size_t)got : 0) {
        if (room < *count + 65537) {
            char *larger = realloc(bytes, room = 2 * room + 65537);
            if (larger == NULL) {
                ki_complain(complaint, "memory is short");
                free(bytes);
                return NULL;
            }
            bytes = larger;
        }
        got = read(fd, bytes + *count, room - *count - 1);
    }
    if (got < 0)
        ki_complain(complaint, "%s: cannot be read: %s", path, strerror(errno));
    else if (*count > KI_FILE_NBYTES_MAX)
        ki_complain(complaint, "%s: is larger than %zu MiB", path, KI_FILE_NBYTES_MAX >> 20);
    else if (*count == 0)
        ki_complain(complaint, "%s: the file is empty", path);
    else {
        bytes[*count] = '\0';
        return bytes;
    }
    free(bytes);
    return NULL;
}

static char *read_path(ki_file *file, size_t *count, ki_complaint *complaint)
{
    struct stat info;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        ki_complain(complaint, "%s: cannot be opened: %s", file->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *bytes = NULL;
    file->device = info.st_dev;
    file->inode = info.st_ino;
    if (S_ISDIR(info.st_mode))
        ki_complain(complaint, "%s: is a folder", file->path);
    else
        bytes = read_bytes(file->path, fd, count, complaint);
    close(fd);
    return bytes;
}

static json_t *parse(const char *path, const char *bytes, size_t count, ki_complaint *complaint)
{
    json_error_t error;
    json_t *document = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &error);
    if (document == NULL)
        ki_complain(complaint, "%s:%d: %s", path, error.line < 1 ? 1 : error.line, error.text);
    return document;
}

/* ---- facts ---- */

/* A fact as a text: a string, a number, a list of strings, a list of {"name", "version"}. False for anything else. */
static bool fact_text(const json_t *value, char *text, size_t nbytes)
{
    text[0] = '\0';
    if (json_is_string(value))
        snprintf(text, nbytes, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, nbytes, "%lld", (long long)json_integer_value(value));
    else if (json_is_array(value)) {
        size_t index, used = 0;
        json_t *entry;
        json_array_foreach(value, index, entry)
        {
            const json_t *name = json_is_object(entry) ? json_object_get(entry, "name") : entry;
            const json_t *version = json_is_object(entry) ? json_object_get(entry, "version") : NULL;
            if (!json_is_string(name) || (version != NULL && !json_is_string(version) && !json_is_null(version)))
                return false;
            const char *number = json_is_string(version) ? json_string_value(version) : "";
            if (used < nbytes)
                used += (size_t)snprintf(text + used, nbytes - used, "%s%s%s%s", index > 0 ? ", " : "",
                                         json_string_value(name), number[0] != '\0' ? " " : "", number);
        }
    } else
        return json_is_null(value);
    return true;
}

static void take_fact(ki_results *self, ki_file *file, const json_t *facts, const char *object, const char *key,
                      ki_fact fact, ki_complaint *complaint)
{
    enum { FACT_NBYTES = 4096 };
    char text[FACT_NBYTES];
    const json_t *value = json_object_get(facts, key);
    if (value == NULL)
        return;
    if (!fact_text(value, text, sizeof(text)))
        ki_complain(complaint, "%s: \"%s\" of \"%s\" is neither a text, a whole number nor a list of texts", file->path,
                    key, object);
    if (fact == KI_FACT_MEMORY && json_is_integer(value))
        ki_text_bytes(text, sizeof(text), (double)json_integer_value(value));
    ki_word word = ki_words_add(&self->words, text);
    if (word < 0)
        ki_complain(complaint, "memory is short");
    else
        file->facts[fact] = word;
}

/* "absent_links": [{"link": NAME, "reason": TEXT}]: link classes that were looked for and are not there. */
static void take_absences(ki_results *self, ki_file *file, const json_t *document, ki_complaint *complaint)
{
    const json_t *list = json_object_get(document, "absent_links");
    size_t index;
    json_t *entry;
    if (list != NULL && !json_is_array(list))
        ki_complain(complaint, "%s: \"absent_links\" is not a list", file->path);
    json_array_foreach(list, index, entry)
    {
        const char *link = json_string_value(json_object_get(entry, "link"));
        const char *reason = json_string_value(json_object_get(entry, "reason"));
        ki_absence *larger = realloc(self->absences, (self->absence_count + 1) * sizeof(*larger));
        if (larger != NULL)
            self->absences = larger;
        if (link == NULL)
            ki_complain(complaint, "%s: \"absent_links\" has an entry without a \"link\"", file->path);
        ki_absence absence = { (int)(file - self->files), link == NULL ? 0 : ki_words_add(&self->words, link),
                               ki_words_add(&self->words, reason == NULL ? "" : reason) };
        if (larger == NULL || absence.link < 0 || absence.reason < 0)
            ki_complain(complaint, "memory is short");
        if (complaint->text[0] != '\0')
            return;
        larger[self->absence_count++] = absence;
    }
}

static void take_keys(ki_results *self, ki_file *file, const json_t *facts, const char *name, ki_complaint *complaint)
{
    static const struct {
        const char *key;
        ki_fact fact;
    } keys[] = {
        /* of two keys for one fact the later one holds */
        { "date", KI_FACT_DATE },
        { "kith_version", KI_FACT_VERSION },
        { "hosts", KI_FACT_HOSTS },
        { "processor", KI_FACT_CPU },
        { "cpu", KI_FACT_CPU },
        { "cpus", KI_FACT_CPUS },
        { "memory_bytes", KI_FACT_MEMORY },
        { "gpus", KI_FACT_GPUS },
        { "system", KI_FACT_KERNEL },
        { "release", KI_FACT_KERNEL },
        { "kernel", KI_FACT_KERNEL },
        { "peers", KI_FACT_BACKENDS },
        { "backends", KI_FACT_BACKENDS },
        { "command", KI_FACT_COMMAND },
        { "topology_fingerprint", KI_FACT_TOPOLOGY },
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        take_fact(self, file, facts, name, keys[i].key, keys[i].fact, complaint);
}

static void take_facts(ki_results *self, ki_file *file, const json_t *document, bool is_harness,
                       ki_complaint *complaint)
{
    const char *name = is_harness ? "machine" : "meta";
    const json_t *facts = json_object_get(document, name);
    if (facts != NULL && !json_is_object(facts))
        ki_complain(complaint, "%s: \"%s\" is not an object", file->path, name);
    else if (facts != NULL)
        take_keys(self, file, facts, name, complaint);
    take_fact(self, file, document, "the file", "cut_off", KI_FACT_CUT_OFF, complaint);
    if (is_harness) { /* beside the machine */
        take_fact(self, file, document, "the file", "date", KI_FACT_DATE, complaint);
        take_fact(self, file, document, "the file", "command", KI_FACT_COMMAND, complaint);
    }
}

/* ---- rows ---- */

static bool add_row(ki_results *self, const ki_row *row, ki_complaint *complaint)
{
    if (self->row_count == KI_ROWS_MAX) {
        ki_complain(complaint, "the files have more than %d rows together", KI_ROWS_MAX);
        return false;
    }
    if (self->row_count == self->row_room) {
        size_t room = self->row_room == 0 ? 512 : 2 * self->row_room;
        ki_row *rows = realloc(self->rows, room * sizeof(*rows));
        if (rows == NULL) {
            ki_complain(complaint, "memory is short");
            return false;
        }
        self->rows = rows;
        self->row_room = room;
    }
    self->rows[self->row_count++] = *row;
    return true;
}

static bool take_rows(ki_results *self, ki_file *file, const json_t *rows, bool is_harness, ki_complaint *complaint)
{
    size_t index;
    json_t *object;
    if (!json_is_array(rows)) {
        ki_complain(complaint, "%s: \"rows\" is not a list", file->path);
        return false;
    }
    if (json_array_size(rows) == 0)
        ki_complain(complaint, "%s: has no rows", file->path);
    json_array_foreach(rows, index, object)
    {
        ki_complaint about = { "" };
        ki_row row;
        if (!ki_row_read(self, object, is_harness, &row, &about)) {
            ki_complain(complaint, "%s: row %zu: %s", file->path, index + 1, about.text);
            return false;
        }
        row.file = (int)(file - self->files);
        row.number = (int)index + 1;
        if (!add_row(self, &row, complaint))
            return false;
        file->row_count++;
    }
    return complaint->text[0] == '\0';
}

static bool take_document(ki_results *self, ki_file *file, const json_t *document, ki_complaint *complaint)
{
    if (json_is_array(document))
        return take_rows(self, file, document, false, complaint);
    const char *format = json_string_value(json_object_get(document, "format"));
    bool is_harness =
        format != NULL && (strcmp(format, "kith-bench-1") == 0 || strcmp(format, "kith-bench-peers-1") == 0);
    if (!json_is_object(document) || format == NULL)
        ki_complain(complaint, "%s: is neither a list of rows nor an object with a \"format\"; kith bench writes both",
                    file->path);
    else if (!is_harness && strcmp(format, "kith-results-1") != 0)
        ki_complain(complaint,
                    "%s: the format \"%s\" is not known; kith-results-1, kith-bench-1 and kith-bench-peers-1 are",
                    file->path, format);
    if (complaint->text[0] != '\0')
        return false;
    take_facts(self, file, document, is_harness, complaint);
    take_absences(self, file, document, complaint);
    return take_rows(self, file, json_object_get(document, "rows"), is_harness, complaint) &&
           (!is_harness || ki_peers_take(self, (int)(file - self->files), document, complaint));
}

/* ---- labels ---- */

/* A file that is there by its whole name is that, else what stands before the first '=' is its label. */
static bool take_name(ki_results *self, ki_file *file, const char *argument, ki_complaint *complaint)
{
    const char *equals = strchr(argument, '='), *slash = strrchr(argument, '/');
    const char *name = slash != NULL ? slash + 1 : argument;
    size_t nbytes = strlen(name);
    file->path = argument;
    if (equals != NULL && equals != argument && access(argument, F_OK) != 0) {
        name = argument;
        nbytes = (size_t)(equals - argument);
        file->path = equals + 1;
    } else if (nbytes > 5 && strcmp(name + nbytes - 5, ".json") == 0) {
        nbytes -= 5;
    }
    char *label = strndup(name, nbytes);
    file->label = label == NULL ? -1 : ki_words_add(&self->words, label);
    file->name = ki_words_add(&self->words, file->path);
    free(label);
    if (file->label < 0 || file->name < 0)
        ki_complain(complaint, "memory is short");
    return file->label >= 0 && file->name >= 0;
}

static bool is_new(ki_results *self, const ki_file *file, ki_complaint *complaint)
{
    for (int i = 0; i < self->file_count; i++) {
        const ki_file *other = &self->files[i];
        if (other->label != file->label)
            continue;
        if (other->device == file->device && other->inode == file->inode) {
            ki_complain(complaint, "%s: is given twice; several runs under one label must be files of their own",
                        file->path);
            return false;
        }
    }
    return true;
}

bool ki_results_read(ki_results *self, const char *argument, ki_complaint *complaint)
{
    if (self->file_count == KI_FILES_MAX) {
        ki_complain(complaint, "more than %d files", KI_FILES_MAX);
        return false;
    }
    ki_file *file = &self->files[self->file_count];
    *file = (ki_file){ .path = argument };
    size_t count;
    char *bytes = take_name(self, file, argument, complaint) ? read_path(file, &count, complaint) : NULL;
    json_t *document = NULL;
    if (bytes != NULL && is_new(self, file, complaint))
        document = parse(file->path, bytes, count, complaint);
    free(bytes);
    bool is_taken = document != NULL && take_document(self, file, document, complaint);
    json_decref(document);
    self->file_count += is_taken;
    return is_taken;
}

#else
typedef int ki_compare_read_needs_jansson; /* a file must not be empty */
#endif
