/* tools/train/device.c - --device: which GPU a rank computes on, and how it is called in reports.
 *
 * The flag goes to kith_init() as it is, but for "cuda" alone, which is the rank's own of this machine. Without it
 * KITH_DEVICE holds, as for every program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#ifdef KITH_HAVE_JANSSON
#include <jansson.h>
#endif
#include <stdlib.h>
#include <string.h>

static bool is_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 6 && text[digits] == '\0';
}

int train_device_check(const ki_command *command, const char *device)
{
    const char *where = device != NULL ? "--device " : "KITH_DEVICE=";
    if (device == NULL)
        device = getenv("KITH_DEVICE");
    if (device == NULL || device[0] == '\0' || strcmp(device, "cuda") == 0 || strcmp(device, "cuda:local") == 0 ||
        (strncmp(device, "cuda:", 5) == 0 && is_number(device + 5)))
        return KI_EXIT_OK;
    return ki_usage_error(command,
                          "%s%s is not one of cuda and cuda:local (the rank's own GPU), cuda:N (the same for "
                          "all)",
                          where, device);
}

const char *train_device_wanted(const char *device)
{
    return device != NULL && strcmp(device, "cuda") == 0 ? "cuda:local" : device;
}

void train_device_name(kith_device *device, char *name, size_t nbytes)
{
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    if (device == NULL)
        snprintf(name, nbytes, "processors");
    else if (kith_device_describe(device, &info) == KITH_OK)
        snprintf(name, nbytes, "cuda:%d, %s", info.ordinal, info.name);
    else
        snprintf(name, nbytes, "cuda");
}

/* What `kith info` says of it here; which ranks share a GPU is known when they run. Nothing where JSON is not read. */
static void describe_nccl(void)
{
#ifdef KITH_HAVE_JANSSON
    char *report = NULL;
    json_t *info = kith_info_json(&report) == KITH_OK ? json_loads(report, 0, NULL) : NULL, *backend;
    size_t index;
    json_array_foreach(json_object_get(info, "backends"), index, backend)
    {
        const char *name = json_string_value(json_object_get(backend, "name"));
        const char *reason = json_string_value(json_object_get(backend, "reason"));
        if (name == NULL || strcmp(name, "nccl") != 0)
            continue;
        if (json_is_true(json_object_get(backend, "available")))
            printf("            between ranks: nccl where each has a GPU of its own, else staged\n");
        else
            printf("            between ranks: not by NCCL: %s\n", reason != NULL ? reason : "it cannot be used here");
    }
    json_decref(info);
    kith_free(report);
#endif
}

void train_device_describe(const char *wanted, int ranks)
{
    int count = 0;
    kith_device *device = NULL;
    char name[192];
    if (wanted == NULL) {
        printf("device      processors\n");
        return;
    }
    if (kith_device_count(&count) != KITH_OK || count == 0) {
        printf("device      %s; here there is none: %s\n", wanted, kith_error_detail());
        return;
    }
    int ordinal = strncmp(wanted, "cuda:", 5) == 0 && is_number(wanted + 5) ? atoi(wanted + 5) : 0;
    if (kith_device_open(ordinal, &device) != KITH_OK) {
        printf("device      %s; here it cannot be used: %s\n", wanted, kith_error_detail());
        return;
    }
    train_device_name(device, name, sizeof name);
    printf("device      %s; this machine has %d: %s\n", wanted, count, name);
    kith_device_close(device);
    if (ranks > 1)
        describe_nccl();
}
