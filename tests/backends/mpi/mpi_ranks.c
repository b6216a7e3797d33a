/* tests/backends/mpi/mpi_ranks.c - one rank of the mpi backend's test; mpirun starts it, run.sh builds the command
 * line.
 *
 *     mpi_ranks <module file> messages|colls|slices|cancel|deadline|off
 *     mpi_ranks <module file> own_init              the program has called MPI_Init; MPI lives on after the instance
 *     mpi_ranks <module file> twice                 a second start after MPI_Finalize is refused
 *     mpi_ranks <module file> after:<module file>   the other MPI is initialised first
 *
 * It is not linked to an MPI: as in a real program, MPI comes in through the module. Exit status 77: this MPI cannot
 * be used here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../stub/stub.h"

#include <dlfcn.h>
#include <string.h>

static void messages(stub *s)
{
    for (const stub_scenario *scenario = stub_message_scenarios; scenario->fn != NULL; scenario++) {
        scenario->fn(s);
        stub_barrier(s);
        if (s->host.rank == 0)
            printf("%s: ok\n", scenario->name);
    }
}

static void colls(stub *s)
{
    int tried = stub_colls(s, false);
    CHECK(tried > 1000);
    if (s->host.rank == 0)
        printf("%d native collectives: ok\n", tried);
}

/* With a small mpi_slice: the ways of counts beyond 2^31. */
static void slices(stub *s)
{
    int tried = stub_colls(s, true);
    CHECK(tried > 200);
    if (s->host.rank == 0)
        printf("%d native collectives in slices: ok\n", tried);
}

/* A deadline makes everything non-native. */
static void no_native(stub *s)
{
    kith_be_query question = { .kind = KITH_BARRIER };
    kith_be_answer answer = { .is_native = 1 };
    CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
    CHECK_EQUAL(answer.is_native, 0);
}

/* A function of the MPI that the module has brought in. */
static void *mpi_function(const char *module, const char *name)
{
    static const char *const files[] = { "libmpi.so.40", "libmpich.so.12", "libmpi.so.12" };
    bool is_open_mpi = strstr(module, "openmpi") != NULL;
    for (size_t i = is_open_mpi ? 0 : 1; i < (is_open_mpi ? 1u : 3u); i++) {
        void *handle = dlopen(files[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle != NULL)
            return dlsym(handle, name);
    }
    return NULL;
}

static int call(const char *module, const char *name)
{
    int (*function)(void);
    *(void **)&function = mpi_function(module, name);
    CHECK(function != NULL);
    return function();
}

static void init_mpi(const char *module)
{
    int (*function)(int *, char ***);
    *(void **)&function = mpi_function(module, "MPI_Init");
    CHECK(function != NULL);
    if (strstr(module, "openmpi") != NULL) /* as in a program that is linked to it: its components look there */
        CHECK(dlopen("libmpi.so.40", RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD) != NULL);
    CHECK_EQUAL(function(NULL, NULL), 0);
}

static int join(const kith_backend *backend, stub_fn fn)
{
    int rank = -1, size = -1;
    CHECK_EQUAL(backend->launch(0, &rank, &size), KITH_OK);
    stub *s = stub_join(backend, rank, size);
    fn(s);
    stub_leave(s);
    return rank;
}

static void messages_and_nothing(stub *s)
{
    stub_message_scenarios[0].fn(s);
}

/* The program's own MPI: used, and neither initialised nor finalised. */
static int own_init(const kith_backend *backend, const char *module)
{
    int rank = -1, size = -1, is_finalised = 1;
    CHECK_EQUAL(backend->launch(0, &rank, &size), KITH_ERR_UNSUPPORTED); /* may not initialise, and nobody has */
    init_mpi(module);
    join(backend, messages_and_nothing);
    join(backend, messages_and_nothing); /* and again */
    int (*finalized)(int *);
    *(void **)&finalized = mpi_function(module, "MPI_Finalized");
    CHECK_EQUAL(finalized(&is_finalised), 0);
    CHECK_EQUAL(is_finalised, 0);
    CHECK_EQUAL(call(module, "MPI_Finalize"), 0);
    return 0;
}

static int twice(const kith_backend *backend, const char *module)
{
    char reason[512] = "";
    kith_be_host host;
    void *be = NULL;
    init_mpi(module);
    CHECK_EQUAL(call(module, "MPI_Finalize"), 0);
    stub_host(&host);
    CHECK_EQUAL(backend->open(&host, &be), KITH_ERR_UNSUPPORTED);
    CHECK(strstr(stub_error(), "second time") != NULL);
    CHECK_EQUAL(backend->available(reason, sizeof reason), KITH_ERR_UNSUPPORTED);
    printf("%s\n", reason);
    return 0;
}

static int after_other(const kith_backend *backend, const char *other)
{
    char reason[512] = "";
    CHECK(stub_load(other) != NULL);
    init_mpi(other);
    kith_status status = backend->available(reason, sizeof reason);
    printf("%s\n", reason);
    call(other, "MPI_Finalize");
    return status == KITH_ERR_UNSUPPORTED ? 77 : 1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        stub_fn fn;
        const char *setting, *value;
    } parts[] = {
        { "messages", messages, NULL, NULL },
        { "colls", colls, "mpi_native", "blocking" },
        { "slices", slices, "mpi_slice", "4096" },
        { "cancel", stub_coll_cancel, NULL, NULL },
        { "deadline", no_native, "timeout_ms", "1000" },
        { "off", no_native, "mpi_native", "off" },
    };
    if (argc < 3)
        return 2;
    const kith_backend *backend = stub_load(argv[1]);
    char reason[512] = "";
    int rank = -1, size = -1;
    CHECK(backend != NULL);
    if (strncmp(argv[2], "after:", 6) == 0)
        return after_other(backend, argv[2] + 6);
    if (strcmp(argv[2], "twice") == 0)
        return twice(backend, argv[1]);
    if (backend->available(reason, sizeof reason) != KITH_OK) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    if (strcmp(argv[2], "own_init") == 0)
        return own_init(backend, argv[1]);
    CHECK_EQUAL(backend->launch(1, &rank, &size), KITH_OK);
    CHECK(rank >= 0 && rank < size);
    uint64_t seed = rank == 0 ? 0x1234567890abcdefu : 0;
    CHECK_EQUAL(backend->launch_broadcast(&seed, sizeof seed), KITH_OK);
    CHECK(seed == 0x1234567890abcdefu);
    bool is_known = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[2], parts[i].name) == 0) {
            is_known = true;
            if (parts[i].setting != NULL)
                stub_set(parts[i].setting, parts[i].value);
            stub *s = stub_join(backend, rank, size);
            parts[i].fn(s);
            stub_leave(s);
        }
    CHECK(is_known);
    return 0;
}
