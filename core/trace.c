/* core/trace.c - writing the flight record; see trace.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "trace.h"

#include "base/error.h"
#include "base/log.h"
#include "text.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *ki_trace_kind_name(int kind)
{
    if (kind == KI_TRACE_SEND)
        return "send";
    if (kind == KI_TRACE_RECV)
        return "recv";
    return kith_coll_name((kith_coll_kind)kind);
}

/* Nanoseconds of a tick, measured once over a millisecond. */
static double ns_per_tick(void)
{
    int64_t ns = ki_now_ns();
    uint64_t ticks = ki_ticks();
    while (ki_now_ns() - ns < 1000000) {
    }
    return (double)(ki_now_ns() - ns) / (double)(ki_ticks() - ticks);
}

static void add_header(const kith_group *group, ki_text *text)
{
    ki_text_add(text, "{\"kith_flight\":1,\"rank\":%d,\"size\":%d,\"group\":", group->ctx->rank, group->size);
    ki_text_add_json(text, group->name);
    ki_text_add(text, ",\"group_id\":\"%016llx\",\"members\":[", (unsigned long long)group->id);
    for (int i = 0; i < group->size; i++)
        ki_text_add(text, "%s%d", i > 0 ? "," : "", group->world_ranks[i]);
    ki_text_add(text, "],\"status\":\"%s\",\"reason\":", kith_status_name(group->status));
    ki_text_add_json(text, group->reason);
    ki_text_add(text, "}\n");
}

static void add_record(const kith_group *group, const ki_trace_record *r, int64_t now_ns, uint64_t now, double scale,
                       ki_text *text)
{
    static const char *const states[] = { "free", "active", "done", "failed" };
    bool is_message = r->kind >= KI_TRACE_SEND;
    int64_t start = now_ns - (int64_t)((double)(now - r->start_ticks) * scale);
    /* for messages seq is the tag, and count is bytes */
    ki_text_add(text, "{\"seq\":%llu,\"op\":\"%s\",\"count\":%zu", (unsigned long long)r->sequence,
                ki_trace_kind_name(r->kind), r->count);
    if (is_message) {
        ki_text_add(text, ",\"peer\":%d", r->root);
    } else {
        ki_text_add(text, ",\"dtype\":\"%s\",\"redop\":", kith_dtype_name((kith_dtype)r->dtype));
        ki_text_add_json(text, r->op >= 0 ? kith_op_name(group->ctx, r->op) : "");
        ki_text_add(text, ",\"root\":%d", r->root);
    }
    ki_text_add(text, ",\"start_ns\":%lld", (long long)start);
    if (r->end_ticks != 0)
        ki_text_add(text, ",\"end_ns\":%lld", (long long)(now_ns - (int64_t)((double)(now - r->end_ticks) * scale)));
    ki_text_add(text, ",\"state\":\"%s\",\"status\":\"%s\"}\n", states[r->state & 3],
                kith_status_name((kith_status)r->status));
}

/* path with %r replaced by the world rank. */
static void expand(const char *path, int rank, char *out, size_t nbytes)
{
    size_t used = 0;
    for (; *path != '\0' && used + 16 < nbytes; path++) {
        if (path[0] == '%' && path[1] == 'r') {
            used += (size_t)snprintf(out + used, nbytes - used, "%d", rank);
            path++;
        } else {
            out[used++] = *path;
        }
    }
    out[used] = '\0';
}

static kith_status write_text(const char *path, const ki_text *text, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL)
        return ki_fail(KITH_ERR_IO, "flight record: cannot open %s: %s", path, strerror(errno));
    bool is_written = fwrite(ki_text_chars(text), 1, text->length, file) == text->length;
    is_written &= fclose(file) == 0;
    return is_written ? KITH_OK : ki_fail(KITH_ERR_IO, "flight record: cannot write %s: %s", path, strerror(errno));
}

static void add_group(const kith_group *group, ki_text *text)
{
    double scale = ns_per_tick();
    int64_t now_ns = ki_now_ns();
    uint64_t now = ki_ticks();
    add_header(group, text);
    uint32_t count = group->trace_next < group->trace_capacity ? group->trace_next : group->trace_capacity;
    for (uint32_t i = group->trace_next - count; i != group->trace_next; i++)
        add_record(group, &group->trace[i & (group->trace_capacity - 1)], now_ns, now, scale, text);
}

/* Writes the text and releases it. */
static kith_status finish(ki_text *text, const char *path, int rank, const char *mode)
{
    char real_path[PATH_MAX];
    expand(path, rank, real_path, sizeof real_path);
    kith_status status = text->is_failed ? ki_fail(KITH_ERR_NO_MEMORY, "flight record: no memory for the text")
                                         : write_text(real_path, text, mode);
    ki_text_fini(text);
    return status;
}

kith_status kith_group_dump(const kith_group *group, const char *path)
{
    KI_CHECK_GROUP(group, "kith_group_dump");
    if (path == NULL || *path == '\0')
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_dump: the path is missing");
    ki_text text = { 0 };
    add_group(group, &text);
    return finish(&text, path, group->ctx->rank, "w");
}

/* All groups: what a rank did last on another one is what the others look for. */
void ki_trace_dump_on_timeout(const kith_ctx *ctx)
{
    const char *path = ki_config_get(ctx->config, "dump_on_timeout");
    if (path == NULL || *path == '\0')
        return;
    char detail[KI_DETAIL_NBYTES];
    snprintf(detail, sizeof detail, "%s", kith_error_detail());
    ki_text text = { 0 };
    for (const kith_group *g = ctx->groups; g != NULL; g = g->next)
        if (!g->is_internal)
            add_group(g, &text);
    if (finish(&text, path, ctx->rank, "a") == KITH_OK)
        ki_log(KITH_LOG_INFO, "flight records were written to %s", path);
    ki_fail_quiet(KITH_ERR_TIMEOUT, "%s", detail); /* the timeout stays the thread's detail */
}
