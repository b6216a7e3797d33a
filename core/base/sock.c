/* core/base/sock.c - TCP sockets with deadlines (see sock.h).
 *
 * Connecting tries each address of a name in turn, each at most for its share of the time that is left, so that one
 * dead address does not eat the deadline. Listening binds each address of the name that is this machine's: "node7" then
 * listens where "node7" is reached and nowhere else. A name that this machine resolves to its own loopback although
 * others do not (an entry 127.0.1.1 in /etc/hosts) is warned about; with KITH_IFNAME set the interface's address is
 * taken instead.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sock.h"
#include "clock.h"
#include "error.h"
#include "fault.h"
#include "ifname.h"
#include "log.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SHORTEST_TRY_MS = 1000, BACKOFF_FIRST_MS = 5, BACKOFF_LAST_MS = 500 };

/* ---- small parts ---- */

static int open_socket(int family)
{
    if (ki_fault(KI_FAULT_SOCKET)) {
        errno = EMFILE;
        return -1;
    }
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void set_options(int fd)
{
    int on = 1, idle_s = 15, interval_s = 5, count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static void close_keeping_errno(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
}

bool ki_sock_wait(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = { fd, events, 0 };
        int timeout_ms = -1;
        if (deadline_ns != 0) {
            int64_t left = deadline_ns - ki_now_ns();
            timeout_ms = left <= 0 ? 0 : left > INT64_C(60000000000) ? 60000 : (int)(left / 1000000) + 1;
        }
        int n = poll(&p, 1, timeout_ms);
        if (n > 0)
            return true;
        if (ki_deadline_passed(deadline_ns) && (n == 0 || errno == EINTR))
            return false;
    }
}

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    if (address->sa_family == AF_INET)
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static bool looks_numeric(const char *host)
{
    return strchr(host, ':') || host[strspn(host, "0123456789.")] == '\0';
}

/* The addresses of host. *is_final: asking again will not help. */
static kith_status resolve(const char *host, uint16_t port, struct addrinfo **list, bool *is_final)
{
    char service[8];
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    bool is_numeric = looks_numeric(host);
    if (is_numeric)
        hints.ai_flags |= AI_NUMERICHOST;
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int error = *host ? getaddrinfo(host, service, &hints, list) : EAI_NONAME;
    if (error == 0)
        return KITH_OK;
    *is_final = is_numeric || !*host;
    return ki_fail_quiet(*is_final ? KITH_ERR_INVALID_ARG : KITH_ERR_UNREACHABLE,
                         "the %s \"%s\" cannot be resolved (%s)", is_numeric ? "address" : "host name", host,
                         gai_strerror(error));
}

void ki_sock_backoff(unsigned attempt, int64_t deadline_ns)
{
    static atomic_uint_fast64_t salt;
    uint64_t x =
        (uint64_t)ki_now_ns() + atomic_fetch_add_explicit(&salt, 1, memory_order_relaxed) * 0x9e3779b97f4a7c15u;
    x ^= (uint64_t)getpid() << 32;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    int64_t ms = BACKOFF_FIRST_MS << (attempt < 7 ? attempt : 7);
    if (ms > BACKOFF_LAST_MS)
        ms = BACKOFF_LAST_MS;
    int64_t ns = ms * 500000 + (int64_t)((x >> 11) % (uint64_t)(ms * 1000000));
    if (deadline_ns != 0 && ns > deadline_ns - ki_now_ns())
        ns = deadline_ns - ki_now_ns();
    if (ns > 0)
        ki_sleep_ns(ns);
}

/* ---- listening ---- */

static int listen_at(const struct sockaddr *address, socklen_t nbytes, int backlog)
{
    int fd = open_socket(address->sa_family), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, address, nbytes) == 0 && listen(fd, backlog) == 0)
        return fd;
    close_keeping_errno(fd);
    return -1;
}

static void set_port(struct sockaddr *address, uint16_t port)
{
    if (address->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t nbytes = sizeof address;
    memset(&address, 0, sizeof address);
    getsockname(fd, (struct sockaddr *)&address, &nbytes);
    return ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                              : ((struct sockaddr_in6 *)&address)->sin6_port);
}

static kith_status listen_failed(const char *host, const struct sockaddr *address, uint16_t port, int error)
{
    char text[KI_SOCK_TEXT_NBYTES], interfaces[512];
    ki_address_text(address, text, sizeof text);
    ki_sock_interfaces(NULL, interfaces, sizeof interfaces);
    if (error == EADDRINUSE)
        return ki_fail(
            KITH_ERR_NO_RESOURCE,
            "listening at %s port %u: the port is in use by another program on this host; choose another one in "
            "KITH_STORE or MASTER_PORT",
            text, (unsigned)port);
    if (error == EADDRNOTAVAIL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "listening at %s port %u: %s is not an address of this host, where rank 0 runs; "
                       "interfaces here: %s",
                       host, (unsigned)port, text, interfaces);
    return ki_fail(KITH_ERR_NO_RESOURCE, "listening at %s port %u failed: %s", text, (unsigned)port, strerror(error));
}

/* Adds a listening socket for one address. KITH_OK also when the address is not of this machine: others of the name may
 * be. */
static kith_status listen_more(const char *host, struct sockaddr *address, socklen_t nbytes, int backlog,
                               ki_listener *l)
{
    if (l->fd_count == KI_SOCK_ADDRESSES)
        return KITH_OK;
    set_port(address, l->port);
    int fd = listen_at(address, nbytes, backlog);
    if (fd < 0) {
        bool is_elsewhere = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
        return is_elsewhere ? KITH_OK : listen_failed(host, address, l->port, errno);
    }
    if (l->fd_count == 0) {
        l->port = bound_port(fd);
        ki_address_text(address, l->address, sizeof l->address);
    }
    l->fds[l->fd_count++] = fd;
    return KITH_OK;
}

/* The host's own name that leads to a loopback: others will look elsewhere. */
static bool is_misleading(const char *host, const struct sockaddr *address)
{
    return is_loopback(address) && !looks_numeric(host) && strncasecmp(host, "localhost", 9) != 0;
}

static kith_status listen_at_interface(const char *host, const char *ifname, int backlog, ki_listener *l)
{
    struct sockaddr_storage address;
    socklen_t nbytes;
    if (!ki_ifname_address(ifname, AF_UNSPEC, &address, &nbytes))
        return ki_fail(KITH_ERR_NO_RESOURCE, "KITH_IFNAME=%s: no address is left", ifname);
    return listen_more(host, (struct sockaddr *)&address, nbytes, backlog, l);
}

kith_status ki_sock_listen(const char *host, uint16_t port, const char *ifname, int backlog, ki_listener *listener)
{
    struct addrinfo *list = NULL;
    bool is_final;
    ki_listener l = { .fd_count = 0, .port = port };
    kith_status s = ki_sock_ifname_check(ifname);
    if (s != KITH_OK)
        return s;
    s = resolve(host, port, &list, &is_final);
    if (s != KITH_OK)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "listening at %s port %u: the name or address cannot be resolved on this host", host,
                       (unsigned)port);
    bool has_warned = false;
    for (struct addrinfo *a = list; a && s == KITH_OK; a = a->ai_next) {
        bool is_odd = is_misleading(host, a->ai_addr);
        if (is_odd && ifname && *ifname) {
            s = l.fd_count == 0 ? listen_at_interface(host, ifname, backlog, &l) : KITH_OK;
            continue;
        }
        if (is_odd && !has_warned)
            ki_log(KITH_LOG_WARN,
                   "\"%s\" is a loopback address on this host, other hosts cannot connect to it; set KITH_IFNAME on "
                   "rank 0 or give a numeric address",
                   host);
        has_warned |= is_odd;
        s = listen_more(host, a->ai_addr, a->ai_addrlen, backlog, &l);
    }
    if (s == KITH_OK && l.fd_count == 0)
        s = listen_failed(host, list->ai_addr, port, EADDRNOTAVAIL);
    freeaddrinfo(list);
    if (s != KITH_OK) {
        ki_sock_listener_close(&l);
        return s;
    }
    *listener = l;
    return KITH_OK;
}

void ki_sock_listener_close(ki_listener *listener)
{
    for (int i = 0; i < listener->fd_count; i++)
        close(listener->fds[i]);
    listener->fd_count = 0;
}

int ki_sock_accept(int listen_fd, char *peer, size_t peer_nbytes)
{
    struct sockaddr_storage address;
    socklen_t nbytes = sizeof address;
    if (ki_fault(KI_FAULT_SOCKET)) {
        errno = ECONNABORTED;
        return -1;
    }
    int fd = accept4(listen_fd, (struct sockaddr *)&address, &nbytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return -1;
    set_options(fd);
    ki_address_text((const struct sockaddr *)&address, peer, peer_nbytes);
    return fd;
}

/* ---- connecting ---- */

/* Binds the socket to an allowed local address. Targets on this machine's loopback need none. */
static bool bind_source(int fd, const char *ifname, const struct sockaddr *target)
{
    struct sockaddr_storage source;
    socklen_t nbytes;
    if (!ifname || !*ifname || is_loopback(target))
        return true;
    if (!ki_ifname_address(ifname, target->sa_family, &source, &nbytes)) {
        errno = EADDRNOTAVAIL;
        return false;
    }
    return bind(fd, (const struct sockaddr *)&source, nbytes) == 0;
}

static int connect_one(const struct addrinfo *a, const char *ifname, int64_t deadline_ns, bool *is_final)
{
    int fd = open_socket(a->ai_family), error = 0;
    socklen_t error_nbytes = sizeof error;
    if (fd < 0) {
        *is_final |= errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM || errno == EACCES;
        return -1;
    }
    if (!bind_source(fd, ifname, a->ai_addr))
        goto err_close;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            goto err_close;
        if (!ki_sock_wait(fd, POLLOUT, deadline_ns)) {
            errno = ETIMEDOUT;
            goto err_close;
        }
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_nbytes);
        if (error != 0) {
            errno = error;
            goto err_close;
        }
    }
    set_options(fd);
    return fd;

err_close:
    close_keeping_errno(fd);
    return -1;
}

/* A port of this machine's own range may be given to our own outgoing end, which then is connected to itself. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_nbytes = sizeof own, peer_nbytes = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_nbytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_nbytes) == 0 && own_nbytes == peer_nbytes &&
           memcmp(&own, &peer, own_nbytes) == 0;
}

static int64_t share_of_deadline(int64_t deadline_ns, int addresses_left)
{
    int64_t now = ki_now_ns(), shortest = (int64_t)SHORTEST_TRY_MS * 1000000;
    int64_t left = deadline_ns != 0 ? deadline_ns - now : 10 * shortest;
    int64_t share = left / (addresses_left > 0 ? addresses_left : 1);
    if (share < shortest)
        share = shortest < left ? shortest : left;
    return share > 0 ? now + share : 1;
}

kith_status ki_sock_connect(const char *host, uint16_t port, const char *ifname, int64_t deadline_ns, int *fd,
                            bool *is_final)
{
    struct addrinfo *list = NULL;
    char text[KI_SOCK_TEXT_NBYTES] = "";
    int count = 0, error = 0;
    *is_final = false;
    kith_status s = resolve(host, port, &list, is_final);
    if (s != KITH_OK)
        return s;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        count++;
    for (const struct addrinfo *a = list; a && !*is_final; a = a->ai_next, count--) {
        int candidate = connect_one(a, ifname, share_of_deadline(deadline_ns, count), is_final);
        if (candidate >= 0 && is_self_connected(candidate)) {
            close(candidate);
            candidate = -1;
            errno = ECONNREFUSED;
        }
        if (candidate >= 0) {
            freeaddrinfo(list);
            *fd = candidate;
            return KITH_OK;
        }
        error = errno;
        ki_address_text(a->ai_addr, text, sizeof text);
    }
    freeaddrinfo(list);
    if (*is_final)
        return ki_fail_quiet(KITH_ERR_NO_RESOURCE, "connecting to %s port %u: no socket (%s)", text, (unsigned)port,
                             strerror(error));
    return ki_fail_quiet(KITH_ERR_UNREACHABLE, "connecting to %s port %u: %s", text, (unsigned)port, strerror(error));
}

/* ---- moving bytes ---- */

ssize_t ki_sock_recv(int fd, void *data, size_t nbytes)
{
    ssize_t n;
    do
        n = recv(fd, data, nbytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    bool is_idle = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!is_idle && ki_fault(KI_FAULT_SOCKET)) {
        errno = ECONNRESET;
        return -1;
    }
    return n;
}

ssize_t ki_sock_sendmsg(int fd, const struct msghdr *message)
{
    ssize_t n;
    if (ki_fault(KI_FAULT_SOCKET)) {
        errno = ECONNRESET;
        return -1;
    }
    do
        n = sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

kith_status ki_sock_send_all(int fd, const void *data, size_t nbytes, int64_t deadline_ns)
{
    const unsigned char *p = data;
    while (nbytes > 0) {
        struct iovec piece = { (void *)(uintptr_t)p, nbytes };
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
        ssize_t n = ki_sock_sendmsg(fd, &message);
        if (n >= 0) {
            p += n;
            nbytes -= (size_t)n;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return ki_fail_quiet(KITH_ERR_UNREACHABLE, "sending failed: %s", strerror(errno));
        } else if (!ki_sock_wait(fd, POLLOUT, deadline_ns)) {
            return ki_fail_quiet(KITH_ERR_TIMEOUT, "the peer takes no data");
        }
    }
    return KITH_OK;
}

kith_status ki_sock_recv_all(int fd, void *data, size_t nbytes, int64_t deadline_ns)
{
    unsigned char *p = data;
    while (nbytes > 0) {
        ssize_t n = ki_sock_recv(fd, p, nbytes);
        if (n > 0) {
            p += n;
            nbytes -= (size_t)n;
        } else if (n == 0) {
            return ki_fail_quiet(KITH_ERR_UNREACHABLE, "the peer closed the connection");
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return ki_fail_quiet(KITH_ERR_UNREACHABLE, "receiving failed: %s", strerror(errno));
        } else if (!ki_sock_wait(fd, POLLIN, deadline_ns)) {
            return ki_fail_quiet(KITH_ERR_TIMEOUT, "the peer sends no data");
        }
    }
    return KITH_OK;
}
