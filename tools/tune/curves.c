/* tools/tune/curves.c - rows that belong together become a curve, and each curve a fit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const tune_row *a, const tune_row *b)
{
    int order = strcmp(a->op, b->op);
    order = order != 0 ? order : strcmp(a->backend, b->backend);
    order = order != 0 ? order : strcmp(a->link, b->link);
    order = order != 0 ? order : a->ranks - b->ranks;
    order = order != 0 ? order : a->hosts - b->hosts;
    order = order != 0 ? order : strcmp(a->memory, b->memory);
    order = order != 0 ? order : strcmp(a->dtype, b->dtype);
    order = order != 0 ? order : strcmp(a->redop, b->redop);
    order = order != 0 ? order : strcmp(a->place, b->place);
    order = order != 0 ? order : strcmp(a->mode, b->mode);
    return order != 0 ? order : strcmp(a->group, b->group);
}

static int compare_rows(const void *a, const void *b)
{
    const tune_row *x = a, *y = b;
    int order = compare_keys(x, y);
    return order != 0 ? order : (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes);
}

static void add_point(tune_curve *curve, const tune_row *row)
{
    tune_point *last = curve->count > 0 ? &curve->points[curve->count - 1] : NULL;
    if (!(row->time_us > 0) || (!(last != NULL && last->nbytes == row->nbytes) && curve->count == TUNE_POINTS_MAX))
        curve->left_out++;
    else if (last != NULL && last->nbytes == row->nbytes)
        last->time_us = fmin(last->time_us, row->time_us);
    else
        curve->points[curve->count++] = (tune_point){ row->nbytes, row->time_us };
}

static void fit_curve(tune_curve *curve)
{
    curve->has_fit = tune_fit_curve(curve->points, curve->count, &curve->fit);
    if (curve->has_fit)
        tune_fit_intervals(curve->points, curve->count, TUNE_REPLICATES, TUNE_SEED, &curve->fit);
}

bool tune_curves_make(const tune_row *rows, size_t count, tune_curves *curves)
{
    tune_row *sorted = calloc(count + 1, sizeof *sorted);
    *curves = (tune_curves){ calloc(count + 1, sizeof *curves->list), 0 };
    if (sorted == NULL || curves->list == NULL) {
        free(sorted);
        tune_curves_free(curves);
        return false;
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].src < 0 && rows[i].nbytes > 0)
            sorted[used++] = rows[i];
    qsort(sorted, used, sizeof *sorted, compare_rows);
    for (size_t i = 0; i < used; i++) {
        if (i == 0 || compare_keys(&sorted[i - 1], &sorted[i]) != 0)
            curves->list[curves->count++].key = sorted[i];
        add_point(&curves->list[curves->count - 1], &sorted[i]);
    }
    free(sorted);
    for (size_t i = 0; i < curves->count; i++)
        fit_curve(&curves->list[i]);
    return true;
}

void tune_curves_free(tune_curves *curves)
{
    free(curves->list);
    *curves = (tune_curves){ NULL, 0 };
}

const char *tune_curve_link(const tune_curve *curve)
{
    return strcmp(curve->key.link, "auto") == 0 ? curve->key.backend : curve->key.link;
}
