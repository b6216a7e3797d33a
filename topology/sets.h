/* topology/sets.h - lists in text: CPU sets ("0-31,64-95") and host names ("gpu[001-008],login1").
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_SETS_H
#define KI_TOPOLOGY_SETS_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A set of numbers below KI_CPU_LIMIT. */
#define KI_CPU_LIMIT 65536
typedef struct ki_cpuset {
    unsigned char *bits; /* [KI_CPU_LIMIT / 8], malloc'ed; NULL: empty */
    int count;
} ki_cpuset;

/* Reads "0-31,64-95" (blanks around commas allowed; "" is the empty set). False for anything else: reversed ranges,
 * numbers of KI_CPU_LIMIT or more, rubbish behind. */
bool ki_cpuset_parse(const char *text, ki_cpuset *set);
/* Hexadecimal masks as NCCL, sysfs and hwloc write them: "ffffffff,00000000" (the last word is the lowest), "0xff",
 * "0x1,,0x1". */
bool ki_cpuset_parse_mask(const char *text, ki_cpuset *set);
bool ki_cpuset_has(const ki_cpuset *set, int cpu);
bool ki_cpuset_add(ki_cpuset *set, int cpu);
bool ki_cpuset_intersects(const ki_cpuset *a, const ki_cpuset *b);
bool ki_cpuset_is_equal(const ki_cpuset *a, const ki_cpuset *b);
int ki_cpuset_first(const ki_cpuset *set, int after); /* lowest above after; -1: none */
/* Writes the list; returns buffer. Cut with "..." when it does not fit. */
const char *ki_cpuset_text(const ki_cpuset *set, char *buffer, size_t nbytes);
void ki_cpuset_fini(ki_cpuset *set);

/* Calls each(arg, name) for every name of a Slurm host list: "a[1-3,7]b[01-02],c". Leading zeros keep the width.
 * Stops when each() is not KITH_OK. KITH_ERR_INVALID_ARG with the reason for unbalanced brackets, reversed ranges, or
 * more than limit names. */
typedef kith_status (*ki_host_fn)(void *arg, const char *name);
kith_status ki_hostlist_each(const char *text, size_t length, int limit, ki_host_fn each, void *arg);

#endif
