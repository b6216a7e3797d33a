/* layers/checkpoint/header.c - see header.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "header.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int dtype, nbytes;
} types[] = {
    { "F64", KITH_F64, 8 }, { "F32", KITH_F32, 4 }, { "F16", KITH_F16, 2 }, { "BF16", KITH_BF16, 2 },
    { "I64", -1, 8 },       { "I32", -1, 4 },       { "I16", -1, 2 },       { "I8", -1, 1 },
    { "U64", -1, 8 },       { "U32", -1, 4 },       { "U16", -1, 2 },       { "U8", -1, 1 },
    { "BOOL", -1, 1 },      { "F8_E4M3", -1, 1 },   { "F8_E5M2", -1, 1 },
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *ki_stored_type(kith_dtype dtype)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == (int)dtype)
            return types[i].name;
    return NULL;
}

const char *ki_shape_text(const int64_t *shape, int dim_count, char text[KI_SHAPE_NBYTES])
{
    int used = snprintf(text, KI_SHAPE_NBYTES, "[");
    for (int d = 0; d < dim_count; d++)
        used += snprintf(text + used, KI_SHAPE_NBYTES - (size_t)used, "%s%lld", d > 0 ? ", " : "", (long long)shape[d]);
    snprintf(text + used, KI_SHAPE_NBYTES - (size_t)used, "]");
    return text;
}

/* ---- one tensor ---- */

typedef struct reader {
    ki_lex lex;
    ki_header *header;
    size_t room;
    char *names;   /* where the next name goes */
    char *scratch; /* for other strings */
    int64_t data_first, file_nbytes;
} reader;

static bool read_type(reader *in, ki_stored *tensor, int *type_nbytes)
{
    size_t nbytes;
    if (!ki_lex_string(&in->lex, in->scratch, &nbytes))
        return false;
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, in->scratch) == 0) {
            tensor->type = types[i].name;
            tensor->dtype = (kith_dtype)types[i].dtype;
            *type_nbytes = types[i].nbytes;
            return true;
        }
    return ki_lex_fail(&in->lex, "the dtype is none of safetensors");
}

static bool read_shape(reader *in, ki_stored *tensor)
{
    if (!ki_lex_need(&in->lex, '['))
        return false;
    if (ki_lex_take(&in->lex, ']'))
        return true;
    do {
        if (tensor->dim_count == KI_STORED_DIMS)
            return ki_lex_fail(&in->lex, "a shape of more than 8 dimensions");
        if (!ki_lex_whole(&in->lex, &tensor->shape[tensor->dim_count]))
            return false;
        tensor->dim_count++;
    } while (ki_lex_take(&in->lex, ','));
    return ki_lex_need(&in->lex, ']');
}

static bool read_offsets(reader *in, ki_stored *tensor)
{
    return ki_lex_need(&in->lex, '[') && ki_lex_whole(&in->lex, &tensor->begin) && ki_lex_need(&in->lex, ',') &&
           ki_lex_whole(&in->lex, &tensor->end) && ki_lex_need(&in->lex, ']');
}

enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static bool read_member(reader *in, ki_stored *tensor, int *type_nbytes, int *seen)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    size_t nbytes;
    if (!ki_lex_string(&in->lex, in->scratch, &nbytes) || !ki_lex_need(&in->lex, ':'))
        return false;
    for (int i = 0; i < 3; i++) {
        if (strcmp(keys[i], in->scratch) != 0)
            continue;
        if (*seen & 1 << i)
            return ki_lex_fail(&in->lex, "a key stands twice");
        *seen |= 1 << i;
        return i == 0 ? read_type(in, tensor, type_nbytes) : i == 1 ? read_shape(in, tensor) : read_offsets(in, tensor);
    }
    return ki_lex_fail(&in->lex, "a tensor has dtype, shape and data_offsets, and this is another key");
}

static bool refuse(reader *in, const ki_stored *tensor, const char *what)
{
    in->lex.status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged or foreign: tensor %.200s: %s", in->lex.name,
                                   tensor->name, what);
    return false;
}

/* Shape times type is what the offsets say, and they lie in the file. */
static bool check_tensor(reader *in, ki_stored *tensor, int type_nbytes)
{
    int64_t nbytes = type_nbytes;
    char shape[KI_SHAPE_NBYTES], what[KI_SHAPE_NBYTES + 120];
    for (int d = 0; d < tensor->dim_count; d++)
        if (__builtin_mul_overflow(nbytes, tensor->shape[d], &nbytes))
            return refuse(in, tensor, "a shape of more than 2^63 bytes");
    int64_t data_nbytes = in->file_nbytes - in->data_first;
    if (tensor->begin > tensor->end || tensor->end > data_nbytes) {
        snprintf(what, sizeof what, "data_offsets [%lld, %lld] of %lld bytes of data; is the file cut off?",
                 (long long)tensor->begin, (long long)tensor->end, (long long)data_nbytes);
        return refuse(in, tensor, what);
    }
    if (tensor->end - tensor->begin != nbytes) {
        snprintf(what, sizeof what, "%lld bytes, but %s of %s is %lld", (long long)(tensor->end - tensor->begin),
                 ki_shape_text(tensor->shape, tensor->dim_count, shape), tensor->type, (long long)nbytes);
        return refuse(in, tensor, what);
    }
    tensor->begin += in->data_first;
    tensor->end += in->data_first;
    return true;
}

static bool read_tensor(reader *in, const char *name)
{
    ki_stored tensor = { .name = name };
    int type_nbytes = 0, seen = 0;
    if (!ki_lex_need(&in->lex, '{'))
        return false;
    do {
        if (!read_member(in, &tensor, &type_nbytes, &seen))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    if (!ki_lex_need(&in->lex, '}'))
        return false;
    if (seen != HAS_ALL)
        return refuse(in, &tensor, "dtype, shape or data_offsets is missing");
    if (!check_tensor(in, &tensor, type_nbytes))
        return false;
    ki_header *header = in->header;
    if (header->count == in->room) {
        size_t room = in->room == 0 ? 64 : 2 * in->room;
        ki_stored *grown = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(header->tensors, room * sizeof *header->tensors);
        if (grown == NULL) {
            in->lex.status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its header", in->lex.name);
            return false;
        }
        header->tensors = grown;
        in->room = room;
    }
    header->tensors[header->count++] = tensor;
    return true;
}

/* ---- all of them ---- */

static bool read_metadata(reader *in)
{
    size_t nbytes;
    if (!ki_lex_need(&in->lex, '{'))
        return false;
    if (ki_lex_take(&in->lex, '}'))
        return true;
    do {
        if (!ki_lex_string(&in->lex, in->scratch, &nbytes) || !ki_lex_need(&in->lex, ':') ||
            !ki_lex_string(&in->lex, in->scratch, &nbytes))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    return ki_lex_need(&in->lex, '}');
}

static bool read_all(reader *in)
{
    size_t nbytes;
    int metadata_count = 0;
    if (!ki_lex_need(&in->lex, '{'))
        return false;
    if (ki_lex_take(&in->lex, '}'))
        return ki_lex_finish(&in->lex);
    do {
        if (!ki_lex_string(&in->lex, in->names, &nbytes) || !ki_lex_need(&in->lex, ':'))
            return false;
        if (strcmp(in->names, "__metadata__") == 0) {
            if (metadata_count++ > 0)
                return ki_lex_fail(&in->lex, "__metadata__ stands twice");
            if (!read_metadata(in))
                return false;
            continue;
        }
        const char *name = in->names;
        in->names += nbytes + 1;
        if (!read_tensor(in, name))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    return ki_lex_need(&in->lex, '}') && ki_lex_finish(&in->lex);
}

static int by_place(const void *a, const void *b)
{
    const ki_stored *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ki_stored *)a)->name, ((const ki_stored *)b)->name);
}

/* Every byte of the data is one tensor's. */
static bool check_places(reader *in)
{
    ki_header *header = in->header;
    char what[160];
    int64_t at = in->data_first;
    if (header->count > 0)
        qsort(header->tensors, header->count, sizeof *header->tensors, by_place);
    for (size_t i = 0; i < header->count; i++) {
        const ki_stored *tensor = &header->tensors[i];
        if (tensor->begin < at) {
            snprintf(what, sizeof what, "overlaps with %.80s", header->tensors[i - 1].name);
            return refuse(in, tensor, what);
        }
        if (tensor->begin > at) {
            snprintf(what, sizeof what, "%lld bytes before it belong to no tensor", (long long)(tensor->begin - at));
            return refuse(in, tensor, what);
        }
        at = tensor->end;
    }
    if (at == in->file_nbytes)
        return true;
    in->lex.status =
        ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged or foreign: %lld bytes behind the last tensor belong to none",
                      in->lex.name, (long long)(in->file_nbytes - at));
    return false;
}

static bool check_names(reader *in)
{
    ki_header *header = in->header;
    if (header->count > 0)
        qsort(header->tensors, header->count, sizeof *header->tensors, by_name);
    for (size_t i = 1; i < header->count; i++)
        if (strcmp(header->tensors[i - 1].name, header->tensors[i].name) == 0)
            return refuse(in, &header->tensors[i], "stands twice in the header");
    return true;
}

kith_status ki_header_parse(const char *file, const char *text, size_t nbytes, int64_t file_nbytes, ki_header *header)
{
    ki_header made = { 0 };
    reader in = { .lex = { file, text, text, text + nbytes, KITH_OK },
                  .header = &made,
                  .data_first = KI_HEADER_PREFIX + (int64_t)nbytes,
                  .file_nbytes = file_nbytes };
    made.names =
        ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes + 1); /* a name and its zero are shorter than its text */
    in.scratch = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes + 1);
    in.names = made.names;
    if (made.names == NULL || in.scratch == NULL)
        in.lex.status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its header", file);
    else if (read_all(&in) && check_places(&in) && check_names(&in))
        *header = made;
    free(in.scratch);
    if (in.lex.status != KITH_OK)
        ki_header_fini(&made);
    return in.lex.status;
}

void ki_header_fini(ki_header *header)
{
    free(header->tensors);
    free(header->names);
    *header = (ki_header){ 0 };
}
