/* tests/conformance/cases_joining.c - launchers, contexts, and whose memory: where ranks come from and how they meet.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- launchers ---- */

/* Whatever the launcher, and without calling anything of it first. */
static void case_launched(rank_info *info)
{
    REQUIRE(kith_rank(info->ctx) == info->rank && kith_size(info->ctx) == info->size && info->size > 1);
    case_use_group(info->world);
}

static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t nbytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, nbytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &nbytes) != 0)
        abort();
    close(fd);
    return ntohs(address.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* What torchrun sets. */
static void case_torchrun(rank_info *info)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    set_number("RANK", info->rank);
    set_number("LOCAL_RANK", info->rank);
    set_number("WORLD_SIZE", info->size);
    set_number("LOCAL_WORLD_SIZE", info->size);
    REQUIRE_OK(kith_init(&options, &info->ctx));
    REQUIRE(kith_rank(info->ctx) == info->rank && kith_size(info->ctx) == info->size);
    REQUIRE(kith_local_rank(info->ctx) == info->rank && kith_local_size(info->ctx) == info->size);
    case_use_group(kith_world(info->ctx));
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_torchrun(run_options *options)
{
    static const char *const others[] = { "KITH_RANK", "KITH_SIZE", "KITH_STORE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", free_port());
    options->joins_itself = true;
    return run_ranks(options, case_torchrun, NULL);
}

/* ---- contexts ---- */

static char meeting[300]; /* folder of a second store, or a name */

/* A second job of the same ranks in opposite order, with settings and deadlines of its own; the two do not meet. */
static void case_two_contexts(rank_info *info)
{
    char store[400];
    kith_ctx *first = NULL, *second = NULL, *alone = NULL;
    const kith_setting check = { "check", "1" };
    REQUIRE_OK(join_ranks(info, NULL, &first));
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    snprintf(store, sizeof store, "%s", info->is_thread ? "inproc://second-of-cases" : meeting);
    options.size = info->size;
    options.rank = info->size - 1 - info->rank;
    options.store = store;
    options.timeout_ms = 500;
    options.settings = &check;
    options.setting_count = 1;
    REQUIRE_OK(kith_init(&options, &second));
    options = (kith_init_options)KITH_INIT_OPTIONS_INIT;
    options.size = 1;
    REQUIRE_OK(kith_init(&options, &alone));
    int a = 1, b = info->rank, c = 5;
    kith_request *one = NULL, *two = NULL, *three = NULL;
    REQUIRE_OK(kith_all_reduce_start(kith_world(first), &a, &a, 1, KITH_INT32, KITH_SUM, &one));
    REQUIRE_OK(kith_broadcast_start(kith_world(second), &b, 1, KITH_INT32, 0, &two));
    REQUIRE_OK(kith_all_reduce_start(kith_world(alone), &c, &c, 1, KITH_INT32, KITH_SUM, &three));
    REQUIRE_OK(kith_wait(&two));
    REQUIRE_OK(kith_wait(&three));
    REQUIRE_OK(kith_wait(&one));
    REQUIRE(a == info->size && b == info->size - 1 && c == 5);
    REQUIRE_OK(kith_finalize(alone));
    /* the second one's deadline passes; the first one does not mind */
    if (info->size > 1 && info->rank != 0) {
        REQUIRE_STATUS(kith_barrier(kith_world(second)), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("missing rank");
    }
    REQUIRE_OK(kith_barrier(kith_world(first)));
    kith_abandon(second);
    case_use_group(kith_world(first));
    REQUIRE(kith_world(second) == NULL);
    REQUIRE_OK(kith_finalize(first));
}

static int run_two_contexts(run_options *options)
{
    char folder[256];
    case_folder_make(folder, sizeof folder);
    snprintf(meeting, sizeof meeting, "file://%s/second", folder);
    options->joins_itself = true;
    int failed = run_ranks(options, case_two_contexts, NULL);
    case_folder_remove(folder);
    return failed;
}

/* ---- the caller's memory ---- */

enum { ALLOCATOR_MARK = 0x6b697468 };

typedef struct counts {
    atomic_long live, total, nbytes;
} counts;

typedef struct header {
    void *block;
    size_t nbytes;
    uint64_t mark;
} header;

static void *counted_alloc(void *arg, size_t nbytes, size_t alignment)
{
    counts *c = (counts *)arg;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        rank_fail(__FILE__, __LINE__, "an alignment of %zu was asked for", alignment);
    void *block = malloc(nbytes + alignment + sizeof(header));
    if (block == NULL)
        return NULL;
    uintptr_t at = ((uintptr_t)block + sizeof(header) + alignment - 1) & ~((uintptr_t)alignment - 1);
    header h = { block, nbytes, ALLOCATOR_MARK };
    memcpy((void *)(at - sizeof h), &h, sizeof h);
    atomic_fetch_add(&c->live, 1);
    atomic_fetch_add(&c->total, 1);
    atomic_fetch_add(&c->nbytes, (long)nbytes);
    return (void *)at;
}

static void counted_free(void *arg, void *ptr)
{
    counts *c = (counts *)arg;
    header h;
    memcpy(&h, (char *)ptr - sizeof h, sizeof h);
    if (h.mark != ALLOCATOR_MARK)
        rank_fail(__FILE__, __LINE__, "%p did not come from this allocator", ptr);
    memset((char *)ptr - sizeof h, 0xdd, sizeof h + h.nbytes);
    atomic_fetch_sub(&c->live, 1);
    atomic_fetch_sub(&c->nbytes, (long)h.nbytes);
    free(h.block);
}

/* Everything that a context takes through the hooks it gives back, and it does take. */
static void case_allocator(rank_info *info)
{
    counts c = { 0, 0, 0 };
    const kith_allocator allocator = { counted_alloc, counted_free, &c };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.allocator = &allocator;
    for (int end = 0; end < 2; end++) {
        kith_group *dup = NULL, *half = NULL;
        kith_mesh *mesh = NULL;
        const kith_mesh_axis axis = { "tp", 0 };
        void *memory = NULL, *kept = NULL;
        kith_op op = 0;
        if (end == 1)
            options.store = meeting;
        REQUIRE_OK(join_ranks(info, &options, &info->ctx));
        info->world = kith_world(info->ctx);
        REQUIRE(atomic_load(&c.total) > 0 && atomic_load(&c.live) > 0);
        case_use_group(info->world);
        REQUIRE_OK(kith_group_dup(info->world, NULL, &dup));
        REQUIRE_OK(kith_group_split(info->world, info->rank % 2, 0, NULL, &half));
        REQUIRE_OK(kith_mesh_create(info->world, &axis, 1, NULL, &mesh));
        REQUIRE_OK(kith_mem_alloc(dup, 100000, &memory));
        REQUIRE_OK(kith_mem_alloc(info->world, 4096, &kept));
        REQUIRE_OK(kith_op_create_premul_sum(info->ctx, 2, &op));
        case_use_group(half);
        case_use_group(kith_mesh_group(mesh, "tp"));
        REQUIRE_OK(kith_barrier(info->world));
        if (end == 0) {
            REQUIRE_OK(kith_mem_free(dup, memory));
            REQUIRE_OK(kith_group_destroy(dup));
            REQUIRE_OK(kith_finalize(info->ctx));
        } else {
            kith_abandon(info->ctx);
        }
        if (atomic_load(&c.live) != 0 || atomic_load(&c.nbytes) != 0)
            rank_fail(__FILE__, __LINE__, "%ld blocks of %ld bytes are left", atomic_load(&c.live),
                      atomic_load(&c.nbytes));
    }
}

/* What one more group holds on each rank, used by collectives and by messages with all others. Over mpi the collectives
 * are small: MPI works on copies of the buffers, so that it can be given up, and the group keeps the largest. */
static void case_group_memory(rank_info *info)
{
    enum { GROUPS = 4, BOUND = 65536, BOUND_OF_PEER = 256 };
    counts c = { 0, 0, 0 };
    const kith_allocator allocator = { counted_alloc, counted_free, &c };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_group *groups[GROUPS] = { NULL };
    options.allocator = &allocator;
    REQUIRE_OK(join_ranks(info, &options, &info->ctx));
    info->world = kith_world(info->ctx);
    const int size = kith_size(info->ctx), rank = kith_rank(info->ctx); /* a launcher may have set them */
    const long bound = BOUND + BOUND_OF_PEER * (long)(size - 1);
    case_use_group(info->world); /* what comes with the first use of the context */
    long before = atomic_load(&c.nbytes);
    for (int i = 0; i < GROUPS; i++) {
        REQUIRE_OK(kith_group_dup(info->world, NULL, &groups[i]));
        if (strcmp(kith_group_backend(groups[i]), "mpi") == 0)
            REQUIRE_OK(kith_barrier(groups[i]));
        else
            case_use_group(groups[i]);
        for (int k = 1; k < size; k++) {
            int to = (rank + k) % size, from = (rank + size - k) % size, in = -1;
            REQUIRE_OK(kith_sendrecv(groups[i], &rank, 1, to, 1, &in, 1, from, 1, KITH_INT32));
            REQUIRE(in == from);
        }
    }
    long each = (atomic_load(&c.nbytes) - before) / GROUPS;
    if (each <= 0 || each > bound)
        rank_fail(__FILE__, __LINE__, "a group of %d ranks holds %ld bytes, wanted 1 to %ld", size, each, bound);
    for (int i = 0; i < GROUPS; i++)
        REQUIRE_OK(kith_group_destroy(groups[i]));
    REQUIRE_OK(kith_finalize(info->ctx));
    REQUIRE(atomic_load(&c.live) == 0);
}

static int run_group_memory(run_options *options)
{
    options->joins_itself = true;
    return run_ranks(options, case_group_memory, NULL);
}

static int run_allocator(run_options *options)
{
    char folder[256];
    case_folder_make(folder, sizeof folder);
    if (options->mode == LAUNCH_THREADS)
        snprintf(meeting, sizeof meeting, "inproc://allocator-of-cases");
    else
        snprintf(meeting, sizeof meeting, "file://%s/again", folder);
    options->joins_itself = true;
    int failed = run_ranks(options, case_allocator, NULL);
    case_folder_remove(folder);
    return failed;
}

/* The objects of a process are not its child's: what the child calls is refused and does not count as the parent's. */
static void case_child(rank_info *info)
{
    kith_group *group = NULL;
    int value = 1, status = 0;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE_OK(kith_all_reduce(group, &value, &value, 1, KITH_INT32, KITH_SUM));
    pid_t child = fork();
    if (child == 0) {
        int wrong = kith_all_reduce(group, &value, &value, 1, KITH_INT32, KITH_SUM) != KITH_ERR_INVALID_ARG;
        wrong += kith_send(group, &value, 1, KITH_INT32, 0, 1) != KITH_ERR_INVALID_ARG;
        wrong += kith_group_destroy(group) != KITH_ERR_INVALID_ARG;
        wrong += kith_rank(info->ctx) != -1 || kith_finalize(info->ctx) != KITH_ERR_INVALID_ARG;
        _exit(wrong);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    value = 1;
    REQUIRE_OK(kith_all_reduce(group, &value, &value, 1, KITH_INT32, KITH_SUM));
    REQUIRE(value == info->size);
    /* a second destroy does not meet the group that was made in between */
    kith_group *next = NULL;
    REQUIRE_OK(kith_group_destroy(group));
    REQUIRE_OK(kith_group_dup(info->world, NULL, &next));
    REQUIRE_STATUS(kith_group_destroy(group), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_barrier(next));
    REQUIRE_OK(kith_group_destroy(next));
}

const conformance_case cases_joining[] = {
    { "child", case_child, NULL },
    { "launched", case_launched, NULL },
    { "torchrun", NULL, run_torchrun },
    { "two_contexts", NULL, run_two_contexts },
    { "allocator", NULL, run_allocator },
    { "group_memory", NULL, run_group_memory },
    { NULL, NULL, NULL },
};
