/* tests/conformance/cases_joining.c - launchers, networks and contexts: where ranks come from and how they meet.
 *
 * The network cases run in network namespaces of their own and need root and iproute2; without them they are skipped.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void use(const rank_info *info, kith_group *group)
{
    enum { COUNT = 100000 };
    int n = kith_group_size(group), rank = kith_group_rank(group);
    int *x = (int *)malloc(COUNT * sizeof *x), mine = rank, theirs = -1;
    REQUIRE(x != NULL && n > 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = i + rank;
    REQUIRE_OK(kith_all_reduce(group, x, x, COUNT, KITH_INT32, KITH_SUM));
    for (int i = 0; i < COUNT; i++)
        REQUIRE(x[i] == n * i + n * (n - 1) / 2);
    REQUIRE_OK(kith_sendrecv(group, &mine, 1, (rank + 1) % n, 0, &theirs, 1, (rank + n - 1) % n, 0, KITH_INT32));
    REQUIRE(theirs == (rank + n - 1) % n);
    free(x);
    (void)info;
}

/* ---- launchers ---- */

/* Whatever the launcher, and without calling anything of it first. */
static void case_launched(rank_info *info)
{
    REQUIRE(kith_rank(info->ctx) == info->rank && kith_size(info->ctx) == info->size && info->size > 1);
    use(info, info->world);
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
    use(info, kith_world(info->ctx));
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
    use(info, kith_world(first));
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
        use(info, info->world);
        REQUIRE_OK(kith_group_dup(info->world, NULL, &dup));
        REQUIRE_OK(kith_group_split(info->world, info->rank % 2, 0, NULL, &half));
        REQUIRE_OK(kith_mesh_create(info->world, &axis, 1, NULL, &mesh));
        REQUIRE_OK(kith_mem_alloc(dup, 100000, &memory));
        REQUIRE_OK(kith_mem_alloc(info->world, 4096, &kept));
        REQUIRE_OK(kith_op_create_premul_sum(info->ctx, 2, &op));
        use(info, half);
        use(info, kith_mesh_group(mesh, "tp"));
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

/* ---- networks ---- */

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...)
{
    char command[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    return system(command);
}

/* /sys shows the interfaces of the network in which it was mounted; UCX looks there. */
static bool see_own_network(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, NULL) == 0;
}

/* Runs body in a child process that has a network of its own. */
static int in_own_network(run_options *options, int (*body)(run_options *options), const char *name)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) != 0 || !see_own_network() || shell("ip link show lo >/dev/null 2>&1") != 0) {
            fprintf(stderr, "case %s SKIPPED: it needs root and the ip command\n", name);
            _exit(77);
        }
        int failed = body(options);
        _exit(failed == CASE_SKIPPED ? 77 : failed > 0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status) == 77 ? CASE_SKIPPED : WEXITSTATUS(status);
}

/* One host, and no network interface at all: loopback is enough, and with a file as meeting place not even that is needed. */
static void case_alone_on_host(rank_info *info)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    if (meeting[0] != '\0')
        options.store = meeting;
    REQUIRE_OK(join_ranks(info, &options, &info->ctx));
    use(info, kith_world(info->ctx));
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int without_network(run_options *options)
{
    char folder[256];
    case_folder_make(folder, sizeof folder);
    options->joins_itself = true;
    snprintf(meeting, sizeof meeting, "file://%s/store", folder);
    int failed = run_ranks(options, case_alone_on_host, NULL);
    meeting[0] = '\0';
    if (failed == 0 && shell("ip link set lo up") == 0)
        failed = run_ranks(options, case_alone_on_host, NULL);
    char self[600] = "";
    const char *kith = getenv("KITH_BIN");
    bool has_command = kith != NULL && access(kith, X_OK) == 0 && readlink("/proc/self/exe", self, sizeof self - 1) > 0;
    if (failed == 0 && has_command)
        failed = shell("'%s' run -n %d -- '%s' --environment --case launched", kith, options->size, self) != 0;
    case_folder_remove(folder);
    return failed;
}

static int run_without_network(run_options *options)
{
    return in_own_network(options, without_network, "without_network");
}

static pid_t far_side; /* a process in the namespace that rank 1 goes to */

/* Rank 0 listens on one of three interfaces; only the third leads to rank 1: the first has another network at its end, the
 * second is down there. KITH_IFNAME decides from where rank 1 comes. */
typedef struct way {
    const char *address;   /* of the store */
    const char *ifname[2]; /* by rank */
    kith_status status;    /* of rank 1 */
    const char *told[2];   /* by rank 1's error */
} way;

static const way ways[] = {
    { "10.80.2.1", { "near2", "far2" }, KITH_OK, { "", "" } },
    { "10.80.2.1", { "10.80.2.0/24", "10.80.2.0/24" }, KITH_OK, { "", "" } },
    { "10.80.2.1", { "", "" }, KITH_OK, { "", "" } },
    /* the answers would go another way */
    { "10.80.2.1", { "near2", "far0" }, KITH_ERR_UNREACHABLE, { "interfaces tried: far0 10.80.0.2", "KITH_IFNAME" } },
    { "10.80.2.1",
      { "near2", "far1" },
      KITH_ERR_INVALID_ARG,
      { "KITH_IFNAME=far1", "none of these interfaces is up" } },
    /* rank 0 sits at the wrong one */
    { "10.90.0.1", { "", "" }, KITH_ERR_UNREACHABLE, { "far2 10.80.2.2", "KITH_IFNAME" } },
    { "10.90.0.1", { "near0", "far2" }, KITH_ERR_UNREACHABLE, { "interfaces tried: far2 10.80.2.2", "KITH_IFNAME" } },
};

static void go_to_far_side(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)far_side);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && setns(fd, CLONE_NEWNET) == 0 && see_own_network());
    close(fd);
}

static void try_way(rank_info *info, const way *w, const char *store)
{
    const kith_setting setting = { "ifname", w->ifname[info->rank] };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.store = store;
    options.connect_timeout_ms = w->status != KITH_OK ? 2000 : 20000;
    options.settings = &setting;
    options.setting_count = 1;
    kith_status status = join_ranks(info, &options, &info->ctx);
    if (w->status == KITH_OK) {
        REQUIRE_STATUS(status, KITH_OK);
        use(info, kith_world(info->ctx));
        REQUIRE_OK(kith_finalize(info->ctx));
        return;
    }
    REQUIRE_STATUS(status, info->rank == 0 ? KITH_ERR_TIMEOUT : w->status);
    REQUIRE_DETAIL(info->rank == 0 ? "missing world rank 1" : w->told[0]);
    REQUIRE_DETAIL(info->rank == 0 ? "connect_timeout_ms" : w->told[1]);
}

static void case_interfaces(rank_info *info)
{
    char store[400];
    if (info->rank == 1)
        go_to_far_side();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        snprintf(store, sizeof store, "tcp://%s:0?file=%s/port%zu", ways[i].address, meeting, i);
        try_way(info, &ways[i], store);
    }
}

static int make_links(void)
{
    static const char *const near[] = { "10.90.0.1", "10.80.1.1", "10.80.2.1" };
    static const char *const far[] = { "10.80.0.2", "10.80.1.2", "10.80.2.2" };
    for (int i = 0; i < 3; i++) {
        if (shell("ip link add near%d type veth peer name far%d netns %d", i, i, (int)far_side) != 0 ||
            shell("ip addr add %s/24 dev near%d && ip link set near%d up", near[i], i, i) != 0 ||
            shell("nsenter -t %d -n ip addr add %s/24 dev far%d", (int)far_side, far[i], i) != 0 ||
            shell("nsenter -t %d -n ip link set far%d %s", (int)far_side, i, i == 1 ? "down" : "up") != 0)
            return -1;
    }
    /* the kernel takes a second until it calls a new link running */
    return shell(
        "ip link set lo up && nsenter -t %d -n ip link set lo up && for i in $(seq 100); do "
        "ip link show near2 | grep -q 'state UP' && nsenter -t %d -n ip link show far2 | grep -q 'state UP' && "
        "exit 0; sleep 0.1; done; exit 1",
        (int)far_side, (int)far_side);
}

static int with_interfaces(run_options *options)
{
    int ready[2];
    char folder[256], byte = 0;
    if (pipe(ready) != 0)
        return 1;
    far_side = fork();
    if (far_side == 0) {
        if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    bool is_ready = read(ready[0], &byte, 1) == 1 && make_links() == 0;
    close(ready[0]);
    int failed = CASE_SKIPPED;
    if (is_ready) {
        case_folder_make(folder, sizeof folder);
        snprintf(meeting, sizeof meeting, "%s", folder);
        options->size = 2;
        options->joins_itself = true;
        if (options->backend != NULL && strcmp(options->backend, "ucx") == 0)
            setenv("KITH_UCX_TLS", "tcp,self", 1); /* nothing but the network */
        failed = run_ranks(options, case_interfaces, NULL);
        case_folder_remove(folder);
    } else {
        fprintf(stderr, "case interfaces SKIPPED: pairs of interfaces in two namespaces cannot be made here\n");
    }
    kill(far_side, SIGKILL);
    waitpid(far_side, NULL, 0);
    return failed;
}

static int run_interfaces(run_options *options)
{
    return in_own_network(options, with_interfaces, "interfaces");
}

const conformance_case cases_joining[] = {
    { "launched", case_launched, NULL },
    { "torchrun", NULL, run_torchrun },
    { "two_contexts", NULL, run_two_contexts },
    { "allocator", NULL, run_allocator },
    { "without_network", NULL, run_without_network },
    { "interfaces", NULL, run_interfaces },
    { NULL, NULL, NULL },
};
