/* core/base/config.h - the table of settings: name, default, help, who set it.
 *
 * Every tunable of the core is one row of the table in config.c; backends bring rows of their own (kith_be_setting). A
 * value comes from kith_init_options.settings, else from the environment (KITH_<NAME>), else it is the default.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_CONFIG_H
#define KI_BASE_CONFIG_H

#include <kith/backend.h>
#include <kith/context.h>
#include <stdbool.h>

typedef enum ki_config_origin { KI_ORIGIN_DEFAULT, KI_ORIGIN_ENVIRONMENT, KI_ORIGIN_OPTION } ki_config_origin;

typedef struct ki_config ki_config;

/* Builds the table: core rows, then the rows of each backend. settings are copied. KITH_ERR_INVALID_ARG for an unknown
 * name in settings or a value that its row does not allow. A name that a backend may still bring ("ucx_tls") is kept
 * until then. */
kith_status ki_config_create(const kith_setting *settings, size_t setting_count, const kith_backend *const *backends,
                             size_t backend_count, ki_config **config);
void ki_config_destroy(ki_config *config);

/* Adds the rows of a backend that is opened later (again is fine). KITH_ERR_INVALID_ARG as above. */
kith_status ki_config_add_backend(ki_config *config, const kith_backend *backend);

/* True when a name ("ucx_tls") belongs to a backend that is there but not open yet. */
typedef bool (*ki_config_may_come)(const char *name);

/* KITH_ERR_INVALID_ARG when a setting's name was claimed by no backend. Call it when those the context starts with are
 * open. */
kith_status ki_config_check_claimed(const ki_config *config, ki_config_may_come may_come);

/* The value; NULL only for a name without a row. Borrowed. Flags read "on" or "off". */
const char *ki_config_get(const ki_config *config, const char *name);

/* Parsed values. Rows are validated at creation, so these do not fail for rows of that type. Byte sizes accept k, m, g.
 * An integer that is "auto" or unset reads as -1; the text rows of backends read as -1, false and 0 when they are
 * something else. */
int64_t ki_config_int(const ki_config *config, const char *name);
bool ki_config_bool(const ki_config *config, const char *name);
size_t ki_config_nbytes(const ki_config *config, const char *name);

/* Iterates rows in table order, for `kith info --config`. False past the end. */
typedef struct ki_config_row {
    const char *name, *value, *default_value, *help, *owner; /* owner: "core" or the backend's name */
    ki_config_origin origin;
    bool must_agree;
} ki_config_row;
bool ki_config_row_at(const ki_config *config, size_t index, ki_config_row *row);

/* Logs a warning for each KITH_* environment variable without a row, naming the nearest known one. Variables of the
 * launcher (KITH_RANK and the like) are rows too. */
void ki_config_warn_unknown(const ki_config *config, ki_config_may_come may_come);

#endif
