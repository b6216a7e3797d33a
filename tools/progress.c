/* tools/progress.c - see progress.h.
 *
 * Work may tell far more often than a person can read: the line is written when it has something else to say.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_line;
static char shown[128];

void ki_progress_show(const char *command, const char *what, double fraction)
{
    char line[sizeof shown];
    snprintf(line, sizeof line, "kith %s: %s %.0f %%", command, what, fraction * 100);
    if ((has_line && strcmp(line, shown) == 0) || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%s", line);
    memcpy(shown, line, sizeof shown);
    has_line = true;
}

void ki_progress_end(void)
{
    if (has_line)
        fputs("\r\033[K", stderr);
    has_line = false;
}
