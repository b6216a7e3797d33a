/* core/info.c - kith_info_json(): what this build is and what it can use here.
 *
 * Modules are opened and asked one after the other; of several variants of one name (two MPIs) all are listed under
 * "modules", and the entry is available when one of them is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "algo/select.h"
#include "base/config.h"
#include "base/error.h"
#include "device/device.h"
#include "layers/compute/blas.h"
#include "object.h"
#include "registry.h"
#include "text.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODULES 32

typedef struct module_info {
    char name[64], path[512], reason[2048];
    const kith_backend *backend;
    kith_status status;
} module_info;

typedef struct module_list {
    module_info items[MAX_MODULES];
    int count;
} module_list;

static void visit(void *arg, const char *name, const char *path, const kith_backend *backend, kith_status status,
                  const char *reason)
{
    module_list *list = (module_list *)arg;
    if (list->count == MAX_MODULES)
        return;
    module_info *item = &list->items[list->count++];
    snprintf(item->name, sizeof item->name, "%s", name);
    snprintf(item->path, sizeof item->path, "%s", path);
    snprintf(item->reason, sizeof item->reason, "%s", reason);
    item->backend = backend;
    item->status = status;
}

/* ---- backends ---- */

static void add_module(const module_info *m, ki_text *text)
{
    ki_text_add(text, "{\"path\":");
    ki_text_add_json(text, m->path[0] != '\0' ? m->path : "built in");
    ki_text_add(text, ",\"variant\":");
    ki_text_add_json(text, m->backend != NULL ? m->backend->variant : NULL);
    ki_text_add(text, ",\"available\":%s,\"reason\":", m->status == KITH_OK ? "true" : "false");
    ki_text_add_json(text, m->reason);
    ki_text_add(text, "}");
}

static bool is_named_before(const module_list *list, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(list->items[i].name, list->items[index].name) == 0)
            return true;
    return false;
}

static void add_backend(const module_list *list, int first, ki_text *text)
{
    const module_info *best = &list->items[first];
    for (int i = first; i < list->count; i++)
        if (strcmp(list->items[i].name, best->name) == 0 && best->status != KITH_OK && list->items[i].status == KITH_OK)
            best = &list->items[i];
    ki_text_add(text, "{\"name\":");
    ki_text_add_json(text, best->name);
    ki_text_add(text, ",\"available\":%s,\"reason\":", best->status == KITH_OK ? "true" : "false");
    ki_text_add_json(text, best->reason);
    ki_text_add(text, ",\"variant\":");
    ki_text_add_json(text, best->backend != NULL ? best->backend->variant : NULL);
    ki_text_add(text, ",\"version\":");
    ki_text_add_json(text, best->backend != NULL ? best->backend->version : NULL);
    ki_text_add(text, ",\"modules\":[");
    for (int i = first, told = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, best->name) != 0)
            continue;
        if (told++ > 0)
            ki_text_add(text, ",");
        add_module(&list->items[i], text);
    }
    ki_text_add(text, "]}");
}

/* Backends that the project has, but whose modules are not installed. */
static void add_absent(const module_list *list, ki_text *text)
{
    static const char *const known[] = { "ucx", "mpi", "nccl" };
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        bool is_there = false;
        for (int i = 0; i < list->count; i++)
            is_there = is_there || strcmp(list->items[i].name, known[k]) == 0;
        if (!is_there)
            ki_text_add(
                text,
                ",{\"name\":\"%s\",\"available\":false,\"reason\":\"module libkith_%s*.so is not installed: the "
                "library "
                "was built without it, or KITH_BACKEND_PATH lacks its folder\",\"variant\":null,\"version\":null,"
                "\"modules\":[]}",
                known[k], known[k]);
    }
}

static void add_backends(const module_list *list, ki_text *text)
{
    ki_text_add(text, "\"backends\":[");
    for (int i = 0; i < list->count; i++) {
        if (is_named_before(list, i))
            continue;
        if (i > 0)
            ki_text_add(text, ",");
        add_backend(list, i, text);
    }
    add_absent(list, text);
    ki_text_add(text, "]");
}

/* ---- devices ---- */

static void add_device(const ki_device_ops *ops, int ordinal, ki_text *text)
{
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    if (ops->describe(ordinal, &info) != KITH_OK) {
        ki_text_add(text, "{\"ordinal\":%d,\"reason\":", ordinal);
        ki_text_add_json(text, kith_error_detail());
        ki_text_add(text, "}");
        return;
    }
    ki_text_add(text, "{\"ordinal\":%d,\"name\":", ordinal);
    ki_text_add_json(text, info.name);
    ki_text_add(text, ",\"uuid\":");
    ki_text_add_json(text, info.uuid);
    ki_text_add(text, ",\"pci\":");
    ki_text_add_json(text, info.pci);
    ki_text_add(text,
                ",\"compute_capability\":\"%d.%d\",\"processors\":%d,\"memory_nbytes\":%llu,\"free_nbytes\":%llu}",
                info.major, info.minor, info.processors, (unsigned long long)info.memory_nbytes,
                (unsigned long long)info.free_nbytes);
}

static void add_devices(ki_text *text)
{
    const ki_device_ops *ops;
    const char *summary;
    int count = 0;
    bool is_there = ki_device_module(&ops, &summary) == KITH_OK && ops->count(&count) == KITH_OK;
    ki_text_add(text,
                "\"devices\":[{\"name\":\"host\",\"available\":true,\"reason\":\"memory of this process\"},"
                "{\"name\":\"cuda\",\"available\":%s,\"reason\":",
                is_there ? "true" : "false");
    ki_text_add_json(text, summary);
    ki_text_add(text, ",\"devices\":[");
    for (int i = 0; is_there && i < count; i++) {
        ki_text_add(text, "%s", i > 0 ? "," : "");
        add_device(ops, i, text);
    }
    ki_text_add(text, "]}]");
}

/* ---- matrix products ---- */

static void add_blas(ki_text *text)
{
    const ki_blas *blas;
    bool is_there = ki_blas_get(&blas) == KITH_OK;
    ki_text_add(text, "\"blas\":{\"available\":%s,\"library\":", is_there ? "true" : "false");
    ki_text_add_json(text, is_there ? blas->library : NULL);
    ki_text_add(text, ",\"version\":");
    ki_text_add_json(text, is_there ? blas->version : NULL);
    ki_text_add(text, ",\"reason\":");
    ki_text_add_json(text, !is_there               ? kith_error_detail()
                           : blas->version[0] != 0 ? blas->version
                                                   : "tells no version");
    ki_text_add(text, "}");
}

/* ---- settings ---- */

static void add_config(const ki_config *config, ki_text *text)
{
    static const char *const origins[] = { "default", "environment", "option" };
    ki_config_row row;
    ki_text_add(text, "\"config\":[");
    for (size_t i = 0; ki_config_row_at(config, i, &row); i++) {
        char env[80];
        snprintf(env, sizeof env, "KITH_%s", row.name);
        for (char *c = env; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        bool is_secret = strcmp(row.name, "secret") == 0 && row.value[0] != '\0';
        ki_text_add(text, "%s{\"name\":", i > 0 ? "," : "");
        ki_text_add_json(text, row.name);
        ki_text_add(text, ",\"env\":");
        ki_text_add_json(text, env);
        ki_text_add(text, ",\"value\":");
        ki_text_add_json(text, is_secret ? "(set)" : row.value);
        ki_text_add(text, ",\"default\":");
        ki_text_add_json(text, row.default_value);
        ki_text_add(text, ",\"origin\":\"%s\",\"help\":", origins[row.origin]);
        ki_text_add_json(text, row.help);
        ki_text_add(text, ",\"owner\":");
        ki_text_add_json(text, row.owner);
        ki_text_add(text, "}");
    }
    ki_text_add(text, "]");
}

/* ---- algorithms ---- */

static void add_rules(const ki_select *select, ki_text *text)
{
    ki_select_rule rule;
    ki_text_add(text, "\"table\":[");
    for (size_t i = 0; ki_select_rule_at(select, i, &rule); i++) {
        ki_text_add(text, "%s{\"collective\":\"%s\",\"min_ranks\":%d,\"max_ranks\":%d,\"max_nbytes\":%zu,",
                    i > 0 ? "," : "", kith_coll_name(rule.kind), rule.min_ranks, rule.max_ranks, rule.max_nbytes);
        ki_text_add(text, "\"hosts\":\"%s\",\"algorithm\":\"%s\"}", ki_select_hosts_name(rule.hosts), rule.algo->name);
    }
    ki_text_add(text, "]");
}

static void add_algorithms(const ki_select *select, ki_text *text)
{
    bool is_first = true;
    ki_text_add(text, "\"algorithms\":{");
    add_rules(select, text);
    ki_text_add(text, ",\"list\":[");
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list((kith_coll_kind)kind, &count);
        for (size_t i = 0; i < count; i++, is_first = false) {
            ki_text_add(
                text, "%s{\"collective\":\"%s\",\"name\":\"%s\",\"deterministic\":%s,\"cost\":", is_first ? "" : ",",
                kith_coll_name((kith_coll_kind)kind), list[i]->name, list[i]->is_deterministic ? "true" : "false");
            ki_text_add_json(text, list[i]->cost);
            ki_text_add(text, "}");
        }
    }
    ki_text_add(text, "]}");
}

static kith_status compose(const module_list *list, ki_text *text)
{
    const kith_backend *backends[MAX_MODULES];
    size_t count = 0;
    for (int i = 0; i < list->count; i++)
        if (list->items[i].backend != NULL)
            backends[count++] = list->items[i].backend;
    ki_config *config;
    kith_status status = ki_config_create(NULL, 0, backends, count, &config);
    if (status != KITH_OK)
        return status;
    kith_allocator allocator;
    ki_allocator_init(&allocator, NULL);
    ki_select_options options = { .force = ki_config_get(config, "algo"),
                                  .table_path = ki_config_get(config, "algo_table"),
                                  .is_deterministic = true,
                                  .allocator = &allocator };
    ki_select *select;
    status = ki_select_create(&options, &select);
    if (status == KITH_OK) {
        ki_text_add(text, "{\"version\":\"%s\",\"kernels\":\"%s\",", KITH_VERSION_STRING, ki_kernels_isa());
        add_backends(list, text);
        ki_text_add(text, ",");
        add_devices(text);
        ki_text_add(text, ",");
        add_blas(text);
        ki_text_add(text, ",");
        add_config(config, text);
        ki_text_add(text, ",");
        add_algorithms(select, text);
        ki_text_add(text, "}");
        ki_select_destroy(select);
    }
    ki_config_destroy(config);
    return status;
}

kith_status kith_info_json(char **json)
{
    if (json == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_info_json: json is NULL");
    module_list *list = (module_list *)calloc(1, sizeof *list);
    if (list == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_info_json: no memory");
    ki_registry_each(visit, list);
    ki_text text = { 0 };
    kith_status status = compose(list, &text);
    free(list);
    if (status == KITH_OK && text.is_failed)
        status = ki_fail(KITH_ERR_NO_MEMORY, "kith_info_json: no memory");
    if (status != KITH_OK) {
        ki_text_fini(&text);
        return status;
    }
    *json = text.chars;
    return KITH_OK;
}
