/* backends/message/setting.h - reading a backend's own settings: numbers of bytes, and what becomes of device memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MESSAGE_SETTING_H
#define KI_MESSAGE_SETTING_H

#include <kith/backend.h>
#include <stdlib.h>
#include <string.h>

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

typedef enum ki_device_memory {
    KI_DEVICE_MEMORY_AUTO,
    KI_DEVICE_MEMORY_DIRECT,
    KI_DEVICE_MEMORY_STAGED
} ki_device_memory;

/* The row of such a setting, for a library of this name. */
#define KI_DEVICE_MEMORY_SETTING(setting, library)                                                                     \
    {                                                                                                                  \
        setting, "auto",                                                                                               \
            "device memory: auto (given to " library " where it says that it takes CUDA's), direct (given to it, "     \
            "whatever it says), staged (copied through the host)",                                                     \
            1                                                                                                          \
    }

static inline kith_status ki_read_device_memory(const kith_be_host *host, const kith_be_setting *row,
                                                ki_device_memory *wanted)
{
    const char *text = host->setting(host->cookie, row->name, row->default_value);
    if (strcmp(text, "auto") == 0)
        *wanted = KI_DEVICE_MEMORY_AUTO;
    else if (strcmp(text, "direct") == 0)
        *wanted = KI_DEVICE_MEMORY_DIRECT;
    else if (strcmp(text, "staged") == 0)
        *wanted = KI_DEVICE_MEMORY_STAGED;
    else
        return host->fail(KITH_ERR_INVALID_ARG, "%s=%s: auto, direct or staged is needed", row->name, text);
    return KITH_OK;
}

#endif
