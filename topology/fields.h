/* topology/fields.h - the members of the model's structures by name: one table that the JSON writer and the JSON reader
 * share, so that what is printed can be read back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_FIELDS_H
#define KI_TOPOLOGY_FIELDS_H

#include "core/base/json.h"
#include "core/text.h"
#include "model.h"

typedef enum ki_field_type {
    KI_FIELD_INT,       /* int */
    KI_FIELD_INDEX,     /* int; -1 is null */
    KI_FIELD_COUNT,     /* int; 0 is null: unknown */
    KI_FIELD_UINT64,    /* uint64_t; 0 is null */
    KI_FIELD_REAL,      /* double; 0 is null */
    KI_FIELD_TEXT,      /* const char *; NULL is null */
    KI_FIELD_BOOL,      /* bool */
    KI_FIELD_CERTAINTY, /* kith_certainty: "unknown", "assumed", "known" */
    KI_FIELD_PCI,       /* kith_pci_address; unknown is null */
} ki_field_type;

typedef struct ki_field {
    const char *key;
    ki_field_type type;
    size_t offset;
} ki_field;

/* Tables end with a NULL key. */
extern const ki_field ki_package_fields[], ki_numa_fields[], ki_cache_fields[], ki_pci_switch_fields[];
extern const ki_field ki_gpu_fields[], ki_nic_fields[], ki_kind_fields[], ki_switch_fields[], ki_domain_fields[];
extern const ki_field ki_node_fields[], ki_doubt_fields[];

/* "key": value, ... of one structure, without braces. */
void ki_fields_print(ki_text *out, const ki_field *fields, const void *object);

/* Writes what the JSON object has; members that no field names are left to the caller. KITH_ERR_INVALID_ARG with
 * name:line when a value has the wrong type or range. */
kith_status ki_fields_read(kith_topology *t, const char *name, const ki_field *fields, const ki_json *json,
                           void *object);

const char *ki_certainty_name(kith_certainty certainty);
bool ki_certainty_parse(const char *text, kith_certainty *certainty);
/* "NV4", "PIX", "XGMI2", "?": type and count. False for anything else. */
bool ki_link_parse(const char *text, kith_link *link);

#endif
