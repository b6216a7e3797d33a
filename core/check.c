/* core/check.c - see check.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include "base/error.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_CHECK (UINT64_C(2) << 62)
#define TAG_COUNTS (UINT64_C(3) << 62)

typedef struct fingerprint {
    int32_t status; /* of this rank's arguments */
    int32_t kind, dtype, root, is_device, pad;
    uint64_t count, sequence, group, counts_hash;
    double scalar;
    char op[32];
    char detail[152];
} fingerprint;

struct ki_check {
    kith_be_coll gather;
    ki_algo_args args;
    ki_executor executor;
    bool is_counts; /* second round */
    fingerprint mine;
    fingerprint *all;
    uint64_t *my_counts, *counts; /* [2 * size], [size * 2 * size] */
};

static bool has_counts(kith_coll_kind kind)
{
    return kind == KITH_REDUCE_SCATTER_V || kind == KITH_ALL_GATHER_V;
}

static bool has_root(kith_coll_kind kind)
{
    return kind == KITH_BROADCAST || kind == KITH_REDUCE || kind == KITH_GATHER || kind == KITH_SCATTER ||
           kind == KITH_GATHER_V || kind == KITH_SCATTER_V;
}

static void fill_fingerprint(const kith_request *request, fingerprint *mine)
{
    const kith_be_coll *coll = &request->coll;
    size_t size = (size_t)request->group->size;
    memset(mine, 0, sizeof *mine);
    mine->status = request->argument_status;
    if (mine->status != KITH_OK && request->detail != NULL)
        snprintf(mine->detail, sizeof mine->detail, "%s", request->detail);
    mine->kind = (int32_t)coll->kind;
    mine->sequence = coll->sequence;
    mine->group = request->group->id;
    mine->dtype = coll->kind == KITH_BARRIER ? 0 : (int32_t)coll->dtype;
    mine->root = has_root(coll->kind) ? coll->root : 0;
    if (coll->kind == KITH_GATHER_V || coll->kind == KITH_SCATTER_V || coll->kind == KITH_ALL_TO_ALL_V)
        mine->count = 0; /* every rank has its own */
    else if (!has_counts(coll->kind))
        mine->count = coll->count;
    bool has_parts = has_counts(coll->kind) || coll->kind == KITH_GATHER_V || coll->kind == KITH_SCATTER_V ||
                     coll->kind == KITH_ALL_TO_ALL_V;
    mine->is_device = !has_parts && request->way != KI_WAY_HOST; /* a rank with an empty part need not know */
    if (has_counts(coll->kind) && mine->status == KITH_OK)
        mine->counts_hash = ki_hash(KI_HASH_INIT, coll->recv_counts, size * sizeof *coll->recv_counts);
    if (coll->kind == KITH_ALL_GATHER_V && mine->status == KITH_OK)
        mine->counts_hash = ki_hash(mine->counts_hash, coll->recv_displs, size * sizeof *coll->recv_displs);
    if (coll->reducer != NULL && mine->status == KITH_OK) {
        snprintf(mine->op, sizeof mine->op, "%s", request->reducer.op->name);
        mine->scalar = request->reducer.op->scalar;
    }
}

static bool is_equal(const fingerprint *a, const fingerprint *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->root == b->root && a->count == b->count &&
           a->sequence == b->sequence && a->group == b->group && a->is_device == b->is_device &&
           a->counts_hash == b->counts_hash && memcmp(&a->scalar, &b->scalar, sizeof a->scalar) == 0 &&
           strcmp(a->op, b->op) == 0;
}

static void describe(const fingerprint *f, ki_text *text)
{
    kith_coll_kind kind = (kith_coll_kind)f->kind;
    ki_text_add(text, "%s", kith_coll_name(kind));
    if (kind != KITH_BARRIER)
        ki_text_add(text, " %s", kith_dtype_name((kith_dtype)f->dtype));
    if (has_counts(kind))
        ki_text_add(text, " counts #%04x", (unsigned)(f->counts_hash & 0xffff));
    else if (kind != KITH_BARRIER && kind != KITH_GATHER_V && kind != KITH_SCATTER_V && kind != KITH_ALL_TO_ALL_V)
        ki_text_add(text, " x%llu", (unsigned long long)f->count);
    if (f->op[0] != '\0')
        ki_text_add(text, " %s", f->op);
    if (strcmp(f->op, "premul_sum") == 0)
        ki_text_add(text, "(%g)", f->scalar);
    if (has_root(kind))
        ki_text_add(text, " root %d", f->root);
    if (f->is_device)
        ki_text_add(text, " on the device");
    ki_text_add(text, " seq %llu", (unsigned long long)f->sequence);
}

/* "ranks 0, 2-3: all_reduce f32 x64 sum seq 7; rank 1: ..." */
static void describe_all(const fingerprint *all, int size, unsigned char *mask, unsigned char *is_told, ki_text *text)
{
    int kinds = 0;
    memset(is_told, 0, (size_t)size);
    for (int i = 0; i < size; i++) {
        if (is_told[i])
            continue;
        if (++kinds > 6) {
            ki_text_add(text, "; and more");
            return;
        }
        int count = 0;
        for (int j = 0; j < size; j++) {
            mask[j] = !is_told[j] && is_equal(&all[i], &all[j]);
            is_told[j] |= mask[j];
            count += mask[j];
        }
        ki_text_add(text, "%s%s ", kinds > 1 ? "; " : "", count > 1 ? "ranks" : "rank");
        ki_text_add_ranges(text, mask, size, 8);
        ki_text_add(text, ": ");
        describe(&all[i], text);
    }
}

static kith_status compare(const kith_request *request)
{
    struct ki_check *check = request->check;
    int size = request->group->size;
    bool is_same = true;
    for (int i = 0; i < size; i++) {
        if (check->all[i].status != KITH_OK)
            return ki_fail_quiet((kith_status)check->all[i].status, "rank %d: %s", i, check->all[i].detail);
        is_same = is_same && is_equal(&check->all[0], &check->all[i]);
    }
    if (is_same)
        return KITH_OK;
    ki_text text = { 0 };
    unsigned char *masks = (unsigned char *)calloc((size_t)size, 2);
    if (masks != NULL)
        describe_all(check->all, size, masks, masks + size, &text);
    kith_status status = ki_fail(KITH_ERR_MISMATCH, "ranks called different operations: %s", ki_text_chars(&text));
    free(masks);
    ki_text_fini(&text);
    return status;
}

/* What i sends to j must be what j expects of i. */
static kith_status compare_counts(const kith_request *request)
{
    struct ki_check *check = request->check;
    size_t size = (size_t)request->group->size;
    for (size_t i = 0; i < size; i++) {
        for (size_t j = 0; j < size; j++) {
            uint64_t sent = check->counts[i * 2 * size + j], expected = check->counts[j * 2 * size + size + i];
            if (sent != expected)
                return ki_fail(KITH_ERR_MISMATCH,
                               "all_to_all_v: rank %zu sends %llu elements to rank %zu, which expects %llu from it", i,
                               (unsigned long long)sent, j, (unsigned long long)expected);
        }
    }
    return KITH_OK;
}

static kith_status start_gather(kith_request *request, const void *send, void *recv, size_t nbytes, uint64_t tag)
{
    struct ki_check *check = request->check;
    kith_group *group = request->group;
    size_t count;
    const ki_algo *const *list = ki_algo_list(KITH_ALL_GATHER, &count);
    check->gather = (kith_be_coll){
        .kind = KITH_ALL_GATHER,
        .dtype = KITH_UINT8,
        .op = -1,
        .send = send,
        .recv = recv,
        .count = nbytes,
        .nbytes = 1,
        .sequence = request->coll.sequence,
    };
    check->args = request->args;
    check->args.coll = &check->gather;
    check->args.reducer = NULL;
    ki_transport transport = { .backend = group->backend, .group = group->bg, .tag = tag | request->coll.sequence };
    return ki_executor_start(&check->executor, list[0], &check->args, &transport);
}

kith_status ki_check_start(kith_request *request)
{
    size_t size = (size_t)request->group->size;
    struct ki_check *check = (struct ki_check *)calloc(1, sizeof *check);
    if (check == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "check mode: no memory");
    request->check = check;
    check->all = (fingerprint *)calloc(size, sizeof *check->all);
    if (check->all == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "check mode: no memory for %zu fingerprints", size);
    fill_fingerprint(request, &check->mine);
    return start_gather(request, &check->mine, check->all, sizeof check->mine, TAG_CHECK);
}

static kith_status start_counts(kith_request *request)
{
    struct ki_check *check = request->check;
    size_t size = (size_t)request->group->size;
    check->my_counts = (uint64_t *)calloc(2 * size, sizeof *check->my_counts);
    check->counts = (uint64_t *)calloc(2 * size * size, sizeof *check->counts);
    if (check->my_counts == NULL || check->counts == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "check mode: no memory for the counts of %zu ranks", size);
    for (size_t i = 0; i < size; i++) {
        check->my_counts[i] = request->coll.send_counts[i];
        check->my_counts[size + i] = request->coll.recv_counts[i];
    }
    check->is_counts = true;
    return start_gather(request, check->my_counts, check->counts, 2 * size * sizeof *check->counts, TAG_COUNTS);
}

kith_status ki_check_step(kith_request *request, bool *is_done)
{
    struct ki_check *check = request->check;
    bool is_gathered = false;
    kith_status status = ki_executor_step(&check->executor, &is_gathered);
    if (status != KITH_OK || !is_gathered)
        return status;
    if (check->is_counts) {
        *is_done = true;
        return compare_counts(request);
    }
    status = compare(request);
    if (status != KITH_OK)
        return status;
    if (request->coll.kind == KITH_ALL_TO_ALL_V)
        return start_counts(request);
    *is_done = true;
    return KITH_OK;
}

void ki_check_cancel(kith_request *request)
{
    if (request->check != NULL)
        ki_executor_cancel(&request->check->executor);
}

void ki_check_release(kith_request *request)
{
    struct ki_check *check = request->check;
    if (check == NULL)
        return;
    ki_executor_fini(&check->executor);
    free(check->all);
    free(check->my_counts);
    free(check->counts);
    free(check);
    request->check = NULL;
}
