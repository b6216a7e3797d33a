/* bench/null/null_backend.c - the module `null`: a backend that does nothing, at once.
 *
 * Every collective and every message is complete when it starts; nothing is moved, buffers keep what they had. With it
 * a call of the API costs what the library itself adds above a backend: that is what `kith-bench overhead` measures.
 * It lies in a folder of its own, is not installed, and is found only through KITH_BACKEND_PATH.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/backend.h>

static int nothing; /* an address for the instance and its groups */

static kith_status available(char *reason, size_t reason_nbytes)
{
    if (reason_nbytes > 0) {
        reason[0] = '\0';
    }
    return KITH_OK;
}

static kith_status open_instance(const kith_be_host *host, void **be)
{
    (void)host;
    *be = &nothing;
    return KITH_OK;
}

static void close_instance(void *be)
{
    (void)be;
}

static kith_status group_create(void *be, const kith_be_group_info *info, void **group)
{
    (void)be;
    (void)info;
    *group = &nothing;
    return KITH_OK;
}

static void group_end(void *group)
{
    (void)group;
}

static kith_status query(void *group, const kith_be_query *query, kith_be_answer *answer)
{
    (void)group;
    (void)query;
    answer->is_native = 1;
    answer->is_deterministic = 1;
    answer->algorithm = "nothing";
    return KITH_OK;
}

static kith_status coll_start(void *group, const kith_be_coll *coll, kith_be_slot *slot)
{
    (void)group;
    (void)coll;
    (void)slot;
    return KITH_OK;
}

static kith_status coll_test(void *group, kith_be_slot *slot, int *is_done)
{
    (void)group;
    (void)slot;
    *is_done = 1;
    return KITH_OK;
}

static kith_status coll_run(void *group, const kith_be_coll *coll)
{
    (void)group;
    (void)coll;
    return KITH_OK;
}

static void slot_cancel(void *group, kith_be_slot *slot)
{
    (void)group;
    (void)slot;
}

static kith_status msg_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    (void)group;
    slot->words[0] = msg->nbytes;
    return KITH_OK;
}

static kith_status msg_test(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    (void)group;
    *is_done = 1;
    *nbytes = slot->words[0];
    return KITH_OK;
}

static const kith_backend null_backend = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "null",
    .available = available,
    .open = open_instance,
    .close = close_instance,
    .group_create = group_create,
    .group_destroy = group_end,
    .group_abort = group_end,
    .query = query,
    .coll_start = coll_start,
    .coll_test = coll_test,
    .coll_run = coll_run,
    .coll_cancel = slot_cancel,
    .send_start = msg_start,
    .recv_start = msg_start,
    .msg_test = msg_test,
    .msg_cancel = slot_cancel,
};

KITH_API const kith_backend *kith_backend_v1(void);

const kith_backend *kith_backend_v1(void)
{
    return &null_backend;
}
