/* core/boot/tcp_join.c - a client's way to the TCP store: find, connect, greet, join (the protocol is in wire.h).
 *
 * Connecting retries with backoff until the deadline as long as trying again can help: refused, unreachable, name not
 * yet known, file not yet written, a server of another job. A refusal by the server is final.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp_join.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/sock.h"
#include "wire.h"
#include <stdio.h>
#include <unistd.h>

static void fill_hello(const ki_store_options *options, const ki_tcp_url *url, ki_wire_hello *hello)
{
    const char *secret = options->secret ? options->secret : "";
    memset(hello, 0, sizeof *hello);
    hello->magic = KI_WIRE_MAGIC;
    hello->version = KI_WIRE_VERSION;
    hello->nbytes = sizeof *hello;
    hello->rank = options->rank;
    hello->size = options->size;
    hello->token = url->token;
    hello->secret_nbytes = (uint32_t)strlen(secret);
    memcpy(hello->secret, secret, hello->secret_nbytes);
}

/* Greets and joins. *is_final: trying again cannot help. */
static kith_status greet(const ki_store_options *options, const ki_tcp_url *url, int fd, int64_t deadline_ns,
                         bool *is_final)
{
    ki_wire_hello hello;
    ki_wire_welcome w;
    ki_wire_frame join = { .op = KI_WIRE_JOIN };
    fill_hello(options, url, &hello);
    kith_status s = ki_sock_send_all(fd, &hello, sizeof hello, deadline_ns);
    if (s == KITH_OK)
        s = ki_sock_recv_all(fd, &w.magic, sizeof w.magic + sizeof w.version, deadline_ns);
    if (s != KITH_OK)
        return ki_fail_context(s, "greeting (is it a Kith store that listens there?)");
    *is_final = w.magic != KI_WIRE_MAGIC || w.version != KI_WIRE_VERSION;
    if (w.magic != KI_WIRE_MAGIC)
        return ki_fail_quiet(KITH_ERR_UNREACHABLE,
                             "what listens there is not a Kith store; is the port another program's?");
    if (w.version != KI_WIRE_VERSION)
        return ki_fail_quiet(KITH_ERR_MISMATCH,
                             "rank 0 has protocol version %u, this rank has %d; all ranks need one release",
                             (unsigned)w.version, (int)KI_WIRE_VERSION);
    s = ki_sock_recv_all(fd, &w.nbytes, sizeof w - offsetof(ki_wire_welcome, nbytes), deadline_ns);
    if (s != KITH_OK)
        return ki_fail_context(s, "greeting (is it a Kith store that listens there?)");
    w.text[sizeof w.text - 1] = '\0';
    if (w.verdict == KI_WIRE_ACCEPTED)
        return ki_sock_send_all(fd, &join, sizeof join, deadline_ns);
    *is_final = w.verdict == KI_WIRE_REFUSED;
    return ki_fail_quiet(*is_final ? KITH_ERR_MISMATCH : KITH_ERR_UNREACHABLE, "%s", w.text);
}

static kith_status try_once(const ki_store_options *options, ki_tcp_url *url, int64_t deadline_ns, int *fd,
                            bool *is_final)
{
    kith_status s = KITH_OK;
    *is_final = false;
    if (url->file[0])
        s = ki_port_file_read(url->file, url);
    if (s == KITH_OK)
        s = ki_sock_connect(url->host, url->port, options->ifname, deadline_ns, fd, is_final);
    if (s != KITH_OK)
        return s;
    s = greet(options, url, *fd, deadline_ns, is_final);
    if (s != KITH_OK)
        close(*fd);
    return s;
}

static kith_status connect_failed(const ki_store_options *options, kith_status status, bool is_final, int64_t began_ns,
                                  unsigned tries)
{
    char interfaces[384], reason[KI_DETAIL_NBYTES];
    snprintf(reason, sizeof reason, "%s", kith_error_detail());
    if (is_final)
        return ki_fail(status, "store %s: %s", options->url, reason);
    ki_sock_interfaces(options->ifname, interfaces, sizeof interfaces);
    return ki_fail(
        KITH_ERR_UNREACHABLE,
        "store %s: rank %d could not connect to rank 0 in %lld ms and %u tries, the last one: %s; interfaces tried: %s "
        "(chosen with KITH_IFNAME; time with KITH_CONNECT_TIMEOUT_MS)",
        options->url, options->rank, (long long)((ki_now_ns() - began_ns) / 1000000), tries, reason, interfaces);
}

kith_status ki_tcp_join(const ki_store_options *options, ki_tcp_url *url, int *fd)
{
    int64_t began_ns = ki_now_ns(), deadline_ns = ki_deadline_after_ms(options->timeout_ms);
    unsigned tries = 0;
    bool is_final;
    int candidate;
    for (;;) {
        kith_status s = try_once(options, url, deadline_ns, &candidate, &is_final);
        tries++;
        if (s == KITH_OK) {
            *fd = candidate;
            return KITH_OK;
        }
        if (is_final || ki_deadline_passed(deadline_ns))
            return connect_failed(options, s, is_final, began_ns, tries);
        ki_sock_backoff(tries - 1, deadline_ns);
    }
}
