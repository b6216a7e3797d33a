/* tools/tune/fit_report.c - fits as text: alpha, beta and knee with their intervals, measured beside predicted.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include "../draw.h"
#include <math.h>
#include <string.h>

static bool is_known(tune_interval interval)
{
    return isfinite(interval.low) && isfinite(interval.high);
}

/* "1.23 us (1.1 to 1.4)" */
static void print_alpha(FILE *out, const tune_fit *fit)
{
    fprintf(out, "  alpha %.4g us", fit->below.alpha_us);
    if (is_known(fit->alpha_us))
        fprintf(out, " (%.4g to %.4g)", fit->alpha_us.low, fit->alpha_us.high);
}

/* Of the vector: bytes of a row over their time. */
static double gbps_of(double us_per_byte)
{
    return us_per_byte > 0 ? 1e-3 / us_per_byte : INFINITY;
}

static void print_beta(FILE *out, double us_per_byte, tune_interval interval)
{
    if (!(us_per_byte > 0)) {
        fputs("no cost of a byte to be seen", out);
        return;
    }
    fprintf(out, "%.4g GB/s", gbps_of(us_per_byte));
    if (is_known(interval))
        fprintf(out, " (%.4g to %.4g)", gbps_of(interval.high), gbps_of(interval.low));
}

static void print_knee(FILE *out, const tune_fit *fit)
{
    char at[32], low[32], high[32];
    fprintf(out, "\n  knee at %s", ki_text_bytes(at, sizeof at, fit->knee_nbytes));
    if (is_known(fit->knee))
        fprintf(out, " (%s to %s)", ki_text_bytes(low, sizeof low, fit->knee.low),
                ki_text_bytes(high, sizeof high, fit->knee.high));
    fputs(", above it ", out);
    print_beta(out, fit->above.us_per_byte, fit->above_us_per_byte);
}

static void print_points(FILE *out, const tune_curve *curve)
{
    fprintf(out, "  %12s %14s %14s %12s\n", "size", "measured us", "predicted us", "difference");
    for (size_t i = 0; i < curve->count; i++) {
        const tune_point *point = &curve->points[i];
        double time = tune_fit_time(&curve->fit, point->nbytes);
        char size[32];
        fprintf(out, "  %12s %14.4g %14.4g %+10.1f %%\n", ki_text_bytes(size, sizeof size, point->nbytes),
                point->time_us, time, 100 * (point->time_us / time - 1));
    }
}

static void print_head(FILE *out, const tune_curve *curve)
{
    const tune_row *key = &curve->key;
    bool has_operator = key->redop[0] != 0 && strcmp(key->redop, "none") != 0;
    fprintf(out, "%s over %s, %d rank%s, %s%s%s, %s memory", key->op, tune_curve_link(curve), key->ranks,
            key->ranks == 1 ? "" : "s", key->dtype, has_operator ? " " : "", has_operator ? key->redop : "",
            key->memory);
    if (key->hosts > 1)
        fprintf(out, ", %d hosts", key->hosts);
    if (strcmp(key->place, "in") == 0)
        fputs(", in place", out);
    if (strcmp(key->mode, "blocking") != 0)
        fprintf(out, ", %s", key->mode);
    if (strcmp(key->group, "world") != 0)
        fprintf(out, ", group %s", key->group);
    fputs("\n", out);
}

static void print_curve(FILE *out, const tune_curve *curve)
{
    print_head(out, curve);
    if (curve->left_out > 0)
        fprintf(out, "  %zu size%s without a reliable median left out\n", curve->left_out,
                curve->left_out == 1 ? "" : "s");
    if (!curve->has_fit) {
        fprintf(out, "  no fit: %zu size%s, at least %d are needed\n\n", curve->count, curve->count == 1 ? "" : "s",
                TUNE_LINE_POINTS);
        return;
    }
    print_alpha(out, &curve->fit);
    fputs(", ", out);
    print_beta(out, curve->fit.below.us_per_byte, curve->fit.below_us_per_byte);
    if (curve->fit.has_knee)
        print_knee(out, &curve->fit);
    fprintf(out, "\n  half of the points within %.2g %% of the fit\n", 100 * curve->fit.spread);
    print_points(out, curve);
    fputs("\n", out);
}

void tune_maps_print(FILE *out, const tune_curves *curves, const tune_map *maps, size_t map_count)
{
    for (size_t i = 0; i < map_count; i++) {
        const tune_curve *curve = tune_curve_of_link(curves, maps[i].link);
        tune_constant constant;
        if (curve != NULL && tune_constant_of(curve, &constant))
            fprintf(out, "Constant %s: %.4g GB/s, %.3g us a step, from %s of %d ranks over %s.\n", maps[i].key,
                    constant.gbps / maps[i].count, constant.latency_us, curve->key.op, curve->key.ranks, maps[i].link);
    }
    if (map_count == 0)
        fputs("No constant is replaced; --constants says which one a link stands for.\n", out);
}

void tune_fits_print(FILE *out, const tune_curves *curves)
{
    fputs(
        "t = alpha + size / bandwidth; in parentheses 95 % intervals. Bandwidths are those of the size, as algbw.\n\n",
        out);
    for (size_t i = 0; i < curves->count; i++)
        print_curve(out, &curves->list[i]);
}
