/* tools/tune/calibrate.c - from fits to what kith topo and kith plan read.
 *
 * A ring of n ranks takes steps * latency + wire * S / B for S bytes (docs/plan.md), so a fit t = alpha + beta S of a
 * collective says latency = alpha / steps and B = wire / beta. Above a knee it is the beta of large messages: that is
 * what costs of training are made of. Whether the collective really ran as a ring does not matter for the time that the
 * formula gives back for so many ranks; for another number of ranks it is as good as the ring is.
 *
 * The file: rows of the table of constants (topology/constants.c) for the links that stand for one, with machine and
 * date as their source; beside them "calibration" with every fit and its points, whatever link it is of.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include "../json.h"
#include "../output.h"
#include <kith/topology.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* ---- what rings make of a fit ---- */

/* Best first: what costs are about, then what moves as in a step of it. */
static const struct {
    const char *op;
    double passes; /* as in docs/plan.md: how often (n-1)/n of the vector passes a rank; 0: the whole once */
} priced[] = {
    { "all_reduce", 2 }, { "reduce_scatter", 1 }, { "all_gather", 1 },
    { "all_to_all", 1 }, { "ring_exchange", 0 },  { "ping_pong", 0 },
};
enum { PRICED_COUNT = sizeof priced / sizeof priced[0] };

static size_t priced_index(const char *op)
{
    size_t i = 0;
    while (i < PRICED_COUNT && strcmp(priced[i].op, op) != 0)
        i++;
    return i;
}

bool tune_constant_of(const tune_curve *curve, tune_constant *constant)
{
    size_t index = priced_index(curve->key.op);
    if (index == PRICED_COUNT || !curve->has_fit || curve->key.ranks < 2)
        return false;
    double others = curve->key.ranks - 1, passes = priced[index].passes;
    double steps = passes > 0 ? passes * others : 1, wire = passes > 0 ? passes * others / curve->key.ranks : 1;
    constant->latency_us = curve->fit.below.alpha_us / steps;
    constant->gbps = wire / curve->fit.above.us_per_byte * 1e-3;
    return constant->latency_us > 0 && constant->gbps > 0 && isfinite(constant->gbps);
}

const tune_curve *tune_curve_of_link(const tune_curves *curves, const char *link)
{
    const tune_curve *best = NULL;
    for (size_t i = 0; i < curves->count; i++) {
        const tune_curve *curve = &curves->list[i];
        tune_constant constant;
        if (strcmp(tune_curve_link(curve), link) != 0 || !tune_constant_of(curve, &constant))
            continue;
        size_t rank = priced_index(curve->key.op), best_rank = best != NULL ? priced_index(best->key.op) : PRICED_COUNT;
        if (rank < best_rank || (rank == best_rank && curve->key.ranks > best->key.ranks))
            best = curve;
    }
    return best;
}

/* ---- which link stands for which constant ---- */

static bool is_constant(const char *key)
{
    const kith_constant *row;
    for (int i = 0; (row = kith_topology_constant(NULL, i)) != NULL; i++)
        if (strcmp(row->key, key) == 0)
            return true;
    return false;
}

/* "LINK=KEY" or "LINK=KEY*COUNT" of length bytes. */
static bool parse_map(const char *text, size_t length, tune_map *map)
{
    char word[sizeof map->link + sizeof map->key + 16];
    long count = 1;
    int written = snprintf(word, sizeof word, "%.*s", (int)length, text);
    char *equals = strchr(word, '='), *star = strchr(word, '*');
    if (written >= (int)sizeof word || equals == NULL || equals == word || (star != NULL && star < equals))
        return false;
    if (star != NULL) {
        *star = 0;
        if (!ki_parse_long(star + 1, 1, 1024, &count))
            return false;
    }
    *equals = 0;
    map->count = (double)count;
    return (size_t)snprintf(map->link, sizeof map->link, "%s", word) < sizeof map->link &&
           (size_t)snprintf(map->key, sizeof map->key, "%s", equals + 1) < sizeof map->key && map->key[0] != 0;
}

bool tune_maps_parse(const char *text, tune_map *maps, size_t *count, char *sentence, size_t nbytes)
{
    *count = 0;
    for (size_t length; *text != 0; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        if (*count == TUNE_MAPS_MAX) {
            snprintf(sentence, nbytes, "at most %d links can be given constants", TUNE_MAPS_MAX);
            return false;
        }
        tune_map *map = &maps[(*count)++];
        if (!parse_map(text, length, map)) {
            snprintf(sentence, nbytes, "'%.*s' is not LINK=CONSTANT or LINK=CONSTANT*COUNT, as in shm=pcie4",
                     (int)length, text);
            return false;
        }
        if (!is_constant(map->key)) {
            snprintf(sentence, nbytes, "there is no constant '%s'; kith topo --list-constants lists them", map->key);
            return false;
        }
    }
    return true;
}

/* ---- the file ---- */

typedef struct place {
    char host[128], date[40];
} place;

static place here_and_now(void)
{
    place p = { "an unknown host", "" };
    struct utsname name;
    time_t now = time(NULL);
    struct tm utc;
    if (uname(&name) == 0)
        snprintf(p.host, sizeof p.host, "%s", name.nodename);
    strftime(p.date, sizeof p.date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return p;
}

static void write_constant(FILE *out, const tune_map *map, const tune_curve *curve, const place *where)
{
    tune_constant constant;
    char source[400];
    tune_constant_of(curve, &constant);
    snprintf(source, sizeof source, "measured on %s, %.10s: %s of %d ranks on %s", where->host, where->date,
             curve->key.op, curve->key.ranks, map->link);
    ki_json_open(out, map->key, '{');
    ki_json_number(out, "effective_gbps", constant.gbps / map->count);
    ki_json_number(out, "latency_us", constant.latency_us);
    ki_json_string(out, "source", source);
    ki_json_close(out, '}');
    fputs("\n", out);
}

static void write_interval(FILE *out, const char *key, tune_interval interval, double factor)
{
    ki_json_open(out, key, '[');
    ki_json_number(out, NULL, factor * interval.low);
    ki_json_number(out, NULL, factor * interval.high);
    ki_json_close(out, ']');
}

static void write_key(FILE *out, const tune_row *key)
{
    ki_json_string(out, "op", key->op);
    ki_json_string(out, "backend", key->backend);
    ki_json_string(out, "link", key->link);
    ki_json_string(out, "dtype", key->dtype);
    ki_json_string(out, "redop", key->redop);
    ki_json_string(out, "memory", key->memory);
    ki_json_string(out, "place", key->place);
    ki_json_string(out, "mode", key->mode);
    ki_json_string(out, "group", key->group);
    ki_json_number(out, "ranks", key->ranks);
    ki_json_number(out, "hosts", key->hosts);
}

static void write_points(FILE *out, const tune_curve *curve)
{
    ki_json_open(out, "points", '[');
    for (size_t i = 0; i < curve->count; i++) {
        ki_json_open(out, NULL, '[');
        ki_json_number(out, NULL, curve->points[i].nbytes);
        ki_json_number(out, NULL, curve->points[i].time_us);
        ki_json_number(out, NULL, tune_fit_time(&curve->fit, curve->points[i].nbytes));
        ki_json_close(out, ']');
    }
    ki_json_close(out, ']');
}

/* Times in us, betas in us for each byte. */
static void write_fit(FILE *out, const tune_curve *curve)
{
    const tune_fit *fit = &curve->fit;
    ki_json_open(out, NULL, '{');
    write_key(out, &curve->key);
    ki_json_number(out, "alpha_us", fit->below.alpha_us);
    write_interval(out, "alpha_us_95", fit->alpha_us, 1);
    ki_json_number(out, "us_per_byte", fit->below.us_per_byte);
    write_interval(out, "us_per_byte_95", fit->below_us_per_byte, 1);
    ki_json_number(out, "knee_nbytes", fit->has_knee ? fit->knee_nbytes : NAN);
    if (fit->has_knee) {
        write_interval(out, "knee_nbytes_95", fit->knee, 1);
        ki_json_number(out, "above_alpha_us", fit->above.alpha_us);
        ki_json_number(out, "above_us_per_byte", fit->above.us_per_byte);
        write_interval(out, "above_us_per_byte_95", fit->above_us_per_byte, 1);
    }
    ki_json_number(out, "residual_median", fit->spread);
    write_points(out, curve);
    ki_json_close(out, '}');
    fputs("\n", out);
}

static void write_calibration(FILE *out, const tune_curves *curves, const place *where, const char *typed)
{
    ki_json_open(out, "calibration", '{');
    ki_json_string(out, "format", "kith-calibration-1");
    ki_json_string(out, "host", where->host);
    ki_json_string(out, "date", where->date);
    ki_json_string(out, "command", typed != NULL ? typed : "");
    ki_json_open(out, "fits", '[');
    for (size_t i = 0; i < curves->count; i++)
        if (curves->list[i].has_fit)
            write_fit(out, &curves->list[i]);
    ki_json_close(out, ']');
    ki_json_close(out, '}');
}

int tune_calibration_write(const ki_command *command, const char *path, const tune_curves *curves, const tune_map *maps,
                           size_t map_count, const char *typed)
{
    ki_output output;
    place where = here_and_now();
    for (size_t i = 0; i < map_count; i++)
        if (tune_curve_of_link(curves, maps[i].link) == NULL) {
            fprintf(stderr, "kith %s: no fit of the link '%s' gives a latency and a bandwidth for '%s'\n",
                    command->name, maps[i].link, maps[i].key);
            return TUNE_EXIT_FAILED;
        }
    if (!ki_output_open(&output, command))
        return KI_EXIT_USAGE;
    ki_json_restart();
    ki_json_open(output.stream, NULL, '{');
    for (size_t i = 0; i < map_count; i++)
        write_constant(output.stream, &maps[i], tune_curve_of_link(curves, maps[i].link), &where);
    write_calibration(output.stream, curves, &where, typed);
    ki_json_close(output.stream, '}');
    fputs("\n", output.stream);
    return ki_output_close(&output, path, false);
}
