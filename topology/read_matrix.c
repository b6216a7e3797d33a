/* topology/read_matrix.c - reads what `nvidia-smi topo -m` printed, of any driver, as people paste it.
 *
 * The steps are in matrix_*.c (matrix.h lists them); here they become a kind. Where the two rows of a pair disagree
 * the weaker class counts. NVLink is "known to be absent" only when the text could show it: `topo -mp` prints the
 * same matrix without NVLink, and without the line "NV#" in its legend.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_NBYTES = 1 << 20, MOST_ASYMMETRIC = 8 };

kith_status ki_matrix_refuse(const ki_matrix *m, int line, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    if (line < 0 || line >= m->text.line_count)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %s", m->source->name, text);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", m->source->name, m->text.lines[line].number, text);
}

/* ---- probe ---- */

static int probe(const ki_source *source)
{
    const char *at = source->text;
    while (isspace((unsigned char)*at))
        at++;
    if (*at == '<' || *at == '{')
        return 0;
    if (ki_source_has(source, "GPU0", PROBE_NBYTES) || ki_source_has(source, "GPU1", PROBE_NBYTES)) {
        if (ki_source_has(source, "CPU Affinity", PROBE_NBYTES))
            return 95;
        if (ki_source_has(source, "Affinity", PROBE_NBYTES) || ki_source_has(source, "NV#", PROBE_NBYTES))
            return 80;
    }
    bool is_short = source->nbytes < 64 * 1024;
    return is_short && ki_matrix_find_error(source->text) != NULL ? 70 : 0;
}

/* ---- doubts about the text ---- */

static int last_gpu_row(const ki_matrix *m)
{
    int last = 0;
    for (int i = 1; i < m->gpu_count; i++)
        if (m->devices[i].line > m->devices[last].line)
            last = i;
    return last;
}

/* The GPU in whose row the text ends, without a line end, so that something may be cut off. -1: none. N/A is whole, and
 * so is what another row has as well. */
static int row_at_end(const ki_matrix *m)
{
    int last = last_gpu_row(m);
    const char *tail = m->devices[last].tail, *end = tail + strlen(tail);
    const char *last_line = m->text.lines[m->text.line_count - 1].chars;
    if (end != last_line + strlen(last_line) || (end > tail && end[-1] == 'A'))
        return -1;
    for (int i = 0; i < m->gpu_count; i++)
        if (i != last && strcmp(m->devices[i].tail, tail) == 0)
            return -1;
    return last;
}

static void tell_repairs(const ki_matrix *m, int kind)
{
    const char *file = m->source->name;
    if (m->text.has_broken_escapes)
        ki_topology_doubt(m->t, kind, -1, file, 0, "broken-escapes",
                          "the text has terminal escape sequences without their first byte; they were left out");
    if (m->has_prefixes)
        ki_topology_doubt(m->t, kind, -1, file, m->text.lines[m->header].number, "log-prefix",
                          "something is written before each line (a log?); it was left out");
    if (m->wrapped_line > 0)
        ki_topology_doubt(m->t, kind, -1, file, m->wrapped_line, "wrapped-lines",
                          "lines were wrapped; they were joined");
    if (m->glued_count > 0)
        ki_topology_doubt(m->t, kind, -1, file, m->glued_line, "glued-cells",
                          "%d neighbours in the matrix have no blank between them; each could be told from the next",
                          m->glued_count);
    if (m->affinity_line > 0)
        ki_topology_doubt(m->t, kind, -1, file, m->affinity_line, "glued-affinity",
                          "CPU lists run into NUMA nodes; only one way to part them fits all rows");
    if (m->has_blank_numas)
        ki_topology_doubt(m->t, kind, -1, file, 0, "numa-blank",
                          "rows have CPUs and no NUMA node; the NUMA nodes of the GPUs are unknown");
    int at_end = row_at_end(m);
    if (at_end >= 0)
        ki_topology_doubt(m->t, kind, at_end, file, m->text.lines[m->devices[at_end].line].number, "text-ends",
                          "the text ends in the row of GPU%d, without a line end; its last value may be cut off",
                          m->devices[at_end].number);
    if (m->device_count > m->gpu_count && m->devices[m->gpu_count].line < 0)
        ki_topology_doubt(m->t, kind, -1, file, m->text.lines[m->header].number, "nic-rows-missing",
                          "the rows of the NICs are missing; what the rows of the GPUs say about them was taken");
}

/* ---- devices ---- */

static void add_devices(const ki_matrix *m, ki_kind *kind)
{
    for (int i = 0; i < m->gpu_count; i++) {
        kith_gpu *gpu = ki_kind_add_gpu(m->t, kind);
        gpu->index = m->devices[i].number;
        gpu->vendor = "nvidia";
        gpu->is_lost = m->devices[i].is_lost;
    }
    for (int i = m->gpu_count; i < m->device_count; i++) {
        const ki_matrix_device *device = &m->devices[i];
        kith_nic *nic = ki_kind_add_nic(m->t, kind);
        nic->index = device->number >= 0 ? device->number : i - m->gpu_count;
        nic->name = ki_topology_dup_n(m->t, device->name.at, device->name.length);
        nic->device = device->number >= 0 ? NULL : nic->name;
    }
}

static void tell_holes(const ki_matrix *m, int kind)
{
    for (int i = 0, expected = 0; i < m->gpu_count; i++) {
        int number = m->devices[i].number;
        if (number != expected)
            ki_topology_doubt(m->t, kind, i, m->source->name, m->text.lines[m->header].number, "gpu-index-hole",
                              "GPU%d stands where GPU%d was expected; GPUs may be lost, or hidden from this process",
                              number, expected);
        expected = number + 1;
        if (m->devices[i].is_lost)
            ki_topology_doubt(m->t, kind, i, m->source->name, m->text.lines[m->devices[i].line].number, "gpu-lost",
                              "GPU%d does not answer: its row has errors instead of classes", number);
    }
}

/* ---- links ---- */

static const char *cell_name(const ki_matrix *m, ki_matrix_cell cell)
{
    kith_link link = { .type = (kith_link_type)cell.type, .count = cell.count };
    char name[16];
    return ki_topology_dup(m->t, kith_link_name(&link, name, sizeof name));
}

/* Names pairs whose rows disagree. */
static void tell_asymmetric(const ki_matrix *m, int kind)
{
    int count = 0;
    for (int a = 0; a < m->device_count; a++)
        for (int b = a + 1; b < m->device_count; b++) {
            if (m->devices[a].line < 0 || m->devices[b].line < 0)
                continue;
            ki_matrix_cell there = m->cells[a * m->device_count + b], back = m->cells[b * m->device_count + a];
            if ((there.type == back.type && there.count == back.count) || count++ >= MOST_ASYMMETRIC)
                continue;
            ki_slice x = m->devices[a].name, y = m->devices[b].name;
            ki_topology_doubt(m->t, kind, a < m->gpu_count ? a : -1, m->source->name,
                              m->text.lines[m->devices[a].line].number, "asymmetric",
                              "%.*s is %s to %.*s, and %.*s is %s to %.*s; %s was taken, the weaker", (int)x.length,
                              x.at, cell_name(m, there), (int)y.length, y.at, (int)y.length, y.at, cell_name(m, back),
                              (int)x.length, x.at, cell_name(m, ki_matrix_relation(m, a, b)));
        }
    if (count > MOST_ASYMMETRIC)
        ki_topology_doubt(m->t, kind, -1, m->source->name, 0, "asymmetric",
                          "%d pairs disagree in all; the weaker class was taken each time", count);
}

static kith_link link_of(const ki_matrix *m, int a, int b)
{
    ki_matrix_cell cell = ki_matrix_relation(m, a, b);
    kith_certainty certainty = cell.type == KITH_LINK_UNKNOWN ? KITH_UNKNOWN : KITH_KNOWN;
    return (kith_link){ .type = (kith_link_type)cell.type, .count = cell.count, .certainty = certainty };
}

/* Returns whether there is any NVLink. */
static bool set_links(const ki_matrix *m, ki_kind *kind)
{
    bool has_nvlink = false;
    ki_kind_make_links(m->t, kind);
    for (int a = 0; a < m->gpu_count; a++) {
        for (int b = a + 1; b < m->gpu_count; b++) {
            kith_link link = link_of(m, a, b);
            ki_kind_set_link(kind, a, b, link.type, link.count, link.certainty);
            if (link.type != KITH_LINK_NVLINK)
                continue;
            has_nvlink = true;
            ((kith_gpu *)(uintptr_t)kind->view.gpus)[a].fabric = KITH_ASSUMED;
            ((kith_gpu *)(uintptr_t)kind->view.gpus)[b].fabric = KITH_ASSUMED;
        }
        for (int b = m->gpu_count; b < m->device_count; b++)
            *ki_kind_nic_link(kind, a, b - m->gpu_count) = link_of(m, a, b);
    }
    return has_nvlink;
}

/* ---- is NVLink absent, or left out? ---- */

static bool can_have_nvlink(const ki_matrix *m, const kith_gpu *gpu)
{
    const ki_gpu_model *model = ki_gpu_model_find(gpu->name, 0);
    if (model == NULL)
        model = ki_gpu_model_find(m->t->options.gpu, 0);
    return model == NULL || model->nvlink_generation > 0;
}

/* Four or more GPUs, each on a NUMA node of its own and all pairs across sockets: so boards are wired whose GPUs NVLink
 * joins (HGX with four GPUs), where a matrix without any NVLink is hardly the whole truth. */
static bool looks_like_board(const ki_kind *kind)
{
    const kith_node_kind *view = &kind->view;
    for (int i = 0; i < view->gpu_count; i++)
        for (int j = 0; j < i; j++)
            if (view->links[i * view->gpu_count + j].type != KITH_LINK_SYS || view->gpus[i].numa_count != 1 ||
                view->gpus[j].numa_count != 1 || view->gpus[i].numas[0] == view->gpus[j].numas[0])
                return false;
    return view->gpu_count >= 4;
}

static void leave_unknown(const ki_matrix *m, ki_kind *kind, const char *why)
{
    kind->view.nvlink = KITH_UNKNOWN;
    ki_topology_doubt(m->t, ki_kind_index(m->t, kind), -1, m->source->name, m->text.lines[m->header].number,
                      "nvlink-left-out",
                      "no cell is NVLink, and %s; whether the GPUs have NVLink is unknown; "
                      "print `nvidia-smi topo -m`",
                      why);
}

static void decide_absence(const ki_matrix *m, ki_kind *kind)
{
    ki_matrix_legend legend = ki_matrix_read_legend(m);
    bool is_possible = false;
    for (int i = 0; i < kind->view.gpu_count; i++)
        is_possible = is_possible || can_have_nvlink(m, &kind->view.gpus[i]);
    kind->view.nvlink = KITH_KNOWN;
    if (!is_possible || legend.command == KI_MATRIX_TOPO_M)
        return;
    if (legend.command == KI_MATRIX_TOPO_MP)
        leave_unknown(m, kind, "this is `topo -mp`, which leaves NVLink out");
    else if (legend.is_there && !legend.has_nvlink)
        leave_unknown(m, kind, "the legend has no line NV#, as that of `topo -mp`, which leaves NVLink out");
    else if (looks_like_board(kind))
        leave_unknown(m, kind,
                      "each GPU has a NUMA node of its own, as on boards where NVLink joins them; `topo -mp` "
                      "leaves NVLink out");
    else if (!legend.is_there) {
        kind->view.nvlink = KITH_ASSUMED;
        ki_topology_doubt(m->t, ki_kind_index(m->t, kind), -1, m->source->name, m->text.lines[m->header].number,
                          "legend-missing",
                          "no cell is NVLink, and the legend is missing that tells `topo -m` from "
                          "`topo -mp`; that there is no NVLink is assumed");
    }
}

/* ---- the whole ---- */

static kith_status make_kind(const ki_matrix *m)
{
    ki_kind *kind = ki_topology_add_kind(m->t, m->source->name, "nvidia-smi topo -m");
    int index = ki_kind_index(m->t, kind);
    add_devices(m, kind);
    if (ki_topology_status(m->t) != KITH_OK)
        return ki_topology_status(m->t);
    tell_repairs(m, index);
    tell_holes(m, index);
    tell_asymmetric(m, index);
    ki_matrix_set_affinities(m, kind);
    ki_matrix_read_names(m, kind);
    ki_matrix_read_nic_legend(m, kind);
    bool has_nvlink = set_links(m, kind);
    if (ki_topology_status(m->t) != KITH_OK)
        return ki_topology_status(m->t);
    kind->view.nvlink = KITH_KNOWN;
    if (!has_nvlink)
        decide_absence(m, kind);
    if (ki_matrix_read_legend(m).is_of_2017)
        kind->view.source = "driver of 2017";
    ki_matrix_add_numas(m, kind);
    kith_status status = ki_matrix_derive_switches(m, kind);
    return status != KITH_OK ? status : ki_topology_status(m->t);
}

/* A message of nvidia-smi instead of a matrix. */
static kith_status pass_error_on(const ki_matrix *m)
{
    for (int i = 0; i < m->text.line_count; i++) {
        const char *message = ki_matrix_find_error(m->text.lines[i].chars);
        if (message != NULL)
            return ki_matrix_refuse(m, i, "nvidia-smi printed no matrix but: %.300s", message);
    }
    return KITH_OK;
}

/* A second header behind the first matrix: of another node, or of another command. */
static kith_status refuse_second(const ki_matrix *m)
{
    for (int i = m->end; i < m->text.line_count; i++) {
        const char *line = m->text.lines[i].chars;
        if (ki_matrix_find_header(line) != NULL && strstr(line, "CPU Affinity") != NULL)
            return ki_matrix_refuse(m, i, "a second matrix begins here; give each node's matrix in a file of its own");
    }
    return KITH_OK;
}

static kith_status read_text(ki_matrix *m)
{
    kith_status status = ki_matrix_read_header(m);
    if (status != KITH_OK) {
        kith_status error = pass_error_on(m);
        return error != KITH_OK ? error : status;
    }
    status = ki_matrix_read_rows(m);
    if (status == KITH_OK)
        status = refuse_second(m);
    if (status == KITH_OK)
        status = ki_matrix_read_affinities(m);
    return status == KITH_OK ? make_kind(m) : status;
}

static kith_status read_matrix(const ki_source *source, kith_topology *t)
{
    ki_matrix m = { .source = source, .t = t };
    kith_status status = ki_matrix_clean(source, &m.text);
    if (status != KITH_OK)
        return status;
    status = read_text(&m);
    free(m.cells);
    free(m.devices);
    ki_matrix_text_fini(&m.text);
    return status;
}

const ki_reader ki_reader_matrix = { "nvidia-smi topo -m", probe, read_matrix };
