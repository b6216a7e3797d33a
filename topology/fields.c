/* topology/fields.c - see fields.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fields.h"

#include "hardware.h"
#include "print.h"
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(structure, member, type)                                                                                 \
    {                                                                                                                  \
#member, KI_FIELD_##type, offsetof(structure, member)                                                          \
    }

const ki_field ki_package_fields[] = {
    FIELD(kith_package, os_index, INT),
    FIELD(kith_package, cpus, TEXT),
    FIELD(kith_package, model, TEXT),
    { 0 },
};
const ki_field ki_numa_fields[] = {
    FIELD(kith_numa, os_index, INT),      FIELD(kith_numa, cpus, TEXT),
    FIELD(kith_numa, package, INDEX),     FIELD(kith_numa, is_gpu_memory, BOOL),
    FIELD(kith_numa, gpu, INDEX),         FIELD(kith_numa, memory_nbytes, UINT64),
    FIELD(kith_numa, allowed_cpus, TEXT), { 0 },
};
const ki_field ki_cache_fields[] = {
    FIELD(kith_cache, level, INT),
    FIELD(kith_cache, is_data, BOOL),
    FIELD(kith_cache, nbytes, UINT64),
    FIELD(kith_cache, count, INT),
    { 0 },
};
const ki_field ki_pci_switch_fields[] = {
    FIELD(kith_pci_switch, parent, INDEX),
    FIELD(kith_pci_switch, host_bridge, INDEX),
    FIELD(kith_pci_switch, numa, INDEX),
    FIELD(kith_pci_switch, pci, PCI),
    FIELD(kith_pci_switch, name, TEXT),
    FIELD(kith_pci_switch, gbps, REAL),
    { 0 },
};
const ki_field ki_gpu_fields[] = {
    FIELD(kith_gpu, index, INT),
    FIELD(kith_gpu, name, TEXT),
    FIELD(kith_gpu, uuid, TEXT),
    FIELD(kith_gpu, vendor, TEXT),
    FIELD(kith_gpu, pci, PCI),
    FIELD(kith_gpu, compute_capability, COUNT),
    FIELD(kith_gpu, cpus, TEXT),
    FIELD(kith_gpu, numa_source, TEXT),
    FIELD(kith_gpu, memory_numa, INDEX),
    FIELD(kith_gpu, memory_nbytes, UINT64),
    FIELD(kith_gpu, pci_switch, INDEX),
    FIELD(kith_gpu, host_bridge, INDEX),
    FIELD(kith_gpu, pcie_generation, COUNT),
    FIELD(kith_gpu, pcie_width, COUNT),
    FIELD(kith_gpu, pcie_gbps, REAL),
    FIELD(kith_gpu, link_count, INDEX),
    FIELD(kith_gpu, is_mig, BOOL),
    FIELD(kith_gpu, is_lost, BOOL),
    FIELD(kith_gpu, is_allowed, BOOL),
    FIELD(kith_gpu, fabric, CERTAINTY),
    { 0 },
};
const ki_field ki_nic_fields[] = {
    FIELD(kith_nic, index, INT),
    FIELD(kith_nic, name, TEXT),
    FIELD(kith_nic, device, TEXT),
    FIELD(kith_nic, fabric, TEXT),
    FIELD(kith_nic, guid, TEXT),
    FIELD(kith_nic, pci, PCI),
    FIELD(kith_nic, cpus, TEXT),
    FIELD(kith_nic, numa, INDEX),
    FIELD(kith_nic, pci_switch, INDEX),
    FIELD(kith_nic, host_bridge, INDEX),
    FIELD(kith_nic, port_count, COUNT),
    FIELD(kith_nic, gbps, REAL),
    FIELD(kith_nic, gbps_certainty, CERTAINTY),
    { 0 },
};
const ki_field ki_kind_fields[] = {
    FIELD(kith_node_kind, name, TEXT),
    FIELD(kith_node_kind, format, TEXT),
    FIELD(kith_node_kind, source, TEXT),
    FIELD(kith_node_kind, is_virtual, BOOL),
    FIELD(kith_node_kind, architecture, TEXT),
    FIELD(kith_node_kind, cpu_vendor, TEXT),
    FIELD(kith_node_kind, cpu_model, TEXT),
    FIELD(kith_node_kind, nvlink, CERTAINTY),
    FIELD(kith_node_kind, has_nvswitch, BOOL),
    FIELD(kith_node_kind, socket_gbps, REAL),
    FIELD(kith_node_kind, socket_certainty, CERTAINTY),
    { 0 },
};
const ki_field ki_switch_fields[] = {
    FIELD(kith_switch, name, TEXT),          FIELD(kith_switch, parent, INDEX),     FIELD(kith_switch, level, INT),
    FIELD(kith_switch, uplink_count, COUNT), FIELD(kith_switch, uplink_gbps, REAL), { 0 },
};
const ki_field ki_domain_fields[] = {
    FIELD(kith_domain, name, TEXT),
    FIELD(kith_domain, is_nvlink, BOOL),
    FIELD(kith_domain, gbps, REAL),
    { 0 },
};
const ki_field ki_node_fields[] = {
    FIELD(kith_node, name, TEXT),    FIELD(kith_node, kind, INT),        FIELD(kith_node, leaf, INDEX),
    FIELD(kith_node, domain, INDEX), FIELD(kith_node, is_allowed, BOOL), { 0 },
};
const ki_field ki_doubt_fields[] = {
    FIELD(kith_doubt, code, TEXT),
    FIELD(kith_doubt, text, TEXT),
    FIELD(kith_doubt, file, TEXT),
    FIELD(kith_doubt, line, COUNT),
    FIELD(kith_doubt, kind, INDEX),
    FIELD(kith_doubt, gpu, INDEX),
    { 0 },
};

/* ---- words ---- */

static const char *const certainty_names[] = { "unknown", "assumed", "known" };

const char *ki_certainty_name(kith_certainty certainty)
{
    return (unsigned)certainty <= KITH_KNOWN ? certainty_names[certainty] : "unknown";
}

bool ki_certainty_parse(const char *text, kith_certainty *certainty)
{
    for (int i = 0; i <= KITH_KNOWN; i++)
        if (strcmp(text, certainty_names[i]) == 0) {
            *certainty = (kith_certainty)i;
            return true;
        }
    return false;
}

static bool read_bonded(const char *text, const char *prefix, int *count)
{
    size_t length = strlen(prefix);
    if (strncmp(text, prefix, length) != 0 || !isdigit((unsigned char)text[length]))
        return false;
    char *end;
    long value = strtol(text + length, &end, 10);
    *count = (int)value;
    return *end == '\0' && value >= 1 && value <= 999;
}

bool ki_link_parse(const char *text, kith_link *link)
{
    int count = 0;
    if (read_bonded(text, "NV", &count) || read_bonded(text, "XGMI", &count)) {
        link->type = text[0] == 'N' ? KITH_LINK_NVLINK : KITH_LINK_XGMI;
        link->count = count;
        return true;
    }
    for (int type = KITH_LINK_UNKNOWN; type <= KITH_LINK_SELF; type++)
        if (strcmp(text, kith_link_type_name((kith_link_type)type)) == 0) {
            link->type = (kith_link_type)type;
            link->count = 0;
            return true;
        }
    return false;
}

/* ---- writing ---- */

static void print_value(ki_text *out, const ki_field *field, const void *at)
{
    char pci[24];
    int number = field->type <= KI_FIELD_COUNT ? *(const int *)at : 0;
    switch (field->type) {
    case KI_FIELD_INT:
        ki_text_add(out, "%d", number);
        return;
    case KI_FIELD_INDEX:
    case KI_FIELD_COUNT:
        if (number > 0 || (number == 0 && field->type == KI_FIELD_INDEX))
            ki_text_add(out, "%d", number);
        else
            ki_text_add(out, "null");
        return;
    case KI_FIELD_UINT64:
        if (*(const uint64_t *)at > 0)
            ki_text_add(out, "%" PRIu64, *(const uint64_t *)at);
        else
            ki_text_add(out, "null");
        return;
    case KI_FIELD_REAL:
        ki_print_number(out, *(const double *)at > 0 ? *(const double *)at : (double)NAN);
        return;
    case KI_FIELD_TEXT:
        ki_text_add_json(out, *(const char *const *)at);
        return;
    case KI_FIELD_BOOL:
        ki_text_add(out, *(const bool *)at ? "true" : "false");
        return;
    case KI_FIELD_CERTAINTY:
        ki_text_add_json(out, ki_certainty_name(*(const kith_certainty *)at));
        return;
    case KI_FIELD_PCI:
        ki_text_add_json(out, ((const kith_pci_address *)at)->is_known
                                  ? kith_pci_text((const kith_pci_address *)at, pci, sizeof pci)
                                  : NULL);
        return;
    }
}

void ki_fields_print(ki_text *out, const ki_field *fields, const void *object)
{
    for (const ki_field *field = fields; field->key != NULL; field++) {
        ki_text_add(out, "%s\"%s\": ", field == fields ? "" : ", ", field->key);
        print_value(out, field, (const char *)object + field->offset);
    }
}

/* ---- reading ---- */

static kith_status wrong(const char *name, const ki_json *value, const char *wanted)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be %s", name, value->line, value->key, wanted);
}

static kith_status read_int(const char *name, const ki_json *value, double low, double high, int unknown, int *out)
{
    if (value->type == KI_JSON_NULL && unknown <= 0) {
        *out = unknown;
        return KITH_OK;
    }
    if (value->type != KI_JSON_NUMBER || value->number < low || value->number > high ||
        floor(value->number) != value->number)
        return wrong(name, value, low < 0 ? "a whole number" : "a whole number, 0 or more");
    *out = (int)value->number;
    return KITH_OK;
}

static kith_status read_text(kith_topology *t, const char *name, const ki_json *value, const char **out)
{
    if (value->type == KI_JSON_NULL)
        *out = NULL;
    else if (value->type != KI_JSON_STRING || memchr(value->text, '\0', value->text_nbytes) != NULL)
        return wrong(name, value, "a text or null");
    else
        *out = ki_topology_dup(t, value->text);
    return KITH_OK;
}

static kith_status read_value(kith_topology *t, const char *name, const ki_field *field, const ki_json *value, void *at)
{
    bool is_null = value->type == KI_JSON_NULL, is_number = value->type == KI_JSON_NUMBER;
    const char *text = value->type == KI_JSON_STRING ? value->text : "";
    switch (field->type) {
    case KI_FIELD_INT:
        return read_int(name, value, INT_MIN, INT_MAX, 1, (int *)at);
    case KI_FIELD_INDEX:
        return read_int(name, value, 0, INT_MAX, -1, (int *)at);
    case KI_FIELD_COUNT:
        return read_int(name, value, 0, INT_MAX, 0, (int *)at);
    case KI_FIELD_UINT64:
        if (!is_null && !(is_number && value->number >= 0 && value->number < 9007199254740992.0))
            return wrong(name, value, "a number below 2^53 or null");
        *(uint64_t *)at = is_null ? 0 : (uint64_t)value->number;
        return KITH_OK;
    case KI_FIELD_REAL:
        if (!is_null && !(is_number && value->number >= 0 && value->number <= 1e15))
            return wrong(name, value, "a number, 0 or more, or null");
        *(double *)at = is_null ? 0 : value->number;
        return KITH_OK;
    case KI_FIELD_TEXT:
        return read_text(t, name, value, (const char **)at);
    case KI_FIELD_BOOL:
        if (value->type != KI_JSON_BOOL)
            return wrong(name, value, "true or false");
        *(bool *)at = value->boolean;
        return KITH_OK;
    case KI_FIELD_CERTAINTY:
        return ki_certainty_parse(text, (kith_certainty *)at) ? KITH_OK
                                                              : wrong(name, value, "unknown, assumed or known");
    case KI_FIELD_PCI:
        if (is_null)
            *(kith_pci_address *)at = (kith_pci_address){ 0 };
        else if (ki_pci_parse(text, (kith_pci_address *)at) != KI_PCI_GOOD)
            return wrong(name, value, "a PCI address like 0000:1b:00.0, or null");
        return KITH_OK;
    }
    return KITH_OK;
}

kith_status ki_fields_read(kith_topology *t, const char *name, const ki_field *fields, const ki_json *json,
                           void *object)
{
    if (json->type != KI_JSON_OBJECT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: must be an object", name, json->line);
    for (const ki_field *field = fields; field->key != NULL; field++) {
        const ki_json *value = ki_json_member(json, field->key);
        kith_status status =
            value == NULL ? KITH_OK : read_value(t, name, field, value, (char *)object + field->offset);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}
