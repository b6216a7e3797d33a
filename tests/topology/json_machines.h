/* tests/topology/json_machines.h - small machines as JSON, for tests that need no reader of other tools' files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_TOPOLOGY_JSON_MACHINES_H
#define TESTS_TOPOLOGY_JSON_MACHINES_H

#include <kith/context.h>
#include <kith/topology.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Four GPUs, two bridges of four NVLinks between 0,3 and 1,2 that cross the packages; two NICs. */
#define MACHINE_BRIDGES                                                                                                \
    "{\"kith_topology\": 1, \"name\": \"bridges\", \"format\": \"test\", \"nvlink\": \"known\",\n"                     \
    "\"numa_nodes\": [{\"os_index\": 0, \"cpus\": \"0-15\"}, {\"os_index\": 1, \"cpus\": \"16-31\"}],\n"               \
    "\"gpus\": [{\"index\": 0, \"name\": \"RTX A6000\", \"numa\": 0, \"cpus\": \"0-15\", \"pci\": "                    \
    "\"0000:01:00.0\"},\n"                                                                                             \
    "          {\"index\": 1, \"name\": \"RTX A6000\", \"numa\": 0, \"cpus\": \"0-15\", \"pci\": \"0000:25:00.0\"},\n" \
    "          {\"index\": 2, \"name\": \"RTX A6000\", \"numa\": 1, \"cpus\": \"16-31\", \"pci\": "                    \
    "\"0000:c1:00.0\"},\n"                                                                                             \
    "          {\"index\": 3, \"name\": \"RTX A6000\", \"numa\": 1, \"cpus\": \"16-31\", \"pci\": "                    \
    "\"0000:e1:00.0\"}],\n"                                                                                            \
    "\"nics\": [{\"name\": \"mlx5_0\"}, {\"name\": \"mlx5_1\"}],\n"                                                    \
    "\"links\": [[\"X\", \"NODE\", \"SYS\", \"NV4\"], [\"NODE\", \"X\", \"NV4\", \"SYS\"],\n"                          \
    "           [\"SYS\", \"NV4\", \"X\", \"NODE\"], [\"NV4\", \"SYS\", \"NODE\", \"X\"]],\n"                          \
    "\"nic_links\": [[\"PIX\", \"SYS\"], [\"NODE\", \"SYS\"], [\"SYS\", \"NODE\"], [\"SYS\", \"PIX\"]],\n"             \
    "\"nodes\": [{\"name\": \"box\", \"kind\": 0}]}"

static inline kith_topology *machine_of(const char *text)
{
    kith_topology *t = NULL;
    kith_status status = kith_topology_parse("machine", text, strlen(text), NULL, &t);
    if (status != KITH_OK)
        fail_msg("%s: %s", kith_status_name(status), kith_error_detail());
    return t;
}

static inline const kith_doubt *find_doubt(const kith_topology *t, const char *code)
{
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        if (strcmp(kith_topology_doubt(t, i)->code, code) == 0)
            return kith_topology_doubt(t, i);
    return NULL;
}

#endif
