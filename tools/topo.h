/* tools/topo.h - the parts of `kith topo`.
 *
 *     topo.c          help, options, dispatch
 *     topo_read.c     options to a machine: topology, placement, plan
 *     topo_report.c   the report in each form, exports, the table of constants
 *     topo_check.c    lint, diff, --require
 *     topo_html.c, topo_html_tables.c, topo_html_placement.c   the page
 *     topo_draw.h     the picture
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TOPO_H
#define KI_TOOLS_TOPO_H

#include "output.h"

#include <kith/context.h>
#include <kith/plan.h>

#define KI_TOPO_FOUND 1    /* lint: doubts; diff: differences */
#define KI_TOPO_REFUSED 2  /* the input cannot be used, the output cannot be written */
#define KI_TOPO_REQUIRED 3 /* --require is not met */

typedef enum ki_topo_form {
    KI_TOPO_TEXT,
    KI_TOPO_JSON,
    KI_TOPO_SVG,
    KI_TOPO_PNG,
    KI_TOPO_PDF,
    KI_TOPO_HTML
} ki_topo_form;

typedef struct ki_topo_options {
    const char **paths; /* [path_count]: files and descriptions, in the order they were given */
    size_t path_count;
    kith_topology_options reading;
    kith_placement_options placing;
    kith_plan_options planning; /* what a step of the model has to do; sizes and order are those of placing */
    const char *model;          /* NULL: none */
    const char *output;         /* NULL: standard output */
    ki_topo_form form;
    int export_form;   /* of kith_export; -1: none */
    bool has_form;     /* --format was given */
    bool has_layout;   /* a size, an order, a model or --keep-order was given */
    bool has_work;     /* a batch, a length or a type was given */
    bool needs_nvlink; /* --require nvlink */
    bool lists_constants;
} ki_topo_options;

/* What was read and computed. */
typedef struct ki_topo_machine {
    kith_topology *topology;
    kith_placement *placement; /* NULL: no GPUs, or not asked for */
    kith_plan plan;
    bool has_plan;
} ki_topo_machine;

/* ---- topo_read.c: each says what went wrong and returns the exit status ---- */

/* Reads paths[0..path_count), this machine when there are none. */
int ki_topo_load(const ki_topo_options *options, const char *const *paths, size_t path_count, kith_topology **topology);
/* Topology, and where it is wanted placement and plan. Destroy it in any case. */
int ki_topo_machine_make(const ki_topo_options *options, ki_topo_machine *machine);
void ki_topo_machine_destroy(ki_topo_machine *machine);
/* "kith topo: " and the detail of the library's last failure on stderr. Returns KI_TOPO_REFUSED. */
int ki_topo_refuse(kith_status status);

/* ---- topo_report.c ---- */

int ki_topo_report(const ki_topo_options *options, const ki_topo_machine *machine);
int ki_topo_constants(const ki_topo_options *options);

/* ---- topo_check.c ---- */

/* Doubts that are no mere assumptions. */
int ki_topo_doubt_count(const kith_topology *topology);
int ki_topo_lint(const ki_topo_options *options);
int ki_topo_diff(const ki_topo_options *options);
/* Exit status of --require nvlink; what is wrong goes to stderr. */
int ki_topo_require_nvlink(const ki_topo_machine *machine);

/* ---- topo_html.c ---- */

/* The page. False when memory was short. */
bool ki_topo_html(const ki_topo_machine *machine, FILE *out);
/* Tables of the page, one section each (topo_html_tables.c, topo_html_placement.c). */
void ki_topo_html_gpus(FILE *out, const ki_topo_machine *machine);
void ki_topo_html_links(FILE *out, const ki_topo_machine *machine);
void ki_topo_html_placement(FILE *out, const ki_topo_machine *machine);
void ki_topo_html_comparison(FILE *out, const ki_topo_machine *machine);
void ki_topo_html_doubts(FILE *out, const ki_topo_machine *machine);
void ki_topo_html_constants(FILE *out, const ki_topo_machine *machine);

#endif
