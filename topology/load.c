/* topology/load.c - from paths to one topology: reads each file with the reader that knows it, then joins the parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/file.h"
#include "reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_NBYTES = 64 * 1024 * 1024 };

static const ki_reader *const readers[] = {
    &ki_reader_json,  &ki_reader_hwloc, &ki_reader_nccl,   &ki_reader_matrix,    &ki_reader_ibnet,
    &ki_reader_slurm, &ki_reader_yaml,  &ki_reader_fabric, &ki_reader_synthetic,
};
enum { READER_COUNT = sizeof readers / sizeof readers[0] };

bool ki_source_has(const ki_source *source, const char *word, size_t limit)
{
    size_t nbytes = source->nbytes < limit ? source->nbytes : limit;
    return memmem(source->text, nbytes, word, strlen(word)) != NULL;
}

static const ki_reader *find_reader(const ki_source *source)
{
    const ki_reader *best = NULL;
    int most = 0;
    for (size_t i = 0; i < READER_COUNT; i++) {
        int score = readers[i]->probe(source);
        if (score > most) {
            most = score;
            best = readers[i];
        }
    }
    return best;
}

/* What one file adds is a part: the ranges of what came from it. */
static ki_part *part_begin(kith_topology *t, const char *name, const char *format)
{
    if (t->part_count == t->part_room) {
        int room = t->part_room == 0 ? 8 : 2 * t->part_room;
        ki_part *parts = (ki_part *)ki_topology_alloc(t, (size_t)room, sizeof *parts);
        if (parts == NULL)
            return NULL;
        if (t->part_count > 0)
            memcpy(parts, t->parts, (size_t)t->part_count * sizeof *parts);
        t->parts = parts;
        t->part_room = room;
    }
    ki_part *part = &t->parts[t->part_count++];
    *part = (ki_part){ .name = ki_topology_dup(t, name),
                       .format = ki_topology_dup(t, format),
                       .kind_from = t->kind_count,
                       .node_from = t->node_count,
                       .switch_from = t->switch_count,
                       .domain_from = t->domain_count };
    return part;
}

static kith_status part_end(kith_topology *t, kith_status status)
{
    ki_part *part = &t->parts[t->part_count - 1];
    part->kind_to = t->kind_count;
    part->node_to = t->node_count;
    part->switch_to = t->switch_count;
    part->domain_to = t->domain_count;
    return status != KITH_OK ? status : t->status;
}

static kith_status read_source(kith_topology *t, const ki_source *source)
{
    const ki_reader *reader = find_reader(source);
    if (reader == NULL)
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                             "%s: not recognized; known are hwloc XML, nvidia-smi topo -m, NCCL topology XML, Slurm "
                             "topology.conf and topology.yaml, ibnetdiscover, topograph models, Kith's own JSON, and "
                             "descriptions like \"4 nodes of 8 H100 on NVSwitch, 8 NICs\"",
                             source->name);
    if (part_begin(t, source->name, reader->format) == NULL)
        return t->status;
    return part_end(t, reader->read(source, t));
}

static kith_status read_live(kith_topology *t)
{
    if (part_begin(t, "live", "live") == NULL)
        return t->status;
    return part_end(t, ki_detect_live(t));
}

/* ---- files ---- */

/* A path that is no file may be a description in words. */
static bool is_description(const char *path, ki_source *source)
{
    struct stat info;
    *source = (ki_source){ "synthetic machine", path, strlen(path) };
    return stat(path, &info) != 0 && ki_reader_synthetic.probe(source) > 0;
}

static kith_status load_one(kith_topology *t, const char *path)
{
    ki_source source;
    if (path == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: a path is NULL");
    if (strcmp(path, "live") == 0)
        return read_live(t);
    if (is_description(path, &source))
        return read_source(t, &source);
    char *text = NULL;
    size_t nbytes = 0;
    kith_status status = ki_file_read(path, MOST_NBYTES, &text, &nbytes);
    if (status != KITH_OK)
        return status;
    source = (ki_source){ path, text, nbytes };
    status = read_source(t, &source);
    free(text);
    return status;
}

/* ---- doors ---- */

static kith_status finish(kith_topology *t, kith_status status, kith_topology **topology)
{
    if (status == KITH_OK)
        status = ki_topology_status(t);
    if (status == KITH_OK)
        status = ki_topology_join(t);
    if (status == KITH_OK)
        status = ki_topology_finish(t);
    if (status != KITH_OK) {
        kith_topology_destroy(t);
        return status;
    }
    *topology = t;
    return KITH_OK;
}

static kith_status begin(const kith_topology_options *options, kith_topology **t)
{
    if (options != NULL && options->struct_size < sizeof(size_t))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "topology: options have struct_size 0; start from KITH_TOPOLOGY_OPTIONS_INIT");
    kith_status status = ki_topology_create(options, t);
    if (status != KITH_OK)
        return status;
    status = ki_gpu_model_check((*t)->options.gpu);
    if (status == KITH_OK && (*t)->options.node_count < 0)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: node_count is %d; valid: 0 or more",
                               (*t)->options.node_count);
    if (status != KITH_OK)
        kith_topology_destroy(*t);
    return status;
}

kith_status kith_topology_load(const char *const *paths, size_t path_count, const kith_topology_options *options,
                               kith_topology **topology)
{
    kith_topology *t = NULL;
    if (paths == NULL || path_count == 0 || topology == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: nothing to read");
    kith_status status = begin(options, &t);
    if (status != KITH_OK)
        return status;
    for (size_t i = 0; status == KITH_OK && i < path_count; i++)
        status = load_one(t, paths[i]);
    return finish(t, status, topology);
}

kith_status ki_topology_read_sources(const ki_source *sources, size_t count, const kith_topology_options *options,
                                     kith_topology **topology)
{
    kith_topology *t = NULL;
    kith_status status = begin(options, &t);
    if (status != KITH_OK)
        return status;
    for (size_t i = 0; status == KITH_OK && i < count; i++) {
        ki_source source = sources[i];
        char *copy = source.nbytes <= MOST_NBYTES ? (char *)malloc(source.nbytes + 1) : NULL; /* ends with NUL */
        if (copy == NULL) {
            status = ki_fail_quiet(source.nbytes <= MOST_NBYTES ? KITH_ERR_NO_MEMORY : KITH_ERR_INVALID_ARG,
                                   "%s: a text of %zu bytes is too long", source.name, source.nbytes);
            break;
        }
        memcpy(copy, source.text, source.nbytes);
        copy[source.nbytes] = '\0';
        source.text = copy;
        status = read_source(t, &source);
        free(copy);
    }
    return finish(t, status, topology);
}

kith_status kith_topology_parse(const char *name, const char *text, size_t nbytes, const kith_topology_options *options,
                                kith_topology **topology)
{
    const ki_source source = { name != NULL ? name : "text", text, nbytes };
    if (text == NULL || topology == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: the text is NULL");
    return ki_topology_read_sources(&source, 1, options, topology);
}

kith_status kith_topology_detect(const kith_topology_options *options, kith_topology **topology)
{
    static const char *const live[] = { "live" };
    return kith_topology_load(live, 1, options, topology);
}
