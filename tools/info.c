/* tools/info.c - `kith info`: what this library can do on this machine, and with which settings.
 *
 * The library writes the report (kith_info_json()); here it is passed on as it is, or laid out for reading
 * (info_print.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "command.h"
#include "info_print.h"

#include <kith/context.h>
#include <stdio.h>
#include <string.h>

#define EXIT_FAILED 1

static const char info_help[] =
    "Usage: kith info [--json | --config | --algorithms]\n"
    "Says which backends and devices can be used on this machine, and for each that cannot, why.\n\n"
    "  --config      the settings: value, who set it, meaning. A setting NAME is set by the variable KITH_NAME or by\n"
    "                kith_init_options.settings\n"
    "  --algorithms  the collectives' algorithms, what each costs, and the rules by which they are chosen\n"
    "  --json        everything, as one JSON object with version, backends, devices, blas, config, algorithms\n\n"
    "Exit status: 0, 1 when the library cannot tell, 2 wrong usage, or output that cannot be written.\n\n"
    "Example: KITH_BACKEND=ucx kith info --config\n";

static int info_main(int argc, char **argv);
const ki_command ki_command_info = { "info", "Show backends, devices, settings and algorithms", info_help, info_main };

static int print_report(const char *json, const ki_info_parts *parts, bool is_json)
{
    char error[160] = "";
    if (is_json) {
        puts(json);
        return KI_EXIT_OK;
    }
    if (ki_info_print(stdout, json, parts, error, sizeof(error))) return KI_EXIT_OK;
    fprintf(stderr, "kith info: %s\n", error);
    return EXIT_FAILED;
}

static int info_main(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' },
                                             { "config", no_argument, NULL, 'c' },
                                             { "algorithms", no_argument, NULL, 'a' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    ki_info_parts parts = { false, false };
    bool is_json = false;
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (option) {
        case 'j':
            is_json = true;
            break;
        case 'c':
            parts.has_config = true;
            break;
        case 'a':
            parts.has_algorithms = true;
            break;
        case 'h':
            fputs(info_help, stdout);
            return KI_EXIT_OK;
        default:
            return ki_option_error(&ki_command_info, option, argv, options);
        }
    }
    if (optind < argc) return ki_usage_error(&ki_command_info, "there is nothing to do with '%s'", argv[optind]);
    char *json = NULL;
    kith_status status = kith_info_json(&json);
    if (status != KITH_OK) {
        fprintf(stderr, "kith info: %s: %s\n", kith_status_name(status), kith_error_detail());
        return EXIT_FAILED;
    }
    int result = print_report(json, &parts, is_json);
    kith_free(json);
    return result;
}
