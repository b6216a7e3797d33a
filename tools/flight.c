/* tools/flight.c - `kith flight`: reads the flight records of all ranks and says who is behind. Parts: flight.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "flight.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char flight_help[] =
    "Usage: kith flight [--json] FILE|FOLDER...\n"
    "Compares the flight records that kith_group_dump() wrote on the ranks of a job, and says for each group which "
    "rank is\n"
    "behind, which called something else, which operation has not ended, and whose record is missing. Ranks are world "
    "ranks.\n\n"
    "  FILE      a record; the records of all ranks of a group belong together\n"
    "  FOLDER    all records in it; files that do not begin with '{' and hidden files are passed over\n"
    "  --json    an object {\"groups\": [{\"name\", \"id\", \"members\", \"records\", \"first_seq\", \"last_seq\",\n"
    "            \"findings\": [{\"kind\", \"seq\", \"ranks\", \"text\"}]}], \"bad_files\": [{\"file\", \"line\", "
    "\"text\"}]}\n\n"
    "Exit status: 0 nothing wrong, 1 something was found, 2 wrong usage, or something cannot be read or\n"
    "written.\n\n"
    "Example: kith flight /tmp/records\n";

static int flight_main(int argc, char **argv);
const ki_command ki_command_flight = { "flight", "Find the rank that is behind, from flight records", flight_help,
                                       flight_main };

#ifdef KITH_HAVE_JANSSON

static int out_of_memory(void)
{
    fputs("kith flight: memory is short\n", stderr);
    return KI_EXIT_USAGE;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Paths of the files to read; from folders, in the order of their names. */
typedef struct paths {
    char **text;
    bool *is_optional;
    size_t count;
} paths;

static bool paths_add(paths *list, char *text, bool is_optional)
{
    if (text == NULL) return false;
    char **texts = realloc(list->text, (list->count + 1) * sizeof(*texts));
    if (texts != NULL) list->text = texts;
    bool *flags = realloc(list->is_optional, (list->count + 1) * sizeof(*flags));
    if (flags != NULL) list->is_optional = flags;
    if (texts == NULL || flags == NULL) {
        free(text);
        return false;
    }
    list->text[list->count] = text;
    list->is_optional[list->count++] = is_optional;
    return true;
}

static bool paths_add_argument(paths *list, ki_flight_set *set, const char *argument)
{
    struct stat info;
    struct dirent **entries;
    if (stat(argument, &info) != 0 || !S_ISDIR(info.st_mode)) return paths_add(list, strdup(argument), false);
    int count = scandir(argument, &entries, is_visible, alphasort);
    bool has_memory = count >= 0 || ki_flight_add_problem(set, argument, 0, "the folder cannot be read");
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", argument, entries[i]->d_name) < 0) path = NULL;
        has_memory = paths_add(list, path, true) && has_memory;
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return has_memory;
}

static void paths_clear(paths *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    free(list->text);
    free(list->is_optional);
}

static int report(ki_flight_set *set, bool is_json)
{
    ki_flight_group *groups = NULL;
    size_t group_count = 0, finding_count = 0;
    bool has_memory = ki_flight_groups_create(set, &groups, &group_count);
    for (size_t i = 0; has_memory && i < group_count; i++) {
        has_memory = ki_flight_check(&groups[i]);
        finding_count += groups[i].finding_count;
    }
    if (has_memory && is_json)
        has_memory = ki_flight_print_json(stdout, set, groups, group_count);
    else if (has_memory)
        ki_flight_print_text(stdout, groups, group_count);
    ki_flight_groups_free(groups, group_count);
    if (!has_memory) return out_of_memory();
    fflush(stdout);
    for (size_t i = 0; i < set->problem_count; i++) {
        const ki_flight_problem *problem = &set->problems[i];
        fprintf(stderr, "kith flight: %s", problem->file);
        if (problem->line > 0) fprintf(stderr, ", line %d", problem->line);
        fprintf(stderr, ": %s\n", problem->text);
    }
    if (set->problem_count > 0) return KI_EXIT_USAGE;
    return finding_count > 0 ? KI_FLIGHT_FOUND : KI_EXIT_OK;
}

/* Reads everything that the arguments name and reports. */
static int run_on(char *const *arguments, int count, bool is_json)
{
    ki_flight_set set = { 0 };
    paths list = { 0 };
    bool has_memory = true;
    for (int i = 0; has_memory && i < count; i++)
        has_memory = paths_add_argument(&list, &set, arguments[i]);
    for (size_t i = 0; has_memory && i < list.count; i++)
        has_memory = ki_flight_read(&set, list.text[i], list.is_optional[i]);
    int status;
    if (!has_memory)
        status = out_of_memory();
    else if (set.record_count == 0 && set.problem_count == 0)
        status = ki_usage_error(&ki_command_flight, "there is no flight record in %s%s", arguments[0],
                                count > 1 ? " and the others" : "");
    else
        status = report(&set, is_json);
    ki_flight_set_clear(&set);
    paths_clear(&list);
    return status;
}

static int flight_main(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    bool is_json = false;
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(flight_help, stdout);
            return KI_EXIT_OK;
        }
        if (option != 'j') return ki_option_error(&ki_command_flight, option, argv, options);
        is_json = true;
    }
    if (optind == argc) return ki_usage_error(&ki_command_flight, "no file or folder with flight records was given");
    return run_on(argv + optind, argc - optind, is_json);
}

#else

static int flight_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    fputs("kith flight: this kith was built without jansson, which reads the records\n", stderr);
    return KI_EXIT_USAGE;
}

#endif
