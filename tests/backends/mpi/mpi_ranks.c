/* tests/backends/mpi/mpi_ranks.c - one rank of the mpi backend's test; mpirun starts it, run.sh builds the command line.
 *
 *     mpi_ranks <module file> [messages|colls|own_init|...]
 *
 * It is not linked to an MPI: as in a real program, MPI comes in through the module. Exit status 77: this MPI cannot be used here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../stub/stub.h"

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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        stub_fn fn;
        const char *setting, *value;
    } parts[] = {
        { "messages", messages, NULL, NULL },
        { "colls", colls, NULL, NULL },
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
    if (backend->available(reason, sizeof reason) != KITH_OK) {
        printf("skipped: %s\n", reason);
        return 77;
    }
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
