/* tools/run.c - `kith run`: options and checks; the work is done by the parts that run.h lists.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_DEFAULT_NS INT64_C(5000000000)
#define HELP_PRINTED (-1)

static const char run_help[] =
    "Usage: kith run -n N [options] [--] PROGRAM [ARGUMENTS]\n"
    "Starts N ranks of PROGRAM on this machine and waits for them.\n\n"
    "  -n, --ranks N         number of ranks, 1 to 4096; needed where --placement does not say it\n"
    "      --backend NAME    backend that kith_init() uses (sets KITH_BACKEND)\n"
    "      --bind HOW        compact: equal shares of the usable cores, neighbouring ranks next to each other;\n"
    "                        spread: the same shares, neighbouring ranks far apart; none: not bound.\n"
    "                        Default: compact while N is at most the number of usable processors, else none\n"
    "      --placement FILE  a placement of kith topo: gives each rank its variables, and binds it to the\n"
    "                        processors near its GPU where they can be used here; --bind none leaves that out\n"
    "      --env NAME=VALUE  sets a variable for all ranks; can be repeated\n"
    "      --prefix          puts \"[rank] \" before every line of output; lines are never mixed, and those\n"
    "                        longer than 1 MiB are broken\n"
    "      --timeout S       ends the job after S seconds, exit status 124\n"
    "      --grace S         seconds between SIGTERM and SIGKILL when the job is ended (5)\n"
    "  -v, --verbose         says which processes and processors the ranks have\n\n"
    "Each rank gets KITH_RANK, KITH_SIZE, KITH_LOCAL_RANK, KITH_LOCAL_SIZE, KITH_STORE, KITH_SECRET, and "
    "OMP_NUM_THREADS\n"
    "when it is not set. Standard input goes to rank 0, the others read nothing.\n\n"
    "When a rank fails, the others are ended: SIGTERM, then SIGKILL. Whatever the ranks started and left running is "
    "ended\n"
    "too, also when kith run itself is killed. The signals INT, TERM, HUP, QUIT, TSTP and CONT are passed on to the "
    "ranks\n"
    "and to what they started, USR1 and USR2 to the ranks alone. A second INT, TERM, HUP or QUIT starts the grace "
    "time,\n"
    "a third ends it.\n\n"
    "Exit status: 0 when all ranks returned 0, else that of the first rank that failed (128 + N for signal N);\n"
    "124 timeout, 125 kith run failed, 126 PROGRAM cannot be executed, 127 PROGRAM was not found, 2 wrong usage.\n\n"
    "Example: kith run -n 4 --prefix -- ./train\n";

static int run_main(int argc, char **argv);
const ki_command ki_command_run = { "run", "Start ranks of a program on this machine", run_help, run_main };

enum { OPTION_BACKEND = 256, OPTION_BIND, OPTION_PLACEMENT, OPTION_ENV, OPTION_PREFIX, OPTION_TIMEOUT, OPTION_GRACE };

static const struct option long_options[] = {
    { "ranks", required_argument, NULL, 'n' },
    { "backend", required_argument, NULL, OPTION_BACKEND },
    { "bind", required_argument, NULL, OPTION_BIND },
    { "placement", required_argument, NULL, OPTION_PLACEMENT },
    { "env", required_argument, NULL, OPTION_ENV },
    { "prefix", no_argument, NULL, OPTION_PREFIX },
    { "timeout", required_argument, NULL, OPTION_TIMEOUT },
    { "grace", required_argument, NULL, OPTION_GRACE },
    { "verbose", no_argument, NULL, 'v' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int set_rank_count(ki_run_options *options, const char *text)
{
    long value;
    if (!ki_parse_long(text, 1, KI_RUN_RANKS_MAX, &value))
        return ki_usage_error(&ki_command_run, "-n needs the number of ranks, 1 to %d, not '%s'", KI_RUN_RANKS_MAX,
                              text);
    options->rank_count = (int)value;
    return KI_EXIT_OK;
}

static int set_bind(ki_run_options *options, const char *text)
{
    if (strcmp(text, "compact") == 0)
        options->bind = KI_BIND_COMPACT;
    else if (strcmp(text, "spread") == 0)
        options->bind = KI_BIND_SPREAD;
    else if (strcmp(text, "none") == 0)
        options->bind = KI_BIND_NONE;
    else
        return ki_usage_error(&ki_command_run, "--bind needs compact, spread or none, not '%s'", text);
    return KI_EXIT_OK;
}

static int set_backend(ki_run_options *options, const char *text)
{
    if (text[0] == '\0' || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(text))
        return ki_usage_error(&ki_command_run, "--backend needs a name as 'kith info' prints it, not '%s'", text);
    options->backend = text;
    return KI_EXIT_OK;
}

static int add_env(const char **env, size_t *env_count, const char *text)
{
    static const char *const own[] = { "KITH_RANK", "KITH_SIZE", "KITH_LOCAL_RANK", "KITH_LOCAL_SIZE" };
    size_t name_nbytes = strcspn(text, "=");
    if (name_nbytes == 0 || text[name_nbytes] == '\0')
        return ki_usage_error(&ki_command_run, "--env needs NAME=VALUE, not '%s'", text);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strlen(own[i]) == name_nbytes && strncmp(text, own[i], name_nbytes) == 0)
            return ki_usage_error(&ki_command_run, "--env cannot set %s: it differs from rank to rank", own[i]);
    env[(*env_count)++] = text;
    return KI_EXIT_OK;
}

static int set_seconds(int64_t *ns, const char *option, const char *text, bool is_zero_fine)
{
    long long value;
    if (!ki_parse_seconds(text, &value) || (value == 0 && !is_zero_fine))
        return ki_usage_error(&ki_command_run, "%s needs a %snumber of seconds, not '%s'", option,
                              is_zero_fine ? "" : "positive ", text);
    *ns = value;
    return KI_EXIT_OK;
}

static int parse_options(int argc, char **argv, ki_run_options *options, const char **env)
{
    int status = KI_EXIT_OK;
    optind = 1;
    opterr = 0;
    while (status == KI_EXIT_OK) {
        int option = getopt_long(argc, argv, "+:n:vh", long_options, NULL);
        switch (option) {
        case -1:
            return KI_EXIT_OK;
        case 'n':
            status = set_rank_count(options, optarg);
            break;
        case 'v':
            options->is_verbose = true;
            break;
        case 'h':
            fputs(run_help, stdout);
            return HELP_PRINTED;
        case OPTION_BACKEND:
            status = set_backend(options, optarg);
            break;
        case OPTION_BIND:
            status = set_bind(options, optarg);
            break;
        case OPTION_PLACEMENT:
            options->placement_path = optarg;
            break;
        case OPTION_ENV:
            status = add_env(env, &options->env_count, optarg);
            break;
        case OPTION_PREFIX:
            options->is_prefixed = true;
            break;
        case OPTION_TIMEOUT:
            status = set_seconds(&options->timeout_ns, "--timeout", optarg, false);
            break;
        case OPTION_GRACE:
            status = set_seconds(&options->grace_ns, "--grace", optarg, true);
            break;
        default:
            status = ki_option_error(&ki_command_run, option, argv, long_options);
        }
    }
    return status;
}

/* Reads the placement, which may give the number of ranks. */
static int use_placement(ki_run_options *options, ki_run_placement **placement)
{
    if (options->placement_path == NULL) return KI_EXIT_OK;
    if (options->bind == KI_BIND_COMPACT || options->bind == KI_BIND_SPREAD)
        return ki_usage_error(&ki_command_run, "--placement says where ranks run; only --bind none goes with it");
    *placement = ki_run_placement_read(options->placement_path, options->bind != KI_BIND_NONE);
    if (*placement == NULL) return KI_EXIT_USAGE;
    int rank_count = ki_run_placement_rank_count(*placement);
    if (options->rank_count != 0 && options->rank_count != rank_count)
        return ki_usage_error(&ki_command_run, "-n says %d ranks, but %s has %d", options->rank_count,
                              options->placement_path, rank_count);
    options->rank_count = rank_count;
    options->placement = *placement;
    return KI_EXIT_OK;
}

static int check_options(const ki_run_options *options)
{
    if (options->rank_count == 0) {
        for (size_t i = 1; options->program[0] != NULL && options->program[i] != NULL; i++)
            if (strncmp(options->program[i], "-n", 2) == 0)
                return ki_usage_error(&ki_command_run, "-n N is missing; the %s after '%s' belongs to the program",
                                      options->program[i], options->program[0]);
        return ki_usage_error(&ki_command_run, "-n N is missing: the number of ranks, 1 to %d", KI_RUN_RANKS_MAX);
    }
    if (options->program[0] == NULL) return ki_usage_error(&ki_command_run, "no program to start was given");
    if (options->program[0][0] == '\0') return ki_usage_error(&ki_command_run, "the name of the program is empty");
    return KI_EXIT_OK;
}

/* 0 when path is a file that may be executed, else errno. */
static int executable_error(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return errno;
    if (S_ISDIR(info.st_mode)) return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* Looks a name without slash up in PATH, as execvp(3) does: the first that can be executed, else the first error that
 * is not "does not exist". */
static char *search_path(const char *name, int *error)
{
    const char *folders = getenv("PATH");
    *error = ENOENT;
    for (const char *p = folders == NULL ? "/bin:/usr/bin" : folders;; p++) {
        size_t nbytes = strcspn(p, ":");
        char *path = NULL;
        if (asprintf(&path, "%.*s%s%s", (int)nbytes, p, nbytes == 0 ? "./" : "/", name) < 0) return NULL;
        int cause = executable_error(path);
        if (cause == 0) return path;
        free(path);
        if (cause != ENOENT && cause != ENOTDIR && *error == ENOENT) *error = cause;
        p += nbytes;
        if (*p == '\0') return NULL;
    }
}

static int find_program(ki_run_options *options, char **path)
{
    const char *name = options->program[0];
    bool is_path = strchr(name, '/') != NULL;
    int cause = 0;
    if (is_path) cause = executable_error(name);
    *path = is_path ? strdup(name) : search_path(name, &cause);
    options->path = *path;
    if (cause == 0 || (!is_path && *path != NULL)) return KI_EXIT_OK;
    bool is_missing = cause == ENOENT || cause == ENOTDIR;
    if (is_missing)
        fprintf(stderr, "kith run: there is no program '%s'%s\n", name, is_path ? "" : " in the folders of PATH");
    else
        fprintf(stderr, "kith run: '%s' cannot be executed: %s\n", name,
                cause == EISDIR ? "it is a folder" : strerror(cause));
    return is_missing ? KI_RUN_EXIT_NOT_FOUND : KI_RUN_EXIT_NOT_EXECUTED;
}

static int run_main(int argc, char **argv)
{
    char *path = NULL;
    ki_run_placement *placement = NULL;
    const char **env = calloc((size_t)argc + 1, sizeof(*env));
    if (env == NULL) {
        perror("kith run");
        return KI_RUN_EXIT_FAILED;
    }
    ki_run_options options = { .name = "run", .grace_ns = GRACE_DEFAULT_NS, .env = env };
    int status = parse_options(argc, argv, &options, env);
    options.program = argv + optind;
    if (status == KI_EXIT_OK) status = use_placement(&options, &placement);
    if (status == KI_EXIT_OK) status = check_options(&options);
    if (status == KI_EXIT_OK) status = find_program(&options, &path);
    if (status == KI_EXIT_OK) status = ki_run_guard(&options);
    ki_run_placement_destroy(placement);
    free(path);
    free(env);
    return status == HELP_PRINTED ? KI_EXIT_OK : status;
}
