/* core/grid.c - ranks as coordinates: Megatron's order, any axes. See kith/mesh.h for the formula.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "mesh.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Next word of "a-b-c"; false at the end. Words longer than a name are cut, which makes them unknown. */
static bool next_word(const char **text, char *word)
{
    size_t length = strcspn(*text, "-");
    if (**text == '\0')
        return false;
    snprintf(word, KI_AXIS_NAME, "%.*s", (int)length, *text);
    *text += length + ((*text)[length] == '-');
    return true;
}

static kith_status check_name(const char *name)
{
    bool is_good = name != NULL && *name != '\0' && strlen(name) < KI_AXIS_NAME;
    for (const char *c = name; is_good && *c != '\0'; c++)
        is_good = isalnum((unsigned char)*c) != 0;
    return is_good ? KITH_OK
                   : ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: axis name '%.20s' is not 1 to %d letters or digits",
                                   name != NULL ? name : "(null)", KI_AXIS_NAME - 1);
}

static int find_axis(const kith_mesh_axis *axes, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(axes[i].name, name) == 0)
            return (int)i;
    return -1;
}

static kith_status check_axes(const kith_mesh_axis *axes, size_t axis_count)
{
    if (axes == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: the array of axes is NULL");
    if (axis_count == 0 || axis_count > KITH_MESH_MAX_AXES)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: %zu axes, it must have 1 to %d", axis_count,
                             KITH_MESH_MAX_AXES);
    for (size_t i = 0; i < axis_count; i++) {
        kith_status status = check_name(axes[i].name);
        if (status != KITH_OK)
            return status;
        if (axes[i].size < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: axis %s has size %d; valid: 1 or more, 0 for one axis",
                                 axes[i].name, axes[i].size);
        if (find_axis(axes, i, axes[i].name) >= 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: axis %s is given twice", axes[i].name);
    }
    return KITH_OK;
}

/* Every axis must be in the order once; words of the order without an axis have size 1. */
static kith_status apply_order(const kith_mesh_axis *axes, size_t axis_count, const char *order, ki_grid *grid)
{
    char word[KI_AXIS_NAME];
    unsigned seen = 0;
    const char *rest = order;
    while (next_word(&rest, word)) {
        kith_status status = check_name(word);
        if (status != KITH_OK)
            return status;
        for (int i = 0; i < grid->axis_count; i++)
            if (strcmp(grid->names[i], word) == 0)
                return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: order '%s' has %s twice", order, word);
        if (grid->axis_count == KITH_MESH_MAX_AXES)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: order '%s' has more than %d axes", order,
                                 KITH_MESH_MAX_AXES);
        int axis = find_axis(axes, axis_count, word);
        seen |= axis >= 0 ? 1u << axis : 0;
        snprintf(grid->names[grid->axis_count], KI_AXIS_NAME, "%s", word); /* the grid is hashed: no stray bytes */
        grid->sizes[grid->axis_count++] = axis >= 0 ? axes[axis].size : 1;
    }
    for (size_t i = 0; i < axis_count; i++)
        if ((seen >> i & 1) == 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: axis %s is not in the order '%s'", axes[i].name, order);
    return KITH_OK;
}

static bool default_order_has_all(const kith_mesh_axis *axes, size_t axis_count)
{
    for (size_t i = 0; i < axis_count; i++) {
        bool is_found = false;
        char word[KI_AXIS_NAME];
        const char *rest = KITH_MESH_DEFAULT_ORDER;
        while (next_word(&rest, word))
            is_found = is_found || strcmp(word, axes[i].name) == 0;
        if (!is_found)
            return false;
    }
    return true;
}

static void order_of_array(const kith_mesh_axis *axes, size_t axis_count, ki_grid *grid)
{
    for (size_t i = 0; i < axis_count; i++) {
        snprintf(grid->names[i], KI_AXIS_NAME, "%s", axes[i].name);
        grid->sizes[i] = axes[i].size;
    }
    grid->axis_count = (int)axis_count;
}

/* One size may be 0; the product must be the world. */
static kith_status resolve_sizes(ki_grid *grid)
{
    long long product = 1;
    int open = -1;
    for (int i = 0; i < grid->axis_count; i++) {
        if (grid->sizes[i] == 0 && open >= 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: sizes of %s and %s are both 0; only one can be computed",
                                 grid->names[open], grid->names[i]);
        if (grid->sizes[i] == 0)
            open = i;
        else
            product *= grid->sizes[i];
        if (product > INT_MAX)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: the product of the sizes is beyond %d", INT_MAX);
    }
    if (open >= 0 && grid->world % product == 0)
        grid->sizes[open] = (int)(grid->world / product);
    if (open >= 0 ? grid->world % product != 0 : product != grid->world)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: %d ranks do not make a mesh whose %ssizes multiply to %lld",
                             grid->world, open >= 0 ? "given " : "", product);
    return KITH_OK;
}

kith_status ki_grid_init(const kith_mesh_axis *axes, size_t axis_count, const char *order, int world, ki_grid *grid)
{
    memset(grid, 0, sizeof *grid);
    grid->world = world;
    kith_status status = check_axes(axes, axis_count);
    if (status != KITH_OK)
        return status;
    if (world < 1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: %d ranks", world);
    if (order != NULL)
        status = apply_order(axes, axis_count, order, grid);
    else if (default_order_has_all(axes, axis_count))
        status = apply_order(axes, axis_count, KITH_MESH_DEFAULT_ORDER, grid);
    else
        order_of_array(axes, axis_count, grid);
    return status == KITH_OK ? resolve_sizes(grid) : status;
}

kith_status ki_grid_mask(const ki_grid *grid, const char *axes, unsigned *mask)
{
    char word[KI_AXIS_NAME];
    unsigned found = 0;
    const char *rest = axes != NULL ? axes : "";
    while (next_word(&rest, word)) {
        int axis = 0;
        while (axis < grid->axis_count && strcmp(grid->names[axis], word) != 0)
            axis++;
        if (axis == grid->axis_count)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: '%s' in '%s' is no axis of it", word, axes);
        found |= 1u << axis;
    }
    if (found == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: no axis is named");
    *mask = found;
    return KITH_OK;
}

int ki_grid_extent(const ki_grid *grid, unsigned mask)
{
    int extent = 1;
    for (int i = 0; i < grid->axis_count; i++)
        if ((mask >> i & 1) != 0)
            extent *= grid->sizes[i];
    return extent;
}

int ki_grid_axis(const ki_grid *grid, const char *name)
{
    for (int i = 0; i < grid->axis_count; i++)
        if (strcmp(grid->names[i], name) == 0)
            return i;
    return -1;
}

int ki_grid_coord(const ki_grid *grid, int position, int axis)
{
    for (int i = 0; i < axis; i++)
        position /= grid->sizes[i];
    return position % grid->sizes[axis];
}

void ki_grid_members(const ki_grid *grid, unsigned mask, int position, int *members)
{
    int base = 0, stride = 1, extent = ki_grid_extent(grid, mask);
    for (int i = 0; i < grid->axis_count; i++) {
        if ((mask >> i & 1) == 0)
            base += stride * ki_grid_coord(grid, position, i);
        stride *= grid->sizes[i];
    }
    for (int m = 0; m < extent; m++) {
        int rest = m, where = base;
        stride = 1;
        for (int i = 0; i < grid->axis_count; i++) {
            if ((mask >> i & 1) != 0) {
                where += stride * (rest % grid->sizes[i]);
                rest /= grid->sizes[i];
            }
            stride *= grid->sizes[i];
        }
        members[m] = where;
    }
}

kith_status kith_mesh_enumerate(const kith_mesh_axis *axes, size_t axis_count, const char *order,
                                const char *group_axes, int world, int *groups, int *group_size, int *group_count)
{
    ki_grid grid;
    unsigned mask = 0;
    kith_status status = ki_grid_init(axes, axis_count, order, world, &grid);
    if (status == KITH_OK)
        status = ki_grid_mask(&grid, group_axes, &mask);
    if (status == KITH_OK && (groups == NULL || group_size == NULL || group_count == NULL))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_mesh_enumerate: an output is NULL");
    if (status != KITH_OK)
        return status;
    int extent = ki_grid_extent(&grid, mask), count = 0;
    for (int position = 0; position < world; position++) {
        bool is_first = true; /* coordinates along the group are all 0 */
        for (int i = 0; i < grid.axis_count; i++)
            is_first = is_first && ((mask >> i & 1) == 0 || ki_grid_coord(&grid, position, i) == 0);
        if (is_first)
            ki_grid_members(&grid, mask, position, groups + (size_t)count++ * (size_t)extent);
    }
    *group_size = extent;
    *group_count = count;
    return KITH_OK;
}
