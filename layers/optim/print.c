/* layers/optim/print.c - parameters for people: a table of them all; and for machines: one number for all values.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include "core/base/fault.h"
#include <inttypes.h>
#include <stdio.h>

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    return ki_hash(hash, &number, sizeof number);
}

/* Through pieces on the host where the values are on a device; 0 when they cannot be read. */
static uint64_t hash_elements(uint64_t hash, const ki_space *space, const kith_tensor *tensor)
{
    enum { PIECE_NBYTES = 1 << 16 };
    unsigned char piece[PIECE_NBYTES];
    size_t nbytes = ki_tensor_nbytes(tensor);
    if (ki_space_is_host(space))
        return ki_hash(hash, tensor->data, nbytes);
    for (size_t at = 0; at < nbytes; at += PIECE_NBYTES) {
        size_t here = nbytes - at < PIECE_NBYTES ? nbytes - at : PIECE_NBYTES;
        if (ki_space_copy_out(space, piece, (const char *)tensor->data + at, here) != KITH_OK)
            return 0;
        hash = ki_hash(hash, piece, here);
    }
    return hash;
}

uint64_t kith_layers_hash_values(const kith_layers *layers)
{
    uint64_t hash = KI_HASH_INIT;
    for (size_t i = 0; layers != NULL && i < layers->param_count; i++) {
        const kith_param *param = layers->params[i];
        hash = ki_hash(hash, param->name, strlen(param->name) + 1);
        hash = hash_number(hash, param->first);
        for (int d = 0; d < param->dim_count; d++)
            hash = hash_number(hash, param->value.shape[d]);
        if (param->value.data != NULL)
            hash = hash_elements(hash, &layers->space, &param->value);
    }
    return hash;
}

/* ---- the table ---- */

enum { SHAPE, SPLIT, RANGE, COPIES, SUMS, BUCKET, COLUMNS };
static const char *const titles[COLUMNS] = { "shape", "split", "part", "copies", "summed over", "bucket" };

typedef struct line {
    char cells[COLUMNS][64];
} line;

static void write_shape(const kith_param *param, char *cell, size_t nbytes)
{
    if (param->dim_count == 1)
        snprintf(cell, nbytes, "[%" PRId64 "]", param->global_shape[0]);
    else
        snprintf(cell, nbytes, "[%" PRId64 ", %" PRId64 "]", param->global_shape[0], param->global_shape[1]);
}

static void write_part(const kith_param *param, line *to)
{
    int dim = param->split_dim;
    if (dim < 0) {
        snprintf(to->cells[SPLIT], sizeof to->cells[SPLIT], "-");
        snprintf(to->cells[RANGE], sizeof to->cells[RANGE], "all");
        return;
    }
    int64_t end = param->first + param->value.shape[dim];
    snprintf(to->cells[SPLIT], sizeof to->cells[SPLIT], "%s", dim == 0 ? "rows" : "columns");
    if (param->padding > 0)
        snprintf(to->cells[RANGE], sizeof to->cells[RANGE], "[%" PRId64 ", %" PRId64 ") + %" PRId64, param->first,
                 end - param->padding, param->padding);
    else
        snprintf(to->cells[RANGE], sizeof to->cells[RANGE], "[%" PRId64 ", %" PRId64 ")", param->first, end);
}

static void write_sums(const kith_param *param, const kith_optim *optim, char *cell, size_t nbytes)
{
    bool is_tied = optim != NULL && optim->options.tied == param;
    const char *first = param->is_grad_partial ? "tp, " : "";
    snprintf(cell, nbytes, "%s%s%s", first, is_tied ? "stages, " : "", param->is_expert ? "expert data" : "data");
}

static void write_line(const kith_param *param, const kith_optim *optim, line *to)
{
    memset(to, 0, sizeof *to);
    write_shape(param, to->cells[SHAPE], sizeof to->cells[SHAPE]);
    write_part(param, to);
    snprintf(to->cells[COPIES], sizeof to->cells[COPIES], "%d%s", param->copies, param->is_counted ? "" : ", other's");
    write_sums(param, optim, to->cells[SUMS], sizeof to->cells[SUMS]);
    const ki_bucket *bucket = optim == NULL ? NULL : ki_optim_bucket_of(ki_block_of(param));
    if (bucket != NULL)
        snprintf(to->cells[BUCKET], sizeof to->cells[BUCKET], "%td%s", bucket - optim->buckets,
                 bucket->is_late ? ", late" : "");
}

static void fit(size_t *width, const char *text)
{
    if (strlen(text) > *width)
        *width = strlen(text);
}

static void print(FILE *out, const kith_layers *layers, const kith_optim *optim)
{
    size_t name_width = strlen("parameter"), widths[COLUMNS];
    int columns = optim == NULL ? BUCKET : COLUMNS;
    line cells;
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = strlen(titles[c]);
    for (size_t i = 0; i < layers->param_count; i++) {
        fit(&name_width, layers->params[i]->name);
        write_line(layers->params[i], optim, &cells);
        for (int c = 0; c < columns; c++)
            fit(&widths[c], cells.cells[c]);
    }
    fprintf(out, "%-*s", (int)name_width, "parameter");
    for (int c = 0; c < columns; c++)
        fprintf(out, "  %-*s", c + 1 < columns ? (int)widths[c] : 0, titles[c]);
    for (size_t i = 0; i < layers->param_count; i++) {
        write_line(layers->params[i], optim, &cells);
        fprintf(out, "\n%-*s", (int)name_width, layers->params[i]->name);
        for (int c = 0; c < columns; c++)
            fprintf(out, "  %-*s", c + 1 < columns ? (int)widths[c] : 0, cells.cells[c]);
    }
    fputc('\n', out);
}

kith_status kith_layers_print_params(const kith_layers *layers, const kith_optim *optim, char **text)
{
    if (layers == NULL || text == NULL || (optim != NULL && optim->layers != layers))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_layers_print_params: layers and text must not be NULL, and optim one of these layers");
    char *made = NULL;
    size_t nbytes = 0;
    FILE *out = ki_fault(KI_FAULT_ALLOC) ? NULL : open_memstream(&made, &nbytes);
    if (out != NULL)
        print(out, layers, optim);
    bool is_written = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        is_written = false;
    if (!is_written) {
        kith_free(made);
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_layers_print_params: no memory for the table");
    }
    *text = made;
    return KITH_OK;
}
