/* layers/checkpoint/deposit.c - see deposit.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "deposit.h"

#include "core/base/fault.h"
#include "crc32.h"
#include "disk.h"
#include "lift.h"
#include "sums.h"

#include <stdlib.h>

static kith_status prepare(const char *folder, kith_dtype dtype, ki_deposit *deposit)
{
    size_t count = deposit->catalog->entry_count;
    kith_status status = ki_header_print(deposit->catalog, dtype, &deposit->printed);
    if (status == KITH_OK)
        status = ki_disk_join(folder, deposit->name, &deposit->path);
    if (status != KITH_OK)
        return status;
    deposit->counts = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *deposit->counts);
    deposit->sums = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *deposit->sums);
    deposit->named = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *deposit->named);
    if (deposit->counts == NULL || deposit->sums == NULL || deposit->named == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a list of its tensors", deposit->path);
    return KITH_OK;
}

static kith_status make_file(ki_deposit *deposit)
{
    kith_status status = ki_disk_create(deposit->path, &deposit->fd);
    if (status == KITH_OK)
        status = ki_disk_set_size(deposit->fd, deposit->path, deposit->printed.file_nbytes);
    if (status == KITH_OK)
        status = ki_disk_write(deposit->fd, deposit->path, deposit->printed.text, deposit->printed.nbytes, 0);
    return status;
}

kith_status ki_deposit_open(const ki_holding *holding, const char *folder, const char *name, const ki_catalog *catalog,
                            kith_dtype dtype, ki_deposit *deposit)
{
    *deposit = (ki_deposit){
        .name = name, .function = holding->function, .group = holding->group, .catalog = catalog, .fd = -1
    };
    bool is_first = ki_holding_rank(holding) == 0;
    kith_status status = prepare(folder, dtype, deposit);
    if (status == KITH_OK && is_first)
        status = make_file(deposit);
    status = ki_agree(deposit->group, status);
    if (status != KITH_OK)
        return status;
    if (!is_first)
        status = ki_disk_open_to_write(deposit->path, &deposit->fd);
    if (status == KITH_OK)
        status = ki_stream_init(&deposit->stream, deposit->fd, deposit->path, deposit->printed.file_nbytes);
    return ki_agree(deposit->group, status);
}

/* ---- writing ---- */

typedef struct writing {
    ki_stream *stream;
    const ki_stored *stored;
    int64_t written;
} writing;

static kith_status write_run(void *arg, const ki_part *part, const ki_stretch *run)
{
    writing *out = arg;
    out->written += run->count;
    int64_t width = (int64_t)kith_dtype_nbytes(part->dtype);
    return ki_stream_write(out->stream, out->stored->begin + run->at * width, run, part->dtype);
}

kith_status ki_deposit_write(ki_deposit *deposit, const ki_part *part)
{
    writing out = { .stream = &deposit->stream, .stored = &deposit->printed.tensors[part->slot->entry] };
    if (part->dtype != out.stored->dtype)
        return ki_fail(KITH_ERR_INTERNAL, "%s: %s is of %s, the file of %s", deposit->path, part->param->name,
                       kith_dtype_name(part->dtype), kith_dtype_name(out.stored->dtype));
    kith_status status = ki_lift_out(part, write_run, &out);
    deposit->counts[part->slot->entry] += out.written;
    return status;
}

/* ---- the end ---- */

/* An element that nobody wrote would be a zero that nobody notices; one written twice may be of different values. */
static kith_status check_counts(ki_deposit *deposit)
{
    size_t count = deposit->catalog->entry_count;
    kith_status status = KITH_OK;
    if (deposit->group != NULL && kith_group_size(deposit->group) > 1 && count > 0)
        status = kith_all_reduce(deposit->group, deposit->counts, deposit->counts, count, KITH_INT64, KITH_SUM);
    for (size_t i = 0; i < count && status == KITH_OK; i++) {
        const ki_entry *entry = &deposit->catalog->entries[i];
        int64_t wanted = ki_entry_count(entry), got = deposit->counts[i];
        if (got < wanted)
            status = ki_fail(KITH_ERR_INVALID_ARG,
                             "%s: of %s (%s) the ranks have %lld elements of %lld; place.group must be all ranks that "
                             "train the model, and layers all of a rank's stages",
                             deposit->function, entry->name, deposit->name, (long long)got, (long long)wanted);
        else if (got > wanted)
            status = ki_fail(KITH_ERR_INVALID_ARG,
                             "%s: of %s (%s) several ranks have the same elements; place.data and place.expert_data "
                             "must be those with the same parts, and copies of a tied weight tied (kith_param_tie())",
                             deposit->function, entry->name, deposit->name);
    }
    return status;
}

kith_status ki_deposit_finish(ki_deposit *deposit, kith_status mine, ki_manifest_file *file)
{
    if (mine == KITH_OK)
        mine = ki_stream_flush(&deposit->stream);
    if (mine == KITH_OK)
        mine = ki_disk_sync(deposit->fd, deposit->path);
    kith_status status = ki_agree(deposit->group, mine);
    if (status == KITH_OK)
        status = check_counts(deposit);
    size_t count = deposit->catalog->entry_count;
    if (status == KITH_OK)
        status = ki_sums(deposit->group, deposit->fd, deposit->path, deposit->printed.tensors, count, deposit->sums);
    if (status != KITH_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        deposit->named[i] = (ki_sum){ deposit->catalog->entries[i].name, deposit->sums[i] };
    *file = (ki_manifest_file){ .name = deposit->name,
                                .nbytes = deposit->printed.file_nbytes,
                                .crc = ki_crc32(0, deposit->printed.text, deposit->printed.nbytes),
                                .sums = deposit->named,
                                .count = count };
    return KITH_OK;
}

void ki_deposit_close(ki_deposit *deposit)
{
    (void)ki_disk_close(deposit->path, deposit->fd); /* what could fail has been synchronised */
    ki_stream_fini(&deposit->stream);
    ki_printed_fini(&deposit->printed);
    free(deposit->path);
    free(deposit->counts);
    free(deposit->sums);
    free(deposit->named);
    *deposit = (ki_deposit){ .fd = -1 };
}
