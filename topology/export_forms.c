/* topology/export_forms.c - a placement in the form of other tools.
 *
 * What the machine's description does not tell is left out, with a comment where the form allows one: a guessed CPU or
 * NIC would be bound without a complaint. CPUs come from the GPU, never from the rank: on many machines GPU i is not on
 * NUMA node i.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "export.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "place.h"
#include "print.h"

#include <string.h>

typedef struct writer {
    const kith_topology *t;
    const kith_placement *p;
    ki_text *out;
} writer;

static kith_status check_hosts(const writer *w)
{
    ki_seat seat;
    for (int r = 0; r < kith_placement_rank_count(w->p); r++) {
        if (!ki_export_seat(w->t, w->p, r, &seat))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "export: rank %d is on GPU %d, which this topology does not have", r,
                                 kith_placement_gpu(w->p, r));
        if (!ki_export_is_plain(seat.node->name))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "export: the node name '%.64s' has characters that a list of hosts cannot hold; valid "
                                 "are letters, digits, '.', '_' and '-'",
                                 seat.node->name != NULL ? seat.node->name : "");
    }
    return KITH_OK;
}

/* ---- lists of hosts ---- */

/* Open MPI reads a line without CPUs as an error, and "*" as CPU 0; so unknown CPUs cannot be written. */
static kith_status write_rankfile(const writer *w)
{
    ki_text_add(w->out, "# CPUs are the operating system's numbers: mpirun --mca rmaps_rank_file_physical 1 --rankfile "
                        "FILE\n");
    for (int r = 0; r < kith_placement_rank_count(w->p); r++) {
        ki_seat seat;
        ki_text cpus = { 0 };
        ki_export_seat(w->t, w->p, r, &seat);
        if (!ki_export_cpus(&seat, &cpus))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "export: a rankfile needs the CPUs near every GPU, and those of GPU %d of %s are not "
                                 "known; valid: the forms hostfile, slurm, environment, megatron, kith",
                                 seat.kind->gpus[seat.gpu].index, seat.node->name);
        ki_text_add(w->out, "rank %d=%s slot=%s\n", r, seat.node->name, ki_text_chars(&cpus));
        ki_text_fini(&cpus);
    }
    return KITH_OK;
}

/* Hosts in the order of their first rank. mpirun fills one after another, so the list can only say so much. */
static kith_status write_hostfile(const writer *w)
{
    int nodes = kith_topology_node_count(w->t), count = 0, last = -1;
    bool is_whole = true;
    int *slots = (int *)ki_calloc(NULL, 2 * (size_t)nodes, sizeof *slots);
    if (slots == NULL)
        return KITH_ERR_NO_MEMORY;
    int *hosts = slots + nodes;
    for (int r = 0, node, gpu; r < kith_placement_rank_count(w->p); r++) {
        if (!kith_topology_locate(w->t, kith_placement_gpu(w->p, r), &node, &gpu))
            continue;
        if (slots[node]++ == 0)
            hosts[count++] = node;
        else
            is_whole = is_whole && node == last;
        last = node;
    }
    if (!is_whole)
        ki_text_add(w->out, "# ranks of one host do not follow each other: use a rankfile or SLURM_HOSTFILE\n");
    for (int i = 0; i < count; i++)
        ki_text_add(w->out, "%s slots=%d\n", kith_topology_node(w->t, hosts[i])->name, slots[hosts[i]]);
    ki_free(NULL, slots);
    return KITH_OK;
}

static kith_status write_slurm(const writer *w)
{
    for (int r = 0; r < kith_placement_rank_count(w->p); r++) {
        ki_seat seat;
        if (ki_export_seat(w->t, w->p, r, &seat))
            ki_text_add(w->out, "%s\n", seat.node->name);
    }
    return KITH_OK;
}

/* ---- environment ---- */

typedef struct variables {
    ki_text *out;
    int count;
    bool has_gpu, has_nic;
} variables;

static void note_variable(variables *v, const char *name)
{
    v->has_gpu = v->has_gpu || strstr(name, "DEVICES") == name + strlen(name) - 7 || strstr(name, "MASK") != NULL;
    v->has_nic = v->has_nic || strcmp(name, "NCCL_IB_HCA") == 0;
    v->count++;
}

static void add_to_line(void *arg, const char *name, const char *value)
{
    variables *v = (variables *)arg;
    note_variable(v, name);
    ki_text_add(v->out, " %s=%s", name, value);
}

static void add_to_object(void *arg, const char *name, const char *value)
{
    variables *v = (variables *)arg;
    ki_text_add(v->out, "%s", v->count > 0 ? ", " : "");
    ki_text_add_json(v->out, name);
    ki_text_add(v->out, ": ");
    ki_text_add_json(v->out, value);
    note_variable(v, name);
}

static kith_status write_environment(const writer *w)
{
    for (int r = 0; r < kith_placement_rank_count(w->p); r++) {
        ki_seat seat;
        ki_text line = { 0 };
        variables v = { .out = &line };
        ki_export_seat(w->t, w->p, r, &seat);
        ki_export_environment(&seat, add_to_line, &v);
        if (!v.has_gpu)
            ki_text_add(w->out, "# rank %d: whose GPU this is, is not known, so the name of its variable is not\n", r);
        if (!v.has_nic)
            ki_text_add(w->out, "# rank %d: no InfiniBand or RoCE device is known near its GPU\n", r);
        ki_text_add(w->out, "rank=%d host=%s%s\n", r, seat.node->name, ki_text_chars(&line));
        w->out->is_failed = w->out->is_failed || line.is_failed;
        ki_text_fini(&line);
    }
    return KITH_OK;
}

static kith_status write_kith(const writer *w)
{
    ki_text_add(w->out, "{\n  \"kith_placement\": 1,\n  \"ranks\": [");
    for (int r = 0; r < kith_placement_rank_count(w->p); r++) {
        ki_seat seat;
        ki_text cpus = { 0 };
        variables v = { .out = w->out };
        ki_export_seat(w->t, w->p, r, &seat);
        ki_text_add(w->out, "%s\n    { \"rank\": %d, \"host\": ", r > 0 ? "," : "", r);
        ki_text_add_json(w->out, seat.node->name);
        ki_text_add(w->out, ", \"gpu\": %d", seat.kind->gpus[seat.gpu].index);
        if (ki_export_cpus(&seat, &cpus)) {
            ki_text_add(w->out, ", \"cpus\": ");
            ki_text_add_json(w->out, ki_text_chars(&cpus));
        }
        ki_text_add(w->out, ", \"environment\": { ");
        ki_export_environment(&seat, add_to_object, &v);
        ki_text_add(w->out, "%s} }", v.count > 0 ? " " : "");
        ki_text_fini(&cpus);
    }
    ki_text_add(w->out, "\n  ]\n}\n");
    return KITH_OK;
}

/* ---- Megatron-Core ---- */

/* Megatron lays ranks out as tp-cp-ep-dp-pp, or with --use-tp-pp-dp-mapping as tp-cp-ep-pp-dp. Axes of one rank may
 * stand anywhere. */
static bool has_order(const kith_placement *p, const char *wanted)
{
    const char *order = kith_placement_order(p);
    for (const char *word = order; *word != '\0'; word += word[2] == '-' ? 3 : 2) {
        char name[3] = { word[0], word[1], '\0' };
        if (kith_placement_axis(p, name)->size == 1)
            continue;
        const char *found = strstr(wanted, name);
        if (found == NULL)
            return false;
        wanted = found + 2;
    }
    return true;
}

static void write_permutation(const writer *w)
{
    ki_text_add(w->out, "# rank order (launch rank i on the i-th of these GPUs):");
    for (int r = 0; r < kith_placement_rank_count(w->p); r++)
        ki_text_add(w->out, "%s%d", r > 0 ? "," : " ", kith_placement_gpu(w->p, r));
    ki_text_add(w->out, "\n");
}

static kith_status write_megatron(const writer *w)
{
    static const struct {
        const char *axis, *option;
    } options[] = { { "tp", "--tensor-model-parallel-size" },
                    { "pp", "--pipeline-model-parallel-size" },
                    { "cp", "--context-parallel-size" },
                    { "ep", "--expert-model-parallel-size" } };
    int sizes[4];
    for (int i = 0; i < 4; i++) {
        sizes[i] = kith_placement_axis(w->p, options[i].axis)->size;
        ki_text_add(w->out, "%s%s %d", i > 0 ? " " : "", options[i].option, sizes[i]);
    }
    bool is_usual = has_order(w->p, "tp-cp-ep-dp-pp"), is_other = has_order(w->p, "tp-cp-ep-pp-dp");
    ki_text_add(w->out, "%s\n", !is_usual && is_other ? " --use-tp-pp-dp-mapping" : "");
    ki_text_add(w->out, "# data-parallel size: %d\n", kith_placement_axis(w->p, "dp")->size * sizes[3]);
    ki_text_add(w->out, "# order: %s\n", kith_placement_order(w->p));
    if (!is_usual && !is_other)
        ki_text_add(w->out, "# Megatron-Core has no mapping with this order: only tp-cp-ep-dp-pp and tp-cp-ep-pp-dp\n");
    if (sizes[3] > 1)
        ki_text_add(w->out, "# Megatron-Core takes the expert axis out of the data-parallel one: %d x %d\n", sizes[3],
                    kith_placement_axis(w->p, "dp")->size);
    if (sizes[2] > 1 && sizes[3] > 1)
        ki_text_add(w->out,
                    "# context and expert parallelism come from two generators of ranks there: compare the groups\n");
    write_permutation(w);
    return KITH_OK;
}

kith_status kith_placement_export(const kith_topology *topology, const kith_placement *placement, kith_export form,
                                  char **text)
{
    typedef kith_status (*write_fn)(const writer *w);
    static const write_fn forms[] = {
        [KITH_EXPORT_RANKFILE] = write_rankfile, [KITH_EXPORT_HOSTFILE] = write_hostfile,
        [KITH_EXPORT_SLURM] = write_slurm,       [KITH_EXPORT_ENVIRONMENT] = write_environment,
        [KITH_EXPORT_MEGATRON] = write_megatron, [KITH_EXPORT_KITH] = write_kith,
    };
    if (topology == NULL || placement == NULL || text == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "export: the topology, the placement or the text is NULL");
    if ((unsigned)form > KITH_EXPORT_KITH)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "export: there is no form %d; valid: 0 to %d", (int)form,
                             KITH_EXPORT_KITH);
    ki_text out = { 0 };
    writer w = { topology, placement, &out };
    kith_status status = ki_placement_check_topology(placement, topology, "export");
    if (status == KITH_OK)
        status = check_hosts(&w);
    if (status == KITH_OK)
        status = forms[form](&w);
    if (status == KITH_OK)
        return ki_print_finish(&out, text);
    ki_text_fini(&out);
    return status;
}
