/* tools/run_placement.c - `kith run --placement`: reads what `kith topo --export kith` wrote.
 *
 *     { "kith_placement": 1,
 *       "ranks": [ { "rank": 0, "host": "node0", "gpu": 3, "cpus": "0-31",
 *                    "environment": { "NAME": "value" } }, ... ] }
 *
 * The file says for each rank which variables it gets and which processors are near its GPU. All ranks must be of one
 * host, because kith run starts ranks on this machine alone. A rank is bound when this process may use all of its
 * processors; else it runs unbound, and a sentence says so, because a wrong half of them would be worse.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef KITH_HAVE_JANSSON
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPUS_MAX 65536 /* numbers of processors are below */

struct ki_run_placement {
    int rank_count;
    json_t *root;    /* owns all texts */
    json_t **ranks;  /* [rank_count], borrowed */
    cpu_set_t *cpus; /* [rank_count], each CPUS_MAX bits; empty: not bound */
};

static size_t set_nbytes(void)
{
    return CPU_ALLOC_SIZE(CPUS_MAX);
}

static cpu_set_t *cpus_of(const ki_run_placement *self, int rank)
{
    return (cpu_set_t *)((char *)self->cpus + (size_t)rank * set_nbytes());
}

static bool refuse(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(const char *path, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "kith run: %s: ", path);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

/* ---- processors ---- */

/* "0-31,64-95" into a set. */
static bool parse_cpus(const char *text, cpu_set_t *set)
{
    for (const char *p = text; *p != '\0';) {
        char *end;
        if (*p < '0' || *p > '9')
            return false;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9')
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= CPUS_MAX)
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            CPU_SET_S(cpu, set_nbytes(), set);
        if (*end == ',' && end[1] == '\0')
            return false;
        p = *end == ',' ? end + 1 : end;
        if (p == end && *end != '\0')
            return false;
    }
    return true;
}

/* Processors that this process may use. */
static bool usable_cpus(cpu_set_t *set)
{
    return sched_getaffinity(0, set_nbytes(), set) == 0;
}

/* Takes the processors away from ranks that would have some that are not here. */
static void keep_usable(ki_run_placement *self)
{
    cpu_set_t *usable = calloc(2, set_nbytes());
    cpu_set_t *both = usable == NULL ? NULL : (cpu_set_t *)((char *)usable + set_nbytes());
    bool is_known = usable != NULL && usable_cpus(usable);
    int unbound = 0, first = -1;
    for (int rank = 0; rank < self->rank_count; rank++) {
        cpu_set_t *wanted = cpus_of(self, rank);
        if (CPU_COUNT_S(set_nbytes(), wanted) == 0)
            continue;
        if (is_known)
            CPU_AND_S(set_nbytes(), both, usable, wanted);
        if (is_known && CPU_EQUAL_S(set_nbytes(), both, wanted))
            continue;
        CPU_ZERO_S(set_nbytes(), wanted);
        if (unbound++ == 0)
            first = rank;
    }
    free(usable);
    if (unbound == 0)
        return;
    const char *list = json_string_value(json_object_get(self->ranks[first], "cpus"));
    if (unbound == 1)
        fprintf(stderr, "kith run: rank %d is not bound: not all of its processors (%s) can be used here\n", first,
                list);
    else
        fprintf(stderr,
                "kith run: rank %d and %d more are not bound: not all of their processors (%s, ...) can be used here\n",
                first, unbound - 1, list);
}

/* ---- the file ---- */

static bool check_environment(const char *path, int rank, json_t *environment)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    static const char *const own[] = { "KITH_RANK",       "KITH_SIZE",  "KITH_LOCAL_RANK",
                                       "KITH_LOCAL_SIZE", "KITH_STORE", "KITH_SECRET" };
    const char *name;
    json_t *value;
    if (environment == NULL)
        return true;
    if (!json_is_object(environment))
        return refuse(path, "rank %d: \"environment\" is not an object of names and texts", rank);
    json_object_foreach(environment, name, value)
    {
        if (name[0] == '\0' || strspn(name, letters) != strlen(name) || (name[0] >= '0' && name[0] <= '9'))
            return refuse(path, "rank %d: '%s' is not the name of a variable", rank, name);
        if (!json_is_string(value))
            return refuse(path, "rank %d: the value of %s is not a text", rank, name);
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
            if (strcmp(own[i], name) == 0)
                return refuse(path, "rank %d: %s cannot be set, kith run gives it its value", rank, name);
    }
    return true;
}

static bool read_rank(ki_run_placement *self, const char *path, size_t index, json_t *entry)
{
    json_t *number = json_object_get(entry, "rank"), *cpus = json_object_get(entry, "cpus");
    json_int_t rank = json_is_integer(number) ? json_integer_value(number) : -1;
    if (rank < 0 || rank >= self->rank_count)
        return refuse(path, "entry %zu of \"ranks\" has no \"rank\" from 0 to %d", index, self->rank_count - 1);
    if (self->ranks[rank] != NULL)
        return refuse(path, "rank %d is there twice", (int)rank);
    self->ranks[rank] = entry;
    if (!json_is_string(json_object_get(entry, "host")))
        return refuse(path, "rank %d has no \"host\"", (int)rank);
    if (cpus != NULL && !json_is_null(cpus) && !json_is_string(cpus))
        return refuse(path, "rank %d: \"cpus\" is not a list like \"0-31,64-95\"", (int)rank);
    if (json_is_string(cpus) && !parse_cpus(json_string_value(cpus), cpus_of(self, (int)rank)))
        return refuse(path, "rank %d: \"cpus\" is not a list like \"0-31,64-95\" of numbers below %d: '%s'", (int)rank,
                      CPUS_MAX, json_string_value(cpus));
    return check_environment(path, (int)rank, json_object_get(entry, "environment"));
}

static const char *host_of(const ki_run_placement *self, int rank)
{
    return json_string_value(json_object_get(self->ranks[rank], "host"));
}

/* Is it this machine, by its whole name or the part before the first dot? */
static bool is_this_host(const char *name)
{
    char mine[256] = "";
    if (gethostname(mine, sizeof(mine) - 1) != 0)
        return true; /* unknown: do not scold */
    size_t length = strcspn(mine, ".");
    return strcmp(name, "localhost") == 0 ||
           (strncmp(name, mine, length) == 0 && (name[length] == '\0' || name[length] == '.'));
}

static bool check_hosts(const ki_run_placement *self, const char *path)
{
    const char *host = host_of(self, 0);
    for (int rank = 1; rank < self->rank_count; rank++)
        if (strcmp(host, host_of(self, rank)) != 0)
            return refuse(path,
                          "rank 0 is on %s and rank %d on %s; kith run starts ranks on one machine, use the launcher "
                          "of the cluster with another form of kith topo --export",
                          host, rank, host_of(self, rank));
    if (!is_this_host(host))
        fprintf(stderr, "kith run: the placement was made for %s; it is used here all the same\n", host);
    return true;
}

static bool read_ranks(ki_run_placement *self, const char *path)
{
    json_t *list = json_object_get(self->root, "ranks");
    json_t *version = json_object_get(self->root, "kith_placement");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return refuse(path, "this is not a placement: \"kith_placement\" is not 1 (see kith topo --export kith)");
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > KI_RUN_RANKS_MAX)
        return refuse(path, "\"ranks\" is not a list of 1 to %d ranks", KI_RUN_RANKS_MAX);
    self->rank_count = (int)json_array_size(list);
    self->ranks = calloc((size_t)self->rank_count, sizeof(json_t *));
    self->cpus = calloc((size_t)self->rank_count, set_nbytes());
    if (self->ranks == NULL || self->cpus == NULL)
        return refuse(path, "memory is short");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_rank(self, path, i, json_array_get(list, i)))
            return false;
    return check_hosts(self, path);
}

static bool read_file(ki_run_placement *self, const char *path)
{
    json_error_t error;
    struct stat info;
    if (stat(path, &info) != 0)
        return refuse(path, "cannot be opened: %s", strerror(errno));
    if (S_ISDIR(info.st_mode))
        return refuse(path, "is a folder");
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return refuse(path, "cannot be opened: %s", strerror(errno));
    self->root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (self->root == NULL)
        return refuse(path, "line %d: %s", error.line > 0 ? error.line : 1, error.text);
    return read_ranks(self, path);
}

ki_run_placement *ki_run_placement_read(const char *path, bool binds)
{
    ki_run_placement *self = calloc(1, sizeof(*self));
    if (self == NULL || !read_file(self, path)) {
        ki_run_placement_destroy(self);
        return NULL;
    }
    if (binds)
        keep_usable(self);
    else
        memset(self->cpus, 0, (size_t)self->rank_count * set_nbytes());
    return self;
}

void ki_run_placement_destroy(ki_run_placement *self)
{
    if (self == NULL)
        return;
    json_decref(self->root);
    free(self->ranks);
    free(self->cpus);
    free(self);
}

int ki_run_placement_rank_count(const ki_run_placement *self)
{
    return self->rank_count;
}

bool ki_run_placement_set_environment(const ki_run_placement *self, int rank)
{
    const char *name;
    json_t *value;
    bool is_set = true;
    json_object_foreach(json_object_get(self->ranks[rank], "environment"), name, value)
    {
        is_set &= setenv(name, json_string_value(value), 1) == 0;
    }
    return is_set;
}

bool ki_run_placement_bind(const ki_run_placement *self, ki_bind_plan *plan)
{
    int threads = 0;
    cpu_set_t *shares = malloc((size_t)self->rank_count * set_nbytes());
    if (shares == NULL)
        return false;
    memcpy(shares, self->cpus, (size_t)self->rank_count * set_nbytes());
    for (int rank = 0; rank < self->rank_count; rank++) {
        int count = CPU_COUNT_S(set_nbytes(), cpus_of(self, rank));
        if (count > 0 && (threads == 0 || count < threads))
            threads = count;
    }
    *plan = (ki_bind_plan){ self->rank_count, shares, set_nbytes(), threads > 0 ? threads : plan->threads };
    return true;
}

#else

ki_run_placement *ki_run_placement_read(const char *path, bool binds)
{
    (void)binds;
    fprintf(stderr, "kith run: %s: this kith was built without jansson, which reads placements\n", path);
    return NULL;
}

void ki_run_placement_destroy(ki_run_placement *self)
{
    (void)self;
}

int ki_run_placement_rank_count(const ki_run_placement *self)
{
    (void)self;
    return 0;
}

bool ki_run_placement_set_environment(const ki_run_placement *self, int rank)
{
    (void)self, (void)rank;
    return false;
}

bool ki_run_placement_bind(const ki_run_placement *self, ki_bind_plan *plan)
{
    (void)self, (void)plan;
    return false;
}

#endif
