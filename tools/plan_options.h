/* tools/plan_options.h - what the options of `kith plan` ask for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_PLAN_OPTIONS_H
#define KI_TOOLS_PLAN_OPTIONS_H

#include "command.h"

#include <kith/plan.h>

#define KI_PLAN_INPUTS_MAX 64

typedef struct ki_plan_request {
    const char *model, *config;
    const char *constants; /* file; NULL: the table as it is */
    const char *inputs[KI_PLAN_INPUTS_MAX];
    size_t input_count;
    kith_plan_options options;
    long nodes, world, top;
    bool is_search, is_json, is_list, is_help;
} ki_plan_request;

/* Reads the words into a request that has its defaults. Returns KI_EXIT_OK, or KI_EXIT_USAGE after it has said what is
 * wrong. is_help and is_list: nothing else was checked. */
int ki_plan_read_options(int argc, char **argv, ki_plan_request *request);

#endif
