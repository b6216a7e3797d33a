/* layers/checkpoint/header_print.c - the header of a file that is to hold all entries of a catalog.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "header_print.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

static void add_entry(ki_text *text, const ki_entry *entry, const char *type, int64_t begin, int64_t end)
{
    char shape[KI_SHAPE_NBYTES];
    ki_text_add(text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}", entry->name, type,
                ki_shape_text(entry->shape, entry->dim_count, shape), (long long)begin, (long long)end);
}

/* Length and JSON. Spaces behind the JSON bring the data to a multiple of eight bytes. */
static kith_status print(const ki_catalog *catalog, kith_dtype dtype, ki_text *text, ki_stored *tensors)
{
    unsigned char prefix[KI_HEADER_PREFIX] = { 0 };
    const char *type = ki_stored_type(dtype);
    int64_t at = 0;
    ki_text_append(text, (const char *)prefix, sizeof prefix);
    ki_text_add(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < catalog->entry_count; i++) {
        const ki_entry *entry = &catalog->entries[i];
        int64_t nbytes, end;
        if (__builtin_mul_overflow(ki_entry_count(entry), (int64_t)kith_dtype_nbytes(dtype), &nbytes) ||
            __builtin_add_overflow(at, nbytes, &end) || end > INT64_MAX / 2)
            return ki_fail(KITH_ERR_INVALID_ARG, "checkpoint: a model of more than 2^62 bytes");
        add_entry(text, entry, type, at, end);
        tensors[i] = (ki_stored){ .name = entry->name,
                                  .type = type,
                                  .dtype = dtype,
                                  .dim_count = entry->dim_count,
                                  .shape = { entry->shape[0], entry->shape[1] },
                                  .begin = at,
                                  .end = end };
        at = end;
    }
    ki_text_add(text, "}");
    while (text->length % 8 != 0 && !text->is_failed)
        ki_text_append(text, " ", 1);
    return text->is_failed ? ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for a header") : KITH_OK;
}

kith_status ki_header_print(const ki_catalog *catalog, kith_dtype dtype, ki_printed *printed)
{
    ki_text text = { 0 };
    ki_stored *tensors = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(catalog->entry_count + 1, sizeof *tensors);
    kith_status status = tensors != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for a header");
    if (status == KITH_OK)
        status = print(catalog, dtype, &text, tensors);
    if (status == KITH_OK && text.length - KI_HEADER_PREFIX > KI_HEADER_MOST)
        status = ki_fail(KITH_ERR_UNSUPPORTED, "checkpoint: a header of %zu bytes for %zu tensors, at most 100 MB",
                         text.length, catalog->entry_count);
    if (status != KITH_OK) {
        free(tensors);
        ki_text_fini(&text);
        return status;
    }
    for (int i = 0; i < KI_HEADER_PREFIX; i++)
        text.chars[i] = (char)((text.length - KI_HEADER_PREFIX) >> 8 * i & 255);
    int64_t first = (int64_t)text.length, last = first;
    for (size_t i = 0; i < catalog->entry_count; i++) {
        tensors[i].begin += first;
        last = tensors[i].end += first;
    }
    *printed = (ki_printed){ text.chars, text.length, tensors, last };
    return KITH_OK;
}

void ki_printed_fini(ki_printed *printed)
{
    free(printed->text);
    free(printed->tensors);
    *printed = (ki_printed){ 0 };
}
