/* topology/pci.c - PCI addresses, classes and link speeds, as sysfs, NVML, NCCL and hwloc write them. See hardware.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hardware.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Hexadecimal number of 1 to most digits at *text; moves on. -1: none, or too many digits. */
static int64_t read_hex(const char **text, int most)
{
    int64_t value = 0;
    int digits = 0;
    for (; isxdigit((unsigned char)**text); ++*text, digits++) {
        int digit = isdigit((unsigned char)**text) ? **text - '0' : tolower((unsigned char)**text) - 'a' + 10;
        if (digits == most)
            return -1;
        value = value * 16 + digit;
    }
    return digits > 0 ? value : -1;
}

/* Old and new drivers write seven f as the domain of what they hide. */
static bool is_hidden(const char *text)
{
    return strncasecmp(text, "fffffff:ff", 10) == 0;
}

ki_pci_kind ki_pci_parse(const char *text, kith_pci_address *address)
{
    int64_t part[3], function = 0;
    int count = 0;
    memset(address, 0, sizeof *address);
    if (text == NULL)
        return KI_PCI_BAD;
    if (is_hidden(text))
        return KI_PCI_HIDDEN;
    for (; count < 3; text++) {
        part[count] = read_hex(&text, 8);
        if (part[count++] < 0)
            return KI_PCI_BAD;
        if (*text != ':')
            break;
    }
    if (*text == '.') {
        text++;
        function = read_hex(&text, 1);
    }
    if (count < 2 || *text != '\0')
        return KI_PCI_BAD;
    int64_t bus = part[count - 2], device = part[count - 1];
    if (bus > 0xff || device > 0x1f || function < 0 || function > 7)
        return KI_PCI_BAD;
    *address = (kith_pci_address){ .is_known = true,
                                   .domain = count == 3 ? (uint32_t)part[0] : 0,
                                   .bus = (uint8_t)bus,
                                   .device = (uint8_t)device,
                                   .function = (uint8_t)function };
    return KI_PCI_GOOD;
}

bool ki_pci_is_same_device(const kith_pci_address *a, const kith_pci_address *b)
{
    return a->is_known && b->is_known && a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

int ki_pci_compare(const kith_pci_address *a, const kith_pci_address *b)
{
    if (!a->is_known || !b->is_known)
        return b->is_known - a->is_known;
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    int place_a = a->bus << 8 | a->device << 3 | a->function, place_b = b->bus << 8 | b->device << 3 | b->function;
    return place_a - place_b;
}

int ki_text_number(const char *text, int base)
{
    char *end;
    if (text == NULL || !isxdigit((unsigned char)*text))
        return -1;
    long value = strtol(text, &end, base);
    return *end == '\0' && value >= 0 && value <= 1 << 30 ? (int)value : -1;
}

int ki_pci_class(const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    if (length > 0 && length != 6 && length != 8) /* "030200" or "0x030200": a digit less would be another class */
        return -1;
    int number = ki_text_number(text, 16);
    return number < 0 || number > 0xffffff ? -1 : number >> 8;
}

/* AMD's and Intel's processors have graphics of class VGA inside, which is no GPU for training; NVIDIA's GeForce cards
 * are VGA too and are meant. */
bool ki_pci_is_gpu(int class_id, int vendor)
{
    if (vendor == KI_VENDOR_NVIDIA)
        return class_id == KI_PCI_3D || class_id == KI_PCI_VGA;
    if (vendor == KI_VENDOR_AMD)
        return class_id == KI_PCI_3D || class_id == KI_PCI_DISPLAY || class_id == KI_PCI_ACCELERATOR;
    return vendor == KI_VENDOR_INTEL && class_id == KI_PCI_DISPLAY;
}

const char *ki_pci_vendor_name(int vendor)
{
    switch (vendor) {
    case KI_VENDOR_NVIDIA:
        return "nvidia";
    case KI_VENDOR_AMD:
        return "amd";
    case KI_VENDOR_INTEL:
        return "intel";
    default:
        return NULL;
    }
}

void ki_pcie_link(const kith_topology *t, const char *speed, const char *width, int *generation, int *lanes,
                  double *gbps)
{
    *generation = ki_pcie_generation(speed);
    int wide = ki_text_number(width, 10);
    *lanes = *generation == 0 ? 0 : wide >= 1 && wide <= 32 ? wide : 16;
    *gbps = ki_pcie_gbps(t, *generation, *lanes);
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

const char *ki_nic_fabric(const char *name, int class_id, int vendor)
{
    if (vendor == KI_VENDOR_AMAZON || begins_with(name, "rdmap") || begins_with(name, "efa"))
        return "efa";
    if (begins_with(name, "hsi") || begins_with(name, "cxi"))
        return "slingshot";
    if (class_id == KI_PCI_INFINIBAND || begins_with(name, "ib"))
        return "infiniband";
    if (begins_with(name, "mlx") || begins_with(name, "bnxt_re") || begins_with(name, "irdma"))
        return class_id == KI_PCI_ETHERNET ? "roce" : NULL;
    if (begins_with(name, "hfi"))
        return "omnipath";
    if (begins_with(name, "bxi"))
        return "bxi";
    return begins_with(name, "e") || class_id == KI_PCI_ETHERNET ? "ethernet" : NULL;
}
