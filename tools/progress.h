/* tools/progress.h - one line on stderr that says how far long work is.
 *
 * It is there only while stderr is a terminal: logs and scripts never see it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_PROGRESS_H
#define KI_TOOLS_PROGRESS_H

/* "kith COMMAND: what 42 %", over the line before. */
void ki_progress_show(const char *command, const char *what, double fraction);
/* Takes the line away, before anything else is written. */
void ki_progress_end(void);

#endif
