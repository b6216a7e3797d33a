/* layers/checkpoint/save.c - see kith_checkpoint_save().
 *
 * Each step is local work and then an agreement, so that a rank that fails alone - its disk is full, it does not see
 * the folder - takes all others with it, and rank 0, which made the .part folder, removes it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "crc32.h"
#include "deposit.h"
#include "disk.h"
#include "folder.h"
#include "states.h"

#include <stdlib.h>

#define STEP_MOST INT64_C(999999999999999999)
enum { PATH_NBYTES = 4096 };

typedef struct saving {
    ki_holding holding;
    ki_states states;
    char *config; /* text */
    int64_t step;
    const kith_checkpoint_number *numbers;
    size_t count;
    ki_draft draft;         /* rank 0's */
    char path[PATH_NBYTES]; /* of the .part folder, on all */
    ki_manifest manifest;
} saving;

/* ---- the same on all ranks ---- */

static kith_status check_numbers(const kith_checkpoint_number *numbers, size_t count)
{
    if ((count > 0 && numbers == NULL) || count > KI_MANIFEST_NUMBERS)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_save: numbers is NULL, or more than %d",
                       KI_MANIFEST_NUMBERS);
    for (size_t i = 0; i < count; i++) {
        if (numbers[i].name == NULL || !ki_is_number_name(numbers[i].name))
            return ki_fail(KITH_ERR_INVALID_ARG,
                           "kith_checkpoint_save: number %zu has the name '%.80s'; wanted 1 to 63 letters, digits, '_' "
                           "and '.'",
                           i, numbers[i].name != NULL ? numbers[i].name : "(NULL)");
        for (size_t j = 0; j < i; j++)
            if (strcmp(numbers[i].name, numbers[j].name) == 0)
                return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_save: there are two numbers %s", numbers[i].name);
    }
    return KITH_OK;
}

static kith_status check(saving *s, const char *folder)
{
    if (folder == NULL || s->step < 0 || s->step > STEP_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_save: folder is NULL, or step %lld not in 0 to 10^18 - 1",
                       (long long)s->step);
    kith_status status = check_numbers(s->numbers, s->count);
    return status == KITH_OK ? kith_config_print(&s->holding.config, s->holding.layers->dtype, &s->config) : status;
}

/* config.json has what matters of the configuration, the dtype included. */
static kith_status compare(saving *s)
{
    uint64_t numbers = KI_HASH_INIT;
    for (size_t i = 0; i < s->count; i++) {
        numbers = ki_hash(numbers, s->numbers[i].name, strlen(s->numbers[i].name) + 1);
        numbers = ki_hash(numbers, &s->numbers[i].value, sizeof s->numbers[i].value);
    }
    int64_t steps = s->holding.optim != NULL ? kith_optim_steps(s->holding.optim) : -1;
    const ki_number values[] = {
        { "step", s->step },
        { "numbers", (int64_t)numbers },
        { "config or dtype", (int64_t)ki_hash(KI_HASH_INIT, s->config, strlen(s->config)) },
        { "kith_optim_steps()", steps },
    };
    s->manifest.optimizer_steps = steps;
    return ki_compare(s->holding.group, "kith_checkpoint_save", values, sizeof values / sizeof values[0]);
}

/* ---- the folder ---- */

static kith_status make_draft(saving *s, const char *folder)
{
    kith_status status = ki_folder_clear(folder); // also for their room on the disk
    if (status == KITH_OK)
        status = ki_draft_create(folder, s->step, &s->draft);
    if (status == KITH_OK && strlen(s->draft.path) >= PATH_NBYTES)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_checkpoint_save: a path of more than %d bytes", PATH_NBYTES - 1);
    if (status == KITH_OK)
        memcpy(s->path, s->draft.path, strlen(s->draft.path) + 1);
    return status;
}

static kith_status begin(saving *s, const char *folder)
{
    bool is_first = ki_holding_rank(&s->holding) == 0;
    kith_status status = ki_agree(s->holding.group, is_first ? make_draft(s, folder) : KITH_OK);
    if (status == KITH_OK && ki_holding_size(&s->holding) > 1)
        status = kith_broadcast(s->holding.group, s->path, PATH_NBYTES, KITH_UINT8, 0);
    return status;
}

/* ---- the files ---- */

/* Of a part that several ranks have, each writes some rows. */
static kith_status write_share(const saving *s, ki_deposit *deposit, const ki_part *part)
{
    const kith_group *replicas = ki_holding_replicas(&s->holding, part->param);
    int64_t units, unit, first, count;
    if (part->slot->is_copy || s->holding.layers->tp_rank % part->param->copies != 0)
        return KITH_OK;
    ki_part_units(part->param, &units, &unit);
    kith_split_range(units, replicas != NULL ? kith_group_size(replicas) : 1,
                     replicas != NULL ? kith_group_rank(replicas) : 0, &first, &count);
    ki_part share = ki_part_narrow(part, first, count);
    return ki_deposit_write(deposit, &share);
}

static kith_status write_values(saving *s, ki_deposit *deposit)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < s->holding.part_count && status == KITH_OK; i++)
        status = write_share(s, deposit, &s->holding.parts[i]);
    return status;
}

static kith_status write_states(saving *s, ki_deposit *deposit)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < s->states.part_count && status == KITH_OK; i++)
        if (s->states.is_counted[i])
            status = ki_deposit_write(deposit, &s->states.parts[i]);
    return status;
}

/* kith.json comes last. */
static kith_status write_texts(saving *s)
{
    char *config = NULL, *path = NULL, *text = NULL;
    size_t nbytes;
    kith_status status = ki_disk_join(s->path, KI_CONFIG_NAME, &config);
    if (status == KITH_OK)
        status = ki_disk_write_whole(config, s->config, strlen(s->config));
    if (status == KITH_OK)
        status = ki_manifest_print(&s->manifest, &text, &nbytes);
    if (status == KITH_OK)
        status = ki_disk_join(s->path, KI_MANIFEST_NAME, &path);
    if (status == KITH_OK)
        status = ki_disk_write_whole(path, text, nbytes);
    free(config);
    free(path);
    free(text);
    return status;
}

static kith_status publish(saving *s)
{
    kith_status status = KITH_OK;
    if (ki_holding_rank(&s->holding) == 0) {
        status = write_texts(s);
        if (status == KITH_OK)
            status = ki_draft_publish(&s->draft, true);
    }
    return ki_agree(s->holding.group, status);
}

static kith_status write_files(saving *s)
{
    ki_deposit model = { .fd = -1 }, optimizer = { .fd = -1 };
    ki_manifest_file *files = s->manifest.files;
    size_t count = 0;
    kith_status status;
    files[count++] = (ki_manifest_file){ .name = KI_CONFIG_NAME,
                                         .nbytes = (int64_t)strlen(s->config),
                                         .crc = ki_crc32(0, s->config, strlen(s->config)) };
    KI_OR_GOTO(end, ki_deposit_open(&s->holding, s->path, KI_MODEL_NAME, &s->holding.weights, s->holding.layers->dtype,
                                    &model));
    KI_OR_GOTO(end, ki_deposit_finish(&model, write_values(s, &model), &files[count++]));
    if (s->states.count > 0) {
        KI_OR_GOTO(end, ki_deposit_open(&s->holding, s->path, KI_OPTIMIZER_NAME, &s->states.catalog, s->states.dtype,
                                        &optimizer));
        KI_OR_GOTO(end, ki_deposit_finish(&optimizer, write_states(s, &optimizer), &files[count++]));
    }
    s->manifest.step = s->step;
    s->manifest.numbers = s->numbers;
    s->manifest.number_count = s->count;
    s->manifest.file_count = count;
    status = publish(s);
end:
    ki_deposit_close(&model);
    ki_deposit_close(&optimizer);
    return status;
}

kith_status kith_checkpoint_save(const kith_checkpoint_place *place, const char *folder, int64_t step,
                                 const kith_checkpoint_number *numbers, size_t count)
{
    saving s = { .step = step, .numbers = numbers, .count = count, .draft = { .lock = -1, .parent = -1 } };
    kith_status status = ki_holding_open("kith_checkpoint_save", place, &s.holding);
    if (status != KITH_OK)
        return status;
    status = ki_states_open(&s.holding, check(&s, folder), NULL, &s.states);
    if (status == KITH_OK)
        status = compare(&s);
    if (status == KITH_OK)
        status = begin(&s, folder);
    if (status == KITH_OK)
        status = write_files(&s);
    ki_draft_end(&s.draft);
    free(s.config);
    ki_states_close(&s.states);
    ki_holding_close(&s.holding);
    return status;
}
