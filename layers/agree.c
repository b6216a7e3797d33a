/* layers/agree.c - one status on all ranks, with the sentence of the rank that knows why; equal numbers on all; and
 * groups of copies, which all ranks must come to make.
 *
 * A creation is local up to its last step. Whatever happened to a rank until then, it takes part in that step, so a
 * rank that failed alone neither leaves the others waiting nor shifts what they send each other next.
 *
 * While all is well an agreement is one small all_reduce. After a failure one broadcast more tells the sentence.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/fault.h"
#include <stdio.h>
#include <stdlib.h>

/* Why this rank fails, in a sentence: its own where it has one for that status. */
static void take_sentence(kith_status mine, char sentence[KI_DETAIL_NBYTES])
{
    kith_status last = KITH_OK;
    bool has_own = ki_error_count(&last) > 0 && last == mine;
    snprintf(sentence, KI_DETAIL_NBYTES, "%s", has_own ? kith_error_detail() : kith_status_sentence(mine));
}

kith_status ki_agree(kith_group *group, kith_status mine)
{
    if (group == NULL || kith_group_size(group) == 1)
        return mine;
    char sentence[KI_DETAIL_NBYTES] = "";
    if (mine != KITH_OK)
        take_sentence(mine, sentence);
    int64_t lowest = (int64_t)mine * (INT64_C(1) << 32) + kith_group_rank(group); // of equal ones the lowest rank
    kith_status status = kith_all_reduce(group, &lowest, &lowest, 1, KITH_INT64, KITH_MIN);
    kith_status agreed = (kith_status)(lowest >> 32);
    int teller = (int)(lowest & 0xffffffff);
    if (status == KITH_OK && agreed == KITH_OK)
        return KITH_OK;
    char told[KI_DETAIL_NBYTES];
    memcpy(told, sentence, sizeof told);
    if (status == KITH_OK)
        status = kith_broadcast(group, told, sizeof told, KITH_UINT8, teller);
    if (mine != KITH_OK && (status != KITH_OK || mine == agreed))
        return ki_fail_quiet(mine, "%s", sentence);
    if (status != KITH_OK)
        return status;
    told[sizeof told - 1] = '\0';
    return ki_fail_quiet(agreed, "rank %d of group '%s': %s", teller, kith_group_name(group), told);
}

/* The largest of each number is also the smallest: ~ turns the order round, for all numbers of 64 bits. */
kith_status ki_compare(kith_group *group, const char *function, const ki_number *numbers, int count)
{
    int64_t values[2 * KI_NUMBERS] = { 0 };
    if (group == NULL || kith_group_size(group) == 1)
        return KITH_OK;
    if (count > KI_NUMBERS)
        return ki_fail(KITH_ERR_INTERNAL, "%s: %d numbers to compare, there is room for %d", function, count,
                       KI_NUMBERS);
    for (int i = 0; i < count; i++) {
        values[i] = numbers[i].value;
        values[count + i] = ~numbers[i].value;
    }
    kith_status status = kith_all_reduce(group, values, values, 2 * (size_t)count, KITH_INT64, KITH_MAX);
    for (int i = 0; i < count && status == KITH_OK; i++)
        if (values[i] != ~values[count + i])
            status = ki_fail(KITH_ERR_MISMATCH, "%s: the ranks of group '%s' have different values of %s", function,
                             kith_group_name(group), numbers[i].name);
    return status;
}

kith_status ki_agree_on(kith_group *tp, kith_group *ep, kith_status mine, const char *function,
                        const ki_number *numbers, int count)
{
    kith_group *const groups[] = { tp, ep };
    kith_status status = mine;
    for (int i = 0; i < 2; i++) {
        status = ki_agree(groups[i], status);
        if (status == KITH_OK)
            status = ki_compare(groups[i], function, numbers, count);
    }
    return status;
}

/* ---- groups of copies ---- */

kith_group *ki_layers_copies(const kith_layers *layers, int size)
{
    if (size == 1 || layers->is_dry)
        return NULL;
    if (size == layers->tp_size)
        return layers->options.tp;
    const ki_copies *copies = layers->copies;
    while (copies != NULL && copies->size != size)
        copies = copies->next;
    return copies != NULL ? copies->group : NULL;
}

static kith_status make_copies(kith_layers *layers, int size)
{
    ki_copies *copies = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(1, sizeof *copies);
    kith_status status = copies != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for a group");
    status = ki_agree(layers->options.tp, status);
    if (status == KITH_OK)
        status = kith_group_split(layers->options.tp, layers->tp_rank / size, layers->tp_rank, NULL, &copies->group);
    if (status == KITH_OK)
        status = ki_space_join(&layers->space, copies->group);
    if (status != KITH_OK) {
        free(copies);
        return status;
    }
    copies->size = size;
    copies->next = layers->copies;
    layers->copies = copies;
    return KITH_OK;
}

kith_status ki_layers_make_copies(kith_layers *layers, size_t first_param)
{
    kith_status status = KITH_OK;
    for (size_t i = first_param; i < layers->param_count && status == KITH_OK; i++) {
        kith_param *param = layers->params[i];
        bool is_missing = param->copies > 1 && !layers->is_dry && param->copies_group == NULL;
        if (is_missing && ki_layers_copies(layers, param->copies) == NULL)
            status = make_copies(layers, param->copies);
        if (is_missing && status == KITH_OK)
            param->copies_group = ki_layers_copies(layers, param->copies);
    }
    return status;
}
