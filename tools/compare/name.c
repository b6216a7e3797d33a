/* tools/compare/name.c - points, sizes and what was found, in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../draw.h"
#include "compare.h"

#include <math.h>
#include <string.h>

static void append(char *buffer, size_t nbytes, const char *between, const char *text)
{
    size_t used = strlen(buffer);
    if (text[0] != '\0' && used < nbytes)
        snprintf(buffer + used, nbytes - used, "%s%s", used > 0 ? between : "", text);
}

static const char *mode_name(const char *mode)
{
    return strcmp(mode, "non_blocking") == 0 ? "non-blocking" : strcmp(mode, "overlap") == 0 ? "overlapped" : mode;
}

const char *ki_panel_name(const ki_comparison *c, const ki_panel *panel, char *buffer, size_t nbytes)
{
    const ki_words *words = &c->results->words;
    const ki_point *point = &panel->point;
    const char *place = ki_words_text(words, point->place), *memory = ki_words_text(words, point->memory);
    char text[128];
    snprintf(buffer, nbytes, "%s", ki_words_text(words, point->op));
    append(buffer, nbytes, ", ", ki_words_text(words, point->dtype));
    append(buffer, nbytes, " ", ki_words_text(words, point->redop));
    snprintf(text, sizeof(text), "%d rank%s", point->ranks, point->ranks == 1 ? "" : "s");
    append(buffer, nbytes, ", ", text);
    if (c->varies.group && point->group != 0) {
        snprintf(text, sizeof(text), "group %s", ki_words_text(words, point->group));
        append(buffer, nbytes, ", ", text);
    }
    if (c->varies.place) {
        append(buffer, nbytes, ", ",
               strcmp(place, "in") == 0    ? "in place"
               : strcmp(place, "out") == 0 ? "out of place"
                                           : place);
    }
    if (c->varies.memory && memory[0] != '\0') {
        snprintf(text, sizeof(text), "%s memory", memory);
        append(buffer, nbytes, ", ", text);
    }
    if (c->varies.mode)
        append(buffer, nbytes, ", ", mode_name(ki_words_text(words, point->mode)));
    if (panel->is_pairs)
        append(buffer, nbytes, ", ", ki_size_name(point->nbytes, text, sizeof(text)));
    ki_text_clean(buffer); /* it may have been cut inside a character */
    return buffer;
}

const char *ki_size_name(int64_t nbytes_shown, char *buffer, size_t nbytes)
{
    return ki_text_bytes(buffer, nbytes, (double)nbytes_shown);
}

const char *ki_point_name(const ki_point *point, char *buffer, size_t nbytes)
{
    if (point->from >= 0)
        snprintf(buffer, nbytes, "%d to %d", point->from, point->to);
    else if (point->nbytes == 0)
        snprintf(buffer, nbytes, "-");
    else
        return ki_size_name(point->nbytes, buffer, nbytes);
    return buffer;
}

const char *ki_match_name(const ki_match *match, char *buffer, size_t nbytes)
{
    return ki_point_name(&match->point, buffer, nbytes);
}

const char *ki_time_name(double time_us, char *buffer, size_t nbytes)
{
    if (isnan(time_us))
        snprintf(buffer, nbytes, "?");
    else if (time_us < 0.1)
        snprintf(buffer, nbytes, "%.3g ns", time_us * 1e3);
    else
        ki_text_time(buffer, nbytes, time_us / 1e6);
    return buffer;
}

const char *ki_value_mark(const ki_value *value)
{
    static const char *const marks[] = { "   ", " + ", " - ", " ~ ", " = ", " ? ", " ! ", " c " };
    if (value->is_of_one_run && (value->verdict == KI_VERDICT_FASTER || value->verdict == KI_VERDICT_SLOWER))
        return value->verdict == KI_VERDICT_FASTER ? "(+)" : "(-)";
    return marks[value->verdict];
}

bool ki_has_marks_of_one_run(const ki_comparison *c)
{
    for (size_t i = 0; i < c->value_count; i++)
        if (ki_value_mark(&c->values[i])[0] == '(')
            return true;
    return false;
}

bool ki_has_other_cores(const ki_comparison *c)
{
    for (size_t i = 0; i < c->value_count; i++)
        if (c->values[i].verdict == KI_VERDICT_CORES)
            return true;
    return false;
}

const char ki_one_run_sentence[] =
    "A side of one run holds nothing of what differs from run to run, such as\n"
    "where ranks lie and clock rates: two runs of one build can get such a mark. Give each side several runs,\n"
    "LABEL=FILE once for each.";

const char *ki_verdict_name(ki_verdict verdict)
{
    static const char *const names[] = { "",         "faster",     "slower", "alike",
                                         "untested", "unreliable", "wrong",  "other_cores" };
    return names[verdict];
}

bool ki_panel_has_slow(const ki_comparison *c, const ki_panel *panel, int series)
{
    for (size_t m = panel->first; m < panel->first + panel->count; m++) {
        const ki_value *value = ki_value_at(c, m, series);
        if (value != NULL && value->row->is_slow)
            return true;
    }
    return false;
}

bool ki_panel_lacks(const ki_comparison *c, const ki_panel *panel, int series, bool *is_all)
{
    size_t missing = 0;
    for (size_t i = 0; i < panel->count; i++)
        missing += ki_value_at(c, panel->first + i, series) == NULL;
    *is_all = missing == panel->count;
    return missing > 0;
}

/* Says that the text was cut. */
static void end_list(char *buffer, size_t nbytes)
{
    if (strlen(buffer) + 1 >= nbytes && nbytes > 4)
        memcpy(buffer + nbytes - 4, "...", 4);
}

size_t ki_strangers_name(const ki_comparison *c, const ki_panel *panel, char *buffer, size_t nbytes)
{
    size_t count = 0;
    bool is_all;
    buffer[0] = '\0';
    for (int s = 0; s < c->series_count; s++) {
        if (!ki_panel_lacks(c, panel, s, &is_all) || !is_all)
            continue;
        append(buffer, nbytes, ", ", c->series[s].name);
        count++;
    }
    end_list(buffer, nbytes);
    return count;
}

size_t ki_missing_name(const ki_comparison *c, const ki_panel *panel, int series, char *buffer, size_t nbytes)
{
    size_t missing = 0;
    char low[64], high[64], range[160];
    buffer[0] = '\0';
    for (size_t i = 0, end; i < panel->count; i = end) {
        for (end = i; end < panel->count && ki_value_at(c, panel->first + end, series) == NULL;)
            end++;
        if (end == i) {
            end++;
            continue;
        }
        missing += end - i;
        ki_match_name(&c->matches[panel->first + i], low, sizeof(low));
        ki_match_name(&c->matches[panel->first + end - 1], high, sizeof(high));
        snprintf(range, sizeof(range), "%s%s%s", low, end - i == 1 ? "" : " - ", end - i == 1 ? "" : high);
        append(buffer, nbytes, ", ", range);
    }
    end_list(buffer, nbytes);
    return missing;
}

#else
typedef int ki_compare_name_needs_jansson; /* a file must not be empty */
#endif
