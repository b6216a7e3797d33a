/* schedules/csv_read.c - a plan out of PyTorch's file.
 *
 * Two meanings of B are about. Up to PyTorch 2.5 a file says B for the gradient of the inputs, W for that of the
 * weights and BW for both; since then I, W and B. A file does not say which it is, so: BW anywhere, or W without any
 * I, is the old dialect; I anywhere is the new one; a file that has neither I nor W nor BW means the whole backward
 * either way.
 *
 * The rank of a stage is the line on which it acts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/file.h"

#include <stdlib.h>

/* The first cell of each sort that decides. */
typedef struct evidence {
    const ki_cell *bw, *i, *w;
} evidence;

static evidence look(const ki_cells *cells)
{
    evidence found = { NULL, NULL, NULL };
    for (size_t n = cells->count; n-- > 0;) {
        const ki_cell *cell = &cells->cells[n];
        found.bw = cell->is_bw ? cell : found.bw;
        found.i = cell->action.type == KITH_ACTION_I ? cell : found.i;
        found.w = cell->action.type == KITH_ACTION_W ? cell : found.w;
    }
    return found;
}

static kith_status settle_dialect(const char *name, const ki_cells *cells, kith_torch_dialect *dialect)
{
    evidence found = look(cells);
    if (*dialect == KITH_TORCH_AUTO)
        *dialect = found.bw != NULL || (found.w != NULL && found.i == NULL) ? KITH_TORCH_OLD : KITH_TORCH_NEW;
    const ki_cell *alien = *dialect == KITH_TORCH_OLD ? found.i : found.bw;
    if (alien == NULL)
        return KITH_OK;
    const char *other = *dialect == KITH_TORCH_OLD ? "I, which the dialect of PyTorch up to 2.5 does not have"
                                                   : "BW, which the dialect of PyTorch after 2.5 does not have";
    return ki_fail(KITH_ERR_INVALID_ARG, "%s:%d:%d: %s", name, alien->line, alien->column, other);
}

/* In the old dialect a bare B is the backward for inputs. */
static void translate(ki_cells *cells)
{
    for (size_t n = 0; n < cells->count; n++)
        if (cells->cells[n].action.type == KITH_ACTION_B && !cells->cells[n].is_bw)
            cells->cells[n].action.type = KITH_ACTION_I;
}

/* An old file without any W says B and nothing else: then B is the whole. */
static bool has_split_backward(const ki_cells *cells)
{
    evidence found = look(cells);
    return found.bw != NULL || found.w != NULL;
}

typedef struct sizes {
    int stages, microbatches;
    int *rank_of_stage; /* [stages] */
} sizes;

static kith_status map_stages(const char *name, const ki_cells *cells, sizes *found)
{
    for (size_t n = 0; n < cells->count; n++) {
        const kith_action *a = &cells->cells[n].action;
        found->stages = a->stage >= found->stages ? a->stage + 1 : found->stages;
        found->microbatches = a->microbatch >= found->microbatches ? a->microbatch + 1 : found->microbatches;
    }
    if (found->stages == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: not one action in it", name);
    if (found->microbatches == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: not one microbatch in it", name);
    found->rank_of_stage =
        ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((size_t)found->stages * sizeof *found->rank_of_stage);
    if (found->rank_of_stage == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the stages of %s", name);
    for (int stage = 0; stage < found->stages; stage++)
        found->rank_of_stage[stage] = -1;
    for (size_t n = 0; n < cells->count; n++) {
        const ki_cell *cell = &cells->cells[n];
        if (cell->action.stage < 0)
            continue;
        int *rank = &found->rank_of_stage[cell->action.stage];
        if (*rank >= 0 && *rank != cell->line - 1)
            return ki_fail(KITH_ERR_INVALID_ARG, "%s:%d:%d: stage %d acts on rank %d, and on rank %d before", name,
                           cell->line, cell->column, cell->action.stage, cell->line - 1, *rank);
        *rank = cell->line - 1;
    }
    for (int stage = 0; stage < found->stages; stage++)
        if (found->rank_of_stage[stage] < 0)
            return ki_fail(KITH_ERR_INVALID_ARG, "%s: stage %d of %d does nothing", name, stage, found->stages);
    return KITH_OK;
}

static kith_status fill(const ki_cells *cells, const sizes *found, kith_schedule **schedule)
{
    kith_schedule *made;
    kith_status status = ki_schedule_new(KITH_SCHEDULE_CUSTOM, cells->ranks, found->stages, found->rank_of_stage,
                                         KITH_STAGES_LOOP, found->microbatches, &made);
    if (status != KITH_OK)
        return status;
    for (size_t n = 0; n < cells->count && status == KITH_OK; n++)
        status = ki_schedule_add_action(made, cells->cells[n].line - 1, &cells->cells[n].action);
    if (status != KITH_OK) {
        kith_schedule_destroy(made);
        return status;
    }
    *schedule = made;
    return KITH_OK;
}

kith_status kith_schedule_parse(const char *name, const char *text, size_t nbytes, kith_torch_dialect *dialect,
                                kith_schedule **schedule)
{
    if (text == NULL || schedule == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_parse(): %s is NULL", text == NULL ? "text" : "schedule");
    name = name != NULL ? name : "(text)";
    kith_torch_dialect spoken = dialect != NULL ? *dialect : KITH_TORCH_AUTO;
    ki_cells cells;
    sizes found = { 0, 0, NULL };
    kith_status status = ki_cells_read(name, text, nbytes, &cells);
    if (status == KITH_OK)
        status = settle_dialect(name, &cells, &spoken);
    if (status == KITH_OK && spoken == KITH_TORCH_OLD && has_split_backward(&cells))
        translate(&cells);
    if (status == KITH_OK)
        status = map_stages(name, &cells, &found);
    if (status == KITH_OK)
        status = fill(&cells, &found, schedule);
    if (status == KITH_OK && dialect != NULL)
        *dialect = spoken;
    free(found.rank_of_stage);
    ki_cells_fini(&cells);
    return status;
}

kith_status kith_schedule_load(const char *path, kith_torch_dialect *dialect, kith_schedule **schedule)
{
    if (path == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_load(): path is NULL");
    char *text = NULL;
    size_t nbytes = 0;
    kith_status status = ki_file_read(path, KI_FILE_NBYTES_MOST, &text, &nbytes);
    if (status != KITH_OK)
        return status;
    status = kith_schedule_parse(path, text, nbytes, dialect, schedule);
    free(text);
    return status;
}
