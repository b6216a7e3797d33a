/* core/boot/store_tcp.c - a rank's handle of the TCP store: the client, and on rank 0 the server beside it.
 *
 * Rank 0 is a client of its own server like all others. The connection stays open as long as the handle: its end tells
 * the server that this rank is gone, and tells this rank that rank 0 is gone. Input is parsed in pump(), called by
 * whatever waits or polls: events go to the handle's queue, the reply to the open request is kept.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/mem.h"
#include "../base/sock.h"
#include "tcp_join.h"
#include "tcp_server.h"
#include "wire.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    FIRST_INPUT = 4096,
    ANSWER_GRACE_MS = 5000, /* for the answer to a CANCEL: the server only has to be alive */
    GOODBYE_GRACE_MS = 2000
};

typedef struct tcp_store {
    ki_store base;
    int fd;
    bool is_broken; /* the connection ended: rank 0 is gone */
    ki_tcp_server *server;
    unsigned char *in;
    size_t in_nbytes, in_capacity;
    uint32_t last_id;
    uint32_t wait_id; /* of the open request; 0: none */
    bool has_reply;
    ki_wire_frame reply;
    void *reply_value; /* malloc'ed */
    char reply_text[KI_STORE_KEY_NBYTES];
} tcp_store;

/* ---- input ---- */

static void lose_server(tcp_store *s)
{
    if (s->is_broken)
        return;
    s->is_broken = true;
    if (s->base.rank != 0)
        ki_store_push_event(&s->base, (ki_event){ KI_EVENT_RANK_DIED, 0, 0 });
}

static bool reserve_input(tcp_store *s, size_t capacity)
{
    if (capacity <= s->in_capacity)
        return true;
    unsigned char *in = ki_calloc(NULL, 1, capacity);
    if (!in)
        return false;
    if (s->in_nbytes)
        memcpy(in, s->in, s->in_nbytes);
    ki_free(NULL, s->in);
    s->in = in;
    s->in_capacity = capacity;
    return true;
}

static bool keep_reply(tcp_store *s, const ki_wire_frame *frame, const unsigned char *key, const unsigned char *value)
{
    size_t nbytes = (size_t)frame->value_nbytes;
    if (frame->id != s->wait_id || s->has_reply)
        return true;
    s->reply_value = malloc(nbytes ? nbytes : 1);
    if (!s->reply_value)
        return false;
    if (nbytes)
        memcpy(s->reply_value, value, nbytes);
    memcpy(s->reply_text, key, frame->key_nbytes);
    s->reply_text[frame->key_nbytes] = '\0';
    s->reply = *frame;
    s->has_reply = true;
    return true;
}

static bool handle_frame(tcp_store *s, const ki_wire_frame *frame, const unsigned char *key, const unsigned char *value)
{
    if (frame->op == KI_WIRE_REPLY)
        return keep_reply(s, frame, key, value);
    bool is_event = frame->op == KI_WIRE_EVENT && frame->a >= KI_EVENT_RANK_DIED && frame->a <= KI_EVENT_FAILURE &&
                    frame->b >= 0 && frame->b < s->base.size;
    if (is_event)
        ki_store_push_event(&s->base, (ki_event){ (ki_event_kind)frame->a, frame->b, frame->arg });
    return is_event;
}

static bool parse_input(tcp_store *s)
{
    size_t at = 0;
    ki_wire_frame frame;
    bool is_fine = true;
    while (is_fine && s->in_nbytes - at >= sizeof frame) {
        memcpy(&frame, s->in + at, sizeof frame);
        is_fine = ki_wire_frame_is_sane(&frame);
        size_t nbytes = (size_t)ki_wire_frame_nbytes(&frame);
        if (!is_fine || s->in_nbytes - at < nbytes) {
            is_fine = is_fine && reserve_input(s, nbytes + FIRST_INPUT);
            break;
        }
        const unsigned char *key = s->in + at + sizeof frame;
        is_fine = handle_frame(s, &frame, key, key + frame.key_nbytes);
        at += nbytes;
    }
    s->in_nbytes -= at;
    memmove(s->in, s->in + at, s->in_nbytes);
    return is_fine;
}

/* Takes what has arrived. Never blocks. */
static void pump(tcp_store *s)
{
    while (!s->is_broken) {
        ssize_t n = ki_sock_recv(s->fd, s->in + s->in_nbytes, s->in_capacity - s->in_nbytes);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        s->in_nbytes += n > 0 ? (size_t)n : 0;
        if (n <= 0 || !parse_input(s))
            lose_server(s);
    }
}

/* ---- requests ---- */

static kith_status server_is_gone(const tcp_store *s)
{
    return ki_fail_quiet(KITH_ERR_PEER_FAILED, "store %s: the connection to rank 0, which serves it, has ended",
                         s->base.url);
}

/* A frame that went out in part leaves a stream that cannot go on. */
static kith_status send_frame(tcp_store *s, const ki_wire_frame *frame, const char *key, const void *value,
                              size_t nbytes, const void *more, size_t more_nbytes, int64_t deadline_ns)
{
    unsigned char head[sizeof *frame + KI_STORE_KEY_NBYTES];
    if (s->is_broken)
        return server_is_gone(s);
    memcpy(head, frame, sizeof *frame);
    memcpy(head + sizeof *frame, key, frame->key_nbytes);
    kith_status status = ki_sock_send_all(s->fd, head, sizeof *frame + frame->key_nbytes, deadline_ns);
    if (status == KITH_OK && nbytes)
        status = ki_sock_send_all(s->fd, value, nbytes, deadline_ns);
    if (status == KITH_OK && more_nbytes)
        status = ki_sock_send_all(s->fd, more, more_nbytes, deadline_ns);
    if (status == KITH_OK)
        return KITH_OK;
    pump(s); /* news that came before the end */
    lose_server(s);
    return server_is_gone(s);
}

static bool wait_reply(tcp_store *s, int64_t deadline_ns)
{
    for (;;) {
        pump(s);
        if (s->has_reply || s->is_broken)
            return true;
        if (!ki_sock_wait(s->fd, POLLIN, deadline_ns))
            return false;
    }
}

/* Sends and waits. On KITH_OK or KITH_ERR_TIMEOUT, s->reply_value is the caller's (NULL when the server did not
 * answer). */
static kith_status request(tcp_store *s, ki_wire_frame *frame, const char *key, const void *value, size_t nbytes,
                           const void *more, size_t more_nbytes, int64_t deadline_ns)
{
    int64_t send_deadline = deadline_ns != 0 ? ki_deadline_after_ms(ANSWER_GRACE_MS) : 0;
    if (deadline_ns > send_deadline)
        send_deadline = deadline_ns;
    if (++s->last_id == 0)
        s->last_id = 1;
    frame->id = s->wait_id = s->last_id;
    frame->key_nbytes = (uint32_t)strlen(key);
    frame->value_nbytes = nbytes + more_nbytes;
    s->has_reply = false;
    s->reply_value = NULL;
    kith_status status = send_frame(s, frame, key, value, nbytes, more, more_nbytes, send_deadline);
    bool is_late = status == KITH_OK && !wait_reply(s, deadline_ns);
    if (is_late && frame->op == KI_WIRE_SET) {
        status = KITH_ERR_TIMEOUT; /* a server that is alive answers at once: there is nothing to cancel */
    } else if (is_late) {
        ki_wire_frame cancel = { .op = KI_WIRE_CANCEL, .id = frame->id };
        status = send_frame(s, &cancel, "", NULL, 0, NULL, 0, ki_deadline_after_ms(ANSWER_GRACE_MS));
        if (status == KITH_OK && !wait_reply(s, ki_deadline_after_ms(ANSWER_GRACE_MS)))
            status = KITH_ERR_TIMEOUT;
    }
    s->wait_id = 0;
    if (status != KITH_OK)
        return status;
    if (!s->has_reply)
        return server_is_gone(s);
    status = (kith_status)s->reply.a;
    if (status == KITH_OK || status == KITH_ERR_TIMEOUT)
        return status;
    free(s->reply_value);
    s->reply_value = NULL;
    return s->reply.b < 0 ? ki_fail(status, "%s", s->reply_text) : status;
}

static kith_status tcp_set(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns)
{
    tcp_store *s = (tcp_store *)store;
    ki_wire_frame frame = { .op = KI_WIRE_SET };
    kith_status status = request(s, &frame, key, value, nbytes, NULL, 0, deadline_ns);
    free(s->reply_value);
    s->reply_value = NULL;
    return status;
}

static kith_status tcp_get(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes)
{
    tcp_store *s = (tcp_store *)store;
    ki_wire_frame frame = { .op = KI_WIRE_GET };
    kith_status status = request(s, &frame, key, NULL, 0, NULL, 0, deadline_ns);
    if (status == KITH_OK) {
        *value = s->reply_value;
        *nbytes = (size_t)s->reply.value_nbytes;
    } else {
        free(s->reply_value);
    }
    s->reply_value = NULL;
    return status;
}

static kith_status take_gather(tcp_store *s, ki_gather_args *args, kith_status status)
{
    size_t total = (size_t)args->count * args->nbytes, got = s->has_reply ? (size_t)s->reply.value_nbytes : 0;
    if (status == KITH_OK && got != total)
        return ki_fail(KITH_ERR_INTERNAL, "store: the result of \"%s\" has %zu bytes instead of %zu", args->key, got,
                       total);
    if (status == KITH_OK && total)
        memcpy(args->out, s->reply_value, total);
    if (status == KITH_ERR_PEER_FAILED)
        args->dead_rank = s->has_reply ? s->reply.b : -1;
    if (status == KITH_ERR_TIMEOUT && got == (size_t)args->count)
        memcpy(args->is_missing, s->reply_value, got);
    else if (status == KITH_ERR_TIMEOUT)
        args->is_missing[0] = args->index != 0; /* no answer: rank 0 stands still */
    return status;
}

static kith_status tcp_gather(ki_store *store, ki_gather_args *args, int64_t deadline_ns)
{
    tcp_store *s = (tcp_store *)store;
    size_t ranks_nbytes = args->world_ranks ? (size_t)args->count * sizeof(int32_t) : 0;
    ki_wire_frame frame = { .op = KI_WIRE_GATHER,
                            .a = args->index,
                            .b = args->count,
                            .arg = args->nbytes,
                            .flags = args->world_ranks ? KI_WIRE_HAS_RANKS : 0 };
    kith_status status =
        request(s, &frame, args->key, args->in, args->nbytes, args->world_ranks, ranks_nbytes, deadline_ns);
    status = take_gather(s, args, status);
    free(s->reply_value);
    s->reply_value = NULL;
    return status;
}

static void tcp_poll(ki_store *store)
{
    pump((tcp_store *)store);
}

static void tcp_announce(ki_store *store, ki_event_kind kind, uint64_t value)
{
    ki_wire_frame frame = { .op = KI_WIRE_ANNOUNCE, .a = (int32_t)kind, .arg = value };
    tcp_store *s = (tcp_store *)store;
    struct pollfd p = { s->fd, POLLOUT, 0 };
    if (!s->is_broken && poll(&p, 1, 0) == 1) /* there is room: 40 bytes go at once */
        send_frame(s, &frame, "", NULL, 0, NULL, 0, ki_deadline_after_ms(1));
}

/* ---- open, close ---- */

static void free_store(tcp_store *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->reply_value);
    ki_free(NULL, s->in);
    ki_store_free(&s->base);
}

static void say_goodbye(tcp_store *s, int64_t deadline_ns)
{
    ki_wire_frame frame = { .op = KI_WIRE_GOODBYE };
    int64_t grace = ki_deadline_after_ms(GOODBYE_GRACE_MS);
    if (deadline_ns != 0 && deadline_ns < grace)
        grace = deadline_ns;
    if (send_frame(s, &frame, "", NULL, 0, NULL, 0, grace) != KITH_OK)
        return;
    while (!s->is_broken && ki_sock_wait(s->fd, POLLIN, grace)) /* the server's end: it has noted the goodbye */
        pump(s);
}

static void tcp_close(ki_store *store, bool is_orderly, int64_t deadline_ns)
{
    tcp_store *s = (tcp_store *)store;
    if (is_orderly && !s->is_broken)
        say_goodbye(s, deadline_ns);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    ki_tcp_server_stop(s->server, is_orderly, deadline_ns);
    free_store(s);
}

static const ki_store_ops tcp_ops = { tcp_set, tcp_get, tcp_gather, tcp_poll, tcp_announce, tcp_close };

static uint64_t random_token(void)
{
    uint64_t token = 0;
    if (getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token)
        token = (uint64_t)ki_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    return token | 1;
}

/* Rank 0's part before it connects like the others. */
static kith_status start_serving(const ki_store_options *options, ki_tcp_url *url, tcp_store *store)
{
    ki_listener listener;
    bool is_free_port = url->port == 0;
    kith_status s = ki_sock_listen(url->host, url->port, options->ifname, BACKLOG, &listener);
    if (s != KITH_OK)
        return s;
    url->port = listener.port;
    if (is_free_port) {
        url->token = random_token();
        snprintf(url->host, sizeof url->host, "%s", listener.address);
    }
    if (url->file[0])
        s = ki_port_file_write(url->file, url);
    if (s != KITH_OK) {
        ki_sock_listener_close(&listener);
        return s;
    }
    ki_tcp_server_options server_options = { options->size, url->token, options->secret ? options->secret : "",
                                             url->file };
    snprintf(url->host, sizeof url->host, "%s", listener.address);
    s = ki_tcp_server_start(&server_options, &listener, &store->server);
    if (s != KITH_OK && url->file[0])
        unlink(url->file);
    return s;
}

static kith_status check_options(const ki_store_options *options, const ki_tcp_url *url)
{
    if (options->secret && strlen(options->secret) >= KI_WIRE_SECRET_NBYTES)
        return ki_fail(KITH_ERR_INVALID_ARG, "the shared secret (KITH_SECRET) is longer than %d bytes",
                       KI_WIRE_SECRET_NBYTES - 1);
    if (url->port == 0 && options->rank != 0 && !url->file[0])
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "store %s: port 0 is for rank 0; rank %d needs the port, or ?file=/path on all ranks",
                       options->url, options->rank);
    return ki_sock_ifname_check(options->ifname);
}

/* No URL: rank 0 listens where other hosts can reach it, at a free port. */
static kith_status parse_url(const ki_store_options *options, const char *rest, ki_tcp_url *url)
{
    if (*options->url)
        return ki_tcp_url_parse(rest, url);
    if (options->rank != 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: rank %d was not told where it is", options->rank);
    memset(url, 0, sizeof *url);
    return ki_sock_own_address(options->ifname, url->host, sizeof url->host);
}

kith_status ki_store_tcp_open(const ki_store_options *options, const char *rest, ki_store **store)
{
    ki_tcp_url url;
    ki_store_options own = *options;
    kith_status status = parse_url(options, rest, &url);
    if (status == KITH_OK)
        status = check_options(options, &url);
    if (status != KITH_OK)
        return status;
    tcp_store *s = ki_calloc(NULL, 1, sizeof *s);
    if (!s)
        return KITH_ERR_NO_MEMORY;
    ki_store_init(&s->base, &tcp_ops, options, options->url);
    s->fd = -1;
    status = reserve_input(s, FIRST_INPUT) ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK && options->rank == 0) {
        status = start_serving(options, &url, s);
        own.ifname = NULL; /* to itself */
        url.file[0] = '\0';
    }
    if (status == KITH_OK)
        status = ki_tcp_join(&own, &url, &s->fd);
    if (status != KITH_OK) {
        ki_tcp_server_stop(s->server, false, 0);
        free_store(s);
        return status;
    }
    ki_tcp_url_text(&url, s->base.url, sizeof s->base.url);
    *store = &s->base;
    return KITH_OK;
}
