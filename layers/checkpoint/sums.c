/* layers/checkpoint/sums.c - see sums.h. A tensor may lie in the shares of several ranks. Each moves the sum of its
 * piece to where the piece is in the tensor (ki_crc32_shift()); the XOR of all is the tensor's sum.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sums.h"

#include "core/base/fault.h"
#include "crc32.h"
#include "disk.h"
#include "layers/layers.h"

#include <kith/coll.h>
#include <stdlib.h>

#define PIECE_NBYTES ((int64_t)1 << 20)

static kith_status sum_range(int fd, const char *path, int64_t begin, int64_t end, char *buffer, uint32_t *sum)
{
    kith_status status = KITH_OK;
    for (int64_t at = begin; at < end && status == KITH_OK;) {
        size_t nbytes = (size_t)(end - at < PIECE_NBYTES ? end - at : PIECE_NBYTES);
        status = ki_disk_read(fd, path, buffer, nbytes, at);
        *sum = ki_crc32(*sum, buffer, nbytes);
        at += (int64_t)nbytes;
    }
    return status;
}

static kith_status sum_share(int fd, const char *path, const ki_stored *tensors, size_t count, int64_t begin,
                             int64_t end, uint32_t *sums)
{
    char *buffer = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((size_t)PIECE_NBYTES);
    kith_status status = buffer != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a buffer", path);
    for (size_t i = 0; i < count && status == KITH_OK; i++) {
        int64_t first = tensors[i].begin > begin ? tensors[i].begin : begin;
        int64_t last = tensors[i].end < end ? tensors[i].end : end;
        uint32_t sum = 0;
        if (first >= last)
            continue;
        status = sum_range(fd, path, first, last, buffer, &sum);
        sums[i] = ki_crc32_shift(sum, (uint64_t)(tensors[i].end - last));
    }
    free(buffer);
    return status;
}

kith_status ki_sums(kith_group *group, int fd, const char *path, const ki_stored *tensors, size_t count, uint32_t *sums)
{
    int size = group != NULL ? kith_group_size(group) : 1, rank = group != NULL ? kith_group_rank(group) : 0;
    int64_t begin = INT64_MAX, end = 0, first, share;
    kith_status mine = KITH_OK;
    for (size_t i = 0; i < count; i++) {
        begin = tensors[i].begin < begin ? tensors[i].begin : begin;
        end = tensors[i].end > end ? tensors[i].end : end;
        sums[i] = 0;
    }
    if (end > begin) {
        kith_split_range(end - begin, size, rank, &first, &share);
        mine = sum_share(fd, path, tensors, count, begin + first, begin + first + share, sums);
    }
    kith_status status = ki_agree(group, mine);
    if (status == KITH_OK && size > 1 && count > 0)
        status = kith_all_reduce(group, sums, sums, count, KITH_UINT32, KITH_BXOR);
    return status;
}
