/* core/base/sock.h - TCP sockets with deadlines: listen, connect, and the rule which interfaces may be used.
 *
 * Hosts are names, IPv4 or IPv6 addresses (without brackets here). All sockets are non-blocking, close-on-exec and have
 * TCP_NODELAY; they notice a dead host after about half a minute (keep-alive). Nothing here raises SIGPIPE.
 *
 * `ifname` is KITH_IFNAME: interface names separated by commas, or a network as address/bits, or a single address; NULL
 * or "" for any. It says from which local addresses connections go out, and on which one a listener sits that is free
 * to choose.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_SOCK_H
#define KI_BASE_SOCK_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { KI_SOCK_ADDRESSES = 8, KI_SOCK_TEXT_NBYTES = 64 };

/* One place where others can connect. */
typedef struct ki_listener {
    int fds[KI_SOCK_ADDRESSES]; /* a name may stand for several addresses (localhost: 127.0.0.1 and ::1), all on one
                                   port */
    int fd_count;
    uint16_t port;
    char address[KI_SOCK_TEXT_NBYTES]; /* numeric, of the first */
} ki_listener;

/* Listens on the addresses that host stands for and that belong to this machine, on no others. port 0: the system
 * chooses. KITH_ERR_NO_RESOURCE: the port is in use; KITH_ERR_INVALID_ARG: none of the addresses is this machine's, or
 * the name is unknown. */
kith_status ki_sock_listen(const char *host, uint16_t port, const char *ifname, int backlog, ki_listener *listener);
void ki_sock_listener_close(ki_listener *listener);

/* A connection that waits on a listening socket. -1 with errno when there is none (EAGAIN) or it failed. peer: numeric
 * text. */
int ki_sock_accept(int listen_fd, char *peer, size_t peer_nbytes);

/* One try to connect, at most until deadline_ns, over all addresses of host. On failure *is_final says that trying
 * again cannot help (malformed address, no sockets left, ifname that does not exist); the detail text says why. */
kith_status ki_sock_connect(const char *host, uint16_t port, const char *ifname, int64_t deadline_ns, int *fd,
                            bool *is_final);

/* Sleeps before try number `attempt` (from 0): 5 ms doubling to 500 ms, give or take a half, not beyond the deadline.
 */
void ki_sock_backoff(unsigned attempt, int64_t deadline_ns);

/* Moves exactly nbytes. KITH_ERR_TIMEOUT, or KITH_ERR_UNREACHABLE when the peer has closed or the connection broke. */
kith_status ki_sock_send_all(int fd, const void *data, size_t nbytes, int64_t deadline_ns);
kith_status ki_sock_recv_all(int fd, void *data, size_t nbytes, int64_t deadline_ns);

/* Waits for poll() events until the deadline (0: none). False when it passed. */
bool ki_sock_wait(int fd, short events, int64_t deadline_ns);

/* recv() and send() that may be made to fail by KITH_FAULT=socket. Counted when they move bytes or fail. */
ssize_t ki_sock_recv(int fd, void *data, size_t nbytes);
ssize_t ki_sock_sendmsg(int fd, const struct msghdr *message);

/* "lo 127.0.0.1, eth0 192.0.2.2": interfaces that are up and have an address, only those that ifname allows. */
void ki_sock_interfaces(const char *ifname, char *text, size_t nbytes);

/* Is ifname well-formed and does every interface it names exist? KITH_ERR_INVALID_ARG names KITH_IFNAME and what
 * exists. */
kith_status ki_sock_ifname_check(const char *ifname);

/* Numeric address by which other hosts reach this one: of ifname, else the first that is up and not a loopback, else a
 * loopback. KITH_ERR_INVALID_ARG as above. */
kith_status ki_sock_own_address(const char *ifname, char *text, size_t nbytes);

#endif
