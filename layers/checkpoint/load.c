/* layers/checkpoint/load.c - see kith_checkpoint_load(), kith_checkpoint_newest(), kith_checkpoint_prune().
 *
 * Every rank reads kith.json and the headers; the sums are the work of all together. Then all is known to be good, and
 * each reads its own parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "archive.h"
#include "core/base/fault.h"
#include "core/base/file.h"
#include "crc32.h"
#include "disk.h"
#include "folder.h"
#include "manifest.h"
#include "match.h"
#include "states.h"
#include "sums.h"

#include <stdlib.h>

#define CONFIG_MOST ((size_t)16 << 20)

/* One of the two files of tensors. */
typedef struct loading {
    char *path;
    ki_archive archive;
    ki_match match;
    uint32_t *sums; /* [archive.count] as they are now */
    const ki_manifest_file *wanted;
} loading;

static void end_loading(loading *in)
{
    ki_match_close(&in->match);
    ki_archive_close(&in->archive);
    free(in->sums);
    free(in->path);
    *in = (loading){ 0 };
}

/* ---- what can be checked without reading the data ---- */

static kith_status check_config(const char *folder, const ki_manifest *manifest, const ki_holding *holding)
{
    const ki_manifest_file *wanted = ki_manifest_find(manifest, KI_CONFIG_NAME);
    char *path, *text = NULL;
    size_t nbytes;
    if (wanted == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: " KI_MANIFEST_NAME " names no " KI_CONFIG_NAME, folder);
    kith_status status = ki_disk_join(folder, KI_CONFIG_NAME, &path);
    if (status != KITH_OK)
        return status;
    status = ki_file_read(path, CONFIG_MOST, &text, &nbytes);
    if (status == KITH_OK && ki_crc32(0, text, nbytes) != wanted->crc)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged: its sum is another than when it was written", path);
    if (status == KITH_OK)
        status = ki_config_compare(path, &holding->config);
    free(text);
    free(path);
    return status;
}

static kith_status open_file(const char *folder, const char *name, const ki_manifest *manifest, loading *in)
{
    in->wanted = ki_manifest_find(manifest, name);
    if (in->wanted == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has no %s", folder, name);
    kith_status status = ki_disk_join(folder, name, &in->path);
    if (status == KITH_OK)
        status = ki_archive_open(in->path, &in->archive);
    if (status == KITH_OK && in->archive.files[0].header_crc != in->wanted->crc)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG,
                               "%s: damaged: the sum of its header is another than when it was written", in->path);
    if (status == KITH_OK && in->archive.count != in->wanted->count)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has %zu tensors, was written with %zu", in->path,
                               in->archive.count, in->wanted->count);
    if (status != KITH_OK)
        return status;
    in->sums = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(in->archive.count + 1, sizeof *in->sums);
    return in->sums != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its sums", in->path);
}

static kith_status find_numbers(const char *path, const ki_manifest *manifest, const kith_checkpoint_number *numbers,
                                size_t count, double *values)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < manifest->number_count && numbers[i].name != NULL &&
               strcmp(manifest->numbers[k].name, numbers[i].name) != 0)
            k++;
        if (numbers[i].name == NULL || k == manifest->number_count)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has no number %.80s", path,
                                 numbers[i].name != NULL ? numbers[i].name : "without a name");
        values[i] = manifest->numbers[k].value;
    }
    return KITH_OK;
}

/* ---- the sums ---- */

static kith_status check_sums(const ki_holding *holding, loading *in)
{
    const ki_archive *archive = &in->archive;
    kith_status status =
        ki_sums(holding->group, archive->files[0].fd, in->path, archive->tensors, archive->count, in->sums);
    for (size_t i = 0; i < archive->count && status == KITH_OK; i++) {
        const ki_sum *wanted = &in->wanted->sums[i]; /* both are sorted by name */
        if (strcmp(wanted->name, archive->tensors[i].name) != 0)
            status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tensor %s has no sum in " KI_MANIFEST_NAME, in->path,
                                   archive->tensors[i].name);
        else if (wanted->crc != in->sums[i])
            status =
                ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged: tensor %s has the sum %08x, was written with %08x",
                              in->path, wanted->name, in->sums[i], wanted->crc);
    }
    return status;
}

/* ---- all of it ---- */

typedef struct job {
    ki_holding holding;
    ki_states states;
    ki_manifest manifest;
    loading model, optimizer;
    double *values; /* [count] of the caller's numbers */
} job;

static kith_status open_optimizer(job *j, const char *path)
{
    if (j->holding.optim == NULL)
        return KITH_OK;
    if (j->manifest.optimizer_steps < 0)
        return ki_fail_quiet(
            KITH_ERR_INVALID_ARG,
            "%s: was saved without an optimizer; where only weights are wanted, leave place.optim NULL", path);
    bool is_there = ki_manifest_find(&j->manifest, KI_OPTIMIZER_NAME) != NULL;
    return is_there ? open_file(path, KI_OPTIMIZER_NAME, &j->manifest, &j->optimizer) : KITH_OK;
}

static kith_status check_all(job *j, const char *path, const kith_checkpoint_number *numbers, size_t count)
{
    if (path == NULL || (count > 0 && numbers == NULL) || count > KI_MANIFEST_NUMBERS)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_load: path or numbers is NULL, or more than %d numbers",
                       KI_MANIFEST_NUMBERS);
    j->values = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *j->values);
    if (j->values == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_checkpoint_load: no memory for %zu numbers", count);
    kith_status status = ki_manifest_read(path, &j->manifest);
    if (status == KITH_OK)
        status = find_numbers(path, &j->manifest, numbers, count, j->values);
    if (status == KITH_OK)
        status = check_config(path, &j->manifest, &j->holding);
    if (status == KITH_OK)
        status = open_file(path, KI_MODEL_NAME, &j->manifest, &j->model);
    if (status == KITH_OK)
        status = ki_match_open(&j->model.archive, &j->holding.weights, false, &j->model.match);
    return status == KITH_OK ? open_optimizer(j, path) : status;
}

/* Where neither keeps anything (plain SGD) there is no file. */
static kith_status check_states(job *j, const char *path)
{
    if (j->optimizer.path != NULL)
        return ki_match_open(&j->optimizer.archive, &j->states.catalog, false, &j->optimizer.match);
    if (j->states.count > 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: was saved with an optimizer that keeps nothing; this one keeps %s", path,
                             j->states.names[0]);
    return KITH_OK;
}

static kith_status check_data(job *j)
{
    kith_status status = check_sums(&j->holding, &j->model);
    if (status == KITH_OK && j->optimizer.path != NULL)
        status = check_sums(&j->holding, &j->optimizer);
    return status;
}

/* Weights that are as precise as masters begin as those. */
static kith_status read_masters(job *j)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < j->holding.part_count && status == KITH_OK; i++) {
        ki_part part = j->holding.parts[i];
        part.slot = ki_catalog_find(&j->states.catalog, part.param->name, KI_MASTER);
        part.entry = &j->states.catalog.entries[part.slot->entry];
        status = ki_match_read(&j->optimizer.match, &j->optimizer.archive, &part, 1);
    }
    return status;
}

static kith_status read_values(job *j)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < j->holding.part_count && status == KITH_OK; i++)
        status = ki_part_zero_padding(j->holding.parts[i].param);
    if (status != KITH_OK)
        return status;
    if (j->states.gives_masters)
        return read_masters(j);
    return ki_match_read(&j->model.match, &j->model.archive, j->holding.parts, j->holding.part_count);
}

static kith_status read_all(job *j)
{
    kith_status status = read_values(j);
    if (status == KITH_OK && j->optimizer.path != NULL)
        status = ki_match_read(&j->optimizer.match, &j->optimizer.archive, j->states.parts, j->states.part_count);
    if (status == KITH_OK && j->states.lacks_masters)
        status = kith_optim_reset_masters(j->holding.optim);
    if (status == KITH_OK && j->holding.optim != NULL)
        status = kith_optim_set_steps(j->holding.optim, j->manifest.optimizer_steps);
    return status;
}

static kith_status load(job *j, const char *path, const kith_checkpoint_number *numbers, size_t count)
{
    kith_status status;
    status = check_all(j, path, numbers, count);
    const ki_archive *file = j->optimizer.path != NULL ? &j->optimizer.archive : NULL;
    KI_OR_GOTO(end, ki_states_open(&j->holding, status, file, &j->states));
    KI_OR_GOTO(end, ki_agree(j->holding.group, check_states(j, path)));
    KI_OR_GOTO(end, check_data(j));
    status = ki_agree(j->holding.group, read_all(j));
end:
    return status;
}

kith_status kith_checkpoint_load(const kith_checkpoint_place *place, const char *path, kith_checkpoint_number *numbers,
                                 size_t count)
{
    job j = { 0 };
    kith_status status = ki_holding_open("kith_checkpoint_load", place, &j.holding);
    if (status != KITH_OK)
        return status;
    status = load(&j, path, numbers, count);
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        numbers[i].value = j.values[i];
    end_loading(&j.model);
    end_loading(&j.optimizer);
    free(j.values);
    ki_manifest_fini(&j.manifest);
    ki_states_close(&j.states);
    ki_holding_close(&j.holding);
    return status;
}

/* ---- which there are: rank 0 looks ---- */

static bool is_first(kith_group *group)
{
    return group == NULL || kith_group_rank(group) == 0;
}

kith_status kith_checkpoint_newest(kith_group *group, const char *folder, char **path, int64_t *step)
{
    char *found = NULL;
    int64_t answer[2] = { 0, 0 }; /* step, bytes of the path */
    kith_status status = KITH_OK;
    if (folder == NULL || path == NULL || step == NULL)
        status = ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_newest: folder, path and step must not be NULL");
    else if (is_first(group))
        status = ki_folder_newest(folder, &found, &answer[0]);
    status = ki_agree(group, status);
    if (status == KITH_OK && found != NULL)
        answer[1] = (int64_t)strlen(found) + 1;
    bool is_alone = group == NULL || kith_group_size(group) == 1;
    if (status == KITH_OK && !is_alone)
        status = kith_broadcast(group, answer, 2, KITH_INT64, 0);
    if (status == KITH_OK && found == NULL) {
        found = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)answer[1], 1);
        status = found != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "kith_checkpoint_newest: no memory for a path");
    }
    if (!is_alone)
        status = ki_agree(group, status);
    if (status == KITH_OK && !is_alone)
        status = kith_broadcast(group, found, (size_t)answer[1], KITH_UINT8, 0);
    if (status != KITH_OK) {
        free(found);
        return status;
    }
    *path = found;
    *step = answer[0];
    return KITH_OK;
}

kith_status kith_checkpoint_prune(kith_group *group, const char *folder, int keep, int64_t stays)
{
    kith_status status = KITH_OK;
    if (folder == NULL || keep < 0)
        status = ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_prune: folder is NULL, or keep %d below 0", keep);
    else if (keep > 0 && is_first(group))
        status = ki_folder_prune(folder, keep, stays);
    return ki_agree(group, status);
}
