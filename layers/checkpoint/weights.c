/* layers/checkpoint/weights.c - weights out of files of the world: see kith_weights_load().
 *
 * Every rank reads the header and its own parts. What can be wrong with the files is found, and agreed on, before the
 * first weight changes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "holding.h"
#include "match.h"

static kith_status check(const char *path, const ki_holding *holding, ki_archive *archive, ki_match *match)
{
    if (path == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: path must not be NULL", holding->function);
    kith_status status = ki_archive_open(path, archive);
    return status == KITH_OK ? ki_match_open(archive, &holding->weights, true, match) : status;
}

static kith_status read_values(const ki_holding *holding, const ki_archive *archive, const ki_match *match)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < holding->part_count && status == KITH_OK; i++)
        status = ki_part_zero_padding(holding->parts[i].param);
    if (status == KITH_OK)
        status = ki_match_read(match, archive, holding->parts, holding->part_count);
    if (status == KITH_OK && holding->optim != NULL)
        status = kith_optim_reset_masters(holding->optim);
    return status;
}

kith_status kith_weights_load(const kith_checkpoint_place *given, const char *path)
{
    ki_holding holding;
    ki_archive archive = { 0 };
    ki_match match = { 0 };
    kith_status status = ki_holding_open("kith_weights_load", given, &holding);
    if (status != KITH_OK)
        return status;
    status = ki_agree(holding.group, check(path, &holding, &archive, &match));
    if (status == KITH_OK)
        status = ki_agree(holding.group, read_values(&holding, &archive, &match));
    ki_match_close(&match);
    ki_archive_close(&archive);
    ki_holding_close(&holding);
    return status;
}
