/* backends/shm/shm.h - the shared-memory backend, built into the library.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SHM_H
#define KI_SHM_H

#include <kith/backend.h>

/* The table of the backend "shm". Static storage. */
const kith_backend *ki_shm_backend(void);

#endif
