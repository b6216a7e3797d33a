/* core/base/config.c - the table of settings: core rows, then each backend's (see config.h).
 *
 * A row's value is decided once, when the row is added: from the caller's settings, else from KITH_<NAME>, else the
 * default. Values are copied, so that the environment may change afterwards. Flags are kept as "on" and "off", however
 * they were spelled, so that ranks that mean the same have the same text. Two backends may bring a row of one name
 * (variants of one module): the first stays.
 *
 * Backends are opened when they are needed, so their rows come late. A setting with a name like "ucx_tls" therefore
 * waits until a backend claims it; one that nobody claims is found by ki_config_check_claimed().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "config.h"
#include "config_rows.h"
#include "config_value.h"
#include "error.h"
#include "log.h"
#include "mem.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum { NAME_NBYTES = 64, VALID_NBYTES = 256, NEAR_DISTANCE = 2 };

typedef struct row_spec {
    const char *name, *default_value, *range, *help;
    ki_value_type type;
    bool must_agree, is_process;
} row_spec;

typedef struct row {
    const char *name, *default_value, *range, *help, *owner; /* of the core's or the backend's static table */
    ki_value_type type;
    bool must_agree, is_process;
    ki_config_origin origin;
    char *value;
} row;

typedef struct pending {
    char *name, *value;
} pending;

struct ki_config {
    row *rows;
    size_t row_count, row_capacity;
    pending *pending; /* settings without a row */
    size_t pending_count;
};

static const row_spec core_rows[] = {
#define ROW(name, type, default_value, range, must_agree, is_process, help)                                            \
    { name, default_value, range, help, KI_VALUE_##type, must_agree, is_process },
    KI_CONFIG_ROWS(ROW)
#undef ROW
};
enum { CORE_ROW_COUNT = sizeof core_rows / sizeof core_rows[0] };

static row *find_row(const ki_config *config, const char *name)
{
    for (size_t i = 0; i < config->row_count; i++) {
        if (strcmp(config->rows[i].name, name) == 0)
            return &config->rows[i];
    }
    return NULL;
}

static void environment_name(const char *name, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "KITH_%s", name);
    for (char *p = text; *p; p++)
        *p = (char)toupper((unsigned char)*p);
}

static const row *nearest_row(const ki_config *config, const char *name)
{
    const row *best = NULL;
    size_t best_distance = 0;
    for (size_t i = 0; i < config->row_count; i++) {
        size_t distance = ki_edit_distance(name, config->rows[i].name);
        if (!best || distance < best_distance) {
            best = &config->rows[i];
            best_distance = distance;
        }
    }
    return best;
}

/* ---- building ---- */

static size_t count_backend_rows(const kith_backend *backend)
{
    size_t count = 0;
    for (const kith_be_setting *s = backend->settings; s && s->name; s++)
        count++;
    return count;
}

static bool reserve_rows(ki_config *config, size_t more)
{
    size_t capacity = config->row_count + more;
    if (capacity <= config->row_capacity)
        return true;
    row *rows = ki_calloc(NULL, capacity, sizeof *rows);
    if (!rows)
        return false;
    if (config->row_count)
        memcpy(rows, config->rows, config->row_count * sizeof *rows);
    ki_free(NULL, config->rows);
    config->rows = rows;
    config->row_capacity = capacity;
    return true;
}

static void add_row(ki_config *config, const row *new_row)
{
    if (!find_row(config, new_row->name))
        config->rows[config->row_count++] = *new_row;
}

static void add_core_rows(ki_config *config)
{
    for (size_t i = 0; i < CORE_ROW_COUNT; i++) {
        const row_spec *s = &core_rows[i];
        add_row(config, &(row){ s->name, s->default_value, s->range, s->help, "core", s->type, s->must_agree,
                                s->is_process, KI_ORIGIN_DEFAULT, NULL });
    }
}

static void add_backend_rows(ki_config *config, const kith_backend *backend)
{
    for (const kith_be_setting *s = backend->settings; s && s->name; s++) {
        add_row(config, &(row){ s->name, s->default_value ? s->default_value : "", "", s->help ? s->help : "",
                                backend->name, KI_VALUE_TEXT, s->must_agree != 0, false, KI_ORIGIN_DEFAULT, NULL });
    }
}

static kith_status refuse_value(const row *r, const char *value, ki_config_origin origin, const char *valid)
{
    char variable[NAME_NBYTES + 8];
    environment_name(r->name, variable, sizeof variable);
    if (origin == KI_ORIGIN_OPTION)
        return ki_fail(KITH_ERR_INVALID_ARG, "setting %s=\"%s\" is not valid; valid: %s", r->name, value, valid);
    return ki_fail(KITH_ERR_INVALID_ARG, "%s=\"%s\" is not valid; valid: %s", variable, value, valid);
}

/* Flags, and choices that are flags with a third way ("auto|on|off"). */
static bool has_flag(const row *r)
{
    return r->type == KI_VALUE_BOOL || (r->type == KI_VALUE_CHOICE && strstr(r->range, "|on|off"));
}

static kith_status set_value(row *r, const char *value, ki_config_origin origin)
{
    char valid[VALID_NBYTES] = "";
    bool is_unset = !*value && !*r->default_value, flag;
    if (has_flag(r) && ki_parse_bool(value, &flag))
        value = flag ? "on" : "off";
    if (!is_unset && !ki_value_check(r->type, r->range, value, valid, sizeof valid))
        return refuse_value(r, value, origin, valid);
    if (strcmp(r->name, "radix") == 0 && strcmp(value, "1") == 0)
        return refuse_value(r, value, origin, "0, or a number from 2 to 1024");
    char *copy = ki_strdup(NULL, value);
    if (!copy)
        return KITH_ERR_NO_MEMORY;
    ki_free(NULL, r->value);
    r->value = copy;
    r->origin = origin;
    return KITH_OK;
}

/* A row without a value gets the environment's, else the default. A wrong value of a PROCESS row is reported by its
 * reader: a mistyped log level must not keep a job from starting. */
static kith_status set_unset_rows(ki_config *config)
{
    for (size_t i = 0; i < config->row_count; i++) {
        row *r = &config->rows[i];
        if (r->value)
            continue;
        char variable[NAME_NBYTES + 8], valid[VALID_NBYTES];
        environment_name(r->name, variable, sizeof variable);
        const char *value = getenv(variable);
        bool is_used = value && *value;
        if (is_used && r->is_process && !ki_value_check(r->type, r->range, value, valid, sizeof valid))
            is_used = false;
        kith_status s =
            is_used ? set_value(r, value, KI_ORIGIN_ENVIRONMENT) : set_value(r, r->default_value, KI_ORIGIN_DEFAULT);
        if (s != KITH_OK)
            return s;
    }
    return KITH_OK;
}

static kith_status unknown_setting(const ki_config *config, const char *name)
{
    return ki_fail(KITH_ERR_INVALID_ARG, "setting \"%s\" is unknown; the nearest known one is \"%s\"", name,
                   nearest_row(config, name)->name);
}

/* "ucx_tls" may be a row of a backend that is not open yet; "algoo" and "check" with a typing error may not. */
static bool may_be_claimed(const ki_config *config, const char *name)
{
    return strchr(name, '_') && ki_edit_distance(name, nearest_row(config, name)->name) > NEAR_DISTANCE;
}

static kith_status keep_pending(ki_config *config, const kith_setting *setting)
{
    if (!may_be_claimed(config, setting->name))
        return unknown_setting(config, setting->name);
    pending *p = &config->pending[config->pending_count];
    p->name = ki_strdup(NULL, setting->name);
    p->value = ki_strdup(NULL, setting->value);
    config->pending_count++;
    return p->name && p->value ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static kith_status apply_setting(ki_config *config, const kith_setting *setting)
{
    if (!setting->name || !setting->value)
        return ki_fail(KITH_ERR_INVALID_ARG, "a setting has no %s", setting->name ? "value" : "name");
    row *r = find_row(config, setting->name);
    if (!r)
        return keep_pending(config, setting);
    if (r->is_process) {
        char variable[NAME_NBYTES + 8];
        environment_name(r->name, variable, sizeof variable);
        return ki_fail(KITH_ERR_INVALID_ARG, "setting \"%s\" serves the whole process and is read from %s alone",
                       r->name, variable);
    }
    return set_value(r, setting->value, KI_ORIGIN_OPTION);
}

static kith_status apply_settings(ki_config *config, const kith_setting *settings, size_t setting_count)
{
    config->pending = ki_calloc(NULL, setting_count, sizeof *config->pending);
    if (!config->pending)
        return KITH_ERR_NO_MEMORY;
    for (size_t i = 0; i < setting_count; i++) {
        kith_status s = apply_setting(config, &settings[i]);
        if (s != KITH_OK)
            return s;
    }
    return KITH_OK;
}

kith_status ki_config_create(const kith_setting *settings, size_t setting_count, const kith_backend *const *backends,
                             size_t backend_count, ki_config **config)
{
    size_t row_count = CORE_ROW_COUNT;
    kith_status s = KITH_ERR_NO_MEMORY;
    ki_config *c = ki_calloc(NULL, 1, sizeof *c);
    if (!c)
        return s;
    for (size_t i = 0; i < backend_count; i++)
        row_count += count_backend_rows(backends[i]);
    if (!reserve_rows(c, row_count))
        goto err_destroy;
    add_core_rows(c);
    for (size_t i = 0; i < backend_count; i++)
        add_backend_rows(c, backends[i]);
    s = apply_settings(c, settings, setting_count);
    if (s == KITH_OK)
        s = set_unset_rows(c);
    if (s != KITH_OK)
        goto err_destroy;
    *config = c;
    return KITH_OK;

err_destroy:
    ki_config_destroy(c);
    return s;
}

static void forget_pending(ki_config *config, size_t index)
{
    ki_free(NULL, config->pending[index].name);
    ki_free(NULL, config->pending[index].value);
    config->pending[index] = config->pending[--config->pending_count];
}

kith_status ki_config_add_backend(ki_config *config, const kith_backend *backend)
{
    if (!reserve_rows(config, count_backend_rows(backend)))
        return KITH_ERR_NO_MEMORY;
    add_backend_rows(config, backend);
    for (size_t i = 0; i < config->pending_count;) {
        row *r = find_row(config, config->pending[i].name);
        kith_status s = r ? set_value(r, config->pending[i].value, KI_ORIGIN_OPTION) : KITH_OK;
        if (s != KITH_OK)
            return s;
        if (r)
            forget_pending(config, i);
        else
            i++;
    }
    return set_unset_rows(config);
}

kith_status ki_config_check_claimed(const ki_config *config, ki_config_may_come may_come)
{
    for (size_t i = 0; i < config->pending_count; i++)
        if (may_come == NULL || !may_come(config->pending[i].name))
            return unknown_setting(config, config->pending[i].name);
    return KITH_OK;
}

void ki_config_destroy(ki_config *config)
{
    if (!config)
        return;
    while (config->pending_count > 0)
        forget_pending(config, config->pending_count - 1);
    ki_free(NULL, config->pending);
    for (size_t i = 0; i < config->row_count; i++)
        ki_free(NULL, config->rows[i].value);
    ki_free(NULL, config->rows);
    ki_free(NULL, config);
}

/* ---- reading ---- */

const char *ki_config_get(const ki_config *config, const char *name)
{
    const row *r = find_row(config, name);
    return r ? r->value : NULL;
}

int64_t ki_config_int(const ki_config *config, const char *name)
{
    const char *text = ki_config_get(config, name);
    int64_t value = -1; /* "auto", or unset */
    if (text)
        ki_parse_int(text, &value);
    return value;
}

bool ki_config_bool(const ki_config *config, const char *name)
{
    const char *text = ki_config_get(config, name);
    bool value = false;
    if (text)
        ki_parse_bool(text, &value);
    return value;
}

size_t ki_config_nbytes(const ki_config *config, const char *name)
{
    const char *text = ki_config_get(config, name);
    size_t value = 0;
    if (text)
        ki_parse_nbytes(text, &value);
    return value;
}

bool ki_config_row_at(const ki_config *config, size_t index, ki_config_row *out)
{
    if (index >= config->row_count)
        return false;
    const row *r = &config->rows[index];
    *out = (ki_config_row){ r->name, r->value, r->default_value, r->help, r->owner, r->origin, r->must_agree };
    return true;
}

void ki_config_warn_unknown(const ki_config *config, ki_config_may_come may_come)
{
    for (char **entry = environ; entry && *entry; entry++) {
        const char *text = *entry;
        char name[NAME_NBYTES], known[NAME_NBYTES + 8];
        size_t n = strcspn(text, "=");
        if (strncmp(text, "KITH_", 5) != 0 || n <= 5 || n - 5 >= sizeof name)
            continue;
        for (size_t i = 0; i < n - 5; i++)
            name[i] = (char)tolower((unsigned char)text[5 + i]);
        name[n - 5] = '\0';
        environment_name(nearest_row(config, name)->name, known, sizeof known);
        if ((strlen(known) == n && strncmp(known, text, n) == 0) || (may_come != NULL && may_come(name)))
            continue;
        ki_log(
            KITH_LOG_WARN,
            "environment variable %.*s is not known to the library or the backends in use; the nearest known one is %s",
            (int)n, text, known);
    }
}
