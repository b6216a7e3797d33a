/* tools/compare/options.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "options.h"
#include "../output.h"

#include <string.h>

#define THRESHOLD_MAX 1e6

static bool is_standard_output(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static int take_option(int option, char **argv, const struct option *options, ki_compare_request *request)
{
    switch (option) {
    case 'c':
        request->csv = optarg;
        break;
    case 'w':
        request->html = optarg;
        break;
    case 's':
        request->svg = optarg;
        break;
    case 'p':
        request->png = optarg;
        break;
    case 'b':
        request->baseline = optarg;
        break;
    case 't':
        if (!ki_parse_number(optarg, 0, THRESHOLD_MAX, &request->threshold))
            return ki_usage_error(&ki_command_compare, "--threshold %s is not a number of percent from 0 up", optarg);
        break;
    case 'h':
        request->is_help = true;
        break;
    default:
        return ki_option_error(&ki_command_compare, option, argv, options);
    }
    return KI_EXIT_OK;
}

int ki_compare_read_options(int argc, char **argv, ki_compare_request *request)
{
    static const struct option options[] = {
        { "csv", required_argument, NULL, 'c' },      { "html", required_argument, NULL, 'w' },
        { "svg", required_argument, NULL, 's' },      { "png", required_argument, NULL, 'p' },
        { "baseline", required_argument, NULL, 'b' }, { "threshold", required_argument, NULL, 't' },
        { "help", no_argument, NULL, 'h' },           { NULL, 0, NULL, 0 },
    };
    int result = KI_EXIT_OK;
    *request = (ki_compare_request){ .threshold = -1 };
    optind = 1;
    opterr = 0;
    for (int option; result == KI_EXIT_OK && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;)
        result = take_option(option, argv, options, request);
    if (result != KI_EXIT_OK || request->is_help)
        return result;
    request->files = argv + optind;
    request->file_count = argc - optind;
    if (request->file_count == 0)
        return ki_usage_error(&ki_command_compare, "no file was given; kith bench --save writes one");
    if (is_standard_output(request->csv) && is_standard_output(request->html))
        return ki_usage_error(&ki_command_compare, "--csv and --html cannot both go to standard output");
    const char *const files[] = { is_standard_output(request->csv) ? NULL : request->csv,
                                  is_standard_output(request->html) ? NULL : request->html, request->svg,
                                  request->png };
    const char *repeated = ki_output_repeated(files, sizeof files / sizeof files[0]);
    if (repeated != NULL)
        return ki_usage_error(&ki_command_compare, "%s would be written twice: give each output a file of its own",
                              repeated);
    return KI_EXIT_OK;
}

#else
typedef int ki_compare_options_needs_jansson; /* a file must not be empty */
#endif
