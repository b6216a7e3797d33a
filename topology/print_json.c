/* topology/print_json.c - a machine as JSON. read_json.c reads it back; docs/topology.md lists the keys.
 *
 * The first kind of node stands at the top level, so that the report of one node is flat: "gpus", "links" and so on.
 * Further kinds stand in "other_kinds" with the same keys.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fields.h"
#include "print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "key": [ {..}, {..} ] */
static void print_objects(ki_text *out, const char *key, const ki_field *fields, const void *array, int count,
                          size_t nbytes)
{
    ki_text_add(out, ",\n\"%s\": [", key);
    for (int i = 0; i < count; i++) {
        ki_text_add(out, i == 0 ? "\n  {" : ",\n  {");
        ki_fields_print(out, fields, (const char *)array + (size_t)i * nbytes);
        ki_text_add(out, "}");
    }
    ki_text_add(out, count > 0 ? "\n]" : "]");
}

/* The number where there is one, the source's words where there are several. */
static void print_numa(ki_text *out, const kith_gpu *gpu)
{
    ki_text_add(out, ", \"numa\": ");
    if (gpu->numa_count == 1)
        ki_text_add(out, "%d", gpu->numas[0]);
    else
        ki_text_add_json(out, gpu->numa_count > 0 ? gpu->numa_text : NULL);
    ki_text_add(out, ", \"numa_nodes\": [");
    for (int i = 0; i < gpu->numa_count; i++)
        ki_text_add(out, i == 0 ? "%d" : ", %d", gpu->numas[i]);
    ki_text_add(out, "]");
}

static void print_nearest_nics(ki_text *out, const kith_node_kind *kind, int g)
{
    int nics[KI_MAX_NICS];
    kith_link_type type;
    int count = kith_nearest_nics(kind, g, nics, KI_MAX_NICS, &type);
    ki_text_add(out, ", \"nics\": [");
    for (int i = 0; i < count; i++) {
        ki_text_add(out, i == 0 ? "" : ", ");
        ki_text_add_json(out, kind->nics[nics[i]].name);
    }
    ki_text_add(out, "], \"nic_class\": ");
    ki_text_add_json(out, count > 0 ? kith_link_type_name(type) : NULL);
}

static void print_gpus(ki_text *out, const kith_node_kind *kind)
{
    ki_text_add(out, ",\n\"gpus\": [");
    for (int g = 0; g < kind->gpu_count; g++) {
        ki_text_add(out, g == 0 ? "\n  {" : ",\n  {");
        ki_fields_print(out, ki_gpu_fields, &kind->gpus[g]);
        print_numa(out, &kind->gpus[g]);
        print_nearest_nics(out, kind, g);
        ki_text_add(out, "}");
    }
    ki_text_add(out, kind->gpu_count > 0 ? "\n]" : "]");
}

typedef void (*cell_printer)(ki_text *out, const kith_link *link);

static void print_name(ki_text *out, const kith_link *link)
{
    char name[24];
    ki_text_add(out, "\"%s\"", kith_link_name(link, name, sizeof name));
}

static void print_gbps(ki_text *out, const kith_link *link)
{
    ki_print_number(out, link->gbps > 0 ? link->gbps : (double)NAN);
}

static void print_generation(ki_text *out, const kith_link *link)
{
    ki_text_add(out, "%d", link->generation);
}

static void print_certainty(ki_text *out, const kith_link *link)
{
    ki_text_add(out, "\"%s\"", ki_certainty_name(link->certainty));
}

static void print_matrix(ki_text *out, const char *key, const kith_link *links, int rows, int columns,
                         cell_printer print)
{
    ki_text_add(out, ",\n\"%s\": [", key);
    for (int i = 0; i < rows; i++) {
        ki_text_add(out, i == 0 ? "\n  [" : ",\n  [");
        for (int j = 0; j < columns; j++) {
            ki_text_add(out, j == 0 ? "" : ", ");
            print(out, &links[i * columns + j]);
        }
        ki_text_add(out, "]");
    }
    ki_text_add(out, rows > 0 ? "\n]" : "]");
}

static void print_islands(ki_text *out, const kith_node_kind *kind)
{
    int island[KI_MAX_GPUS];
    int count = kith_nvlink_islands(kind, island);
    ki_text_add(out, ",\n\"nvlink_islands\": %s", count < 0 ? "null" : "[");
    for (int i = 0; i < count; i++) {
        const char *comma = "";
        ki_text_add(out, i == 0 ? "[" : ", [");
        for (int g = 0; g < kind->gpu_count; g++)
            if (island[g] == i) {
                ki_text_add(out, "%s%d", comma, kind->gpus[g].index);
                comma = ", ";
            }
        ki_text_add(out, "]");
    }
    ki_text_add(out, count < 0 ? "" : "]");
}

static void print_kind(ki_text *out, const kith_node_kind *kind)
{
    ki_fields_print(out, ki_kind_fields, kind);
    print_objects(out, "packages", ki_package_fields, kind->packages, kind->package_count, sizeof *kind->packages);
    print_objects(out, "numa_nodes", ki_numa_fields, kind->numas, kind->numa_count, sizeof *kind->numas);
    print_objects(out, "caches", ki_cache_fields, kind->caches, kind->cache_count, sizeof *kind->caches);
    print_objects(out, "pci_switches", ki_pci_switch_fields, kind->switches, kind->switch_count,
                  sizeof *kind->switches);
    print_gpus(out, kind);
    print_objects(out, "nics", ki_nic_fields, kind->nics, kind->nic_count, sizeof *kind->nics);
    print_matrix(out, "links", kind->links, kind->gpu_count, kind->gpu_count, print_name);
    print_matrix(out, "link_gbps", kind->links, kind->gpu_count, kind->gpu_count, print_gbps);
    print_matrix(out, "link_generations", kind->links, kind->gpu_count, kind->gpu_count, print_generation);
    print_matrix(out, "link_certainties", kind->links, kind->gpu_count, kind->gpu_count, print_certainty);
    print_matrix(out, "nic_links", kind->nic_links, kind->gpu_count, kind->nic_count, print_name);
    print_matrix(out, "nic_link_gbps", kind->nic_links, kind->gpu_count, kind->nic_count, print_gbps);
    print_islands(out, kind);
}

static void print_nodes(ki_text *out, const kith_topology *t)
{
    ki_text_add(out, ",\n\"nodes\": [");
    for (int n = 0; n < t->node_count; n++) {
        const kith_node *node = &t->nodes[n];
        ki_text_add(out, n == 0 ? "\n  {" : ",\n  {");
        ki_fields_print(out, ki_node_fields, node);
        for (int i = 0; node->rails != NULL && i < node->rail_count; i++)
            ki_text_add(out, "%s%d", i == 0 ? ", \"rails\": [" : ", ", node->rails[i]);
        ki_text_add(out, node->rails != NULL && node->rail_count > 0 ? "]}" : "}");
    }
    ki_text_add(out, "\n]");
}

static void print_constants(ki_text *out, const kith_topology *t)
{
    const char *comma = "";
    ki_text_add(out, ",\n\"replaced_constants\": {");
    for (int i = 0; i < t->constant_count; i++) {
        const kith_constant *c = &t->constants[i];
        if (!c->is_replaced)
            continue;
        ki_text_add(out, "%s\"%s\": {\"raw_gbps\": ", comma, c->key);
        ki_print_number(out, c->raw_gbps);
        ki_text_add(out, ", \"effective_gbps\": ");
        ki_print_number(out, c->effective_gbps);
        ki_text_add(out, ", \"latency_us\": ");
        ki_print_number(out, c->latency_us);
        ki_text_add(out, ", \"source\": ");
        ki_text_add_json(out, c->source);
        ki_text_add(out, "}");
        comma = ", ";
    }
    ki_text_add(out, "}");
}

static void print_doubts(ki_text *out, const kith_topology *t, const char *key, bool is_assumption)
{
    const char *comma = "";
    ki_text_add(out, ",\n\"%s\": [", key);
    for (int i = 0; i < t->doubt_count; i++) {
        if (t->doubts[i].is_assumption != is_assumption)
            continue;
        ki_text_add(out, "%s\n  {", comma);
        ki_fields_print(out, ki_doubt_fields, &t->doubts[i]);
        ki_text_add(out, "}");
        comma = ",";
    }
    ki_text_add(out, "]");
}

void ki_print_topology_members(ki_text *out, const kith_topology *t)
{
    ki_text_add(out, "\"kith_topology\": 1,\n");
    print_kind(out, &t->kinds[0]->view);
    ki_text_add(out, ",\n\"other_kinds\": [");
    for (int k = 1; k < t->kind_count; k++) {
        ki_text_add(out, k == 1 ? "\n{" : ",\n{");
        print_kind(out, &t->kinds[k]->view);
        ki_text_add(out, "}");
    }
    ki_text_add(out, "]");
    print_nodes(out, t);
    print_objects(out, "switches", ki_switch_fields, t->switches, t->switch_count, sizeof *t->switches);
    print_objects(out, "domains", ki_domain_fields, t->domains, t->domain_count, sizeof *t->domains);
    print_constants(out, t);
    print_doubts(out, t, "doubts", false);
    print_doubts(out, t, "assumptions", true);
}
