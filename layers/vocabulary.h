/* layers/vocabulary.h - a vocabulary that is dealt to the tensor-parallel ranks; what embedding and head share.
 *
 * A table has one row for each word. Its rows are dealt as kith_split_range() does, or in equal parts with rows of
 * padding behind the last word, so that shapes suit the hardware. Padding never takes part: layers look up in, multiply
 * with and differentiate the rows of words alone, so no logit of it has to be masked, and what loads and gathers is the
 * table without it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_VOCABULARY_H
#define KI_LAYERS_VOCABULARY_H

#include "layers.h"

typedef struct ki_vocabulary {
    int64_t words;        /* of all ranks together */
    int64_t padded;       /* rows of all ranks; as words: dealt without padding */
    int64_t first, count; /* this rank's words; count may be 0 */
    int64_t rows;         /* count and this rank's padding */
} ki_vocabulary;

/* what: the layer's name, for texts. multiple 0: not padded. */
kith_status ki_vocabulary_deal(const kith_layers *layers, const char *what, int64_t words, int64_t multiple,
                               ki_vocabulary *vocabulary);

/* "<prefix>.weight", [words, features] of it. */
kith_status ki_vocabulary_table(kith_layers *layers, const char *prefix, const ki_vocabulary *vocabulary,
                                int64_t features, kith_param **table);

/* How the rows of a table were dealt. */
ki_vocabulary ki_vocabulary_of(const kith_param *table);

/* The rows of words in a table's value or gradient. */
kith_tensor ki_words_of(const kith_param *table, const kith_tensor *rows);

/* Checks that ids are those of the tape's microbatch: [tokens] or [sequence, batch] of int32, each in [0, words) or
 * *ignored (NULL: none may be). The status is the same on all ranks, as ids are. counted: ids that are not ignored;
 * NULL: not wanted. what: "kith_head_forward: targets". */
kith_status ki_ids_check(const kith_tape *tape, const char *what, const kith_tensor *ids, int64_t words,
                         const int32_t *ignored, int64_t *counted);

/* Ids that were checked, where the layers compute: a reference, or a copy of those that the caller has on the host. */
kith_status ki_ids_bring_in(const kith_tape *tape, const kith_tensor *ids, kith_tensor *there);

#endif
