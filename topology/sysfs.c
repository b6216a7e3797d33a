/* topology/sysfs.c - see sysfs.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sysfs.h"

#include "core/base/number.h"
#include "hardware.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *root(void)
{
    const char *folder = getenv("HWLOC_FSROOT");
    return folder != NULL ? folder : "";
}

bool ki_sysfs_line(char *line, size_t nbytes, const char *format, ...)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof path, "%s", root());
    if (used < 0 || used >= (int)sizeof path)
        return false;
    va_list list;
    va_start(list, format);
    int more = vsnprintf(path + used, sizeof path - (size_t)used, format, list);
    va_end(list);
    FILE *file = more >= 0 && used + more < (int)sizeof path ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    bool is_read = fgets(line, (int)nbytes, file) != NULL;
    fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    return is_read;
}

/* Of the device itself ("") or of the port that it hangs on ("../"). */
static bool read_link(const char *device, const char *where, int *generation, int *width)
{
    char speed[64], lanes[64];
    if (!ki_sysfs_line(speed, sizeof speed, "/sys/bus/pci/devices/%s/%smax_link_speed", device, where) ||
        !ki_sysfs_line(lanes, sizeof lanes, "/sys/bus/pci/devices/%s/%smax_link_width", device, where))
        return false;
    *generation = ki_pcie_generation(speed);
    *width = ki_text_number(lanes, 10);
    return *generation > 0 && *width >= 1 && *width <= 32;
}

void ki_sysfs_pcie(kith_topology *t, kith_gpu *gpu)
{
    char device[24];
    int generation, width, port_generation, port_width;
    kith_pci_text(&gpu->pci, device, sizeof device);
    if (!gpu->pci.is_known || !read_link(device, "", &generation, &width))
        return;
    if (read_link(device, "../", &port_generation, &port_width)) {
        generation = port_generation < generation ? port_generation : generation;
        width = port_width < width ? port_width : width;
    }
    gpu->pcie_generation = generation;
    gpu->pcie_width = width;
    gpu->pcie_gbps = ki_pcie_gbps(t, generation, width);
}

/* ---- bridges ---- */

/* False: too long. */
static bool device_path(const kith_pci_address *device, const char *file, char *path, size_t nbytes)
{
    char name[24];
    kith_pci_text(device, name, sizeof name);
    int used = snprintf(path, nbytes, "%s/sys/bus/pci/devices/%s%s", root(), name, file);
    return device->is_known && used >= 0 && (size_t)used < nbytes;
}

/* The link leads to ".../pci0000:15/0000:15:01.0/0000:16:00.0": below a host bridge each folder is one device. A host
 * bridge may itself be below a device (VMD), which is no PCIe bridge. */
int ki_sysfs_bridges(const kith_pci_address *device, kith_pci_address *bridges)
{
    char path[PATH_MAX], target[PATH_MAX], *next = target;
    kith_pci_address here = { .is_known = false };
    int count = 0;
    ssize_t length = device_path(device, "", path, sizeof path) ? readlink(path, target, sizeof target - 1) : -1;
    if (length <= 0)
        return -1;
    target[length] = '\0';
    for (char *word; (word = strsep(&next, "/")) != NULL;) {
        if (strncmp(word, "pci", 3) == 0)
            count = 0;
        if (ki_pci_parse(word, &here) != KI_PCI_GOOD)
            continue;
        if (count == KI_SYSFS_MOST_BRIDGES + 1)
            return -1;
        if (count < KI_SYSFS_MOST_BRIDGES)
            bridges[count] = here;
        count++;
    }
    return ki_pci_is_same_device(&here, device) ? count - 1 : -1; /* the last one is the device */
}

size_t ki_sysfs_config(const kith_pci_address *device, unsigned char *config, size_t nbytes)
{
    char path[PATH_MAX];
    FILE *file = device_path(device, "/config", path, sizeof path) ? fopen(path, "rbe") : NULL;
    if (file == NULL)
        return 0;
    size_t count = fread(config, 1, nbytes, file);
    fclose(file);
    return count;
}

/* ---- NICs ---- */

/* One port of an RDMA device: adds its rate in Gb/s. */
static bool read_port(const char *device, int port, double *rate, bool *is_active)
{
    char line[64];
    if (!ki_sysfs_line(line, sizeof line, "/sys/class/infiniband/%s/ports/%d/rate", device, port))
        return false;
    *rate = 0;
    ki_number_scan(line, rate);
    *is_active = ki_sysfs_line(line, sizeof line, "/sys/class/infiniband/%s/ports/%d/state", device, port) &&
                 strstr(line, "ACTIVE") != NULL;
    return true;
}

/* Gb/s of all ports that are up; of all when none is. A port that is down reports its lowest rate. */
static double rdma_rate(const char *device, int *ports)
{
    double up = 0, all = 0, rate;
    bool is_active;
    for (*ports = 0; *ports < 16 && read_port(device, *ports + 1, &rate, &is_active); ++*ports) {
        all += rate > 0 ? rate : 0;
        up += is_active && rate > 0 ? rate : 0;
    }
    return up > 0 ? up : all;
}

static void read_fabric(kith_topology *t, kith_nic *nic)
{
    char line[64];
    if (ki_sysfs_line(line, sizeof line, "/sys/class/infiniband/%s/node_guid", nic->device))
        nic->guid = ki_topology_dup(t, line);
    if (!ki_sysfs_line(line, sizeof line, "/sys/class/infiniband/%s/ports/1/link_layer", nic->device))
        return;
    if (strcmp(line, "InfiniBand") == 0)
        nic->fabric = "infiniband";
    else if (nic->fabric == NULL || strcmp(nic->fabric, "efa") != 0)
        nic->fabric = "roce";
}

void ki_sysfs_nic(kith_topology *t, kith_nic *nic)
{
    int ports = 0;
    char line[64];
    if (nic->device == NULL || strchr(nic->device, '/') != NULL)
        return;
    double rate = rdma_rate(nic->device, &ports);
    if (ports > 0) {
        nic->port_count = ports;
        read_fabric(t, nic);
    } else if (ki_sysfs_line(line, sizeof line, "/sys/class/net/%s/speed", nic->device)) {
        rate = ki_text_number(line, 10) / 1000.0; /* Mb/s */
        nic->port_count = 1;
    }
    if (rate <= 0)
        return;
    nic->gbps = rate / 8 * ki_constant_gbps(t, "net-efficiency");
    nic->gbps_certainty = KITH_KNOWN;
}

/* ---- the machine ---- */

bool ki_sysfs_is_virtual(void)
{
    char path[PATH_MAX], line[8192];
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root());
    FILE *file = fopen(path, "re");
    bool is_virtual = false;
    while (file != NULL && !is_virtual && fgets(line, sizeof line, file) != NULL)
        is_virtual = strncmp(line, "flags", 5) == 0 && strstr(line, " hypervisor") != NULL;
    if (file != NULL)
        fclose(file);
    return is_virtual;
}

int ki_sysfs_wide_domains(char *first, size_t nbytes)
{
    char path[PATH_MAX];
    int count = 0;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root());
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (strcspn(entry->d_name, ":") > 4 && count++ == 0)
            snprintf(first, nbytes, "%.*s", (int)nbytes - 1, entry->d_name);
    if (folder != NULL)
        closedir(folder);
    return count;
}
