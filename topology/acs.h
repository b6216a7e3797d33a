/* topology/acs.h - do PCIe bridges send peer-to-peer traffic up to the CPU?
 *
 * Two GPUs below one switch (PIX) talk through it only while its ports let them: with Access Control Services on, a
 * port sends what comes from below up to the root complex, where it is slow, or is lost in an IOMMU and hangs. No
 * description of a topology shows that; it stands in the configuration space of each port, beyond the 64 bytes that
 * ordinary users may read. What cannot be read is unchecked, which is not the same as off.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_ACS_H
#define KI_TOPOLOGY_ACS_H

#include "model.h"

#define KI_PCI_CONFIG_NBYTES 4096

typedef enum ki_acs {
    KI_ACS_UNCHECKED, /* too short, or no bridge's configuration space */
    KI_ACS_OFF,       /* nothing is redirected, or the bridge cannot */
    KI_ACS_ON
} ki_acs;

/* Bits of the control register that take peer-to-peer traffic off the short way, as lspci names them. */
#define KI_ACS_SOURCE_VALIDATION 0x01u
#define KI_ACS_REQUEST_REDIRECT 0x04u
#define KI_ACS_COMPLETION_REDIRECT 0x08u
#define KI_ACS_UPSTREAM_FORWARDING 0x10u

/* What the configuration space of a bridge says. bits receives those that are set, 0 unless KI_ACS_ON. */
ki_acs ki_acs_of_config(const unsigned char *config, size_t nbytes, unsigned *bits);

/* Looks at the bridges between GPUs that NVLink does not join, and between GPUs and the NICs near them; the doubts are
 * acs-redirect and acs-unchecked. is_here: sysfs is that of the machine which the kind describes. */
void ki_acs_check(kith_topology *t, ki_kind *kind, bool is_here);

#endif
