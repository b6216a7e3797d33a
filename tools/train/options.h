/* tools/train/options.h - from words to train_options; what the parts of `kith train` before the ranks share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TRAIN_OPTIONS_H
#define KI_TOOLS_TRAIN_OPTIONS_H

#include "train.h"

#define TRAIN_GLOBAL_BATCH_MAX (1 << 30)

/* ---- help.c ---- */

extern const char train_help[];

/* ---- options.c ---- */

/* Reads and checks. rest: as in ki_flags_read(). Returns KI_EXIT_OK, KI_FLAGS_HELP, or the exit status after a sentence
 * on stderr. train_options_free() whatever is returned. */
int train_options_read(int argc, char **argv, train_options *options, char **rest);
/* "cosine", "bf16"; NULL for what is none. */
const char *train_decay_word(int kind);
const char *train_dtype_word(int dtype);
void train_options_free(train_options *options);

/* ---- kept.c ---- */

/* Name of the flag without "--"; NULL for what is no option. */
const char *train_kept_flag(int kept);

#endif
