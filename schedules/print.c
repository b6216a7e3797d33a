/* schedules/print.c - kith_simulation_print(), and what its forms share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdio.h>

#define WIDTH_DEFAULT 100
#define WIDTH_MIN 40
#define WIDTH_MAX 4096
#define ROWS_MAX 64 /* of a text; of more ranks the first ones and the last ROWS_BELOW */
#define ROWS_BELOW 8

const char *ki_print_cell(const ki_action_list *list, size_t at, char buffer[KI_CELL_NBYTES])
{
    char first[KI_CELL_NBYTES / 4], second[KI_CELL_NBYTES / 4];
    if (ki_print_unit(list, at) == 1)
        return kith_action_text(&list->actions[at], buffer, KI_CELL_NBYTES);
    snprintf(buffer, KI_CELL_NBYTES, "(%s;%s)OVERLAP_F_B", kith_action_text(&list->actions[at], first, sizeof first),
             kith_action_text(&list->actions[at + 1], second, sizeof second));
    return buffer;
}

int ki_print_next_rank(const ki_print *print, int rank)
{
    int ranks = print->s->ranks, next = rank + 1;
    return ranks > ROWS_MAX && next == ROWS_MAX - ROWS_BELOW ? ranks - ROWS_BELOW : next;
}

static bool is_of(const kith_simulation *run, const kith_schedule *s)
{
    bool is_same = run->ranks == s->ranks;
    for (int rank = 0; is_same && rank < s->ranks; rank++)
        is_same = run->first[rank + 1] - run->first[rank] == s->lists[rank].count;
    return is_same;
}

static kith_status take_options(const kith_schedule_print_options *given, ki_print *print)
{
    kith_schedule_print_options options = KITH_SCHEDULE_PRINT_OPTIONS_INIT;
    if (given != NULL && !ki_options_copy(&options, sizeof options, given, sizeof given->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "options were not filled with KITH_SCHEDULE_PRINT_OPTIONS_INIT");
    if (options.width < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "a timeline of %d columns: valid are %d to %d, and 0 for %d",
                       options.width, WIDTH_MIN, WIDTH_MAX, WIDTH_DEFAULT);
    int width = options.width == 0 ? WIDTH_DEFAULT : options.width;
    print->width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
    print->has_colour = options.has_colour != 0;
    print->is_ascii = options.is_ascii != 0;
    return KITH_OK;
}

kith_status kith_simulation_print(const kith_schedule *s, const kith_simulation *run, kith_simulation_format format,
                                  const kith_schedule_print_options *options, char **text)
{
    static kith_status (*const forms[])(ki_text *, const ki_print *) = {
        [KITH_SIMULATION_TEXT] = ki_print_text,
        [KITH_SIMULATION_JSON] = ki_print_json,
        [KITH_SIMULATION_TRACE] = ki_print_trace,
    };
    if (s == NULL || run == NULL || text == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_simulation_print(): an argument is NULL");
    if ((unsigned)format >= sizeof forms / sizeof forms[0])
        return ki_fail(KITH_ERR_INVALID_ARG, "%d is no format of a simulation: valid are 0 to %d", (int)format,
                       (int)(sizeof forms / sizeof forms[0]) - 1);
    if (!is_of(run, s))
        return ki_fail(KITH_ERR_INVALID_ARG, "the simulation is not one of this plan: the lists differ in length");
    ki_print print = { .s = s, .run = run };
    ki_text out = { 0 };
    kith_status status = take_options(options, &print);
    if (status == KITH_OK)
        status = forms[format](&out, &print);
    if (status == KITH_OK && out.is_failed)
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory for the text of a simulation");
    if (status != KITH_OK) {
        ki_text_fini(&out);
        return status;
    }
    *text = out.chars;
    return KITH_OK;
}
