/* tools/bench/sizes.c - numbers of bytes as people write them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool bench_size_parse(const char *text, size_t *nbytes)
{
    size_t digits = strspn(text, "0123456789");
    unsigned shift = 0;
    const char *unit = text + digits;
    if (digits == 0)
        return false;
    if (*unit != '\0') {
        const char *found = strchr("kKmMgG", *unit);
        if (found == NULL || unit[1] != '\0')
            return false;
        shift = *found == 'k' || *found == 'K' ? 10 : *found == 'm' || *found == 'M' ? 20 : 30;
    }
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno != 0 || number == 0 || number > (SIZE_MAX >> shift))
        return false;
    *nbytes = (size_t)number << shift;
    return true;
}

void bench_size_print(size_t nbytes, char *text, size_t text_nbytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    int unit = 0;
    while (unit < 3 && nbytes >= 1024 && nbytes % 1024 == 0) {
        nbytes /= 1024;
        unit++;
    }
    snprintf(text, text_nbytes, "%zu %s", nbytes, units[unit]);
}
