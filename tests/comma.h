/* tests/comma.h - a locale with a decimal comma, for tests of what must not depend on the locale.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_COMMA_H
#define KITH_TESTS_COMMA_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes the locale of comma.locale and sets it; setlocale(LC_NUMERIC, "C") ends it. False where there is no localedef,
 * which comes with glibc's programs: other systems than Debian may not have it. */
static inline bool set_comma_locale(void)
{
    char folder[] = "/tmp/kith-locale-XXXXXX", command[1024], text[8];
    const char *source = getenv("KITH_SOURCE_DIR");
    if (source == NULL || mkdtemp(folder) == NULL)
        return false;
    /* localedef warns of categories that are left out, and says so in its status; what counts is what it wrote */
    snprintf(command, sizeof command, "localedef -c -i '%s/tests/comma.locale' %s/comma >%s/log 2>&1", source, folder,
             folder);
    int ended = system(command);
    setenv("LOCPATH", folder, 1);
    bool is_set = ended != -1 && setlocale(LC_NUMERIC, "comma") != NULL;
    snprintf(command, sizeof command, "rm -r %s", folder);
    snprintf(text, sizeof text, "%.1f", 1.5);
    return system(command) == 0 && is_set && strcmp(text, "1,5") == 0; /* or a test would show nothing */
}

#endif
