/* tests/backends/stub/stub.c - see stub.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stub.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXCHANGE_NBYTES 8192
#define NOTES 64

typedef struct shared_group {
    atomic_int arrived;
    atomic_int round;
    atomic_int worst;
    unsigned char data[STUB_RANKS][EXCHANGE_NBYTES];
} shared_group;

/* What host->put() leaves. A name is used once in a group. */
typedef struct shared_note {
    atomic_int state; /* 0 free, 1 being written, 2 there */
    uint64_t group;
    char name[48];
    unsigned char bytes[KITH_BE_NOTE_NBYTES];
} shared_note;

typedef struct shared_file {
    shared_note notes[NOTES];
    shared_group groups[STUB_GROUPS];
} shared_file;

static struct {
    const char *name, *value;
} set[16];
static int set_count;
static char last_error[512];
stub_device stub_device_memory;
void (*stub_device_begin)(int ordinal);
void (*stub_device_end)(void);

void stub_failed(const char *file, int line, const char *expression)
{
    fprintf(stderr, "%s:%d: check failed: %s (last error: %s)\n", file, line, expression, last_error);
    fflush(stderr);
    _exit(1);
}

static kith_status on_fail(kith_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

static void on_log(void *cookie, kith_log_level level, const char *line)
{
    (void)cookie;
    if (getenv("KITH_LOG") != NULL || level <= KITH_LOG_ERROR)
        fprintf(stderr, "log %d: %s\n", (int)level, line);
}

static void *on_alloc(void *cookie, size_t nbytes, size_t alignment)
{
    void *ptr;
    (void)cookie;
    return posix_memalign(&ptr, alignment < sizeof(void *) ? sizeof(void *) : alignment, nbytes > 0 ? nbytes : 1) == 0
               ? ptr
               : NULL;
}

static void on_free(void *cookie, void *ptr)
{
    (void)cookie;
    free(ptr);
}

static const char *on_setting(void *cookie, const char *name, const char *default_value)
{
    (void)cookie;
    for (int i = 0; i < set_count; i++)
        if (strcmp(set[i].name, name) == 0)
            return set[i].value;
    return default_value;
}

void stub_set(const char *name, const char *value)
{
    for (int i = 0; i < set_count; i++)
        if (strcmp(set[i].name, name) == 0) {
            set[i].value = value;
            return;
        }
    set[set_count].name = name;
    set[set_count++].value = value;
}

static void on_agree(void *cookie, const char *name, uint64_t value)
{
    (void)cookie, (void)name, (void)value;
}

static void meet(shared_group *shared, int size)
{
    int round = atomic_load(&shared->round);
    if (atomic_fetch_add(&shared->arrived, 1) == size - 1) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->round, 1);
        return;
    }
    while (atomic_load(&shared->round) == round)
        sched_yield();
}

static kith_status on_exchange(void *group_cookie, kith_status mine, const void *in, size_t nbytes, void *out)
{
    stub_group *group = (stub_group *)group_cookie;
    shared_group *shared = &((shared_file *)group->owner->shared)->groups[group->index];
    CHECK(nbytes <= EXCHANGE_NBYTES);
    if (mine == KITH_OK)
        memcpy(shared->data[group->info.rank], in, nbytes);
    else
        atomic_store(&shared->worst, (int)mine);
    meet(shared, group->info.size);
    kith_status worst = (kith_status)atomic_load(&shared->worst);
    for (int r = 0; worst == KITH_OK && r < group->info.size; r++)
        memcpy((unsigned char *)out + nbytes * (size_t)r, shared->data[r], nbytes);
    meet(shared, group->info.size);
    atomic_store(&shared->worst, 0);
    meet(shared, group->info.size);
    return worst;
}

static kith_status on_put(void *group_cookie, const char *name, const void *note, size_t nbytes)
{
    const stub_group *group = (const stub_group *)group_cookie;
    shared_note *notes = ((shared_file *)group->owner->shared)->notes;
    for (int i = 0; i < NOTES; i++) {
        int is_free = 0;
        if (!atomic_compare_exchange_strong(&notes[i].state, &is_free, 1))
            continue;
        notes[i].group = group->info.id;
        snprintf(notes[i].name, sizeof notes[i].name, "%s", name);
        memcpy(notes[i].bytes, note, nbytes);
        atomic_store(&notes[i].state, 2);
        return KITH_OK;
    }
    return on_fail(KITH_ERR_NO_RESOURCE, "the test has no room for a note");
}

static kith_status on_get(void *group_cookie, const char *name, void *note, size_t nbytes)
{
    const stub_group *group = (const stub_group *)group_cookie;
    const shared_note *notes = ((const shared_file *)group->owner->shared)->notes;
    for (int i = 0; i < NOTES; i++) {
        if (atomic_load(&notes[i].state) != 2 || notes[i].group != group->info.id || strcmp(notes[i].name, name) != 0)
            continue;
        memcpy(note, notes[i].bytes, nbytes);
        return KITH_OK;
    }
    return KITH_ERR_BUSY;
}

static void on_peer_failed(void *group_cookie, int peer, const char *why)
{
    stub_group *group = (stub_group *)group_cookie;
    group->failed_peer = peer;
    if (getenv("KITH_LOG") != NULL)
        fprintf(stderr, "peer %d failed: %s\n", peer, why);
}

const char *stub_error(void)
{
    return last_error;
}

const kith_backend *stub_load(const char *file)
{
    char path[4096];
    const char *build = getenv("KITH_BUILD_DIR"), *folder = getenv("KITH_STUB_MODULES");
    if (folder != NULL)
        snprintf(path, sizeof path, "%s/%s", folder, file);
    else
        snprintf(path, sizeof path, "%s/lib/kith/%s", build != NULL ? build : ".", file);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    kith_backend_fn function;
    *(void **)&function = dlsym(handle, KITH_BACKEND_SYMBOL);
    return function != NULL ? function() : NULL;
}

static void *map_shared(int fd)
{
    void *ptr = mmap(NULL, sizeof(shared_file), PROT_READ | PROT_WRITE,
                     fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    CHECK(ptr != MAP_FAILED);
    return ptr;
}

stub_group *stub_group_make(stub *s, const int *world_ranks, int size)
{
    stub_group *group = (stub_group *)calloc(1, sizeof *group);
    CHECK(group != NULL && s->group_count < STUB_GROUPS - 1);
    group->owner = s;
    group->index = s->group_count++;
    group->failed_peer = -2;
    kith_be_group_info *info = &group->info;
    *info = (kith_be_group_info){ .struct_size = sizeof *info,
                                  .cookie = group,
                                  .name = "test",
                                  .id = 0x1000 + (uint64_t)group->index,
                                  .rank = -1,
                                  .size = size,
                                  .is_one_node = 1 };
    for (int r = 0; r < size; r++) {
        group->world_ranks[r] = world_ranks[r];
        group->node_of[r] = s->node_of[world_ranks[r]];
        info->is_one_node &= group->node_of[r] == group->node_of[0];
        if (world_ranks[r] == s->host.rank)
            info->rank = r;
    }
    info->world_ranks = group->world_ranks;
    info->node_of = group->node_of;
    if (info->rank < 0) {
        free(group);
        return NULL;
    }
    CHECK_EQUAL(s->backend->group_create(s->be, info, &group->group), KITH_OK);
    return group;
}

void stub_group_free(stub_group *group)
{
    if (group == NULL)
        return;
    group->owner->backend->group_destroy(group->group);
    free(group);
}

void stub_host(kith_be_host *host)
{
    static const int node_of[STUB_RANKS];
    *host = (kith_be_host){ .struct_size = sizeof *host,
                            .size = 1,
                            .local_size = 1,
                            .node_of = node_of,
                            .connect_timeout_ms = 10000,
                            .fail = on_fail,
                            .log = on_log,
                            .alloc = on_alloc,
                            .free = on_free,
                            .setting = on_setting,
                            .agree = on_agree,
                            .exchange = on_exchange,
                            .peer_failed = on_peer_failed,
                            .job_id = 42,
                            .device = -1,
                            .put = on_put,
                            .get = on_get };
}

static void enter(stub *s, const kith_backend *backend, int rank, int size)
{
    static int all[STUB_RANKS];
    s->backend = backend;
    if (stub_device_begin != NULL)
        stub_device_begin(rank);
    stub_host(&s->host);
    s->host.cookie = s;
    s->host.rank = s->host.local_rank = rank;
    s->host.size = s->host.local_size = size;
    s->host.node_of = s->node_of;
    s->host.device = stub_device_memory.upload != NULL ? rank : -1;
    for (int r = 0; r < size; r++)
        all[r] = r;
    CHECK_EQUAL(backend->open(&s->host, &s->be), KITH_OK);
    s->world = stub_group_make(s, all, size);
}

stub *stub_join(const kith_backend *backend, int rank, int size)
{
    stub *s = (stub *)calloc(1, sizeof *s);
    const char *file = getenv("KITH_STUB_FILE");
    CHECK(s != NULL && file != NULL && size <= STUB_RANKS);
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(shared_file)) == 0);
    s->shared = map_shared(fd);
    close(fd);
    enter(s, backend, rank, size);
    return s;
}

void stub_leave(stub *s)
{
    const kith_backend *backend = s->backend;
    for (int polls = 0; backend->is_drained != NULL && !backend->is_drained(s->be) && polls < 1000000; polls++)
        sched_yield();
    stub_barrier(s);
    stub_group_free(s->world);
    backend->close(s->be);
    if (stub_device_end != NULL)
        stub_device_end();
    munmap(s->shared, sizeof(shared_file));
    free(s);
}

static void child(const kith_backend *backend, int rank, int size, void *shared, stub_fn fn)
{
    stub *s = (stub *)calloc(1, sizeof *s);
    CHECK(s != NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    s->shared = shared;
    enter(s, backend, rank, size);
    fn(s);
    stub_leave(s);
    fflush(NULL);
    exit(0);
}

int stub_fork(const kith_backend *backend, int size, stub_fn fn, int dead_rank)
{
    pid_t pids[STUB_RANKS];
    void *shared = map_shared(-1);
    int failures = 0;
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        CHECK(pids[r] >= 0);
        if (pids[r] == 0)
            child(backend, r, size, shared, fn);
    }
    bool is_dead_gone = dead_rank < 0;
    for (int left = dead_rank < 0 ? size : size - 1; left > 0;) {
        int status, r = 0;
        pid_t pid = wait(&status);
        CHECK(pid > 0);
        while (r < size && pids[r] != pid)
            r++;
        if (r == dead_rank) { /* reaped at once: a zombie still looks alive to the others */
            is_dead_gone = true;
            continue;
        }
        left--;
        if (status != 0) {
            fprintf(stderr, "rank %d ended with status 0x%x\n", r, (unsigned)status);
            failures++;
        }
    }
    if (!is_dead_gone) { /* stopped */
        kill(pids[dead_rank], SIGKILL);
        CHECK(waitpid(pids[dead_rank], NULL, 0) == pids[dead_rank]);
    }
    munmap(shared, sizeof(shared_file));
    return failures;
}

void stub_barrier(stub *s)
{
    shared_group *shared = &((shared_file *)s->shared)->groups[STUB_GROUPS - 1];
    int round = atomic_load(&shared->round);
    if (atomic_fetch_add(&shared->arrived, 1) == s->host.size - 1) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->round, 1);
        return;
    }
    while (atomic_load(&shared->round) == round) {
        if (s->backend->progress != NULL)
            s->backend->progress(s->be);
        sched_yield();
    }
}

kith_status stub_wait(stub_group *group, kith_be_slot *slot, size_t *nbytes)
{
    stub *s = group->owner;
    struct timespec start, now;
    size_t ignored;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int polls = 0;; polls++) {
        int is_done = 0;
        kith_status status = s->backend->msg_test(group->group, slot, &is_done, nbytes != NULL ? nbytes : &ignored);
        if (status != KITH_OK || is_done)
            return status;
        if (s->backend->progress != NULL)
            s->backend->progress(s->be);
        if (polls < 100)
            continue;
        sched_yield();
        if (polls > 2000 && s->backend->idle != NULL)
            s->backend->idle(s->be, 1000000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > 30)
            return on_fail(KITH_ERR_TIMEOUT, "the test waited 30 s");
    }
}

static void fill(kith_be_msg *msg, kith_be_slot *slot, void *buffer, size_t nbytes, int peer, uint64_t tag)
{
    *msg = (kith_be_msg){ .peer = peer, .tag = tag, .buffer = buffer, .nbytes = nbytes };
    memset(slot, 0, sizeof *slot);
}

void stub_send_start(stub_group *group, const void *buffer, size_t nbytes, int peer, uint64_t tag, kith_be_slot *slot,
                     kith_be_msg *msg)
{
    fill(msg, slot, (void *)(uintptr_t)buffer, nbytes, peer, tag);
    CHECK_EQUAL(group->owner->backend->send_start(group->group, msg, slot), KITH_OK);
}

void stub_recv_start(stub_group *group, void *buffer, size_t nbytes, int peer, uint64_t tag, kith_be_slot *slot,
                     kith_be_msg *msg)
{
    fill(msg, slot, buffer, nbytes, peer, tag);
    CHECK_EQUAL(group->owner->backend->recv_start(group->group, msg, slot), KITH_OK);
}

uint64_t stub_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
