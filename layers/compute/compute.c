/* layers/compute/compute.c - what all tables share: scratch and the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute.h"
#include "core/base/error.h"
#include "core/base/mem.h"
#include "pool.h"

kith_status ki_compute_scratch(ki_compute *compute, size_t nbytes, void **scratch)
{
    if (nbytes > compute->scratch_nbytes) {
        ki_free(NULL, compute->scratch);
        compute->scratch_nbytes = 0;
        compute->scratch = ki_calloc(NULL, 1, nbytes);
        if (compute->scratch == NULL)
            return ki_fail_context(KITH_ERR_NO_MEMORY, "layers: scratch of %zu bytes", nbytes);
        compute->scratch_nbytes = nbytes;
    }
    *scratch = compute->scratch;
    return KITH_OK;
}

void ki_compute_close(ki_compute *compute)
{
    if (compute == NULL)
        return;
    if (compute->close != NULL) {
        compute->close(compute);
        return;
    }
    ki_pool_destroy(compute->pool);
    ki_free(NULL, compute->scratch);
    ki_free(NULL, compute);
}
