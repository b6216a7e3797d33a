/* tools/topo_report.c - the report of `kith topo` in the form that was asked for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "topo_draw.h"

#include <string.h>

/* Writes a text of the library and frees it. */
static int hand_over(FILE *out, kith_status status, char *text)
{
    if (status != KITH_OK)
        return ki_topo_refuse(status);
    fputs(text, out);
    kith_free(text);
    return KI_EXIT_OK;
}

static int print_plan(FILE *out, const ki_topo_machine *machine)
{
    char *text = NULL;
    fputc('\n', out);
    kith_status status = kith_plan_print(&machine->plan, KITH_FORMAT_TEXT, &text);
    return hand_over(out, status, text);
}

static int print_library(const ki_topo_options *options, const ki_topo_machine *machine, FILE *out)
{
    char *text = NULL;
    kith_format format = options->form == KI_TOPO_JSON ? KITH_FORMAT_JSON : KITH_FORMAT_TEXT;
    kith_status status = machine->placement != NULL
                             ? kith_placement_print(machine->topology, machine->placement, format, &text)
                             : kith_topology_print(machine->topology, format, &text);
    int result = hand_over(out, status, text);
    if (result == KI_EXIT_OK && machine->has_plan && format == KITH_FORMAT_TEXT)
        result = print_plan(out, machine);
    return result;
}

static int print_export(const ki_topo_options *options, const ki_topo_machine *machine, FILE *out)
{
    char *text = NULL;
    kith_status status =
        kith_placement_export(machine->topology, machine->placement, (kith_export)options->export_form, &text);
    return hand_over(out, status, text);
}

static int print_picture(const ki_topo_options *options, const ki_topo_machine *machine, FILE *out)
{
    const char *error = "memory is short";
    ki_drawing *drawing = ki_drawing_create(machine->topology, machine->placement);
    bool is_drawn = drawing != NULL;
    if (is_drawn && options->form == KI_TOPO_SVG)
        ki_drawing_svg(drawing, false, out);
    else if (is_drawn)
        is_drawn =
            options->form == KI_TOPO_PNG ? ki_drawing_png(drawing, out, &error) : ki_drawing_pdf(drawing, out, &error);
    ki_drawing_destroy(drawing);
    if (is_drawn)
        return KI_EXIT_OK;
    fprintf(stderr, "kith topo: the picture cannot be made: %s\n", error);
    return KI_TOPO_REFUSED;
}

static int print_page(const ki_topo_machine *machine, FILE *out)
{
    if (ki_topo_html(machine, out))
        return KI_EXIT_OK;
    fputs("kith topo: the page cannot be made: memory is short\n", stderr);
    return KI_TOPO_REFUSED;
}

static bool is_binary(ki_topo_form form)
{
    return form == KI_TOPO_PNG || form == KI_TOPO_PDF;
}

int ki_topo_report(const ki_topo_options *options, const ki_topo_machine *machine)
{
    ki_output output;
    int result;
    if (!ki_output_open(&output, &ki_command_topo))
        return KI_TOPO_REFUSED;
    if (options->export_form >= 0)
        result = print_export(options, machine, output.stream);
    else if (options->form == KI_TOPO_TEXT || options->form == KI_TOPO_JSON)
        result = print_library(options, machine, output.stream);
    else if (options->form == KI_TOPO_HTML)
        result = print_page(machine, output.stream);
    else
        result = print_picture(options, machine, output.stream);
    if (result == KI_EXIT_OK)
        return ki_output_close(&output, options->output, options->export_form < 0 && is_binary(options->form));
    ki_output_drop(&output);
    return result;
}

static void print_constants(FILE *out, const kith_topology *topology)
{
    int key_width = 3, meaning_width = 7;
    for (int i = 0; i < kith_topology_constant_count(topology); i++) {
        const kith_constant *row = kith_topology_constant(topology, i);
        if ((int)strlen(row->key) > key_width)
            key_width = (int)strlen(row->key);
        if ((int)strlen(row->meaning) > meaning_width)
            meaning_width = (int)strlen(row->meaning);
    }
    fprintf(out, "GB/s in one direction, us of one step\n%-*s  %-*s  %8s  %9s  %7s  source\n", key_width, "key",
            meaning_width, "meaning", "raw", "effective", "latency");
    for (int i = 0; i < kith_topology_constant_count(topology); i++) {
        const kith_constant *row = kith_topology_constant(topology, i);
        fprintf(out, "%-*s  %-*s  %8.4g  %9.4g  %7.3g  %s%s\n", key_width, row->key, meaning_width, row->meaning,
                row->raw_gbps, row->effective_gbps, row->latency_us, row->source != NULL ? row->source : "",
                row->is_replaced ? " (replaced)" : "");
    }
}

/* The table as --constants left it. The file is read along with a machine, so there is one without anything. */
int ki_topo_constants(const ki_topo_options *options)
{
    static const char nothing[] = "{\"kith_topology\": 1, \"name\": \"none\", \"format\": \"none\"}";
    kith_topology *topology = NULL;
    ki_output output;
    if (options->reading.constants_path != NULL) {
        kith_status status =
            kith_topology_parse("constants", nothing, sizeof(nothing) - 1, &options->reading, &topology);
        if (status != KITH_OK)
            return ki_topo_refuse(status);
    }
    if (!ki_output_open(&output, &ki_command_topo)) {
        kith_topology_destroy(topology);
        return KI_TOPO_REFUSED;
    }
    print_constants(output.stream, topology);
    kith_topology_destroy(topology);
    return ki_output_close(&output, options->output, false);
}
