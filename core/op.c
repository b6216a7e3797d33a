/* core/op.c - operators: the built-in table, and those that a context makes. See kith/op.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "op.h"

#include "base/error.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const ki_op builtin[KITH_OP_BUILTIN_COUNT] = {
#define BUILTIN_ROW(symbol, number, text) [number] = { .builtin = number, .is_commutative = true, .name = text },
    KITH_OP_TABLE(BUILTIN_ROW)
#undef BUILTIN_ROW
};

static ki_op_entry *find_entry(const kith_ctx *ctx, kith_op op)
{
    int index = op - KI_OP_FIRST_DYNAMIC;
    if (index < 0 || index >= ctx->op_count || !ctx->ops[index]->is_live)
        return NULL;
    return ctx->ops[index];
}

const ki_op *ki_op_get(const kith_ctx *ctx, kith_op op)
{
    if (op >= 0 && op < KITH_OP_BUILTIN_COUNT)
        return &builtin[op];
    ki_op_entry *entry = find_entry(ctx, op);
    return entry != NULL ? &entry->op : NULL;
}

uint64_t ki_op_hash(const kith_ctx *ctx, kith_op op)
{
    const ki_op *made = ki_op_get(ctx, op);
    if (made == NULL)
        return 0;
    uint64_t hash = ki_hash(KI_HASH_INIT, &made->builtin, sizeof made->builtin);
    hash = ki_hash(hash, made->name, strlen(made->name));
    return ki_hash(hash, &made->scalar, sizeof made->scalar);
}

void ki_op_use(kith_ctx *ctx, kith_op op)
{
    ki_op_entry *entry = op >= KI_OP_FIRST_DYNAMIC ? find_entry(ctx, op) : NULL;
    if (entry != NULL)
        entry->uses++;
}

void ki_op_unuse(kith_ctx *ctx, kith_op op)
{
    ki_op_entry *entry = op >= KI_OP_FIRST_DYNAMIC ? find_entry(ctx, op) : NULL;
    if (entry != NULL && entry->uses > 0)
        entry->uses--;
}

/* A free entry, or a new one. */
static ki_op_entry *new_entry(kith_ctx *ctx, kith_op *op)
{
    for (int i = 0; i < ctx->op_count; i++) {
        if (!ctx->ops[i]->is_live) {
            *op = KI_OP_FIRST_DYNAMIC + i;
            return ctx->ops[i];
        }
    }
    size_t count = (size_t)ctx->op_count;
    ki_op_entry **table = (ki_op_entry **)ki_calloc(&ctx->allocator, count + 1, sizeof *table);
    ki_op_entry *entry = (ki_op_entry *)ki_calloc(&ctx->allocator, 1, sizeof *entry);
    if (table == NULL || entry == NULL) {
        ki_free(&ctx->allocator, table);
        ki_free(&ctx->allocator, entry);
        return NULL;
    }
    if (count > 0)
        memcpy(table, ctx->ops, count * sizeof *table);
    table[count] = entry;
    ki_free(&ctx->allocator, ctx->ops);
    ctx->ops = table;
    *op = KI_OP_FIRST_DYNAMIC + ctx->op_count++;
    return entry;
}

static kith_status add_op(kith_ctx *ctx, const ki_op *made, kith_op *op)
{
    kith_op number = 0;
    ki_op_entry *entry = new_entry(ctx, &number);
    if (entry == NULL)
        return KITH_ERR_NO_MEMORY;
    entry->op = *made;
    entry->is_live = true;
    entry->uses = 0;
    *op = number;
    return KITH_OK;
}

kith_status kith_op_create_premul_sum(kith_ctx *ctx, double scalar, kith_op *op)
{
    if (!ki_ctx_is_valid(ctx) || op == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_create_premul_sum: ctx is invalid or op is NULL");
    if (!isfinite(scalar))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_create_premul_sum: the scalar is %g, it must be finite",
                             scalar);
    ki_op made = { .builtin = KI_OP_PREMUL_SUM, .scalar = scalar, .is_commutative = true, .name = "premul_sum" };
    return add_op(ctx, &made, op);
}

kith_status kith_op_create_user(kith_ctx *ctx, const char *name, kith_reduce_fn fn, int is_commutative, void *arg,
                                kith_op *op)
{
    if (!ki_ctx_is_valid(ctx) || op == NULL || fn == NULL || name == NULL || *name == '\0')
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_create_user: ctx is invalid, or name, fn or op is missing");
    if (strlen(name) > sizeof((ki_op *)NULL)->name - 1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_create_user: the name '%s' is longer than 31 bytes", name);
    ki_op made = { .builtin = KI_OP_USER, .fn = fn, .arg = arg, .is_commutative = is_commutative != 0 };
    snprintf(made.name, sizeof made.name, "%s", name);
    return add_op(ctx, &made, op);
}

kith_status kith_op_destroy(kith_ctx *ctx, kith_op op)
{
    if (!ki_ctx_is_valid(ctx))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_destroy: the context is invalid");
    ki_op_entry *entry = find_entry(ctx, op);
    if (entry == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_op_destroy: %d was not made by kith_op_create_...()", (int)op);
    if (entry->uses > 0)
        return ki_fail_quiet(KITH_ERR_BUSY, "kith_op_destroy: %s is used by %d requests", entry->op.name, entry->uses);
    entry->is_live = false;
    return KITH_OK;
}

const char *kith_op_name(const kith_ctx *ctx, kith_op op)
{
    if (op >= 0 && op < KITH_OP_BUILTIN_COUNT)
        return builtin[op].name;
    const ki_op *made = ki_ctx_is_valid(ctx) ? ki_op_get(ctx, op) : NULL;
    return made != NULL ? made->name : "unknown op";
}

void ki_ops_fini(kith_ctx *ctx)
{
    for (int i = 0; i < ctx->op_count; i++)
        ki_free(&ctx->allocator, ctx->ops[i]);
    ki_free(&ctx->allocator, ctx->ops);
    ctx->ops = NULL;
    ctx->op_count = 0;
}
