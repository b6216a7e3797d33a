/* topology/print.c - what all reports share, and the door kith_topology_print().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include "core/base/error.h"
#include "model.h"

void ki_print_number(ki_text *out, double value)
{
    ki_text_add_number(out, value);
}

int ki_print_gpu_number(const kith_topology *t, int global_gpu)
{
    int node, gpu;
    if (t->node_count != 1 || !kith_topology_locate(t, global_gpu, &node, &gpu))
        return global_gpu;
    return t->kinds[t->nodes[node].kind]->view.gpus[gpu].index;
}

kith_status ki_print_finish(ki_text *out, char **text)
{
    if (out->is_failed || out->chars == NULL) {
        ki_text_fini(out);
        return ki_fail(KITH_ERR_NO_MEMORY, "report: no memory for the text");
    }
    *text = out->chars;
    return KITH_OK;
}

kith_status kith_topology_print(const kith_topology *topology, kith_format format, char **text)
{
    ki_text out = { 0 };
    if (topology == NULL || text == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "print: the topology is NULL");
    if (format == KITH_FORMAT_JSON) {
        ki_text_add(&out, "{\n");
        ki_print_topology_members(&out, topology);
        ki_text_add(&out, "\n}\n");
    } else if (format == KITH_FORMAT_TEXT) {
        ki_print_topology_text(&out, topology);
    } else {
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "print: format %d; valid: text (0), JSON (1)", (int)format);
    }
    return ki_print_finish(&out, text);
}
