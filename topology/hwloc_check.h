/* topology/hwloc_check.h - is a text what hwloc writes? Before hwloc imports it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_HWLOC_CHECK_H
#define KI_TOPOLOGY_HWLOC_CHECK_H

#include "reader.h"

/* KITH_ERR_UNSUPPORTED for a version that this hwloc does not read, KITH_ERR_INVALID_ARG "file:line: reason". */
kith_status ki_hwloc_check(const ki_source *source);

#endif
