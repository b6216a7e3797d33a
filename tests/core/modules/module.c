/* tests/core/modules/module.c - loadable backends that are wrong in one way each, made from one source.
 *
 * MODULE_IS_<WAY> says which: ABI (another interface number), RENAMED (calls itself otherwise), SHORT (a table that
 * ends too early), NULL (no table), PARTIAL (no send_start), ABSENT (nothing to use here), NOSYMBOL; without any it
 * is fine, except that it cannot be opened.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/backend.h>
#include <stdio.h>

static kith_status available(char *reason, size_t reason_nbytes)
{
#if defined(MODULE_IS_ABSENT)
    snprintf(reason, reason_nbytes, "no such device in this machine");
    return KITH_ERR_UNSUPPORTED;
#else
    snprintf(reason, reason_nbytes, "test module");
    return KITH_OK;
#endif
}

static kith_status open_instance(const kith_be_host *host, void **be)
{
    (void)be;
    return host->fail(KITH_ERR_NO_RESOURCE, "setting module_depth is %s",
                      host->setting(host->cookie, "module_depth", "?"));
}

static kith_status create_group(void *be, const kith_be_group_info *info, void **group)
{
    (void)be, (void)info, (void)group;
    return KITH_ERR_INTERNAL;
}

static kith_status start_message(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    (void)group, (void)msg, (void)slot;
    return KITH_ERR_INTERNAL;
}

static kith_status test_message(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    (void)group, (void)slot, (void)is_done, (void)nbytes;
    return KITH_ERR_INTERNAL;
}

static void cancel_message(void *group, kith_be_slot *slot)
{
    (void)group, (void)slot;
}

static const kith_be_setting settings[] = {
    { "module_depth", "7", "a setting of a module: any number", 0 },
    { NULL, NULL, NULL, 0 },
};

static const kith_backend table = {
#if defined(MODULE_IS_ABI)
    .abi = KITH_BACKEND_ABI + 1,
#else
    .abi = KITH_BACKEND_ABI,
#endif
#if defined(MODULE_IS_SHORT)
    .struct_size = 40,
#else
    .struct_size = sizeof(kith_backend),
#endif
#if defined(MODULE_IS_RENAMED)
    .name = "somebody",
#else
    .name = MODULE_NAME,
#endif
    .variant = MODULE_VARIANT,
    .settings = settings,
    .available = available,
    .open = open_instance,
    .group_create = create_group,
#if !defined(MODULE_IS_PARTIAL)
    .send_start = start_message,
#endif
    .recv_start = start_message,
    .msg_test = test_message,
    .msg_cancel = cancel_message,
};

#if defined(MODULE_IS_NOSYMBOL)
KITH_API const kith_backend *kith_backend_v0(void);
const kith_backend *kith_backend_v0(void)
{
    return &table;
}
#else
KITH_API const kith_backend *kith_backend_v1(void);
const kith_backend *kith_backend_v1(void)
{
#if defined(MODULE_IS_NULL)
    (void)table;
    return NULL;
#else
    return &table;
#endif
}
#endif
