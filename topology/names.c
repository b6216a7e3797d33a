/* topology/names.c - links and addresses as words.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/topology.h>

#include <stdio.h>

static const char *const type_names[] = {
    [KITH_LINK_UNKNOWN] = "?", [KITH_LINK_NET] = "NET",   [KITH_LINK_SYS] = "SYS",       [KITH_LINK_NODE] = "NODE",
    [KITH_LINK_PHB] = "PHB",   [KITH_LINK_PXB] = "PXB",   [KITH_LINK_PIX] = "PIX",       [KITH_LINK_BOARD] = "PSB",
    [KITH_LINK_C2C] = "C2C",   [KITH_LINK_XGMI] = "XGMI", [KITH_LINK_NVLINK] = "NVLINK", [KITH_LINK_SELF] = "X",
};

const char *kith_link_type_name(kith_link_type type)
{
    return (unsigned)type <= KITH_LINK_SELF ? type_names[type] : "?";
}

const char *kith_link_name(const kith_link *link, char *buffer, size_t nbytes)
{
    if (link->type == KITH_LINK_NVLINK && link->count > 0)
        snprintf(buffer, nbytes, "NV%d", link->count);
    else if (link->type == KITH_LINK_XGMI && link->count > 0)
        snprintf(buffer, nbytes, "XGMI%d", link->count);
    else
        snprintf(buffer, nbytes, "%s", kith_link_type_name(link->type));
    return buffer;
}

const char *kith_pci_text(const kith_pci_address *address, char *buffer, size_t nbytes)
{
    if (address->is_known)
        snprintf(buffer, nbytes, "%04x:%02x:%02x.%x", (unsigned)address->domain, address->bus, address->device,
                 address->function);
    else
        snprintf(buffer, nbytes, "?");
    return buffer;
}
