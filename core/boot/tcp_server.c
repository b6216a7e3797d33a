/* core/boot/tcp_server.c - the thread of rank 0 that serves the TCP store.
 *
 * One epoll loop owns the table and all connections; the only things that other threads touch are `stop` (atomic) and
 * the eventfd that wakes the loop. A connection is never destroyed while events are handled: it is marked is_broken,
 * and sweep() at the end of a round closes it, tells the others about the death, and goes on until nothing new broke.
 *
 * Whoever can reach the port can send anything. Before the hello is right, a connection may hold one small buffer for
 * ten seconds, and there may be only so many of them. The protocol itself is in wire.h; what a frame does is in
 * tcp_requests.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp_server.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/fault.h"
#include "../base/log.h"
#include "../base/mem.h"
#include "tcp_serving.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    EVENTS_AT_ONCE = 64,
    ROUND_MS = 1000,
    ACCEPT_PAUSE_MS = 50,
    LEAVE_TIMEOUT_MS = 2000,
    SPARE_CONNECTIONS = 64,
    WAKE_TAG = 0, /* epoll data: WAKE_TAG, 1 + index of a listening socket, or a connection's address */
    LAST_TAG = KI_SOCK_ADDRESSES
};

typedef enum stop_mode { STOP_NOT, STOP_WHEN_EMPTY, STOP_NOW } stop_mode;

struct ki_tcp_server {
    ki_serving serving;
    ki_listener listener;
    int epoll_fd, wake_fd;
    int connection_count;
    int64_t accept_again_ns; /* accepting pauses until then, when the system has no descriptors; 0: it does not */
    uint64_t token;
    char *secret, *port_file;
    pthread_t thread;
    atomic_int stop; /* stop_mode */
    atomic_llong stop_deadline_ns;
};

/* ---- greeting ---- */

static bool is_equal_secret(const char *secret, const ki_wire_hello *hello)
{
    char padded[KI_WIRE_SECRET_NBYTES] = "";
    size_t nbytes = strlen(secret); /* shorter than the field: checked when the store was opened */
    unsigned difference = (unsigned)(nbytes ^ hello->secret_nbytes);
    memcpy(padded, secret, nbytes);
    for (size_t i = 0; i < sizeof padded; i++)
        difference |= (unsigned)(unsigned char)(padded[i] ^ hello->secret[i]);
    return difference == 0;
}

static ki_wire_verdict judge(ki_tcp_server *server, const ki_wire_hello *hello, char *text, size_t nbytes)
{
    int size = server->serving.size;
    if (hello->nbytes != sizeof *hello) {
        snprintf(text, nbytes, "the hello has a wrong size");
        return KI_WIRE_REFUSED;
    }
    if (!is_equal_secret(server->secret, hello)) {
        snprintf(text, nbytes, "the shared secret is wrong; KITH_SECRET must be the same on all ranks");
        return KI_WIRE_REFUSED;
    }
    if (server->token != 0 && hello->token != server->token) {
        snprintf(text, nbytes, "this is the store of another job");
        return KI_WIRE_RETRY;
    }
    if (hello->size != size || hello->rank < 0 || hello->rank >= size) {
        snprintf(text, nbytes, "a client says it is rank %d of %d, rank 0 says the job has %d ranks", hello->rank,
                 hello->size, size);
        return KI_WIRE_REFUSED;
    }
    ki_rank_state state = ki_table_rank_state(server->serving.table, hello->rank);
    if (state == KI_RANK_JOINED) {
        snprintf(text, nbytes, "rank %d of %d is connected already; have two processes the same rank?", hello->rank,
                 size);
        return KI_WIRE_REFUSED;
    }
    if (state != KI_RANK_ABSENT || atomic_load(&server->stop) != STOP_NOT) {
        snprintf(text, nbytes, "this job is ending");
        return KI_WIRE_RETRY;
    }
    for (const ki_connection *c = server->serving.connections; c; c = c->next) {
        if (c->state == KI_CONNECTION_WELCOMED && c->rank == hello->rank) { /* an earlier try of it, or its double */
            snprintf(text, nbytes, "rank %d of %d is just connecting", hello->rank, size);
            return KI_WIRE_RETRY;
        }
    }
    return KI_WIRE_ACCEPTED;
}

static void start_leaving(ki_connection *c)
{
    c->state = KI_CONNECTION_LEAVING;
    c->in_nbytes = 0;
    c->deadline_ns = ki_deadline_after_ms(LEAVE_TIMEOUT_MS);
}

static void welcome(ki_connection *c, ki_wire_verdict verdict, const char *text)
{
    ki_wire_welcome w = {
        .magic = KI_WIRE_MAGIC, .version = KI_WIRE_VERSION, .nbytes = sizeof w, .verdict = (int32_t)verdict
    };
    snprintf(w.text, sizeof w.text, "%s", text);
    ki_connection_send(c, &w, sizeof w, NULL);
    if (verdict == KI_WIRE_ACCEPTED)
        return;
    ki_log(verdict == KI_WIRE_REFUSED ? KITH_LOG_WARN : KITH_LOG_DEBUG, "store: refused %s: %s", c->peer, text);
    start_leaving(c);
}

static void handle_hello(ki_tcp_server *server, ki_connection *c)
{
    ki_wire_hello hello;
    char text[sizeof((ki_wire_welcome *)0)->text] = "";
    memset(&hello, 0, sizeof hello);
    memcpy(&hello, c->in, c->in_nbytes < sizeof hello ? c->in_nbytes : sizeof hello);
    if (c->in_nbytes >= sizeof hello.magic && hello.magic != KI_WIRE_MAGIC) {
        welcome(c, KI_WIRE_REFUSED, "this is a Kith store, and what came is no greeting of a Kith client");
        return;
    }
    if (c->in_nbytes >= sizeof hello.magic + sizeof hello.version && hello.version != KI_WIRE_VERSION) {
        snprintf(text, sizeof text,
                 "rank 0 has protocol version %d, the client has %u; all ranks need one release of the library",
                 (int)KI_WIRE_VERSION, (unsigned)hello.version);
        welcome(c, KI_WIRE_REFUSED, text);
        return;
    }
    if (c->in_nbytes < sizeof hello)
        return;
    ki_connection_consume(c, sizeof hello);
    ki_wire_verdict verdict = judge(server, &hello, text, sizeof text);
    if (verdict == KI_WIRE_ACCEPTED) {
        c->rank = hello.rank;
        c->state = KI_CONNECTION_WELCOMED;
    }
    welcome(c, verdict, text);
}

/* ---- joining, leaving ---- */

static void remove_port_file(ki_tcp_server *server)
{
    if (server->port_file[0] && unlink(server->port_file) != 0 && errno != ENOENT)
        ki_log(KITH_LOG_WARN, "store: %s cannot be removed: %s", server->port_file, strerror(errno));
    server->port_file[0] = '\0';
}

static void handle_join(ki_tcp_server *server, ki_connection *c, const ki_wire_frame *frame)
{
    ki_table *table = server->serving.table;
    if (frame->op != KI_WIRE_JOIN || ki_table_rank_state(table, c->rank) != KI_RANK_ABSENT) {
        c->is_broken = true; /* not what comes next, or another connection of that rank was faster */
        return;
    }
    c->state = KI_CONNECTION_MEMBER;
    c->deadline_ns = 0;
    ki_table_set_rank_state(table, c->rank, KI_RANK_JOINED);
    ki_serving_tell_past_deaths(&server->serving, c);
    if (ki_table_ever_joined_count(table) == server->serving.size)
        remove_port_file(server);
}

static void handle_input(ki_tcp_server *server, ki_connection *c)
{
    ki_wire_frame frame;
    const unsigned char *key, *value;
    if (c->state == KI_CONNECTION_HELLO)
        handle_hello(server, c);
    while (!c->is_broken && (c->state == KI_CONNECTION_WELCOMED || c->state == KI_CONNECTION_MEMBER) &&
           ki_connection_peek(c, &frame, &key, &value)) {
        if (c->state == KI_CONNECTION_WELCOMED)
            handle_join(server, c, &frame);
        else if (frame.op == KI_WIRE_GOODBYE)
            start_leaving(c);
        else
            ki_serving_handle(&server->serving, c, &frame, key, value);
        if (c->state == KI_CONNECTION_LEAVING)
            ki_serving_rank_gone(&server->serving, c->rank, KI_RANK_LEFT);
        else if (!c->is_broken)
            ki_connection_consume(c, (size_t)ki_wire_frame_nbytes(&frame));
    }
    if (c->state == KI_CONNECTION_LEAVING)
        c->in_nbytes = 0;
}

/* ---- connections ---- */

static bool set_listening(ki_tcp_server *server, bool is_on)
{
    for (int i = 0; i < server->listener.fd_count; i++) {
        struct epoll_event event = { .events = is_on ? EPOLLIN : 0, .data.u64 = (uint64_t)(1 + i) };
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listener.fds[i], &event) != 0)
            return false;
    }
    return true;
}

static void pause_accepting(ki_tcp_server *server, int error)
{
    ki_log(KITH_LOG_WARN, "store: connections have to wait, accept failed: %s", strerror(error));
    server->accept_again_ns = ki_deadline_after_ms(ACCEPT_PAUSE_MS);
    set_listening(server, false);
}

static void accept_more(ki_tcp_server *server, int listen_fd)
{
    char peer[KI_SOCK_TEXT_NBYTES];
    for (int i = 0; i < EVENTS_AT_ONCE; i++) {
        int fd = ki_sock_accept(listen_fd, peer, sizeof peer);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_accepting(server, errno);
            return;
        }
        bool is_full = server->connection_count >= 2 * server->serving.size + SPARE_CONNECTIONS;
        ki_connection *c = is_full ? NULL : ki_connection_create(fd, peer);
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
        if (!c || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
            if (c)
                ki_connection_destroy(c);
            else
                close(fd);
            return;
        }
        c->deadline_ns = ki_deadline_after_ms(KI_WIRE_HELLO_TIMEOUT_MS);
        ki_serving_add(&server->serving, c);
        server->connection_count++;
    }
}

static void close_broken(ki_tcp_server *server, ki_connection *c)
{
    bool was_member = c->state == KI_CONNECTION_MEMBER;
    int rank = c->rank;
    ki_serving_remove(&server->serving, c);
    ki_connection_destroy(c);
    server->connection_count--;
    if (!was_member)
        return;
    ki_log(KITH_LOG_INFO, "store: rank %d died: its connection ended without a goodbye", rank);
    ki_serving_rank_gone(&server->serving, rank, KI_RANK_DIED);
}

/* LEAVING connections close their side when all is sent; deadlines end the slow ones; interest in writing follows the
 * queue. */
static void look_after(ki_tcp_server *server, ki_connection *c, int64_t now)
{
    if (c->state == KI_CONNECTION_LEAVING && !c->first && !c->is_shut) {
        shutdown(c->fd, SHUT_WR);
        c->is_shut = true;
    }
    if (c->deadline_ns != 0 && now >= c->deadline_ns)
        c->is_broken = true;
    if (!c->is_broken && (c->first != NULL) != c->wants_write) {
        c->wants_write = c->first != NULL;
        struct epoll_event event = { .events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0u), .data.ptr = c };
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, c->fd, &event) != 0)
            c->is_broken = true;
    }
}

static void sweep(ki_tcp_server *server)
{
    int64_t now = ki_now_ns();
    bool has_broken;
    do {
        has_broken = false;
        for (ki_connection *c = server->serving.connections, *next; c; c = next) {
            next = c->next;
            look_after(server, c, now);
            if (!c->is_broken)
                continue;
            close_broken(server, c);
            has_broken = true;
        }
    } while (has_broken);
    if (server->accept_again_ns != 0 && now >= server->accept_again_ns) {
        server->accept_again_ns = 0;
        set_listening(server, true);
    }
}

/* ---- the loop ---- */

static void handle_event(ki_tcp_server *server, const struct epoll_event *event)
{
    if (event->data.u64 == WAKE_TAG) {
        uint64_t count;
        ssize_t n = read(server->wake_fd, &count, sizeof count);
        (void)n; /* only to reset it */
        return;
    }
    if (event->data.u64 <= LAST_TAG) {
        accept_more(server, server->listener.fds[event->data.u64 - 1]);
        return;
    }
    ki_connection *c = event->data.ptr;
    if (c->is_broken)
        return;
    if (event->events & EPOLLOUT)
        ki_connection_flush(c);
    if (event->events & ~(uint32_t)EPOLLOUT)
        ki_connection_receive(c);
    if (!c->is_broken)
        handle_input(server, c);
}

static bool shall_end(ki_tcp_server *server)
{
    int stop = atomic_load(&server->stop);
    if (stop == STOP_NOW)
        return true;
    if (stop == STOP_NOT)
        return false;
    return ki_table_joined_count(server->serving.table) == 0 ||
           ki_deadline_passed(atomic_load(&server->stop_deadline_ns));
}

static int round_ms(const ki_tcp_server *server)
{
    return server->accept_again_ns != 0 || atomic_load(&server->stop) != STOP_NOT ? ACCEPT_PAUSE_MS : ROUND_MS;
}

static void *serve(void *arg)
{
    ki_tcp_server *server = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    ki_log_set_rank(0);
    ki_fault_set_rank(0);
    while (!shall_end(server)) {
        int count = epoll_wait(server->epoll_fd, events, EVENTS_AT_ONCE, round_ms(server));
        for (int i = 0; i < count; i++)
            handle_event(server, &events[i]);
        sweep(server);
    }
    return NULL;
}

/* ---- start, stop ---- */

static void free_server(ki_tcp_server *server)
{
    for (ki_connection *c = server->serving.connections, *next; c; c = next) {
        next = c->next;
        ki_connection_destroy(c);
    }
    if (server->port_file)
        remove_port_file(server);
    ki_sock_listener_close(&server->listener);
    ki_table_destroy(server->serving.table);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    ki_free(NULL, server->secret);
    ki_free(NULL, server->port_file);
    ki_free(NULL, server);
}

static bool watch(ki_tcp_server *server)
{
    struct epoll_event wake = { .events = EPOLLIN, .data.u64 = WAKE_TAG };
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->epoll_fd < 0 || server->wake_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wake_fd, &wake) != 0)
        return false;
    for (int i = 0; i < server->listener.fd_count; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)(1 + i) };
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listener.fds[i], &event) != 0)
            return false;
    }
    return true;
}

/* The thread takes no signals: they are the application's. */
static int start_thread(ki_tcp_server *server)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&server->thread, NULL, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

kith_status ki_tcp_server_start(const ki_tcp_server_options *options, ki_listener *listener, ki_tcp_server **server)
{
    kith_status s = KITH_ERR_NO_MEMORY;
    ki_tcp_server *v = ki_calloc(NULL, 1, sizeof *v);
    if (!v) {
        ki_sock_listener_close(listener);
        return s;
    }
    v->listener = *listener;
    v->epoll_fd = v->wake_fd = -1;
    v->token = options->token;
    v->serving.size = options->size;
    v->serving.table = ki_table_create(options->size);
    v->secret = ki_strdup(NULL, options->secret);
    v->port_file = ki_strdup(NULL, options->port_file);
    if (!v->serving.table || !v->secret || !v->port_file)
        goto err_free;
    if (!watch(v)) {
        s = ki_fail(KITH_ERR_NO_RESOURCE, "store: epoll or eventfd refused: %s", strerror(errno));
        goto err_free;
    }
    int error = start_thread(v);
    if (error != 0) {
        s = ki_fail(KITH_ERR_NO_RESOURCE, "store: no thread to serve it: %s", strerror(error));
        goto err_free;
    }
    *server = v;
    return KITH_OK;

err_free:
    free_server(v);
    return s;
}

void ki_tcp_server_stop(ki_tcp_server *server, bool is_orderly, int64_t deadline_ns)
{
    uint64_t one = 1;
    if (!server)
        return;
    atomic_store(&server->stop_deadline_ns, deadline_ns);
    atomic_store(&server->stop, is_orderly ? STOP_WHEN_EMPTY : STOP_NOW);
    ssize_t n = write(server->wake_fd, &one, sizeof one);
    (void)n; /* the loop looks every ROUND_MS anyway */
    pthread_join(server->thread, NULL);
    free_server(server);
}
