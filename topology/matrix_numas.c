/* topology/matrix_numas.c - the CPUs and NUMA nodes of GPUs, and what they tell about the machine's NUMA nodes.
 *
 * A matrix names only the NUMA nodes that have a GPU near them. Their CPUs are taken where rows agree about them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include "hardware.h"
#include "sets.h"
#include <stdlib.h>
#include <string.h>

void ki_matrix_set_affinities(const ki_matrix *m, ki_kind *kind)
{
    for (int i = 0; i < m->gpu_count; i++) {
        const ki_matrix_device *device = &m->devices[i];
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->view.gpus[i];
        gpu->cpus = ki_topology_dup_n(m->t, device->cpus.at, device->cpus.length);
        if (device->numa.at != NULL)
            ki_gpu_set_numas(m->t, gpu, ki_topology_dup_n(m->t, device->numa.at, device->numa.length), "nvidia-smi");
        if (device->memory_numa.at != NULL)
            gpu->memory_numa =
                ki_text_number(ki_topology_dup_n(m->t, device->memory_numa.at, device->memory_numa.length), 10);
    }
}

/* nvidia-smi cuts long lists of single numbers off ("0,2,4,6,8,10" of a machine that numbers its CPUs in turns). */
static bool may_be_cut(const char *cpus)
{
    int commas = 0;
    for (const char *c = cpus; *c != '\0'; c++)
        commas += *c == ',';
    return strchr(cpus, '-') == NULL && commas >= 4;
}

static kith_numa *find_numa(ki_kind *kind, int os_index)
{
    for (int i = 0; i < kind->view.numa_count; i++)
        if (kind->view.numas[i].os_index == os_index)
            return (kith_numa *)(uintptr_t)&kind->view.numas[i];
    return NULL;
}

static kith_numa *add_numa(const ki_matrix *m, ki_kind *kind, int os_index)
{
    kith_numa *numa = find_numa(kind, os_index);
    if (numa != NULL)
        return numa;
    numa = ki_kind_add_numa(m->t, kind);
    numa->os_index = os_index;
    return numa;
}

static bool is_equal_set(const char *a, const char *b)
{
    ki_cpuset x = { NULL, 0 }, y = { NULL, 0 };
    bool is_equal = ki_cpuset_parse(a, &x) && ki_cpuset_parse(b, &y) && ki_cpuset_is_equal(&x, &y);
    ki_cpuset_fini(&x);
    ki_cpuset_fini(&y);
    return is_equal;
}

static bool has_in_common(const char *a, const char *b)
{
    ki_cpuset x = { NULL, 0 }, y = { NULL, 0 };
    bool is_common = ki_cpuset_parse(a, &x) && ki_cpuset_parse(b, &y) && ki_cpuset_intersects(&x, &y);
    ki_cpuset_fini(&x);
    ki_cpuset_fini(&y);
    return is_common;
}

/* Two GPUs of one NUMA node must have the same CPUs, of different ones none in common. Tells the first pair. */
static bool check_cpus(const ki_matrix *m, const ki_kind *kind)
{
    for (int i = 0; i < kind->view.gpu_count; i++)
        for (int j = 0; j < i; j++) {
            const kith_gpu *a = &kind->view.gpus[j], *b = &kind->view.gpus[i];
            if (a->cpus == NULL || b->cpus == NULL || a->numa_count != 1 || b->numa_count != 1)
                continue;
            bool is_same = a->numas[0] == b->numas[0];
            if (strcmp(a->cpus, b->cpus) == 0 ? is_same
                : is_same                     ? is_equal_set(a->cpus, b->cpus)
                                              : !has_in_common(a->cpus, b->cpus))
                continue;
            ki_topology_doubt(
                m->t, ki_kind_index(m->t, kind), i, m->source->name, m->text.lines[m->devices[i].line].number,
                "cpus-disagree",
                "GPU%d has CPUs %.40s and NUMA node %d, GPU%d has CPUs %.40s and NUMA node %d; the CPUs of "
                "NUMA nodes are left unknown",
                a->index, a->cpus, a->numas[0], b->index, b->cpus, b->numas[0]);
            return false;
        }
    return true;
}

/* The NUMA nodes that rows name. Those without a GPU near them are not seen here. */
void ki_matrix_add_numas(const ki_matrix *m, ki_kind *kind)
{
    bool is_sound = check_cpus(m, kind);
    bool is_cut = false;
    for (int i = 0; i < kind->view.gpu_count; i++) {
        const kith_gpu *gpu = &kind->view.gpus[i];
        bool is_short = gpu->cpus != NULL && may_be_cut(gpu->cpus);
        if (is_short && !is_cut)
            ki_topology_doubt(m->t, ki_kind_index(m->t, kind), i, m->source->name,
                              m->text.lines[m->devices[i].line].number, "cpus-cut",
                              "the CPU list %.40s has single numbers only; nvidia-smi cuts such lists off", gpu->cpus);
        is_cut = is_cut || is_short;
        for (int j = 0; j < gpu->numa_count; j++) {
            kith_numa *numa = add_numa(m, kind, gpu->numas[j]);
            if (gpu->numa_count == 1 && is_sound && !is_short)
                numa->cpus = gpu->cpus;
        }
    }
    for (int i = 0; i < kind->view.gpu_count; i++) {
        if (kind->view.gpus[i].memory_numa < 0 || find_numa(kind, kind->view.gpus[i].memory_numa) != NULL)
            continue;
        kith_numa *numa = add_numa(m, kind, kind->view.gpus[i].memory_numa);
        numa->is_gpu_memory = true;
        numa->gpu = i;
        numa->cpus = "";
    }
}
