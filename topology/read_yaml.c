/* topology/read_yaml.c - Slurm's topology.yaml and the cluster models of topograph.
 *
 * topology.yaml is a list of named topologies, each a tree, a block topology or flat; partitions choose among them.
 * Read is the one that is the cluster's default; a doubt names the others.
 *
 *     - topology: fabric
 *       cluster_default: true
 *       tree:
 *         switches:
 *           - {switch: spine, children: "leaf[1-2]"}
 *           - {switch: leaf1, nodes: "gpu[001-008]"}
 *
 * A topograph model has inner switches by name and blocks of nodes, each under a leaf switch; an annotation whose key
 * begins with "accelerator" and ends with "/domain" names the NVLink domain.
 *
 *     switches:
 *       spine: {switches: [leaf1, leaf2]}
 *     blocks:
 *       - {switch: leaf1, nodes: ["gpu[001-018]"], annotations: {accelerator.example/domain: nvl1}}
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "blocks.h"
#include "core/text.h"
#include "document.h"
#include "lines.h"
#include "switch_tree.h"
#include "yaml_tree.h"

#include <stdio.h>
#include <string.h>

typedef struct yaml_reader {
    const char *file;
    kith_topology *t;
    ki_node_book book;
    ki_switch_tree tree;
    ki_blocks blocks;
} yaml_reader;

static bool is_word(const ki_json *node)
{
    return node->text != NULL && strlen(node->text) == node->text_nbytes;
}

/* ---- Slurm ---- */

static kith_status read_tree_switch(yaml_reader *r, const ki_json *item)
{
    static const char *const valid[] = { "switch", "children", "nodes", NULL };
    const ki_json *name = NULL, *children = NULL, *nodes = NULL;
    int number = -1;
    kith_status status = ki_yaml_check_keys(r->file, item, valid);
    if (status == KITH_OK)
        status = ki_yaml_word(r->file, item, "switch", &name);
    if (status == KITH_OK && ki_json_member(item, "children") != NULL)
        status = ki_yaml_word(r->file, item, "children", &children);
    if (status == KITH_OK && ki_json_member(item, "nodes") != NULL)
        status = ki_yaml_word(r->file, item, "nodes", &nodes);
    if (status == KITH_OK)
        status = ki_switch_tree_declare(&r->tree, name->text, name->text_nbytes, name->line, &number);
    if (status == KITH_OK && children != NULL)
        status = ki_switch_tree_add_children(&r->tree, number, children->text, children->text_nbytes, children->line);
    if (status == KITH_OK && nodes != NULL)
        status = ki_switch_tree_add_nodes(&r->tree, number, nodes->text, nodes->text_nbytes, nodes->line);
    return status;
}

static kith_status read_tree(yaml_reader *r, const ki_json *tree)
{
    static const char *const valid[] = { "switches", NULL };
    const ki_json *switches = NULL;
    kith_status status = ki_yaml_check_keys(r->file, tree, valid);
    if (status == KITH_OK)
        status = ki_yaml_need(r->file, tree, "switches", KI_JSON_ARRAY, &switches);
    for (const ki_json *item = status == KITH_OK ? switches->first : NULL; status == KITH_OK && item != NULL;
         item = item->next)
        status = read_tree_switch(r, item);
    return status == KITH_OK ? ki_switch_tree_build(&r->tree) : status;
}

static kith_status read_block(yaml_reader *r, const ki_json *item)
{
    static const char *const valid[] = { "block", "nodes", NULL };
    const ki_json *name = NULL, *nodes = NULL;
    int domain = -1;
    kith_status status = ki_yaml_check_keys(r->file, item, valid);
    if (status == KITH_OK)
        status = ki_yaml_word(r->file, item, "block", &name);
    if (status == KITH_OK)
        status = ki_yaml_word(r->file, item, "nodes", &nodes);
    if (status == KITH_OK)
        status = ki_blocks_declare(&r->blocks, name->text, name->text_nbytes, name->line, &domain);
    return status == KITH_OK ? ki_blocks_add_nodes(&r->blocks, domain, nodes->text, nodes->text_nbytes, nodes->line)
                             : status;
}

static kith_status read_block_sizes(const yaml_reader *r, const ki_json *sizes, int *base_count)
{
    for (const ki_json *size = sizes != NULL ? sizes->first : NULL; size != NULL; size = size->next) {
        if (size->type != KI_JSON_NUMBER || !(size->number >= 1 && size->number <= KI_MAX_NODES) ||
            size->number != (int)size->number)
            return ki_yaml_refuse(r->file, size, "block_sizes must be whole numbers from 1 to %d", KI_MAX_NODES);
        if (*base_count == 0 || size->number < *base_count)
            *base_count = (int)size->number;
    }
    return KITH_OK;
}

static kith_status read_blocks(yaml_reader *r, const ki_json *block)
{
    static const char *const valid[] = { "block_sizes", "blocks", NULL };
    const ki_json *sizes = NULL, *blocks = NULL;
    int base_count = 0;
    kith_status status = ki_yaml_check_keys(r->file, block, valid);
    if (status == KITH_OK)
        status = ki_yaml_member(r->file, block, "block_sizes", KI_JSON_ARRAY, &sizes);
    if (status == KITH_OK)
        status = read_block_sizes(r, sizes, &base_count);
    if (status == KITH_OK)
        status = ki_yaml_need(r->file, block, "blocks", KI_JSON_ARRAY, &blocks);
    for (const ki_json *item = status == KITH_OK ? blocks->first : NULL; status == KITH_OK && item != NULL;
         item = item->next)
        status = read_block(r, item);
    if (status == KITH_OK)
        ki_blocks_finish(&r->blocks, base_count);
    return status;
}

/* One of the list of topologies. */
static kith_status read_topology(yaml_reader *r, const ki_json *item)
{
    static const char *const valid[] = { "topology", "cluster_default", "tree", "block", "flat", NULL };
    const ki_json *tree = NULL, *block = NULL, *flat = NULL;
    kith_status status = ki_yaml_check_keys(r->file, item, valid);
    if (status == KITH_OK)
        status = ki_yaml_member(r->file, item, "tree", KI_JSON_OBJECT, &tree);
    if (status == KITH_OK)
        status = ki_yaml_member(r->file, item, "block", KI_JSON_OBJECT, &block);
    if (status == KITH_OK)
        status = ki_yaml_member(r->file, item, "flat", KI_JSON_BOOL, &flat);
    if (status != KITH_OK)
        return status;
    bool is_flat = flat != NULL && flat->boolean;
    if ((tree != NULL) + (block != NULL) + is_flat != 1)
        return ki_yaml_refuse(r->file, item, "a topology must be one of: tree, block, flat: true");
    if (tree != NULL)
        return read_tree(r, tree);
    if (block != NULL)
        return read_blocks(r, block);
    ki_topology_doubt(r->t, -1, -1, r->file, item->line, "flat-topology",
                      "the topology is flat: it names no nodes, and all switches are taken as alike");
    return KITH_OK;
}

/* The default one, else the first. */
static kith_status choose(yaml_reader *r, const ki_json *root, const ki_json **chosen)
{
    for (const ki_json *item = root->first; item != NULL; item = item->next) {
        const ki_json *name = NULL, *is_default = NULL;
        kith_status status = ki_yaml_word(r->file, item, "topology", &name);
        if (status == KITH_OK)
            status = ki_yaml_member(r->file, item, "cluster_default", KI_JSON_BOOL, &is_default);
        if (status != KITH_OK)
            return status;
        if (is_default == NULL || !is_default->boolean)
            continue;
        if (*chosen != NULL)
            return ki_yaml_refuse(r->file, item, "topology %s is cluster_default, and so is the one in line %d",
                                  name->text, (*chosen)->line);
        *chosen = item;
    }
    return KITH_OK;
}

static void tell_others(yaml_reader *r, const ki_json *root, const ki_json *chosen, bool is_default)
{
    ki_text others = { 0 };
    int count = 0;
    for (const ki_json *item = root->first; item != NULL; item = item->next)
        if (item != chosen && ++count <= 8)
            ki_text_add(&others, "%s%.60s", count > 1 ? ", " : "", ki_json_member(item, "topology")->text);
    if (count > 0)
        ki_topology_doubt(r->t, -1, -1, r->file, chosen->line, "other-topologies",
                          "topology %s is used%s; the file has %d more: %s%s", ki_json_member(chosen, "topology")->text,
                          is_default ? "" : " (none is cluster_default, it is the first)", count,
                          ki_text_chars(&others), count > 8 ? ", ..." : "");
    ki_text_fini(&others);
}

static kith_status read_slurm(yaml_reader *r, const ki_json *root)
{
    const ki_json *chosen = NULL;
    if (root->first == NULL)
        return ki_yaml_refuse(r->file, root, "the list of topologies is empty");
    kith_status status = choose(r, root, &chosen);
    bool is_default = chosen != NULL;
    if (!is_default)
        chosen = root->first;
    if (status == KITH_OK)
        status = read_topology(r, chosen);
    if (status == KITH_OK)
        tell_others(r, root, chosen, is_default);
    return status;
}

/* ---- topograph ---- */

/* A list of words, or one word: each a host list. */
static kith_status each_list(yaml_reader *r, const ki_json *lists,
                             kith_status (*add)(yaml_reader *r, int number, const ki_json *list), int number)
{
    const ki_json *list = lists->type == KI_JSON_ARRAY ? lists->first : lists;
    kith_status status = KITH_OK;
    while (status == KITH_OK && list != NULL) {
        if (!is_word(list))
            return ki_yaml_refuse(r->file, list, "'%s' must be names or a list of names", lists->key);
        status = add(r, number, list);
        list = list != lists ? list->next : NULL;
    }
    return status;
}

static kith_status add_children(yaml_reader *r, int number, const ki_json *list)
{
    return ki_switch_tree_add_children(&r->tree, number, list->text, list->text_nbytes, list->line);
}

static kith_status add_nodes(yaml_reader *r, int number, const ki_json *list)
{
    return ki_switch_tree_add_nodes(&r->tree, number, list->text, list->text_nbytes, list->line);
}

static kith_status add_to_domain(yaml_reader *r, int domain, const ki_json *list)
{
    return ki_blocks_add_nodes(&r->blocks, domain, list->text, list->text_nbytes, list->line);
}

static kith_status read_model_switch(yaml_reader *r, const ki_json *item)
{
    const ki_json *children = NULL;
    int number = -1;
    kith_status status = ki_yaml_find(r->file, item, "switches", &children);
    if (status == KITH_OK && children == NULL)
        return ki_yaml_refuse(r->file, item, "switch %.60s has no 'switches'", item->key);
    if (status == KITH_OK)
        status = ki_switch_tree_declare(&r->tree, item->key, strlen(item->key), item->line, &number);
    return status == KITH_OK ? each_list(r, children, add_children, number) : status;
}

/* The NVLink domain among the annotations; *domain stays NULL when there is none. */
static kith_status find_domain(yaml_reader *r, const ki_json *annotations, const ki_json **domain, bool *has_parts)
{
    for (const ki_json *a = annotations != NULL ? annotations->first : NULL; a != NULL; a = a->next) {
        const char *slash = strncmp(a->key, "accelerator", 11) == 0 ? strrchr(a->key, '/') : NULL;
        if (slash != NULL && strcmp(slash, "/sub-domain") == 0)
            *has_parts = true;
        if (slash == NULL || strcmp(slash, "/domain") != 0)
            continue;
        if (*domain != NULL)
            return ki_yaml_refuse(r->file, a, "a second annotation names an NVLink domain, '%.60s'", a->key);
        if (!is_word(a))
            return ki_yaml_refuse(r->file, a, "'%.60s' must be a name", a->key);
        *domain = a;
    }
    return KITH_OK;
}

static kith_status read_model_block(yaml_reader *r, const ki_json *item, bool *has_parts)
{
    const ki_json *leaf = NULL, *nodes = NULL, *annotations = NULL, *domain = NULL;
    int number = -1, index = -1;
    kith_status status = ki_yaml_word(r->file, item, "switch", &leaf);
    if (status == KITH_OK)
        status = ki_yaml_find(r->file, item, "nodes", &nodes);
    if (status == KITH_OK && nodes == NULL)
        return ki_yaml_refuse(r->file, item, "a block has no 'nodes'");
    if (status == KITH_OK)
        status = ki_yaml_member(r->file, item, "annotations", KI_JSON_OBJECT, &annotations);
    if (status == KITH_OK)
        status = find_domain(r, annotations, &domain, has_parts);
    if (status == KITH_OK && (number = ki_name_map_get(&r->tree.names, leaf->text, leaf->text_nbytes)) < 0)
        status = ki_switch_tree_declare(&r->tree, leaf->text, leaf->text_nbytes, leaf->line, &number);
    if (status == KITH_OK)
        status = each_list(r, nodes, add_nodes, number);
    if (status == KITH_OK && domain != NULL)
        status = ki_blocks_find_nvlink(&r->blocks, domain->text, domain->text_nbytes, domain->line, &index);
    return status == KITH_OK && domain != NULL ? each_list(r, nodes, add_to_domain, index) : status;
}

static kith_status read_model(yaml_reader *r, const ki_json *root)
{
    const ki_json *switches = NULL, *blocks = NULL;
    bool has_parts = false;
    kith_status status = ki_yaml_member(r->file, root, "switches", KI_JSON_OBJECT, &switches);
    if (status == KITH_OK)
        status = ki_yaml_need(r->file, root, "blocks", KI_JSON_ARRAY, &blocks);
    for (const ki_json *item = switches != NULL ? switches->first : NULL; status == KITH_OK && item != NULL;
         item = item->next)
        status = read_model_switch(r, item);
    for (const ki_json *item = status == KITH_OK ? blocks->first : NULL; status == KITH_OK && item != NULL;
         item = item->next)
        status = read_model_block(r, item, &has_parts);
    if (status == KITH_OK)
        status = ki_switch_tree_build(&r->tree);
    if (status == KITH_OK && has_parts)
        ki_topology_doubt(r->t, -1, -1, r->file, blocks->line, "sub-domain",
                          "the NVLink domains have sub-domains; the whole domain is taken as joined by NVLink");
    return status;
}

/* ---- the reader ---- */

static kith_status read_root(yaml_reader *r, const ki_json *root)
{
    if (root->type == KI_JSON_ARRAY)
        return read_slurm(r, root);
    if (root->type == KI_JSON_OBJECT)
        return read_model(r, root);
    return ki_yaml_refuse(r->file, root, "expected a list of topologies, or 'switches' and 'blocks'");
}

static kith_status read_yaml(const ki_source *source, kith_topology *t)
{
    yaml_reader r = { .file = source->name, .t = t };
    ki_json *root = NULL;
    kith_status status = ki_yaml_parse(source->name, source->text, source->nbytes, &root);
    if (status != KITH_OK)
        return status;
    status = ki_node_book_open(&r.book, t);
    ki_switch_tree_open(&r.tree, t, r.file, &r.book);
    ki_blocks_open(&r.blocks, t, r.file, &r.book);
    if (status == KITH_OK)
        status = read_root(&r, root);
    ki_blocks_close(&r.blocks);
    ki_switch_tree_close(&r.tree);
    ki_node_book_close(&r.book);
    ki_yaml_free(root);
    return status;
}

static bool begins(const char *text, size_t length, const char *word)
{
    return length >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* The first line that is neither a comment nor a marker of the document decides. */
static int probe(const ki_source *source)
{
    ki_source beginning = { source->name, source->text, source->nbytes < 65536 ? source->nbytes : 65536 };
    for (ki_lines lines = ki_lines_of(&beginning); ki_lines_next(&lines);) {
        const char *line = lines.line;
        size_t length = lines.length;
        ki_trim(&line, &length);
        if (length == 0 || line[0] == '#' || begins(line, length, "---") || begins(line, length, "%YAML"))
            continue;
        if (begins(line, length, "- topology:") || begins(line, length, "- cluster_default:"))
            return 90;
        return line == lines.line && (begins(line, length, "switches:") || begins(line, length, "blocks:")) ? 80 : 0;
    }
    return 0;
}

const ki_reader ki_reader_yaml = { "YAML", probe, read_yaml };
