/* tools/agree.h - how the ranks of a subcommand come to one end: all go on, or the lowest that cannot says why and all
 * leave.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_AGREE_H
#define KI_TOOLS_AGREE_H

#include <kith/context.h>
#include <stdbool.h>

/* "kith COMMAND: rank 3: ..." on stderr, on a line of its own; rank 0 does not say who it is. */
void ki_say(const char *command, int rank, const char *sentence);

/* Whether all ranks are fine. If not, the lowest that is not has said its sentence, unless that is empty; when the
 * ranks cannot be asked, each has. has_failed: of any rank afterwards, so that all end with the same status; true when
 * they cannot be asked. Collective over the world. */
bool ki_agree_over(kith_ctx *ctx, const char *command, bool is_fine, const char *sentence, bool *has_failed);

#endif
