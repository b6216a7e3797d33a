/* tests/fuzz/fuzz_schedule.c - libFuzzer: any bytes through the reader of pipeline files.
 *
 * What is accepted must write and read back to the same text; a plan that passes the check must lower, pass the
 * check again and run on a clock.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "must.h"

#include <kith/context.h>
#include <kith/schedule.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* A plan without messages keeps its computation, one with messages keeps all. */
static void round_trip(const kith_schedule *plan)
{
    kith_schedule_form form = kith_schedule_is_lowered(plan) ? KITH_FORM_TORCH_COMMS : KITH_FORM_TORCH_COMPUTE;
    kith_torch_dialect dialect = KITH_TORCH_NEW;
    kith_schedule *again = NULL;
    char *once = NULL, *twice = NULL;
    size_t dropped = 0;
    MUST(kith_schedule_write(plan, form, &once, &dropped) == KITH_OK);
    MUST(dropped == 0 || form == KITH_FORM_TORCH_COMPUTE);
    MUST(kith_schedule_parse("fuzz", once, strlen(once), &dialect, &again) == KITH_OK);
    MUST(kith_schedule_write(again, form, &twice, NULL) == KITH_OK);
    MUST(strcmp(once, twice) == 0);
    kith_schedule_destroy(again);
    kith_free(once);
    kith_free(twice);
}

static void run(const kith_schedule *plan)
{
    kith_schedule *computation = NULL, *lowered = NULL; /* of a file that has parts of a step, the computation */
    kith_simulation *simulation = NULL;
    char *report = NULL;
    if (kith_schedule_check(plan, NULL, &report) != KITH_OK) {
        kith_free(report);
        return;
    }
    if (!kith_schedule_is_lowered(plan)) {
        MUST(kith_schedule_compute_only(plan, &computation) == KITH_OK);
        MUST(kith_schedule_lower(computation, NULL, &lowered) == KITH_OK);
        MUST(kith_schedule_check(lowered, NULL, NULL) == KITH_OK);
    }
    MUST(kith_schedule_simulate(plan, NULL, &simulation) == KITH_OK);
    for (int format = KITH_SIMULATION_TEXT; format <= KITH_SIMULATION_TRACE; format++) {
        MUST(kith_simulation_print(plan, simulation, (kith_simulation_format)format, NULL, &report) == KITH_OK);
        kith_free(report);
    }
    kith_simulation_destroy(simulation);
    kith_schedule_destroy(lowered);
    kith_schedule_destroy(computation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    kith_schedule *plan = NULL;
    kith_torch_dialect dialect = nbytes > 0 ? (kith_torch_dialect)(data[0] % 3) : KITH_TORCH_AUTO;
    if (nbytes == 0 || kith_schedule_parse("fuzz", (const char *)data + 1, nbytes - 1, &dialect, &plan) != KITH_OK)
        return 0;
    /* Sizes that fit in few bytes of text but not in seconds: 65536 stages times a million microbatches. */
    if ((double)kith_schedule_stages(plan) * kith_schedule_microbatches(plan) < 1e6) {
        round_trip(plan);
        run(plan);
    }
    kith_schedule_destroy(plan);
    return 0;
}
