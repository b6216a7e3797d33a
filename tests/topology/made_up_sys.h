/* tests/topology/made_up_sys.h - a /sys with PCI devices in a folder of its own, for HWLOC_FSROOT.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_MADE_UP_SYS_H
#define KITH_TESTS_MADE_UP_SYS_H

#include "topology/acs.h"
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    ACS_AT = 0x148,
    LSPCI_DEFAULT = 0x5d /* SrcValid, ReqRedir, CmpltRedir, UpstreamFwd; and one that is harmless */
};

typedef unsigned char config_space[KI_PCI_CONFIG_NBYTES];

static inline void write16(unsigned char *config, size_t at, unsigned value)
{
    config[at] = (unsigned char)value;
    config[at + 1] = (unsigned char)(value >> 8);
}

static inline void write_capability(unsigned char *config, size_t at, unsigned id, unsigned next)
{
    write16(config, at, id);
    write16(config, at + 2, next << 4 | 1);
}

/* A switch port: error reporting, then ACS, then a vendor's own. */
static inline void make_bridge(unsigned char *config, unsigned control)
{
    memset(config, 0, sizeof(config_space));
    write16(config, 0, 0x10b5);
    write16(config, 2, 0x8796);
    config[0x0e] = 0x81; /* a bridge, of a device with several functions */
    write_capability(config, 0x100, 0x0001, ACS_AT);
    write_capability(config, ACS_AT, 0x000d, 0xb70);
    write16(config, ACS_AT + 4, 0x001f); /* what it could do */
    write16(config, ACS_AT + 6, control);
    write_capability(config, 0xb70, 0x000b, 0);
}

static char root_path[64];

static inline void make_folders(const char *relative)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s/", root_path, relative);
    for (char *c = path + strlen(root_path) + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
            *c = '/';
        }
}

static inline void write_file(const char *relative, const void *bytes, size_t nbytes)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", root_path, relative);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *relative, const char *text)
{
    write_file(relative, text, strlen(text));
}

/* A device at a path such as "pci0000:15/0000:15:01.0"; its configuration space is cut after nbytes. */
static inline void add_device(const char *path, unsigned control, size_t nbytes)
{
    char text[768], target[768];
    config_space config;
    make_bridge(config, control);
    snprintf(text, sizeof text, "sys/devices/%s", path);
    make_folders(text);
    snprintf(text, sizeof text, "sys/devices/%s/config", path);
    write_file(text, config, nbytes);
    const char *name = strrchr(path, '/') + 1;
    snprintf(target, sizeof target, "../../../devices/%s", path);
    snprintf(text, sizeof text, "%s/sys/bus/pci/devices/%s", root_path, name);
    assert_int_equal(symlink(target, text), 0);
}

/* What hwloc wants to know of a device, too: who made it, what it is, and of a bridge the buses below it. */
static inline void describe_device(const char *path, const char *vendor, const char *class_id, int secondary, int last)
{
    char text[1024];
    snprintf(text, sizeof text, "sys/devices/%s/vendor", path);
    write_text(text, vendor);
    snprintf(text, sizeof text, "sys/devices/%s/class", path);
    write_text(text, class_id);
    snprintf(text, sizeof text, "%s/sys/devices/%s/config", root_path, path);
    FILE *file = fopen(text, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0x19, SEEK_SET), 0);
    assert_true(fputc(secondary, file) == secondary && fputc(last, file) == last);
    assert_int_equal(fclose(file), 0);
}

/* One processor, without which hwloc looks at nothing. */
static inline void add_cpu(void)
{
    static const char *const files[][2] = { { "possible", "0" },
                                            { "online", "0" },
                                            { "cpu0/topology/core_id", "0" },
                                            { "cpu0/topology/physical_package_id", "0" },
                                            { "cpu0/topology/core_cpus", "1" },
                                            { "cpu0/topology/thread_siblings", "1" },
                                            { "cpu0/topology/package_cpus", "1" },
                                            { "cpu0/topology/core_siblings", "1" } };
    make_folders("sys/devices/system/cpu/cpu0/topology");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "sys/devices/system/cpu/%s", files[i][0]);
        write_text(path, files[i][1]);
    }
}

static inline int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info, (void)flag, (void)walk;
    return remove(path);
}

static inline int open_root(void **state)
{
    (void)state;
    snprintf(root_path, sizeof root_path, "/tmp/kith-acs-XXXXXX");
    if (mkdtemp(root_path) == NULL)
        return -1;
    make_folders("sys/bus/pci/devices");
    return setenv("HWLOC_FSROOT", root_path, 1);
}

static inline int close_root(void **state)
{
    (void)state;
    unsetenv("HWLOC_FSROOT");
    return nftw(root_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
