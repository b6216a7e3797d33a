/* tools/tune/tune.c - `kith tune`: a table of algorithms out of measurements, or fits of measurements that are there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include "../flags.h"
#include "../launch.h"
#include <stdlib.h>

static int tune_main(int argc, char **argv);
const ki_command ki_command_tune = { "tune", "Measure algorithms into a table; fit measured curves", tune_help,
                                     tune_main };

int tune_fit_results(const ki_command *command, const char *results_path, FILE *report, const char *output,
                     const char *svg, const tune_map *maps, size_t map_count)
{
    tune_results results;
    tune_curves curves = { NULL, 0 };
    char sentence[512];
    int status = KI_EXIT_USAGE;
    if (!tune_results_read(results_path, &results, sentence, sizeof sentence))
        fprintf(stderr, "kith %s: %s\n", command->name, sentence);
    else if (!tune_curves_make(results.list, results.count, &curves))
        fprintf(stderr, "kith %s: memory is short\n", command->name);
    else
        status = KI_EXIT_OK;
    size_t fits = 0;
    for (size_t i = 0; i < curves.count; i++)
        fits += curves.list[i].has_fit;
    if (status == KI_EXIT_OK && report != NULL)
        tune_fits_print(report, &curves);
    if (status == KI_EXIT_OK && fits == 0) {
        fprintf(stderr, "kith %s: no fit: no curve has %d sizes with a reliable median\n", command->name,
                TUNE_LINE_POINTS);
        status = TUNE_EXIT_FAILED;
    }
    tune_map found[1];
    if (status == KI_EXIT_OK && output != NULL && map_count == 0) {
        map_count = tune_maps_default(&curves, found);
        maps = found;
    }
    if (status == KI_EXIT_OK && output != NULL && report != NULL)
        tune_maps_print(report, &curves, maps, map_count);
    if (status == KI_EXIT_OK && output != NULL)
        status = tune_calibration_write(command, output, &curves, maps, map_count, tune_results_command(&results));
    if (status == KI_EXIT_OK && svg != NULL)
        status = tune_fits_draw(command, svg, &curves);
    tune_curves_free(&curves);
    tune_results_free(&results);
    return status;
}

static int tune_main(int argc, char **argv)
{
    tune_options options;
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL) {
        perror("kith tune");
        return KI_EXIT_USAGE;
    }
    words[0] = "kith";
    int status = tune_options_read(argc, argv, &options, words + 1);
    if (status == KI_FLAGS_HELP) {
        fputs(tune_help, stdout);
        status = KI_EXIT_OK;
    } else if (status == KI_EXIT_OK && options.fit != NULL) {
        status = tune_fit_results(&ki_command_tune, options.fit, stdout, options.output, options.svg, options.maps,
                                  options.map_count);
    } else if (status == KI_EXIT_OK && options.predict != NULL) {
        status = tune_predict(&options);
    } else if (status == KI_EXIT_OK) {
        status = options.rank_count > 0 ? ki_launch("tune", options.rank_count, words) : tune_run_rank(&options);
    }
    free(words);
    return status;
}
