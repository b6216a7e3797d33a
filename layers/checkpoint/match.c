/* layers/checkpoint/match.c - see match.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "match.h"

#include "convert.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "lift.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "lm_head.weight"

static kith_status find(const ki_archive *archive, const ki_entry *entry, const ki_stored **found)
{
    char wanted[KI_SHAPE_NBYTES], got[KI_SHAPE_NBYTES];
    const ki_stored *stored = ki_archive_find(archive, entry->name);
    if (stored == NULL)
        stored = ki_archive_find(archive, entry->bare);
    ki_shape_text(entry->shape, entry->dim_count, wanted);
    if (stored == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %s is missing; wanted with shape %s", archive->path,
                             entry->name, wanted);
    bool is_same = stored->dim_count == entry->dim_count;
    for (int d = 0; d < entry->dim_count && is_same; d++)
        is_same = stored->shape[d] == entry->shape[d];
    const char *path = archive->files[stored->file].path;
    if (!is_same)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %s has shape %s, this model wants %s", path,
                             stored->name, ki_shape_text(stored->shape, stored->dim_count, got), wanted);
    if (!ki_is_float(stored->dtype))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %s is of %s, wanted F64, F32, BF16 or F16", path,
                             stored->name, stored->type);
    *found = stored;
    return KITH_OK;
}

/* A tied head may be stored beside the embedding, and is not looked at then, as in transformers. */
static bool is_allowed(const ki_catalog *catalog, const char *name)
{
    const ki_slot *head = ki_catalog_find(catalog, "head.weight", NULL);
    return ki_is_leftover(name) || (strcmp(name, HEAD) == 0 && head != NULL && head->is_copy);
}

static kith_status check_extra(const ki_archive *archive, const ki_catalog *catalog, bool has_leftovers,
                               const bool *is_used)
{
    for (size_t i = 0; i < archive->count; i++) {
        const char *name = archive->tensors[i].name;
        if (!is_used[i] && !(has_leftovers && is_allowed(catalog, name)))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %.200s is none of this model's",
                                 archive->files[archive->tensors[i].file].path, name);
    }
    return KITH_OK;
}

kith_status ki_match_open(const ki_archive *archive, const ki_catalog *catalog, bool has_leftovers, ki_match *match)
{
    bool *is_used = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(archive->count + 1, sizeof *is_used);
    const ki_stored **stored = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(catalog->entry_count + 1, sizeof *stored);
    kith_status status = KITH_OK;
    if (is_used == NULL || stored == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a list of its tensors", archive->path);
    for (size_t i = 0; i < catalog->entry_count && status == KITH_OK; i++) {
        status = find(archive, &catalog->entries[i], &stored[i]);
        if (status == KITH_OK)
            is_used[stored[i] - archive->tensors] = true;
    }
    if (status == KITH_OK)
        status = check_extra(archive, catalog, has_leftovers, is_used);
    free(is_used);
    if (status == KITH_OK)
        match->stored = stored;
    else
        free(stored);
    return status;
}

void ki_match_close(ki_match *match)
{
    free(match->stored);
    match->stored = NULL;
}

/* ---- reading ---- */

typedef struct reading {
    ki_stream *stream;
    const ki_stored *stored;
} reading;

static kith_status read_run(void *arg, const ki_part *part, const ki_stretch *run)
{
    const reading *in = arg;
    int64_t width = (int64_t)kith_dtype_nbytes(in->stored->dtype);
    return ki_stream_read(in->stream, in->stored->begin + run->at * width, run, in->stored->dtype, part->dtype);
}

/* Parts of one file after the other, so that one buffer serves. */
kith_status ki_match_read(const ki_match *match, const ki_archive *archive, const ki_part *parts, size_t count)
{
    kith_status status = KITH_OK;
    for (int f = 0; f < archive->file_count && status == KITH_OK; f++) {
        const ki_archive_file *file = &archive->files[f];
        ki_stream stream;
        status = ki_stream_init(&stream, file->fd, file->path, file->nbytes);
        for (size_t i = 0; i < count && status == KITH_OK; i++) {
            reading in = { &stream, match->stored[parts[i].slot->entry] };
            if (in.stored->file == f)
                status = ki_lift_in(&parts[i], read_run, &in);
        }
        ki_stream_fini(&stream);
    }
    return status;
}
