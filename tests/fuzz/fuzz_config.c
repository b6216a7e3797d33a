/* tests/fuzz/fuzz_config.c - libFuzzer: any bytes as the config.json of a model that is to be trained.
 *
 * What is accepted prints, unless no family has its shape, and reads back to the same text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "must.h"

#include <kith/checkpoint.h>
#include <kith/context.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT, again = KITH_TRANSFORMER_CONFIG_INIT;
    char *once = NULL, *twice = NULL;
    if (kith_config_parse("fuzz", (const char *)data, nbytes, &config) != KITH_OK)
        return 0;
    MUST(config.hidden > 0 && config.blocks > 0 && config.vocabulary > 0);
    if (kith_config_print(&config, KITH_F32, &once) != KITH_OK)
        return 0;
    MUST(kith_config_parse("again", once, strlen(once), &again) == KITH_OK);
    MUST(kith_config_print(&again, KITH_F32, &twice) == KITH_OK);
    MUST(strcmp(once, twice) == 0);
    kith_free(once);
    kith_free(twice);
    return 0;
}
