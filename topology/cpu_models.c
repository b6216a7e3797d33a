/* topology/cpu_models.c - what vendor, family and model of a CPU tell: its maker, and the link between its packages.
 *
 * Family 6 of Intel by model number, as NCCL sorts them: Skylake from 0x55, Sapphire Rapids 0x8f, Granite Rapids 0xad,
 * Emerald Rapids 0xcf; Ice Lake (0x6a) has Skylake's figure.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hardware.h"

#include <string.h>

static bool has(const char *text, const char *word)
{
    return text != NULL && strstr(text, word) != NULL;
}

const char *ki_cpu_vendor(const char *vendor, const char *architecture)
{
    if (has(vendor, "GenuineIntel"))
        return "intel";
    if (has(vendor, "AuthenticAMD") || has(vendor, "HygonGenuine"))
        return "amd";
    if (has(vendor, "Shanghai") || has(vendor, "CentaurHauls"))
        return "zhaoxin";
    if (has(vendor, "ARM") || has(architecture, "aarch64") || has(architecture, "arm64"))
        return "arm";
    if (has(vendor, "IBM") || has(architecture, "ppc64"))
        return "ibm";
    return NULL;
}

const char *ki_cpu_socket_key(const char *vendor, int family, int model)
{
    if (vendor == NULL || strcmp(vendor, "intel") != 0 || family != 6 || model < 0)
        return NULL;
    if (model == 0xcf || model == 0xad)
        return "socket-emr";
    if (model == 0x8f)
        return "socket-spr";
    return model >= 0x55 ? "socket-skx" : "socket-bdw";
}

void ki_kind_set_cpu(kith_topology *t, ki_kind *kind, const char *vendor, const char *architecture, int family,
                     int model)
{
    kind->view.cpu_vendor = ki_cpu_vendor(vendor, architecture);
    kind->view.architecture = ki_topology_dup(t, architecture);
    const char *key = ki_cpu_socket_key(kind->view.cpu_vendor, family, model);
    if (key == NULL)
        return;
    kind->view.socket_gbps = ki_constant_gbps(t, key);
    kind->view.socket_certainty = KITH_ASSUMED; /* the model is known, its bandwidth is from the table */
}
