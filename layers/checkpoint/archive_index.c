/* layers/checkpoint/archive_index.c - model.safetensors.index.json: which file has which tensor.
 *
 *     {"metadata": {...}, "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}}
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "archive.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "lex.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    ki_lex lex;
    ki_index *index;
    size_t room;
    char *names; /* where the next one goes */
} reader;

static bool add(reader *in, const char *tensor, const char *file)
{
    if (file[0] == '\0' || strchr(file, '/') != NULL)
        return ki_lex_fail(&in->lex, "a file must be one of the same folder, by its name alone");
    ki_index *index = in->index;
    if (index->count == in->room) {
        size_t room = in->room == 0 ? 64 : 2 * in->room;
        ki_index_entry *grown =
            ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(index->entries, room * sizeof *index->entries);
        if (grown == NULL) {
            in->lex.status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for it", in->lex.name);
            return false;
        }
        index->entries = grown;
        in->room = room;
    }
    index->entries[index->count++] = (ki_index_entry){ tensor, file };
    return true;
}

static bool read_map(reader *in)
{
    if (!ki_lex_need(&in->lex, '{'))
        return false;
    if (ki_lex_take(&in->lex, '}'))
        return true;
    do {
        const char *tensor, *file;
        if (!ki_lex_name(&in->lex, &in->names, &tensor) || !ki_lex_need(&in->lex, ':') ||
            !ki_lex_name(&in->lex, &in->names, &file) || !add(in, tensor, file))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    return ki_lex_need(&in->lex, '}');
}

static bool read_all(reader *in)
{
    int maps = 0;
    if (!ki_lex_need(&in->lex, '{'))
        return false;
    do {
        const char *key;
        if (!ki_lex_name(&in->lex, &in->names, &key) || !ki_lex_need(&in->lex, ':'))
            return false;
        bool is_map = strcmp(key, "weight_map") == 0;
        if (is_map && maps++ > 0)
            return ki_lex_fail(&in->lex, "weight_map stands twice");
        if (!(is_map ? read_map(in) : ki_lex_skip(&in->lex)))
            return false;
    } while (ki_lex_take(&in->lex, ','));
    if (!ki_lex_need(&in->lex, '}') || !ki_lex_finish(&in->lex))
        return false;
    return in->index->count > 0 || ki_lex_fail(&in->lex, "there is no weight_map with tensors");
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const ki_index_entry *)a)->tensor, ((const ki_index_entry *)b)->tensor);
}

static bool check_names(reader *in)
{
    const ki_index *index = in->index;
    qsort(index->entries, index->count, sizeof *index->entries, by_tensor);
    for (size_t i = 1; i < index->count; i++)
        if (strcmp(index->entries[i - 1].tensor, index->entries[i].tensor) == 0) {
            in->lex.status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %.200s stands twice", in->lex.name,
                                           index->entries[i].tensor);
            return false;
        }
    return true;
}

kith_status ki_index_parse(const char *name, const char *text, size_t nbytes, ki_index *index)
{
    ki_index made = { 0 };
    reader in = { .lex = { name, text, text, text + nbytes, KITH_OK }, .index = &made };
    made.names = in.names = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes + 1);
    if (made.names == NULL)
        in.lex.status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for it", name);
    else if (read_all(&in) && check_names(&in))
        *index = made;
    if (in.lex.status != KITH_OK)
        ki_index_fini(&made);
    return in.lex.status;
}

void ki_index_fini(ki_index *index)
{
    free(index->entries);
    free(index->names);
    *index = (ki_index){ 0 };
}
