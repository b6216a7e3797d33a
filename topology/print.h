/* topology/print.h - the parts of which reports are put together. Members of JSON objects are written without the
 * braces around them, so that a placement's report is the machine's with more members.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PRINT_H
#define KI_TOPOLOGY_PRINT_H

#include "core/text.h"
#include <kith/placement.h>

/* print_json.c: "kith": ..., "gpus": [...], ... without a comma at the end. */
void ki_print_topology_members(ki_text *out, const kith_topology *t);
/* print_text.c: the report for people. */
void ki_print_topology_text(ki_text *out, const kith_topology *t);
/* placement_print.c: "placement": {...}, "bottleneck": {...}, "cost": ..., and the text. */
void ki_print_placement_members(ki_text *out, const kith_topology *t, const kith_placement *p);
void ki_print_placement_text(ki_text *out, const kith_topology *t, const kith_placement *p);

/* How reports call a GPU: the source's own number in a cluster of one node, else its global number. */
int ki_print_gpu_number(const kith_topology *t, int global_gpu);

/* A number as JSON: shortest form that reads back to the same double; null for what is not finite. */
void ki_print_number(ki_text *out, double value);

/* Hands the finished text to the caller, or KITH_ERR_NO_MEMORY. */
kith_status ki_print_finish(ki_text *out, char **text);

#endif
