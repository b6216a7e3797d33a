/* core/base/status.c - names and sentences of the statuses, from the one table in kith/status.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/status.h>

const char *kith_status_name(kith_status status)
{
    switch (status) {
#define STATUS_NAME(symbol, number, name, sentence)                                                                    \
    case symbol:                                                                                                       \
        return name;
        KITH_STATUS_TABLE(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown status";
}

const char *kith_status_sentence(kith_status status)
{
    switch (status) {
#define STATUS_SENTENCE(symbol, number, name, sentence)                                                                \
    case symbol:                                                                                                       \
        return sentence;
        KITH_STATUS_TABLE(STATUS_SENTENCE)
#undef STATUS_SENTENCE
    }
    return "a number that is no status of this version";
}
