/* tests/fuzz/fuzz_model.c - libFuzzer: any bytes as a config.json; a model that is accepted must be planned or refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/context.h>
#include <kith/plan.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    kith_model model;
    kith_plan plan;
    char *text = NULL;
    if (kith_model_parse("fuzz", (const char *)data, nbytes, &model) != KITH_OK)
        return 0;
    if (!isfinite(kith_model_parameters(&model)) || kith_model_parameters(&model) <= 0)
        abort();
    kith_plan_options options = KITH_PLAN_OPTIONS_INIT;
    if (kith_plan_make(NULL, &model, &options, &plan) == KITH_OK &&
        kith_plan_print(&plan, KITH_FORMAT_JSON, &text) == KITH_OK)
        kith_free(text);
    return 0;
}
