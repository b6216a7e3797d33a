/* tools/launch.h - -n of a subcommand: this program again, once for each rank.
 *
 * The ranks are started by the guard and the launcher of `kith run` (run.h says who watches whom): one failed rank ends
 * the others, signals are passed on once, nothing is left behind. A rank is the same subcommand with the same words but
 * without -n, so under any other launcher it is the same program, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_LAUNCH_H
#define KI_TOOLS_LAUNCH_H

/* Starts rank_count ranks of subcommand `name`; words: what they are started with, "kith", "train" and so on without
 * -n, ends with NULL. Returns the exit status. */
int ki_launch(const char *name, int rank_count, char *const *words);

#endif
