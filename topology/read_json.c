/* topology/read_json.c - reads what print_json.c writes, or a hand-written file of that form.
 *
 * A file with everything gives back the topology that was printed, doubts included; nothing is derived again. A file
 * with "override": true changes what other files said: its GPUs are matched by PCI address, else by index, its members
 * replace the values of the first kind of node, and what follows from them is derived anew. That is the way to tell
 * what a virtual machine hides.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fields.h"
#include "hardware.h"
#include "reader.h"
#include "sets.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct json_reader {
    kith_topology *t;
    const char *name;
    bool is_override;
} json_reader;

static kith_status refuse(const json_reader *r, const ki_json *at, const char *why)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' %s", r->name, at->line, at->key != NULL ? at->key : "entry",
                         why);
}

static int probe(const ki_source *source)
{
    size_t at = 0;
    while (at < source->nbytes && strchr(" \t\r\n", source->text[at]) != NULL && source->text[at] != '\0')
        at++;
    if (at >= source->nbytes || source->text[at] != '{')
        return 0;
    return ki_source_has(source, "\"kith_topology\"", 4096) ? 100 : 0;
}

/* An array of objects by key, NULL when it is not there. */
static kith_status find_array(const json_reader *r, const ki_json *object, const char *key, const ki_json **array)
{
    *array = ki_json_member(object, key);
    if (*array != NULL && (*array)->type != KI_JSON_ARRAY)
        return refuse(r, *array, "must be an array");
    return KITH_OK;
}

static int count_of(const ki_json *array)
{
    int count = 0;
    for (const ki_json *item = array->first; item != NULL; item = item->next)
        count++;
    return count;
}

/* CPU sets are lists, unknown or empty. */
static kith_status check_cpus(const json_reader *r, const ki_json *item, const char *cpus)
{
    ki_cpuset set;
    if (cpus == NULL)
        return KITH_OK;
    if (!ki_cpuset_parse(cpus, &set))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: 'cpus' must be a list like \"0-31,64-95\", not \"%.40s\"",
                             r->name, item->line, cpus);
    ki_cpuset_fini(&set);
    return KITH_OK;
}

/* ---- parts of a kind ---- */

typedef void *(*adder)(kith_topology *t, ki_kind *kind);

static void *add_package(kith_topology *t, ki_kind *kind)
{
    return ki_kind_add_package(t, kind);
}

static void *add_numa(kith_topology *t, ki_kind *kind)
{
    return ki_kind_add_numa(t, kind);
}

static void *add_cache(kith_topology *t, ki_kind *kind)
{
    return ki_kind_add_cache(t, kind);
}

static void *add_switch(kith_topology *t, ki_kind *kind)
{
    return ki_kind_add_switch(t, kind);
}

static kith_status read_parts(json_reader *r, const ki_json *object, ki_kind *kind)
{
    static const struct {
        const char *key;
        const ki_field *fields;
        adder add;
    } parts[] = {
        { "packages", ki_package_fields, add_package },
        { "numa_nodes", ki_numa_fields, add_numa },
        { "caches", ki_cache_fields, add_cache },
        { "pci_switches", ki_pci_switch_fields, add_switch },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const ki_json *array;
        kith_status status = find_array(r, object, parts[i].key, &array);
        if (status != KITH_OK)
            return status;
        if (array != NULL && r->is_override) {
            kind->view.package_count *= i != 0; /* the override's list stands for the whole */
            kind->view.numa_count *= i != 1;
            kind->view.cache_count *= i != 2;
            kind->view.switch_count *= i != 3;
        }
        for (const ki_json *item = array != NULL ? array->first : NULL; item != NULL; item = item->next) {
            void *part = parts[i].add(r->t, kind);
            status = ki_fields_read(r->t, r->name, parts[i].fields, item, part);
            if (status == KITH_OK && parts[i].fields == ki_numa_fields)
                status = check_cpus(r, item, ((const kith_numa *)part)->cpus);
            if (status != KITH_OK)
                return status;
        }
    }
    return r->t->status;
}

/* "numa": 0, "0-1" or null. */
static kith_status read_numa(json_reader *r, const ki_json *json, kith_gpu *gpu)
{
    const ki_json *numa = ki_json_member(json, "numa");
    char text[16];
    if (numa == NULL)
        return KITH_OK;
    const char *source = gpu->numa_source != NULL ? gpu->numa_source : r->name;
    if (numa->type == KI_JSON_NULL) {
        gpu->numa_count = 0;
        gpu->numas = NULL;
        gpu->numa_text = NULL;
        return KITH_OK;
    }
    if (numa->type == KI_JSON_NUMBER && numa->number >= 0 && numa->number < 65536) {
        snprintf(text, sizeof text, "%d", (int)numa->number);
        ki_gpu_set_numas(r->t, gpu, text, source);
        return KITH_OK;
    }
    if (numa->type == KI_JSON_STRING)
        ki_gpu_set_numas(r->t, gpu, numa->text, source);
    return numa->type == KI_JSON_STRING && gpu->numa_count > 0 ? KITH_OK
                                                               : refuse(r, numa, "must be a number, a list or null");
}

/* The GPU that an override means; a new one otherwise. */
static kith_gpu *find_gpu(json_reader *r, const ki_json *json, ki_kind *kind)
{
    if (!r->is_override)
        return ki_kind_add_gpu(r->t, kind);
    const ki_json *pci = ki_json_member(json, "pci"), *index = ki_json_member(json, "index");
    kith_pci_address address = { 0 };
    bool has_address = pci != NULL && pci->type == KI_JSON_STRING && ki_pci_parse(pci->text, &address) == KI_PCI_GOOD;
    for (int g = 0; g < kind->view.gpu_count; g++) {
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->view.gpus[g];
        if (has_address && gpu->pci.is_known && gpu->pci.domain == address.domain && gpu->pci.bus == address.bus &&
            gpu->pci.device == address.device && gpu->pci.function == address.function)
            return gpu;
    }
    for (int g = 0; g < kind->view.gpu_count; g++)
        if (index != NULL && index->type == KI_JSON_NUMBER && (double)kind->view.gpus[g].index == index->number)
            return (kith_gpu *)(uintptr_t)&kind->view.gpus[g];
    return NULL;
}

static kith_status read_gpus(json_reader *r, const ki_json *object, ki_kind *kind)
{
    const ki_json *array;
    kith_status status = find_array(r, object, "gpus", &array);
    for (const ki_json *item = array != NULL ? array->first : NULL; status == KITH_OK && item != NULL;
         item = item->next) {
        if (item->type != KI_JSON_OBJECT)
            return refuse(r, item, "must be an object");
        kith_gpu *gpu = find_gpu(r, item, kind);
        if (gpu == NULL)
            return refuse(r, item, "of the override is no GPU of the machine: neither its pci nor its index fits");
        status = ki_fields_read(r->t, r->name, ki_gpu_fields, item, gpu);
        if (status == KITH_OK && gpu->index < 0)
            status = refuse(r, item, "must have an index of 0 or more");
        if (status == KITH_OK)
            status = check_cpus(r, item, gpu->cpus);
        if (status == KITH_OK)
            status = read_numa(r, item, gpu);
    }
    return status;
}

static kith_status read_nics(json_reader *r, const ki_json *object, ki_kind *kind)
{
    const ki_json *array;
    kith_status status = find_array(r, object, "nics", &array);
    if (array != NULL && r->is_override && count_of(array) != kind->view.nic_count)
        return refuse(r, array, "of an override must list all NICs of the node, or be left out");
    int n = 0;
    for (const ki_json *item = array != NULL ? array->first : NULL; status == KITH_OK && item != NULL;
         item = item->next) {
        kith_nic *nic = r->is_override ? (kith_nic *)(uintptr_t)&kind->view.nics[n++] : ki_kind_add_nic(r->t, kind);
        status = ki_fields_read(r->t, r->name, ki_nic_fields, item, nic);
        if (status == KITH_OK && nic->name == NULL)
            nic->name = ki_topology_format(r->t, "NIC%d", nic->index);
    }
    return status;
}

/* ---- matrices ---- */

typedef bool (*cell_reader)(const ki_json *value, kith_link *link);

static bool read_name(const ki_json *value, kith_link *link)
{
    if (value->type != KI_JSON_STRING || !ki_link_parse(value->text, link))
        return false;
    if (link->certainty == KITH_UNKNOWN && link->type != KITH_LINK_UNKNOWN)
        link->certainty = KITH_KNOWN;
    return true;
}

static bool read_gbps(const ki_json *value, kith_link *link)
{
    if (value->type == KI_JSON_NULL)
        return true;
    if (value->type != KI_JSON_NUMBER || value->number < 0 || value->number > 1e9)
        return false;
    link->gbps = value->number;
    return true;
}

static bool read_generation(const ki_json *value, kith_link *link)
{
    if (value->type != KI_JSON_NUMBER || value->number < 0 || value->number > 99)
        return false;
    link->generation = (int)value->number;
    return true;
}

static bool read_certainty(const ki_json *value, kith_link *link)
{
    return value->type == KI_JSON_STRING && ki_certainty_parse(value->text, &link->certainty);
}

static kith_status read_matrix(const json_reader *r, const ki_json *object, const char *key, int rows, int columns,
                               kith_link *links, cell_reader read)
{
    const ki_json *matrix;
    kith_status status = find_array(r, object, key, &matrix);
    if (status != KITH_OK || matrix == NULL)
        return status;
    int i = 0;
    for (const ki_json *row = matrix->first; row != NULL; row = row->next, i++) {
        if (i >= rows || row->type != KI_JSON_ARRAY || count_of(row) != columns)
            return refuse(r, matrix, "must have a row for each GPU and a cell for each device");
        int j = 0;
        for (const ki_json *cell = row->first; cell != NULL; cell = cell->next, j++)
            if (!read(cell, &links[i * columns + j]))
                return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' has a cell %d,%d that cannot be read", r->name,
                                     cell->line, key, i, j);
    }
    return i == rows ? KITH_OK : refuse(r, matrix, "must have a row for each GPU and a cell for each device");
}

/* Both directions must agree, and the diagonal be X. */
static kith_status check_symmetry(const json_reader *r, const ki_json *object, const kith_node_kind *kind)
{
    for (int i = 0; i < kind->gpu_count; i++)
        for (int j = 0; j < kind->gpu_count; j++) {
            const kith_link *there = &kind->links[i * kind->gpu_count + j];
            const kith_link *back = &kind->links[j * kind->gpu_count + i];
            if (there->type != back->type || there->count != back->count || (there->type == KITH_LINK_SELF) != (i == j))
                return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                     "%s:%d: 'links' must be symmetric with X on the diagonal; cell %d,%d is not",
                                     r->name, object->line, i, j);
        }
    return KITH_OK;
}

static kith_status read_links(json_reader *r, const ki_json *object, ki_kind *kind)
{
    int n = kind->view.gpu_count, m = kind->view.nic_count;
    bool is_new = !r->is_override || kind->view.links == NULL;
    if (is_new)
        ki_kind_make_links(r->t, kind);
    if (r->t->status != KITH_OK)
        return r->t->status;
    kith_link *links = (kith_link *)(uintptr_t)kind->view.links;
    kith_link *nic_links = (kith_link *)(uintptr_t)kind->view.nic_links;
    for (int i = 0; r->is_override && ki_json_member(object, "links") != NULL && i < n * n; i++)
        links[i] = (kith_link){ .type = KITH_LINK_UNKNOWN };
    kith_status status = read_matrix(r, object, "links", n, n, links, read_name);
    if (status == KITH_OK)
        status = read_matrix(r, object, "link_gbps", n, n, links, read_gbps);
    if (status == KITH_OK)
        status = read_matrix(r, object, "link_generations", n, n, links, read_generation);
    if (status == KITH_OK)
        status = read_matrix(r, object, "link_certainties", n, n, links, read_certainty);
    if (status == KITH_OK)
        status = read_matrix(r, object, "nic_links", n, m, nic_links, read_name);
    if (status == KITH_OK)
        status = read_matrix(r, object, "nic_link_gbps", n, m, nic_links, read_gbps);
    if (status == KITH_OK)
        status = check_symmetry(r, object, &kind->view);
    for (int i = 0; i < n * n; i++)
        links[i].is_switched = links[i].type == KITH_LINK_NVLINK && kind->view.has_nvswitch;
    return status;
}

static kith_status read_kind(json_reader *r, const ki_json *object, ki_kind *kind)
{
    const char *name = kind->view.name, *format = kind->view.format;
    kith_status status = ki_fields_read(r->t, r->name, ki_kind_fields, object, &kind->view);
    if (kind->view.name == NULL || r->is_override)
        kind->view.name = name;
    if (kind->view.format == NULL || r->is_override)
        kind->view.format = format;
    if (status == KITH_OK)
        status = read_parts(r, object, kind);
    if (status == KITH_OK)
        status = read_gpus(r, object, kind);
    if (status == KITH_OK)
        status = read_nics(r, object, kind);
    if (status == KITH_OK)
        status = read_links(r, object, kind);
    return status;
}

/* ---- the cluster ---- */

static kith_status read_rails(json_reader *r, const ki_json *item, kith_node *node)
{
    const ki_json *rails;
    kith_status status = find_array(r, item, "rails", &rails);
    if (status != KITH_OK || rails == NULL)
        return status;
    int count = count_of(rails);
    int *leaves = (int *)ki_topology_alloc(r->t, (size_t)count + 1, sizeof *leaves);
    if (leaves == NULL || count > KI_MAX_NICS)
        return leaves == NULL ? r->t->status : refuse(r, rails, "has too many entries");
    int i = 0;
    for (const ki_json *rail = rails->first; rail != NULL; rail = rail->next, i++) {
        if (rail->type != KI_JSON_NUMBER || rail->number < -1 || rail->number > KI_MAX_NODES)
            return refuse(r, rails, "must hold numbers of switches");
        leaves[i] = (int)rail->number;
    }
    node->rails = leaves;
    node->rail_count = count;
    return KITH_OK;
}

/* References to what other files brought before are shifted by where this file's own parts begin. */
typedef struct bases {
    int kind, node, first_switch, domain;
} bases;

static kith_status read_nodes(json_reader *r, const ki_json *object, const bases *base)
{
    const ki_json *array;
    kith_status status = find_array(r, object, "nodes", &array);
    for (const ki_json *item = array != NULL ? array->first : NULL; status == KITH_OK && item != NULL;
         item = item->next) {
        kith_node *node = ki_topology_add_node(r->t, NULL, 0);
        status = ki_fields_read(r->t, r->name, ki_node_fields, item, node);
        if (status == KITH_OK && (node->name == NULL || node->kind < 0 || node->kind >= r->t->kind_count - base->kind))
            status = refuse(r, item, "must have a name and a kind that is there");
        if (status == KITH_OK)
            status = read_rails(r, item, node);
        node->kind += base->kind;
        node->leaf += node->leaf >= 0 ? base->first_switch : 0;
        node->domain += node->domain >= 0 ? base->domain : 0;
    }
    return status;
}

static kith_status read_switches(json_reader *r, const ki_json *object, const bases *base)
{
    const ki_json *array;
    kith_status status = find_array(r, object, "switches", &array);
    for (const ki_json *item = array != NULL ? array->first : NULL; status == KITH_OK && item != NULL;
         item = item->next) {
        int own = r->t->switch_count;
        kith_switch *added = ki_topology_add_switch(r->t, NULL, -1);
        status = ki_fields_read(r->t, r->name, ki_switch_fields, item, added);
        added->parent += added->parent >= 0 ? base->first_switch : 0;
        bool has_parent = added->parent >= 0 && added->parent < own;
        if (status == KITH_OK && (added->name == NULL || added->level < 0 || added->parent >= own ||
                                  (has_parent && r->t->switches[added->parent].level <= added->level)))
            status = refuse(r, item, "must have a name, a level, and a parent of a higher level that stands before it");
    }
    status = status == KITH_OK ? find_array(r, object, "domains", &array) : status;
    for (const ki_json *item = status == KITH_OK && array != NULL ? array->first : NULL;
         status == KITH_OK && item != NULL; item = item->next) {
        kith_domain *added = ki_topology_add_domain(r->t, NULL, false);
        status = ki_fields_read(r->t, r->name, ki_domain_fields, item, added);
        if (status == KITH_OK && added->name == NULL)
            status = refuse(r, item, "must have a name");
    }
    return status;
}

static kith_status read_doubts(json_reader *r, const ki_json *object, const char *key, const bases *base)
{
    const ki_json *array;
    kith_status status = find_array(r, object, key, &array);
    for (const ki_json *item = array != NULL ? array->first : NULL; status == KITH_OK && item != NULL;
         item = item->next) {
        kith_doubt doubt = { .kind = -1, .gpu = -1 };
        status = ki_fields_read(r->t, r->name, ki_doubt_fields, item, &doubt);
        if (status == KITH_OK && (doubt.code == NULL || doubt.text == NULL))
            status = refuse(r, item, "must have a code and a text");
        if (status == KITH_OK)
            ki_topology_doubt(r->t, doubt.kind >= 0 ? doubt.kind + base->kind : -1, doubt.gpu, doubt.file, doubt.line,
                              doubt.code, "%s", doubt.text);
    }
    return status;
}

/* References that only a whole look can check. */
static kith_status check_references(const json_reader *r, const bases *base)
{
    const kith_topology *t = r->t;
    bool is_fine = true;
    for (int n = base->node; n < t->node_count; n++) {
        const kith_node *node = &t->nodes[n];
        is_fine = is_fine && node->leaf < t->switch_count && node->domain < t->domain_count;
        for (int i = 0; node->rails != NULL && i < node->rail_count; i++)
            is_fine = is_fine && node->rails[i] < t->switch_count;
    }
    if (!is_fine)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: a node refers to a switch or domain that is not there",
                             r->name);
    for (int k = base->kind; k < t->kind_count; k++)
        if (ki_kind_check(&t->kinds[k]->view) != KITH_OK)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the parts do not fit together: %s", r->name,
                                 kith_error_detail());
    return KITH_OK;
}

static kith_status read_override(json_reader *r, const ki_json *root)
{
    kith_topology *t = r->t;
    if (t->kind_count == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: an override changes a machine that was read before; give the machine's file first",
                             r->name);
    ki_kind *kind = t->kinds[0];
    kind->is_finished = false;
    ki_topology_doubt(t, 0, -1, r->name, 0, "override", "values of %s replace those of %s", r->name, kind->view.name);
    return read_kind(r, root, kind);
}

static kith_status read_whole(json_reader *r, const ki_json *root)
{
    kith_topology *t = r->t;
    bases base = { t->kind_count, t->node_count, t->switch_count, t->domain_count };
    ki_kind *kind = ki_topology_add_kind(t, r->name, "kith");
    kith_status status = read_kind(r, root, kind);
    const ki_json *others = NULL;
    if (status == KITH_OK)
        status = find_array(r, root, "other_kinds", &others);
    for (const ki_json *other = others != NULL ? others->first : NULL; status == KITH_OK && other != NULL;
         other = other->next)
        status = read_kind(r, other, ki_topology_add_kind(t, r->name, "kith"));
    if (status == KITH_OK)
        status = read_switches(r, root, &base);
    if (status == KITH_OK)
        status = read_nodes(r, root, &base);
    if (status == KITH_OK)
        status = read_doubts(r, root, "doubts", &base);
    if (status == KITH_OK)
        status = read_doubts(r, root, "assumptions", &base);
    const ki_json *constants = ki_json_member(root, "replaced_constants");
    if (status == KITH_OK && constants != NULL)
        status = ki_constants_replace(t, r->name, constants);
    if (status == KITH_OK)
        status = t->status;
    if (status == KITH_OK)
        status = check_references(r, &base);
    /* What was printed had been derived and looked through; by hand, without bandwidths, it has not. */
    bool is_derived = ki_json_member(root, "link_gbps") != NULL && ki_json_member(root, "doubts") != NULL;
    for (int k = base.kind; status == KITH_OK && k < t->kind_count; k++) {
        t->kinds[k]->is_finished = is_derived;
        t->kinds[k]->is_linted = is_derived;
    }
    t->is_rails_checked = t->is_rails_checked || is_derived;
    return status;
}

static kith_status read_json(const ki_source *source, kith_topology *t)
{
    ki_json *root = NULL;
    kith_status status = ki_json_parse(NULL, source->name, source->text, source->nbytes, &root);
    if (status != KITH_OK)
        return status;
    json_reader r = { .t = t, .name = source->name };
    const ki_json *version = ki_json_member(root, "kith_topology");
    const ki_json *override = ki_json_member(root, "override");
    r.is_override = override != NULL && override->type == KI_JSON_BOOL && override->boolean;
    if (version == NULL || version->type != KI_JSON_NUMBER || version->number != 1)
        status =
            ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: 'kith_topology' must be 1, the version of the form", source->name);
    else
        status = r.is_override ? read_override(&r, root) : read_whole(&r, root);
    ki_json_free(NULL, root);
    return status;
}

const ki_reader ki_reader_json = { "kith", probe, read_json };
