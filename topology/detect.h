/* topology/detect.h - live discovery with another NVML, for tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_DETECT_H
#define KI_TOPOLOGY_DETECT_H

#include "model.h"

/* ki_detect_live() is this with KI_NVML_LIBRARY. */
kith_status ki_detect_with(kith_topology *t, const char *nvml_library);

#endif
