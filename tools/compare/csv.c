/* tools/compare/csv.c - a line for each point and series, after RFC 4180. What is not known is an empty field.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "peers.h"

#include <math.h>
#include <string.h>

void ki_csv_text(FILE *out, const char *text)
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

void ki_csv_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.9g", value);
    fputc(',', out);
}

/* Negative: not said. */
void ki_csv_whole(FILE *out, int64_t value)
{
    if (value >= 0)
        fprintf(out, "%lld", (long long)value);
    fputc(',', out);
}

static void write_point(const ki_words *words, const ki_point *point, FILE *out)
{
    ki_csv_text(out, ki_words_text(words, point->op));
    ki_csv_text(out, ki_words_text(words, point->dtype));
    ki_csv_text(out, ki_words_text(words, point->redop));
    ki_csv_whole(out, point->ranks);
    ki_csv_whole(out, point->nbytes);
    ki_csv_text(out, ki_words_text(words, point->place));
    ki_csv_text(out, ki_words_text(words, point->memory));
    ki_csv_text(out, ki_words_text(words, point->group));
    ki_csv_text(out, ki_words_text(words, point->mode));
    ki_csv_whole(out, point->from);
    ki_csv_whole(out, point->to);
}

static void write_value(const ki_comparison *c, const ki_match *match, int series, FILE *out)
{
    const ki_words *words = &c->results->words;
    const ki_series *s = &c->series[series];
    const ki_value *value = match->values[series];
    write_point(words, &match->point, out);
    ki_csv_text(out, s->name);
    ki_csv_text(out, ki_words_text(words, s->label));
    ki_csv_text(out, ki_words_text(words, s->backend));
    ki_csv_text(out, ki_words_text(words, s->link));
    ki_csv_number(out, value->time_us);
    ki_csv_number(out, value->p25);
    ki_csv_number(out, value->p75);
    ki_csv_whole(out, value->row_count);
    ki_csv_whole(out, value->samples);
    ki_csv_number(out, value->algbw);
    ki_csv_number(out, value->busbw);
    ki_csv_number(out, value->hidden);
    ki_csv_whole(out, value->errors);
    ki_csv_number(out, value->row->expected);
    ki_csv_text(out, value->row->is_slow ? "true" : isnan(value->row->expected) ? "" : "false");
    ki_csv_text(out, ki_words_text(words, value->cores));
    ki_csv_text(out, s->baseline < 0 ? "" : c->series[s->baseline].name);
    ki_csv_number(out, value->speed.ratio);
    ki_csv_number(out, value->speed.low);
    ki_csv_number(out, value->speed.high);
    ki_csv_number(out, value->speed.p);
    fprintf(out, "%s\n", ki_verdict_name(value->verdict));
}

void ki_compare_csv(const ki_comparison *c, FILE *out)
{
    fputs("op,dtype,redop,ranks,nbytes,place,memory,group,mode,src,dst,series,label,backend,link,time_us_median,"
          "time_us_p25,time_us_p75,runs,samples,algbw_gbps,busbw_gbps,hidden_percent,errors,expected_gbps,below_"
          "expected,cores,baseline,ratio,ratio_low,"
          "ratio_high,p,"
          "verdict\n",
          out);
    for (size_t i = 0; i < c->match_count; i++)
        for (int s = 0; s < c->series_count; s++)
            if (ki_value_at(c, i, s) != NULL)
                write_value(c, &c->matches[i], s, out);
    ki_compare_csv_peers(c, out);
}

#else
typedef int ki_compare_csv_needs_jansson; /* a file must not be empty */
#endif
