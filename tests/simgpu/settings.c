/* tests/simgpu/settings.c - the environment of the simulated GPU, injected failures, and sentences.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAULTS = 16 };

typedef struct fault {
    char what[48];
    unsigned long left; /* 0: it has happened */
} fault;

static sim_settings settings;
static fault faults[MAX_FAULTS];
static int fault_count;
static unsigned long failures;
static char last_failure[1024];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The value of an unsigned setting; a bad one ends the process, since a test would try something else than it says. */
static unsigned long long number(const char *name, unsigned long long otherwise, unsigned long long least,
                                 unsigned long long most)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return otherwise;
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || text[0] == '-' || value < least || value > most) {
        fprintf(stderr, "simgpu: %s=%s: a number from %llu to %llu\n", name, text, least, most);
        abort();
    }
    return value;
}

static void read_delay(void)
{
    const char *text = getenv("KITH_SIMGPU_DELAY");
    unsigned long long seed;
    char rest;
    if (text == NULL || text[0] == '\0')
        return;
    if (sscanf(text, "%llu:%u%c", &seed, &settings.delay_us, &rest) != 2 || seed == 0) {
        fprintf(stderr, "simgpu: KITH_SIMGPU_DELAY=%s: \"seed:max_us\", a seed of 1 or more\n", text);
        abort();
    }
    settings.seed = seed;
}

/* "malloc", or "nccl_async:1" with a rank. */
static bool is_fault(const char *what)
{
    static const char *const plain[] = { "device_count", "malloc", "host_alloc", "stream",        "event",
                                         "library",      "launch", "pool",       "cublas_create", "gemm",
                                         "heuristic",    "kernel", "copy",       "forget_wait" };
    static const char *const of_rank[] = { "nccl_init:", "nccl_split:", "nccl_async:" };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(what, plain[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof of_rank / sizeof of_rank[0]; i++) {
        const size_t length = strlen(of_rank[i]);
        if (strncmp(what, of_rank[i], length) == 0 && what[length] != '\0')
            return strspn(what + length, "0123456789") == strlen(what + length);
    }
    return false;
}

/* "malloc:3,launch:10,nccl_async:1:4": a name may have a colon itself. */
static void read_faults(void)
{
    const char *text = getenv("KITH_SIMGPU_FAULT");
    char copy[1024];
    if (text == NULL)
        return;
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        char *colon = strrchr(one, ':'), *end = NULL;
        if (one[0] == '\0')
            continue;
        const unsigned long count = colon == NULL ? 0 : strtoul(colon + 1, &end, 10);
        if (count == 0 || *end != '\0' || colon - one >= (int)sizeof faults[0].what || fault_count == MAX_FAULTS) {
            fprintf(stderr, "simgpu: KITH_SIMGPU_FAULT=%s: \"what:number\", the number of a call from 1 on\n", text);
            abort();
        }
        *colon = '\0';
        if (!is_fault(one)) {
            fprintf(stderr,
                    "simgpu: KITH_SIMGPU_FAULT=%s: there is no fault \"%s\" that is followed by the number of a call; "
                    "those of NCCL are nccl_init, nccl_split, nccl_async:RANK:NUMBER\n",
                    text, one);
            abort();
        }
        snprintf(faults[fault_count].what, sizeof faults[0].what, "%s", one);
        faults[fault_count++].left = count;
    }
}

/* As CUDA does: indices, separated by commas, up to the first that is none. */
static void read_visible(int physical)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    settings.devices = 0;
    if (text == NULL) {
        for (; settings.devices < physical; settings.devices++)
            settings.physical[settings.devices] = settings.devices;
        return;
    }
    while (settings.devices < SIM_MAX_DEVICES) {
        char *end;
        const long index = strtol(text, &end, 10);
        if (end == text || index < 0 || index >= physical)
            return;
        settings.physical[settings.devices++] = (int)index;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

/* This library under the file name that KITH_SIMGPU_OLD_DRIVER says is too new for the driver. */
static bool is_too_new(void)
{
    Dl_info info;
    const char *name = getenv("KITH_SIMGPU_OLD_DRIVER");
    if (name == NULL || name[0] == '\0' || dladdr(&settings, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    return strcmp(slash == NULL ? info.dli_fname : slash + 1, name) == 0;
}

static void read_all(void)
{
    read_visible((int)number("KITH_SIMGPU_DEVICES", 1, 0, SIM_MAX_DEVICES));
    settings.memory_nbytes = (size_t)number("KITH_SIMGPU_MEMORY", 1ull << 30, 1u << 20, 1ull << 36);
    settings.keep_going = number("KITH_SIMGPU_KEEP_GOING", 0, 0, 1) != 0;
    settings.check_leaks = number("KITH_SIMGPU_LEAKS", 1, 0, 1) != 0;
    settings.is_too_new = is_too_new();
    settings.has_pools = number("KITH_SIMGPU_POOLS", 1, 0, 1) != 0;
    settings.only_loaded = number("KITH_SIMGPU_LOADED", 0, 0, 1) != 0;
    settings.contexts = (int)number("KITH_SIMGPU_CONTEXTS", 0, 0, SIM_MAX_DEVICES);
    settings.queues = (int)number("KITH_SIMGPU_QUEUES", 0, 0, 32);
    settings.kernels = getenv("KITH_SIMGPU_KERNELS");
    if (settings.kernels != NULL && settings.kernels[0] == '\0')
        settings.kernels = NULL;
    read_delay();
    read_faults();
}

const sim_settings *sim_settings_get(void)
{
    pthread_once(&once, read_all);
    return &settings;
}

/* splitmix64 */
uint64_t sim_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int sim_fault(const char *what)
{
    int is_now = 0;
    sim_settings_get();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < fault_count; i++)
        if (faults[i].left > 0 && strcmp(faults[i].what, what) == 0)
            is_now |= --faults[i].left == 0;
    pthread_mutex_unlock(&lock);
    return is_now;
}

void sim_fail(const char *format, ...)
{
    char text[sizeof last_failure];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const bool keep_going = sim_settings_get()->keep_going;
    pthread_mutex_lock(&lock);
    failures++;
    memcpy(last_failure, text, sizeof text);
    pthread_mutex_unlock(&lock);
    fprintf(stderr, "simgpu: %s\n", text);
    if (!keep_going)
        abort();
}

unsigned long sim_failures(void)
{
    pthread_mutex_lock(&lock);
    const unsigned long count = failures;
    pthread_mutex_unlock(&lock);
    return count;
}

const char *sim_last_failure(void)
{
    return last_failure;
}
