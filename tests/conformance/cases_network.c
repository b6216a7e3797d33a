/* tests/conformance/cases_network.c - no network, and several interfaces of which one leads to the peer.
 *
 * The cases run in network namespaces of their own and need root and iproute2; without them they are skipped.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static char meeting[300]; /* folder or store */

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

/* One host, and no network interface at all: loopback is enough, and with a file as meeting place not even that is
 * needed. */
static void case_alone_on_host(rank_info *info)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    if (meeting[0] != '\0')
        options.store = meeting;
    REQUIRE_OK(join_ranks(info, &options, &info->ctx));
    case_use_group(kith_world(info->ctx));
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

/* Rank 0 listens on one of three interfaces; only the third leads to rank 1: the first has another network at its
 * end, the second is down there. KITH_IFNAME decides from where rank 1 comes. */
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

/* UCX takes any of several interfaces without asking where they lead: where KITH_IFNAME does not choose, it is told. */
static void choose_devices(const way *w, int rank)
{
    if (getenv("KITH_UCX_TLS") == NULL)
        return;
    if (w->ifname[rank][0] == '\0')
        setenv("KITH_UCX_NET_DEVICES", rank == 0 ? "near2" : "far2", 1);
    else
        unsetenv("KITH_UCX_NET_DEVICES");
}

static void try_way(rank_info *info, const way *w, const char *store)
{
    choose_devices(w, info->rank);
    const kith_setting setting = { "ifname", w->ifname[info->rank] };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.store = store;
    options.connect_timeout_ms = w->status != KITH_OK ? 2000 : 20000;
    options.settings = &setting;
    options.setting_count = 1;
    kith_status status = join_ranks(info, &options, &info->ctx);
    if (w->status == KITH_OK) {
        REQUIRE_STATUS(status, KITH_OK);
        case_use_group(kith_world(info->ctx));
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
        "sleep 0.5 && exit 0; sleep 0.1; done; exit 1",
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

const conformance_case cases_network[] = {
    { "without_network", NULL, run_without_network },
    { "interfaces", NULL, run_interfaces },
    { NULL, NULL, NULL },
};
