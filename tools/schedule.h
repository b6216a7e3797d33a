/* tools/schedule.h - the parts of `kith schedule`.
 *
 *     schedule.c           help, the way from options to a report
 *     schedule_options.c   options
 *     schedule_compare.c   several plans in one table
 *     schedule_draw.c      the picture
 *     schedule_html.c      the page
 *
 * Plans, checks, simulations and their texts are the library's (kith/schedule.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_SCHEDULE_H
#define KI_TOOLS_SCHEDULE_H

#include "draw.h"
#include "output.h"

#include <kith/context.h>
#include <kith/schedule.h>

#define KI_SCHEDULE_WRONG 1   /* the check found something */
#define KI_SCHEDULE_REFUSED 2 /* there is no such plan, the file cannot be used, the output cannot be written */

#define KI_COMPARE_MAX 16

typedef enum ki_schedule_report {
    KI_SCHEDULE_TEXT,
    KI_SCHEDULE_JSON,
    KI_SCHEDULE_CSV,
    KI_SCHEDULE_CSV_COMMS,
    KI_SCHEDULE_DEEPSPEED,
    KI_SCHEDULE_SHALLOWSPEED,
    KI_SCHEDULE_TRACE,
    KI_SCHEDULE_SVG,
    KI_SCHEDULE_PNG,
    KI_SCHEDULE_PDF,
    KI_SCHEDULE_HTML
} ki_schedule_report;

typedef struct ki_schedule_request {
    kith_schedule_options making;
    kith_schedule_costs costs;
    kith_lower_options lowering;
    const char *import;         /* file; NULL: a plan is made */
    kith_torch_dialect dialect; /* of the file */
    kith_schedule_kind compared[KI_COMPARE_MAX];
    int compared_count; /* 0: one plan */
    ki_schedule_report report;
    kith_schedule_print_options printing;
    const char *output; /* NULL: standard output */
    bool is_checked, is_lowered, is_help, is_list;
} ki_schedule_request;

/* Reads the words into a request that has its defaults. KI_EXIT_OK, or KI_EXIT_USAGE after it has said what is
 * wrong. Ends with ki_schedule_request_fini() in any case. */
int ki_schedule_read_options(int argc, char **argv, ki_schedule_request *request);
void ki_schedule_request_fini(ki_schedule_request *request);

/* A plan and how it went. */
typedef struct ki_schedule_view {
    const char *name;
    kith_schedule *plan;
    kith_simulation *run;
    const kith_interval *const *measured; /* [ranks][actions of the rank]: how it really went; NULL: run says. A view
                                             with it needs no run, and is for the picture alone */
} ki_schedule_view;

/* ---- schedule_compare.c: one row a plan ---- */

void ki_schedule_table(const ki_schedule_view *views, int count, FILE *out);
void ki_schedule_table_html(const ki_schedule_view *views, int count, FILE *out);

/* ---- schedule_draw.c ---- */

/* All plans below one another, on one scale of time. NULL when memory is short or there is too much to draw: *error
 * says which. ki_drawing_destroy(). */
ki_drawing *ki_schedule_drawing(const ki_schedule_view *views, int count, const char **error);

/* ---- schedule_html.c ---- */

/* False when memory was short or there is too much to draw: *error says which. */
bool ki_schedule_page(const ki_schedule_view *views, int count, FILE *out, const char **error);

#endif
