/* backends/message/setting.h - reading a backend's own settings that are numbers of bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MESSAGE_SETTING_H
#define KI_MESSAGE_SETTING_H

#include <kith/backend.h>
#include <stdlib.h>

/* The value of the row, decimal digits alone. KITH_ERR_INVALID_ARG names the setting and what is valid. */
static inline kith_status ki_read_nbytes(const kith_be_host *host, const kith_be_setting *row, size_t least,
                                         size_t most, size_t *nbytes)
{
    const char *text = host->setting(host->cookie, row->name, row->default_value);
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < least || value > most)
        return host->fail(KITH_ERR_INVALID_ARG, "%s=%s: a number of bytes from %zu to %zu is needed", row->name, text,
                          least, most);
    *nbytes = (size_t)value;
    return KITH_OK;
}

#endif
