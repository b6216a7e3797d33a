/* topology/constants.c - what links carry: the one table of bandwidths and latencies.
 *
 * raw is what the standard or the vendor says, effective what NCCL's own tables or published measurements reach; costs
 * use the effective column. A JSON file { "nvlink4": { "effective_gbps": 21.0, "latency_us": 2.9 }, ... } replaces
 * rows, for instance with values that were measured on the machine. `kith bench --model-fit` writes such a file, and
 * beside the rows what they were fitted to: the member "calibration", which is kept for other readers and looked at
 * here only so far that a file of another form is refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Latency of one step of a ring: NCCL's tuner has 3.4 us on NVLink, 5.7 us on PCI, 14 us over the network (Simple). */
static const kith_constant builtin[] = {
    { "nvlink1", "one NVLink 1 (P100)", 20, 18, 3.4, "hwloc; NCCL topo.h, SM60", false },
    { "nvlink2", "one NVLink 2 (V100)", 25, 20, 3.4, "hwloc; NCCL topo.h, SM70", false },
    { "nvlink3", "one NVLink 3 (A100, A800)", 25, 20, 3.4, "hwloc; NCCL topo.h, SM80", false },
    { "nvlink3-bridge", "one NVLink 3 of a bridge (A6000, A40, 3090)", 14.06, 12, 3.4, "NCCL topo.h, SM86", false },
    { "nvlink4", "one NVLink 4 (H100, H200, H20, H800)", 25, 20.6, 3.4, "hwloc; NCCL topo.h, SM90", false },
    { "nvlink5", "one NVLink 5 (B200, GB200)", 50, 40.1, 3.4, "hwloc; NCCL topo.h, SM100", false },
    { "xgmi", "one xGMI link (MI250, MI300)", 50, 40, 3.4, "hwloc rsmi: 100 GB/s both directions; 0.8 of it", false },
    { "c2c", "NVLink-C2C (Grace)", 450, 360, 3.4, "vendor; 0.8 of it", false },
    { "pcie1", "PCIe 1 x16", 4, 3, 5.7, "standard; NCCL topo.cc", false },
    { "pcie2", "PCIe 2 x16", 8, 6, 5.7, "standard; NCCL topo.cc", false },
    { "pcie3", "PCIe 3 x16", 15.75, 12, 5.7, "standard; NCCL topo.cc", false },
    { "pcie4", "PCIe 4 x16", 31.5, 24, 5.7, "standard; NCCL topo.cc", false },
    { "pcie5", "PCIe 5 x16", 63, 48, 5.7, "standard; NCCL topo.cc", false },
    { "pcie6", "PCIe 6 x16", 121, 96, 5.7, "standard; NCCL topo.cc", false },
    { "socket-intel", "between two packages: Intel, generation unknown", 20.8, 10, 5.7, "NCCL topo.h, SKL", false },
    { "socket-bdw", "between two packages: Broadwell and older", 19.2, 6, 5.7, "NCCL topo.h, BDW", false },
    { "socket-skx", "between two packages: Skylake, Cascade Lake", 20.8, 10, 5.7, "NCCL topo.h, SKL", false },
    { "socket-spr", "between two packages: Sapphire Rapids", 48, 22, 5.7, "NCCL topo.h, SRP", false },
    { "socket-emr", "between two packages: Emerald Rapids and newer", 60, 40, 5.7, "NCCL topo.h, ERP", false },
    { "socket-amd", "between two packages: AMD EPYC", 36, 16, 5.7, "NCCL topo.h, AMD", false },
    { "socket-arm", "between two packages: Arm", 16, 6, 5.7, "NCCL topo.h, ARM", false },
    { "socket-power9", "between two packages: POWER9", 64, 32, 5.7, "NCCL topo.h, P9", false },
    { "socket-zhaoxin", "between two packages: Zhaoxin", 12, 6, 5.7, "NCCL topo.h", false },
    { "socket-unknown", "between two packages: CPU unknown", 20.8, 10, 5.7, "taken as Skylake", false },
    { "fdr", "InfiniBand FDR 4x (56 Gb/s)", 6.8, 6, 14, "standard; NCCL topo.cc", false },
    { "edr", "InfiniBand EDR 4x (100 Gb/s)", 12.5, 12, 14, "standard; NCCL topo.cc", false },
    { "hdr", "InfiniBand HDR 4x (200 Gb/s)", 25, 24, 14, "standard; NCCL topo.cc", false },
    { "ndr", "InfiniBand NDR 4x (400 Gb/s)", 50, 48, 14, "standard; NCCL topo.cc", false },
    { "xdr", "InfiniBand XDR 4x (800 Gb/s)", 100, 96, 14, "standard; NCCL topo.cc", false },
    { "net-unknown", "a NIC of unknown speed", 12.5, 12, 14, "NCCL's default, 100 Gb/s", false },
    { "net-efficiency", "share of a NIC's stated speed that is reached", 1, 0.96, 14, "NCCL topo.cc: 48 of 50", false },
    { "local", "inside one GPU or host memory", 5000, 5000, 1, "NCCL topo.h, LOC", false },
};

enum { BUILTIN_COUNT = sizeof builtin / sizeof builtin[0] };

static kith_status read_number(const char *path, const ki_json *row, const char *key, double *value)
{
    const ki_json *number = ki_json_member(row, key);
    if (number == NULL)
        return KITH_OK;
    if (number->type != KI_JSON_NUMBER || !(number->number > 0) || number->number > 1e9)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' of constant '%s' must be a number above 0", path,
                             number->line, key, row->key);
    *value = number->number;
    return KITH_OK;
}

static kith_status replace_row(kith_topology *t, const char *path, const ki_json *row)
{
    kith_constant *constant = (kith_constant *)(uintptr_t)ki_constant(t, row->key);
    if (constant == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: there is no constant '%s'; kith topo --constants lists them",
                             path, row->line, row->key);
    if (row->type != KI_JSON_OBJECT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s:%d: constant '%s' must be an object with effective_gbps, raw_gbps or latency_us", path,
                             row->line, row->key);
    for (const ki_json *member = row->first; member != NULL; member = member->next)
        if (strcmp(member->key, "effective_gbps") != 0 && strcmp(member->key, "raw_gbps") != 0 &&
            strcmp(member->key, "latency_us") != 0 && strcmp(member->key, "source") != 0)
            return ki_fail_quiet(
                KITH_ERR_INVALID_ARG,
                "%s:%d: constant '%s' has no '%s'; valid: effective_gbps, raw_gbps, latency_us, source", path,
                member->line, row->key, member->key);
    kith_status status = read_number(path, row, "effective_gbps", &constant->effective_gbps);
    if (status == KITH_OK)
        status = read_number(path, row, "raw_gbps", &constant->raw_gbps);
    if (status == KITH_OK)
        status = read_number(path, row, "latency_us", &constant->latency_us);
    const ki_json *source = ki_json_member(row, "source");
    constant->source = ki_topology_dup(t, source != NULL && source->type == KI_JSON_STRING ? source->text : path);
    constant->is_replaced = true;
    return status;
}

/* What kith bench --model-fit measured is no row. */
static kith_status check_calibration(const char *path, const ki_json *member)
{
    const ki_json *format = member->type == KI_JSON_OBJECT ? ki_json_member(member, "format") : NULL;
    if (format != NULL && format->type == KI_JSON_STRING && strcmp(format->text, "kith-calibration-1") == 0)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "%s:%d: 'calibration' must be an object whose format is \"kith-calibration-1\"", path,
                         member->line);
}

kith_status ki_constants_load(kith_topology *t)
{
    t->constants = (kith_constant *)ki_topology_alloc(t, BUILTIN_COUNT, sizeof *t->constants);
    if (t->constants == NULL)
        return t->status;
    memcpy(t->constants, builtin, sizeof builtin);
    t->constant_count = BUILTIN_COUNT;
    const char *path = t->options.constants_path;
    if (path == NULL)
        return KITH_OK;
    ki_json *root = NULL;
    kith_status status = ki_json_read(NULL, path, &root);
    if (status != KITH_OK)
        return status;
    status = ki_constants_replace(t, path, root);
    ki_json_free(NULL, root);
    return status;
}

kith_status ki_constants_replace(kith_topology *t, const char *name, const ki_json *constants)
{
    kith_status status = KITH_OK;
    if (constants->type != KI_JSON_OBJECT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: must be an object with constants by name", name,
                             constants->line);
    for (const ki_json *row = constants->first; status == KITH_OK && row != NULL; row = row->next)
        status = strcmp(row->key, "calibration") == 0 ? check_calibration(name, row) : replace_row(t, name, row);
    return status;
}

int kith_topology_constant_count(const kith_topology *t)
{
    return t != NULL ? t->constant_count : BUILTIN_COUNT;
}

const kith_constant *kith_topology_constant(const kith_topology *t, int index)
{
    if (index < 0 || index >= kith_topology_constant_count(t))
        return NULL;
    return t != NULL ? &t->constants[index] : &builtin[index];
}

const kith_constant *ki_constant(const kith_topology *t, const char *key)
{
    for (int i = 0; key != NULL && i < kith_topology_constant_count(t); i++) {
        const kith_constant *constant = kith_topology_constant(t, i);
        if (strcmp(constant->key, key) == 0)
            return constant;
    }
    return NULL;
}

double ki_constant_gbps(const kith_topology *t, const char *key)
{
    const kith_constant *constant = ki_constant(t, key);
    return constant != NULL ? constant->effective_gbps : 0;
}

const char *ki_nvlink_key(int generation, bool is_bridge)
{
    static const char *const keys[] = { NULL, "nvlink1", "nvlink2", "nvlink3", "nvlink4", "nvlink5" };
    if (generation < 1 || generation > 5)
        return NULL;
    return generation == 3 && is_bridge ? "nvlink3-bridge" : keys[generation];
}

double ki_pcie_gbps(const kith_topology *t, int generation, int width)
{
    char key[16];
    if (generation < 1 || generation > 6 || width < 1 || width > 32)
        return 0;
    snprintf(key, sizeof key, "pcie%d", generation);
    return ki_constant_gbps(t, key) * width / 16;
}

int ki_pcie_generation(const char *speed)
{
    static const double rates[] = { 0, 2.5, 5, 8, 16, 32, 64 };
    double rate = 0;
    if (speed != NULL)
        ki_number_scan(speed + strspn(speed, " "), &rate);
    for (int generation = 1; generation <= 6; generation++)
        if (rate > rates[generation] - 0.1 && rate < rates[generation] + 0.1)
            return generation;
    return 0;
}
