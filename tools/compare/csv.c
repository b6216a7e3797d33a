/* tools/compare/csv.c - a line for each point and series, after RFC 4180. What is not known is an empty field.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "compare.h"

#include <math.h>
#include <string.h>

static void write_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\n") == NULL)
        fputs(text, out);
    else {
        fputc('"', out);
        for (; *text != '\0'; text++)
            fputs(*text == '"' ? "\"\"" : (char[]){ *text, '\0' }, out);
        fputc('"', out);
    }
    fputc(',', out);
}

static void write_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.9g", value);
    fputc(',', out);
}

/* Negative: not said. */
static void write_whole(FILE *out, int64_t value)
{
    if (value >= 0)
        fprintf(out, "%lld", (long long)value);
    fputc(',', out);
}

static void write_point(const ki_words *words, const ki_point *point, FILE *out)
{
    write_text(out, ki_words_text(words, point->op));
    write_text(out, ki_words_text(words, point->dtype));
    write_text(out, ki_words_text(words, point->redop));
    write_whole(out, point->ranks);
    write_whole(out, point->nbytes);
    write_text(out, ki_words_text(words, point->place));
    write_text(out, ki_words_text(words, point->memory));
    write_text(out, ki_words_text(words, point->group));
    write_text(out, ki_words_text(words, point->mode));
    write_whole(out, point->from);
    write_whole(out, point->to);
}

static void write_value(const ki_comparison *c, const ki_match *match, int series, FILE *out)
{
    const ki_words *words = &c->results->words;
    const ki_series *s = &c->series[series];
    const ki_value *value = match->values[series];
    write_point(words, &match->point, out);
    write_text(out, s->name);
    write_text(out, ki_words_text(words, s->label));
    write_text(out, ki_words_text(words, s->backend));
    write_text(out, ki_words_text(words, s->link));
    write_number(out, value->time_us);
    write_number(out, value->p25);
    write_number(out, value->p75);
    write_whole(out, value->row_count);
    write_whole(out, value->samples);
    write_number(out, value->algbw);
    write_number(out, value->busbw);
    write_number(out, value->hidden);
    write_whole(out, value->errors);
    write_text(out, s->baseline < 0 ? "" : c->series[s->baseline].name);
    write_number(out, value->speed.ratio);
    write_number(out, value->speed.low);
    write_number(out, value->speed.high);
    write_number(out, value->speed.p);
    fprintf(out, "%s\n", ki_verdict_name(value->verdict));
}

void ki_compare_csv(const ki_comparison *c, FILE *out)
{
    fputs("op,dtype,redop,ranks,nbytes,place,memory,group,mode,src,dst,series,label,backend,link,time_us_median,"
          "time_us_p25,time_us_p75,runs,samples,algbw_gbps,busbw_gbps,hidden_percent,errors,baseline,ratio,ratio_low,"
          "ratio_high,p,"
          "verdict\n",
          out);
    for (size_t i = 0; i < c->match_count; i++)
        for (int s = 0; s < c->series_count; s++)
            if (ki_value_at(c, i, s) != NULL)
                write_value(c, &c->matches[i], s, out);
}

#else
typedef int ki_compare_csv_needs_jansson; /* a file must not be empty */
#endif
