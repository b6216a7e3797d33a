/* layers/checkpoint/match.h - a archive beside a catalog: is everything there, and nothing else; and reading it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_MATCH_H
#define KI_CHECKPOINT_MATCH_H

#include "archive.h"
#include "catalog.h"
#include "part.h"

typedef struct ki_match {
    const ki_stored **stored; /* [entry_count] of the catalog */
} ki_match;

/* KITH_ERR_INVALID_ARG names the tensor that is missing, has another shape or another sort of numbers, or that the
 * catalog has no place for. has_leftovers: files of the world, which may have what no model needs. */
kith_status ki_match_open(const ki_archive *archive, const ki_catalog *catalog, bool has_leftovers, ki_match *match);
void ki_match_close(ki_match *match);

/* Reads parts of entries of the catalog into memory. */
kith_status ki_match_read(const ki_match *match, const ki_archive *archive, const ki_part *parts, size_t count);

#endif
