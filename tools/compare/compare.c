/* tools/compare/compare.c - `kith compare`: result files side by side, as tables, CSV, a page and pictures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compare.h"

#include "options.h"
#include "plots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char compare_help[] =
    "Usage: kith compare [options] [LABEL=]FILE...\n"
    "Compares measurements of kith bench: machines, backends, links, versions, days. Prints times and ratios for each\n"
    "operation, with a mark at ratios that are more than chance, in brackets where a side is one run, and\n"
    "geometric means. Of a run of the harness with peers also tables of Kith beside each of them.\n\n"
    "  FILE                what kith bench wrote as JSON, or the harness of bench/. Its label is its name, or what\n"
    "                      stands before '='; files of one label are several runs of one thing\n"
    "  --baseline NAME     what the others are compared with: a label, a file, or a series as the tables name it;\n"
    "                      default the first label, or the first series where there is one label\n"
    "  --threshold PERCENT end with status 1 when something takes longer than its baseline by more than that,\n"
    "                      beyond chance, or has wrong elements; a side of one run holds nothing of what differs from\n"
    "                      run to run, so give each side several\n"
    "  --csv FILE          write a line for each point; - is standard output, in place of the tables\n"
    "  --html FILE         write a page that needs no network: curves, bars, maps of pairs, tables, machines;\n"
    "                      - as above\n"
    "  --svg DIR           write each picture into this folder, which is made when it is not there\n"
    "  --png DIR           the same as PNG; needs cairo\n\n"
    "Exit status: 0, 1 with --threshold when something is worse, 2 for wrong usage, or something cannot be read\n"
    "or written.\n\n"
    "Example: kith compare old=a1.json old=a2.json new=b1.json new=b2.json --threshold 5 --html page.html\n";

static int compare_main(int argc, char **argv);
const ki_command ki_command_compare = { "compare", "Compare measurements: tables, ratios, one page", compare_help,
                                        compare_main };

#ifdef KITH_HAVE_JANSSON

typedef bool writer(const ki_comparison *comparison, FILE *out);

static bool write_csv(const ki_comparison *c, FILE *out)
{
    ki_compare_csv(c, out);
    return true;
}

static bool write_text(const ki_comparison *c, FILE *out)
{
    ki_compare_text(c, out);
    return true;
}

static int out_of_memory(void)
{
    fputs("kith compare: memory is short\n", stderr);
    return KI_EXIT_USAGE;
}

/* path NULL or "-": standard output. */
static int write_report(const ki_comparison *c, writer *write, const char *path)
{
    ki_output output;
    if (!ki_output_open(&output, &ki_command_compare))
        return KI_EXIT_USAGE;
    if (!write(c, output.stream)) {
        ki_output_drop(&output);
        return out_of_memory();
    }
    return ki_output_close(&output, path == NULL || strcmp(path, "-") == 0 ? NULL : path, false);
}

/* ---- pictures in files ---- */

static int write_picture(const ki_plot *plot, const char *folder, bool is_png)
{
    ki_output output;
    const char *error = NULL;
    char *path = NULL;
    if (asprintf(&path, "%s/%s.%s", folder, plot->file, is_png ? "png" : "svg") < 0)
        return out_of_memory();
    int result = ki_output_open(&output, &ki_command_compare) ? KI_EXIT_OK : KI_EXIT_USAGE;
    if (result == KI_EXIT_OK && !is_png)
        ki_drawing_svg(plot->drawing, false, output.stream);
    if (result == KI_EXIT_OK && is_png && !ki_drawing_png(plot->drawing, output.stream, &error)) {
        fprintf(stderr, "kith compare: the picture cannot be made: %s\n", error);
        ki_output_drop(&output);
        result = KI_EXIT_USAGE;
    } else if (result == KI_EXIT_OK)
        result = ki_output_close(&output, path, is_png);
    free(path);
    return result;
}

static int write_pictures(const ki_plots *plots, const char *folder, bool is_png)
{
    int result = KI_EXIT_OK;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "kith compare: cannot make the folder %s: %s\n", folder, strerror(errno));
        return KI_EXIT_USAGE;
    }
    for (size_t i = 0; i < plots->count && result == KI_EXIT_OK; i++)
        result = write_picture(&plots->items[i], folder, is_png);
    if (plots->left_out > 0 && result == KI_EXIT_OK)
        fprintf(stderr, "kith compare: %zu more pictures are left out; compare fewer files at once\n", plots->left_out);
    return result;
}

static int write_all_pictures(const ki_comparison *c, const ki_compare_request *request)
{
    ki_plots plots;
    int result = KI_EXIT_OK;
    if (request->svg == NULL && request->png == NULL)
        return KI_EXIT_OK;
    if (!ki_plots_make(c, &plots))
        result = out_of_memory();
    if (result == KI_EXIT_OK && request->svg != NULL)
        result = write_pictures(&plots, request->svg, false);
    if (result == KI_EXIT_OK && request->png != NULL)
        result = write_pictures(&plots, request->png, true);
    ki_plots_fini(&plots);
    return result;
}

/* ---- all ---- */

static bool is_replaced(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Files first: standard output may be a pipe that somebody closes. */
static int write_reports(const ki_comparison *c, const ki_compare_request *request)
{
    int result = KI_EXIT_OK;
    if (request->csv != NULL)
        result = write_report(c, write_csv, request->csv);
    if (result == KI_EXIT_OK && request->html != NULL)
        result = write_report(c, ki_compare_page, request->html);
    if (result == KI_EXIT_OK)
        result = write_all_pictures(c, request);
    if (result == KI_EXIT_OK && !is_replaced(request->csv) && !is_replaced(request->html))
        result = write_report(c, write_text, NULL);
    return result == KI_EXIT_OK && ki_worse_count(c) > 0 ? KI_COMPARE_WORSE : result;
}

static bool read_files(ki_results *results, const ki_compare_request *request, ki_complaint *complaint)
{
    for (int i = 0; i < request->file_count; i++)
        if (!ki_results_read(results, request->files[i], complaint))
            return false;
    return true;
}

/* The file that an output would replace, if it is one of those that were read. */
static bool is_output_of_its_own(const ki_results *results, const char *option, const char *path,
                                 ki_complaint *complaint)
{
    struct stat info;
    if (path == NULL || strcmp(path, "-") == 0 || stat(path, &info) != 0)
        return true;
    for (int i = 0; i < results->file_count; i++) {
        const ki_file *file = &results->files[i];
        if (file->device == (uint64_t)info.st_dev && file->inode == (uint64_t)info.st_ino) {
            ki_complain(complaint, "%s %s would replace %s, which is compared; name another file", option, path,
                        file->path);
            return false;
        }
    }
    return true;
}

static bool are_outputs_of_their_own(const ki_results *results, const ki_compare_request *request,
                                     ki_complaint *complaint)
{
    return is_output_of_its_own(results, "--csv", request->csv, complaint) &&
           is_output_of_its_own(results, "--html", request->html, complaint);
}

static int compare_files(const ki_compare_request *request)
{
    ki_results *results = malloc(sizeof(*results));
    ki_comparison *c = calloc(1, sizeof(*c));
    ki_complaint complaint = { "" };
    int result = KI_EXIT_USAGE;
    bool is_ready = results != NULL && ki_results_init(results) && c != NULL;
    if (!is_ready)
        ki_complain(&complaint, "memory is short");
    if (is_ready) {
        c->results = results;
        c->threshold = request->threshold;
        is_ready = read_files(results, request, &complaint) && are_outputs_of_their_own(results, request, &complaint) &&
                   ki_series_make(c, request->baseline, &complaint) && ki_match_make(c, &complaint);
    }
    if (is_ready)
        result = write_reports(c, request);
    else
        fprintf(stderr, "kith compare: %s\n", complaint.text);
    if (c != NULL)
        ki_comparison_fini(c);
    if (results != NULL)
        ki_results_fini(results);
    free(c);
    free(results);
    return result;
}

static int compare_main(int argc, char **argv)
{
    ki_compare_request request;
    int result = ki_compare_read_options(argc, argv, &request);
    if (result != KI_EXIT_OK)
        return result;
    if (request.is_help) {
        fputs(compare_help, stdout);
        return KI_EXIT_OK;
    }
    return compare_files(&request);
}

#else

static int compare_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    fputs("kith compare: this kith was built without jansson, which reads the files\n", stderr);
    return KI_EXIT_USAGE;
}

#endif
