/* tools/schedule_options.c - the options of `kith schedule`, and what belongs together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_KIND = 256,
    OPT_RANKS,
    OPT_MICROBATCHES,
    OPT_CHUNKS,
    OPT_GROUP_SIZE,
    OPT_WARMUP_FACTOR,
    OPT_FIFO,
    OPT_FORWARD_ONLY,
    OPT_COST,
    OPT_PROFILE,
    OPT_MEMORY_BOUND,
    OPT_LOWERED,
    OPT_RECOMPUTE,
    OPT_TIED,
    OPT_IMPORT,
    OPT_DIALECT,
    OPT_CHECK,
    OPT_COMPARE,
    OPT_FORMAT,
    OPT_OUTPUT,
    OPT_WIDTH,
    OPT_COLOR,
    OPT_ASCII,
    OPT_LIST,
    OPT_HELP
};

static const struct option schedule_options[] = {
    { "kind", required_argument, NULL, OPT_KIND },
    { "ranks", required_argument, NULL, OPT_RANKS },
    { "microbatches", required_argument, NULL, OPT_MICROBATCHES },
    { "chunks", required_argument, NULL, OPT_CHUNKS },
    { "group-size", required_argument, NULL, OPT_GROUP_SIZE },
    { "warmup-factor", required_argument, NULL, OPT_WARMUP_FACTOR },
    { "fifo", no_argument, NULL, OPT_FIFO },
    { "forward-only", no_argument, NULL, OPT_FORWARD_ONLY },
    { "cost", required_argument, NULL, OPT_COST },
    { "costs", required_argument, NULL, OPT_COST },
    { "profile", required_argument, NULL, OPT_PROFILE },
    { "memory-bound", required_argument, NULL, OPT_MEMORY_BOUND },
    { "lowered", no_argument, NULL, OPT_LOWERED },
    { "recompute", no_argument, NULL, OPT_RECOMPUTE },
    { "tied", no_argument, NULL, OPT_TIED },
    { "import", required_argument, NULL, OPT_IMPORT },
    { "dialect", required_argument, NULL, OPT_DIALECT },
    { "check", no_argument, NULL, OPT_CHECK },
    { "compare", required_argument, NULL, OPT_COMPARE },
    { "format", required_argument, NULL, OPT_FORMAT },
    { "output", required_argument, NULL, OPT_OUTPUT },
    { "width", required_argument, NULL, OPT_WIDTH },
    { "color", required_argument, NULL, OPT_COLOR },
    { "ascii", no_argument, NULL, OPT_ASCII },
    { "list", no_argument, NULL, OPT_LIST },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

static const char *const report_names[] = {
    [KI_SCHEDULE_TEXT] = "text",
    [KI_SCHEDULE_JSON] = "json",
    [KI_SCHEDULE_CSV] = "csv",
    [KI_SCHEDULE_CSV_COMMS] = "csv-comms",
    [KI_SCHEDULE_DEEPSPEED] = "deepspeed",
    [KI_SCHEDULE_SHALLOWSPEED] = "shallowspeed",
    [KI_SCHEDULE_TRACE] = "trace",
    [KI_SCHEDULE_SVG] = "svg",
    [KI_SCHEDULE_PNG] = "png",
    [KI_SCHEDULE_PDF] = "pdf",
    [KI_SCHEDULE_HTML] = "html",
};
#define REPORT_COUNT ((int)(sizeof report_names / sizeof report_names[0]))

/* What was given, for what belongs together. */
typedef struct given {
    bool has_kind, has_ranks, has_microbatches, has_cost, has_dialect, has_bound, has_group_size, has_factor;
    const char *kind, *profile;
} given;

/* ---- values; each false after it has said what is wrong ---- */

static const char *option_name(int option)
{
    for (const struct option *o = schedule_options; o->name != NULL; o++)
        if (o->val == option)
            return o->name;
    return "?";
}

static bool read_int(int option, int low, int high, int *value)
{
    long read;
    if (!ki_parse_long(optarg, low, high, &read)) {
        ki_usage_error(&ki_command_schedule, "--%s %s: it must be a whole number from %d to %d", option_name(option),
                       optarg, low, high);
        return false;
    }
    *value = (int)read;
    return true;
}

/* How many. The library says what it can be at most, and of what has no other meaning for 0, also at least. */
static bool read_count(int option, int low, int *value)
{
    long read;
    if (!ki_parse_long(optarg, LONG_MIN, LONG_MAX, &read) || read < low) {
        ki_usage_error(&ki_command_schedule, "--%s %s: it must be a whole number%s", option_name(option), optarg,
                       low == 1 ? " of at least 1" : "");
        return false;
    }
    *value = read > INT_MAX ? INT_MAX : (int)read;
    return true;
}

static bool read_double(int option, double *value)
{
    if (ki_parse_number(optarg, DBL_MIN, 1e300, value))
        return true;
    ki_usage_error(&ki_command_schedule, "--%s %s: it must be a number above 0", option_name(option), optarg);
    return false;
}

static bool read_word(int option, const char *const *names, int count, int *value)
{
    char valid[192] = "";
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], optarg) == 0) {
            *value = i;
            return true;
        }
    for (int i = 0; i < count; i++) {
        size_t used = strlen(valid);
        snprintf(valid + used, sizeof(valid) - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    ki_usage_error(&ki_command_schedule, "--%s %s is not one of %s", option_name(option), optarg, valid);
    return false;
}

static bool refuse(const char *sentence)
{
    ki_usage_error(&ki_command_schedule, "%s", sentence);
    return false;
}

static bool library_says_no(void)
{
    ki_usage_error(&ki_command_schedule, "%s", kith_error_detail());
    return false;
}

static bool read_cost(ki_schedule_request *r)
{
    return kith_schedule_costs_parse(optarg, &r->costs) == KITH_OK || library_says_no();
}

/* One name of --compare. */
static bool add_compared(ki_schedule_request *r, const char *name, size_t length)
{
    char word[64];
    if (length == 0) {
        ki_usage_error(&ki_command_schedule,
                       "--compare '%s': there has to be the name of a kind before and after each "
                       "comma",
                       optarg);
        return false;
    }
    if (r->compared_count == KI_COMPARE_MAX) {
        ki_usage_error(&ki_command_schedule, "--compare: at most %d kinds", KI_COMPARE_MAX);
        return false;
    }
    snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : (int)sizeof word - 1, name);
    return kith_schedule_kind_named(word, &r->compared[r->compared_count++]) == KITH_OK || library_says_no();
}

static bool read_compare(ki_schedule_request *r)
{
    r->compared_count = 0;
    for (const char *name = optarg;; name++) {
        size_t length = strcspn(name, ",");
        if (!add_compared(r, name, length))
            return false;
        name += length;
        if (*name == '\0')
            return true;
    }
}

static bool read_color(ki_schedule_request *r)
{
    static const char *const names[] = { "auto", "always", "never" };
    int word;
    if (!read_word(OPT_COLOR, names, 3, &word))
        return false;
    r->printing.has_colour = word == 0 ? isatty(STDOUT_FILENO) : word == 1;
    return true;
}

static bool read_dialect(ki_schedule_request *r, given *g)
{
    static const char *const names[] = { "auto", "old", "new" };
    int word = 0;
    bool is_read = read_word(OPT_DIALECT, names, 3, &word);
    r->dialect = (kith_torch_dialect)word;
    g->has_dialect = true;
    return is_read;
}

static bool read_report(ki_schedule_request *r)
{
    int word;
    if (!read_word(OPT_FORMAT, report_names, REPORT_COUNT, &word))
        return false;
    r->report = (ki_schedule_report)word;
    return true;
}

static bool read_kind(ki_schedule_request *r, given *g)
{
    g->has_kind = true;
    g->kind = optarg;
    return kith_schedule_kind_named(optarg, &r->making.kind) == KITH_OK || library_says_no();
}

static bool take(int option, ki_schedule_request *r, given *g)
{
    switch (option) {
    case OPT_KIND:
        return read_kind(r, g);
    case OPT_RANKS:
        g->has_ranks = true;
        return read_count(option, INT_MIN, &r->making.ranks);
    case OPT_MICROBATCHES:
        g->has_microbatches = true;
        return read_count(option, INT_MIN, &r->making.microbatches);
    case OPT_CHUNKS:
        return read_count(option, 1, &r->making.chunks);
    case OPT_GROUP_SIZE:
        g->has_group_size = true;
        return read_count(option, 1, &r->making.group_size);
    case OPT_WARMUP_FACTOR:
        g->has_factor = true;
        return read_int(option, 1, 2, &r->making.warmup_factor);
    case OPT_FIFO:
        r->making.is_fifo_backward = 1;
        return true;
    case OPT_FORWARD_ONLY:
        r->making.is_forward_only = 1;
        return true;
    case OPT_COST:
        g->has_cost = true;
        return read_cost(r);
    case OPT_PROFILE:
        g->profile = optarg;
        return true;
    case OPT_MEMORY_BOUND:
        g->has_bound = true;
        return read_double(option, &r->making.memory_bound);
    case OPT_LOWERED:
        r->is_lowered = true;
        return true;
    case OPT_RECOMPUTE:
        r->is_lowered = true;
        r->lowering.has_recompute = 1;
        return true;
    case OPT_TIED:
        r->is_lowered = true;
        r->lowering.has_tied = 1;
        return true;
    case OPT_IMPORT:
        r->import = optarg;
        return true;
    case OPT_DIALECT:
        return read_dialect(r, g);
    case OPT_CHECK:
        r->is_checked = true;
        return true;
    case OPT_COMPARE:
        return read_compare(r);
    case OPT_FORMAT:
        return read_report(r);
    case OPT_OUTPUT:
        r->output = optarg;
        return optarg[0] != '\0' || refuse("--output: the name of the file is empty");
    case OPT_WIDTH:
        return read_int(option, 40, 4096, &r->printing.width);
    case OPT_COLOR:
        return read_color(r);
    case OPT_ASCII:
        r->printing.is_ascii = 1;
        return true;
    case OPT_LIST:
        r->is_list = true;
        return true;
    default:
        r->is_help = true;
        return true;
    }
}

/* ---- what belongs together ---- */

static bool is_for_one(ki_schedule_report report)
{
    return report >= KI_SCHEDULE_CSV && report <= KI_SCHEDULE_TRACE;
}

/* Whether one of these is the kind of the plan, or of one that is compared. count: of kinds. */
static bool is_any_of(const ki_schedule_request *r, const kith_schedule_kind *kinds, int count)
{
    const kith_schedule_kind *asked = r->compared_count > 0 ? r->compared : &r->making.kind;
    int asked_count = r->compared_count > 0 ? r->compared_count : 1;
    for (int i = 0; i < asked_count; i++)
        for (int j = 0; j < count; j++)
            if (asked[i] == kinds[j])
                return true;
    return false;
}

/* Options of some kinds only. With --compare they are for the kinds that know them, of which there has to be one. */
static bool fits_kind(const ki_schedule_request *r, const given *g)
{
    static const kith_schedule_kind bound[] = { KITH_SCHEDULE_AUTO },
                                    fifo[] = { KITH_SCHEDULE_GPIPE, KITH_SCHEDULE_LOOPED_BFS },
                                    group[] = { KITH_SCHEDULE_INTERLEAVED, KITH_SCHEDULE_INTERLEAVED_ZB },
                                    factor[] = { KITH_SCHEDULE_INTERLEAVED };
    if (g->has_bound && !is_any_of(r, bound, 1))
        return refuse("--memory-bound is for --kind auto");
    if (r->making.is_fifo_backward && !is_any_of(r, fifo, 2))
        return refuse("--fifo is for --kind gpipe and looped-bfs");
    if (g->has_group_size && !is_any_of(r, group, 2))
        return refuse("--group-size is for --kind interleaved and interleaved-zb");
    if (g->has_factor && !is_any_of(r, factor, 1))
        return refuse("--warmup-factor is for --kind interleaved");
    return true;
}

/* What makes a plan says nothing about one that is there. */
static bool makes_something(const ki_schedule_request *r, const given *g)
{
    return g->has_kind || r->compared_count > 0 || g->has_ranks || g->has_microbatches || g->has_bound ||
           g->has_group_size || g->has_factor || r->making.chunks != 0 || r->making.is_fifo_backward ||
           r->making.is_forward_only;
}

static bool fits_together(const ki_schedule_request *r, const given *g)
{
    if (r->import != NULL && makes_something(r, g))
        return refuse("--import brings a plan: the options that make one have no place beside it");
    if (r->import == NULL && g->has_dialect)
        return refuse("--dialect is for --import");
    if (r->import == NULL && !g->has_kind && r->compared_count == 0)
        return refuse("which plan? Give --kind, --compare or --import");
    if (g->has_kind && r->compared_count > 0)
        return refuse("--kind makes one plan and --compare several: give one of them");
    if (r->import == NULL && !(g->has_ranks && g->has_microbatches))
        return refuse("--ranks and --microbatches say how large the plan is: both are needed");
    if (g->has_cost && g->profile != NULL)
        return refuse("--cost and --profile both say what a stage costs: give one of them");
    if (r->compared_count > 0 && g->profile != NULL)
        return refuse("--profile has a row for each stage of one plan: --compare takes --cost");
    if (r->compared_count > 0 && is_for_one(r->report))
        return refuse("--compare has the formats text, json, svg, png, pdf and html");
    if (r->compared_count > 0 && r->is_lowered)
        return refuse("--compare shows computation: --lowered, --recompute and --tied are for one plan");
    return r->import != NULL || fits_kind(r, g);
}

int ki_schedule_read_options(int argc, char **argv, ki_schedule_request *r)
{
    given g = { 0 };
    *r = (ki_schedule_request){ .making = KITH_SCHEDULE_OPTIONS_INIT,
                                .costs = KITH_SCHEDULE_COSTS_INIT,
                                .lowering = KITH_LOWER_OPTIONS_INIT,
                                .printing = KITH_SCHEDULE_PRINT_OPTIONS_INIT };
    r->printing.has_colour = isatty(STDOUT_FILENO);
    opterr = 0;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "+:h", schedule_options, NULL)) != -1;) {
        if (option == ':' || option == '?')
            return ki_option_error(&ki_command_schedule, option, argv, schedule_options);
        if (!take(option, r, &g))
            return KI_EXIT_USAGE;
    }
    if (r->is_help || r->is_list)
        return KI_EXIT_OK;
    if (optind < argc)
        return ki_usage_error(&ki_command_schedule, "'%s' is not expected", argv[optind]);
    if (!fits_together(r, &g))
        return KI_EXIT_USAGE;
    if (g.profile != NULL && kith_schedule_costs_load(g.profile, &r->costs) != KITH_OK) {
        ki_usage_error(&ki_command_schedule, "%s", kith_error_detail());
        return KI_EXIT_USAGE;
    }
    if (r->output != NULL)
        r->printing.has_colour = 0;
    r->making.costs = &r->costs;
    r->lowering.costs = &r->costs;
    return KI_EXIT_OK;
}

void ki_schedule_request_fini(ki_schedule_request *r)
{
    kith_free((void *)r->costs.stages);
    r->costs.stages = NULL;
}
