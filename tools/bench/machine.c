/* tools/bench/machine.c - on what was measured: hosts, processors, memory, GPUs, versions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../json.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#ifdef KITH_HAVE_JANSSON
#include <jansson.h>
#endif

/* The name of the processors; "" where the kernel does not tell. */
static void read_cpu(char *name, size_t nbytes)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    name[0] = '\0';
    while (file != NULL && name[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL)
            snprintf(name, nbytes, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file != NULL)
        fclose(file);
}

static void print_gpus(FILE *out)
{
    int count = 0;
    ki_json_open(out, "gpus", '[');
    if (kith_device_count(&count) != KITH_OK)
        count = 0;
    for (int i = 0; i < count; i++) {
        kith_device *device;
        kith_device_info info = KITH_DEVICE_INFO_INIT;
        if (kith_device_open(i, &device) != KITH_OK)
            continue;
        if (kith_device_describe(device, &info) == KITH_OK)
            ki_json_string(out, NULL, info.name);
        kith_device_close(device);
    }
    ki_json_close(out, ']');
}

#ifdef KITH_HAVE_JANSSON
/* A backend that works here says the version of what is behind it where others say why they do not. */
static void print_backends(FILE *out, const json_t *info)
{
    size_t index;
    json_t *backend;
    ki_json_open(out, "backends", '[');
    json_array_foreach(json_object_get(info, "backends"), index, backend)
    {
        const char *name = json_string_value(json_object_get(backend, "name"));
        const char *version = json_string_value(json_object_get(backend, "version"));
        const char *words = json_string_value(json_object_get(backend, "reason"));
        if (name == NULL || !json_is_true(json_object_get(backend, "available")))
            continue;
        ki_json_open(out, NULL, '{');
        ki_json_string(out, "name", name);
        ki_json_string(out, "version", version != NULL ? version : words != NULL ? words : "");
        ki_json_close(out, '}');
    }
    ki_json_close(out, ']');
}

/* Which rank of which job it is: nothing that a run is repeated with. */
static bool is_of_job(const char *variable)
{
    static const char *const names[] = { "KITH_RANK",       "KITH_SIZE",  "KITH_LOCAL_RANK",
                                         "KITH_LOCAL_SIZE", "KITH_STORE", "KITH_SECRET" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(variable, names[i]) == 0)
            return true;
    return false;
}

static void print_kith_settings(FILE *out, const json_t *info)
{
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(info, "config"), index, row)
    {
        const char *variable = json_string_value(json_object_get(row, "env"));
        const char *origin = json_string_value(json_object_get(row, "origin"));
        const char *value = json_string_value(json_object_get(row, "value"));
        bool is_told = variable != NULL && value != NULL && origin != NULL && strcmp(origin, "default") != 0;
        if (is_told && !is_of_job(variable))
            ki_json_string(out, variable, value);
    }
}
#endif

/* Of the libraries below: what was said to them decides what was measured. */
static void print_library_settings(FILE *out)
{
    static const char *const prefixes[] = { "UCX_", "NCCL_", "CUDA_VISIBLE_DEVICES=", "CUDA_MODULE_LOADING=" };
    char name[128];
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        bool is_told = false;
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            is_told = is_told || strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0;
        if (!is_told || length >= sizeof name || (*variable)[length] != '=')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *variable);
        ki_json_string(out, name, *variable + length + 1);
    }
}

/* From the library's own report; without a reader of JSON only what the environment holds for others. */
static void print_software(FILE *out)
{
#ifdef KITH_HAVE_JANSSON
    char *report = NULL;
    json_t *info = kith_info_json(&report) == KITH_OK ? json_loads(report, 0, NULL) : NULL;
    print_backends(out, info);
    ki_json_open(out, "settings", '{');
    print_kith_settings(out, info);
    json_decref(info);
    kith_free(report);
#else
    ki_json_open(out, "settings", '{');
#endif
    print_library_settings(out);
    ki_json_close(out, '}');
}

void bench_machine_json(FILE *out, const char *command, const char *const *hosts, int host_count)
{
    char date[40] = "", cpu[256];
    time_t now = time(NULL);
    struct tm utc;
    struct utsname kernel;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    read_cpu(cpu, sizeof cpu);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    ki_json_open(out, "meta", '{');
    ki_json_string(out, "kith_version", kith_version());
    ki_json_string(out, "date", date);
    ki_json_string(out, "command", command);
    ki_json_open(out, "hosts", '[');
    for (int i = 0; i < host_count; i++)
        ki_json_string(out, NULL, hosts[i]);
    ki_json_close(out, ']');
    ki_json_string(out, "cpu", cpu);
    ki_json_number(out, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
    ki_json_number(out, "memory_bytes", (double)pages * (double)page);
    if (uname(&kernel) == 0) {
        char text[sizeof kernel.sysname + sizeof kernel.release];
        snprintf(text, sizeof text, "%s %s", kernel.sysname, kernel.release);
        ki_json_string(out, "kernel", text);
    }
    print_gpus(out);
    print_software(out);
    ki_json_close(out, '}');
}
