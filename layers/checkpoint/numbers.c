/* layers/checkpoint/numbers.c - see kith_checkpoint_read_numbers(): what a trainer asks of a checkpoint before it makes
 * anything that weights could be loaded into.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/base/fault.h"
#include "layers/layers.h"
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

static kith_status check(const char *path, const kith_checkpoint_number *numbers, size_t count)
{
    if (path == NULL || (count > 0 && numbers == NULL) || count > KI_MANIFEST_NUMBERS)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_checkpoint_read_numbers: path or numbers is NULL, or more than %d numbers",
                       KI_MANIFEST_NUMBERS);
    for (size_t i = 0; i < count; i++)
        if (numbers[i].name == NULL)
            return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_read_numbers: number %zu has no name", i);
    return KITH_OK;
}

static kith_status read_values(const char *path, const kith_checkpoint_number *numbers, size_t count, double *values)
{
    ki_manifest manifest = { 0 };
    kith_status status = ki_manifest_read(path, &manifest);
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        for (size_t k = 0; k < manifest.number_count; k++)
            if (strcmp(manifest.numbers[k].name, numbers[i].name) == 0)
                values[i] = manifest.numbers[k].value;
    ki_manifest_fini(&manifest);
    return status;
}

kith_status kith_checkpoint_read_numbers(kith_group *group, const char *path, kith_checkpoint_number *numbers,
                                         size_t count)
{
    double *values = NULL;
    kith_status status = check(path, numbers, count);
    if (status == KITH_OK) {
        values = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *values);
        if (values == NULL)
            status = ki_fail(KITH_ERR_NO_MEMORY, "kith_checkpoint_read_numbers: no memory for %zu numbers", count);
    }
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        values[i] = numbers[i].value;
    bool is_alone = group == NULL || kith_group_size(group) == 1;
    if (status == KITH_OK && (is_alone || kith_group_rank(group) == 0))
        status = read_values(path, numbers, count, values);
    status = ki_agree(group, status);
    if (status == KITH_OK && !is_alone && count > 0)
        status = kith_broadcast(group, values, count, KITH_F64, 0);
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        numbers[i].value = values[i];
    free(values);
    return status;
}
