/* tests/core/boot/test_sock.c - sockets with deadlines, and which interfaces KITH_IFNAME allows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/base/ifname.h"
#include "core/base/sock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage s;
    memset(&s, 0, sizeof s);
    if (strchr(text, ':')) {
        s.ss_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr), 1);
    } else {
        s.ss_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr), 1);
    }
    return s;
}

static void test_interface_rules(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *interface, *address;
        bool is_allowed;
    } cases[] = {
        { "", "eth0", "10.0.0.1", true },
        { "eth0", "eth0", "10.0.0.1", true },
        { "eth0", "eth01", "10.0.0.1", false },
        { "eth", "eth0", "10.0.0.1", false },
        { "lo,eth0", "eth0", "10.0.0.1", true },
        { "lo,eth0", "lo", "::1", true },
        { "lo,eth0", "eth1", "10.0.0.1", false },
        { "10.0.0.0/8", "eth0", "10.200.3.4", true },
        { "10.0.0.0/8", "lo", "127.0.0.1", false },
        { "10.0.0.0/8", "eth0", "11.0.0.1", false },
        { "192.168.7.64/26", "a", "192.168.7.127", true },
        { "192.168.7.64/26", "a", "192.168.7.128", false },
        { "192.168.7.64/26", "a", "192.168.7.63", false },
        { "10.1.2.3", "a", "10.1.2.3", true },
        { "10.1.2.3", "a", "10.1.2.4", false },
        { "0.0.0.0/0", "a", "1.2.3.4", true },
        { "0.0.0.0/0", "a", "::1", false },
        { "fd00::/8", "a", "fd12::1", true },
        { "fd00::/8", "a", "fe80::1", false },
        { "fd00::/63", "a", "fd00:0:0:1::5", true },
        { "fd00::/63", "a", "fd00:0:0:2::5", false },
        { "10.0.0.1/33", "10.0.0.1/33", "10.0.0.1", true }, /* no network: read as a name */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage s = address_of(cases[i].address);
        if (ki_ifname_allows(cases[i].rule, cases[i].interface, (struct sockaddr *)&s) != cases[i].is_allowed)
            fail_msg("%s, %s %s: wanted %d", cases[i].rule, cases[i].interface, cases[i].address, cases[i].is_allowed);
    }
}

static void test_interfaces_that_exist(void **state)
{
    (void)state;
    char text[512];
    static const char *const good[] = { "", "lo", "127.0.0.0/8", "127.0.0.1" };
    static const char *const bad[] = { "nope",           "lo,nope",      "lo,", ",",
                                       "203.0.113.0/24", "127.0.0.1/33", "x y", "averyveryverylongname" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_status(ki_sock_ifname_check(good[i]), KITH_OK);
    assert_status(ki_sock_ifname_check(NULL), KITH_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(ki_sock_ifname_check(bad[i]), KITH_ERR_INVALID_ARG);
        assert_has(kith_error_detail(), "KITH_IFNAME=");
        assert_has(kith_error_detail(), bad[i]);
        assert_has(kith_error_detail(), "lo 127.0.0.1");
    }
    ki_sock_interfaces(NULL, text, sizeof text);
    assert_has(text, "lo 127.0.0.1");
    ki_sock_interfaces("127.0.0.0/8", text, sizeof text);
    assert_string_equal(text, "lo 127.0.0.1");
    ki_sock_interfaces("nope", text, sizeof text);
    assert_string_equal(text, "none");
    ki_sock_interfaces(NULL, text, 10); /* cut, not overrun */
    assert_true(strlen(text) < 10);
}

static void test_own_address(void **state)
{
    (void)state;
    char text[KI_SOCK_TEXT_NBYTES];
    assert_status(ki_sock_own_address("lo", text, sizeof text), KITH_OK);
    assert_string_equal(text, "127.0.0.1");
    assert_status(ki_sock_own_address(NULL, text, sizeof text), KITH_OK);
    assert_status(ki_sock_own_address("nope", text, sizeof text), KITH_ERR_INVALID_ARG);
}

static void make_pair(ki_listener *listener, int *client, int *server)
{
    char peer[KI_SOCK_TEXT_NBYTES];
    bool is_final;
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, listener), KITH_OK);
    assert_int_equal(listener->fd_count, 1);
    assert_string_equal(listener->address, "127.0.0.1");
    assert_status(ki_sock_connect("127.0.0.1", listener->port, "lo", ki_deadline_after_ms(20000), client, &is_final),
                  KITH_OK);
    assert_true(ki_sock_wait(listener->fds[0], POLLIN, ki_deadline_after_ms(20000)));
    *server = ki_sock_accept(listener->fds[0], peer, sizeof peer);
    assert_true(*server >= 0);
    assert_string_equal(peer, "127.0.0.1");
}

static void test_sockets_are_private(void **state)
{
    (void)state;
    ki_listener listener;
    int client, server;
    make_pair(&listener, &client, &server);
    const int fds[] = { listener.fds[0], client, server };
    for (int i = 0; i < 3; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    }
    close(client);
    close(server);
    ki_sock_listener_close(&listener);
}

static void test_moving_bytes(void **state)
{
    (void)state;
    enum { NBYTES = 1 << 20 };
    ki_listener listener;
    int client, server;
    static unsigned char out[NBYTES], in[NBYTES];
    make_pair(&listener, &client, &server);
    for (int i = 0; i < NBYTES; i++)
        out[i] = (unsigned char)(i * 7);
    size_t sent = 0, got = 0; /* one thread: small pieces */
    while (got < NBYTES) {
        size_t piece = NBYTES - sent < 10000 ? NBYTES - sent : 10000;
        assert_status(ki_sock_send_all(client, out + sent, piece, ki_deadline_after_ms(20000)), KITH_OK);
        sent += piece;
        assert_status(ki_sock_recv_all(server, in + got, piece, ki_deadline_after_ms(20000)), KITH_OK);
        got += piece;
    }
    assert_memory_equal(in, out, NBYTES);

    int64_t began = ki_now_ns();
    assert_status(ki_sock_recv_all(server, in, 1, ki_deadline_after_ms(100)), KITH_ERR_TIMEOUT);
    assert_true(ki_now_ns() - began >= 100000000);
    kith_status s = KITH_OK; /* nobody reads: it ends in time */
    for (int i = 0; i < 100 && s == KITH_OK; i++)
        s = ki_sock_send_all(client, out, NBYTES, ki_deadline_after_ms(100));
    assert_int_equal(s, KITH_ERR_TIMEOUT);
    close(client);
    while ((s = ki_sock_recv_all(server, in, 4096, ki_deadline_after_ms(20000))) == KITH_OK) {
    }
    assert_int_equal(s, KITH_ERR_UNREACHABLE);
    s = KITH_OK; /* no signal, whoever closed */
    for (int i = 0; i < 10 && s == KITH_OK; i++) {
        s = ki_sock_send_all(server, out, 1000, ki_deadline_after_ms(1000));
        ki_sleep_ns(1000000);
    }
    assert_int_equal(s, KITH_ERR_UNREACHABLE);
    close(server);
    ki_sock_listener_close(&listener);
}

static void test_connect_failures(void **state)
{
    (void)state;
    ki_listener listener;
    int fd;
    bool is_final;
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &listener), KITH_OK);
    uint16_t port = listener.port;
    ki_sock_listener_close(&listener);
    assert_status(ki_sock_connect("127.0.0.1", port, NULL, ki_deadline_after_ms(2000), &fd, &is_final),
                  KITH_ERR_UNREACHABLE);
    assert_false(is_final);
    assert_has(kith_error_detail(), "127.0.0.1");
    assert_has(kith_error_detail(), "refused");
    assert_status(ki_sock_connect("10.0.0.300", port, NULL, ki_deadline_after_ms(2000), &fd, &is_final),
                  KITH_ERR_INVALID_ARG);
    assert_true(is_final);
    assert_status(ki_sock_connect("", port, NULL, ki_deadline_after_ms(2000), &fd, &is_final), KITH_ERR_INVALID_ARG);
    assert_true(is_final);
    assert_status(ki_sock_listen("no.such.host.invalid", 0, NULL, 4, &listener), KITH_ERR_INVALID_ARG);
}

/* An address that never answers takes no longer than the deadline. */
static void test_connect_deadline(void **state)
{
    (void)state;
    ki_listener listener;
    int fds[16], count = 0;
    bool is_final = false;
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 0, &listener), KITH_OK);
    int64_t began = ki_now_ns(), took = 0;
    kith_status s = KITH_OK; /* nobody accepts: the backlog fills, then connecting hangs */
    for (; count < 16 && s == KITH_OK; count++) {
        began = ki_now_ns();
        s = ki_sock_connect("127.0.0.1", listener.port, NULL, ki_deadline_after_ms(200), &fds[count], &is_final);
        took = ki_now_ns() - began;
    }
    assert_int_equal(s, KITH_ERR_UNREACHABLE);
    assert_has(kith_error_detail(), "timed out");
    assert_false(is_final);
    assert_true(took >= 190000000 && took < INT64_C(10000000000));
    for (int i = 0; i < count - 1; i++)
        close(fds[i]);
    ki_sock_listener_close(&listener);
}

static void test_localhost_has_two_addresses(void **state)
{
    (void)state;
    ki_listener listener;
    int fd;
    bool is_final;
    assert_status(ki_sock_listen("localhost", 0, NULL, 4, &listener), KITH_OK);
    assert_in_range(listener.fd_count, 1, 2);
    assert_status(ki_sock_connect("localhost", listener.port, NULL, ki_deadline_after_ms(20000), &fd, &is_final),
                  KITH_OK);
    close(fd);
    assert_status(ki_sock_connect(listener.address, listener.port, NULL, ki_deadline_after_ms(20000), &fd, &is_final),
                  KITH_OK);
    close(fd);
    ki_sock_listener_close(&listener);
}

static void test_backoff(void **state)
{
    (void)state;
    int64_t began = ki_now_ns();
    ki_sock_backoff(0, 0);
    assert_true(ki_now_ns() - began >= 2000000);
    began = ki_now_ns();
    for (int i = 0; i < 20; i++)
        ki_sock_backoff(30, 1); /* a passed deadline: no sleep, else five seconds at least */
    assert_true(ki_now_ns() - began < INT64_C(4000000000));
    began = ki_now_ns();
    ki_sock_backoff(30, ki_deadline_after_ms(20));
    assert_true(ki_now_ns() - began >= 15000000);
}

static void test_faults(void **state)
{
    (void)state;
    ki_listener listener;
    int fd;
    bool is_final;
    setenv("KITH_FAULT", "socket:1", 1);
    ki_fault_configure(0);
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &listener), KITH_ERR_NO_RESOURCE);
    setenv("KITH_FAULT", "socket:2", 1);
    ki_fault_configure(0);
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &listener), KITH_OK);
    assert_status(ki_sock_connect("127.0.0.1", listener.port, NULL, ki_deadline_after_ms(2000), &fd, &is_final),
                  KITH_ERR_NO_RESOURCE);
    assert_true(is_final);
    ki_sock_listener_close(&listener);
    setenv("KITH_FAULT", "", 1);
    ki_fault_configure(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interface_rules),  cmocka_unit_test(test_interfaces_that_exist),
        cmocka_unit_test(test_own_address),      cmocka_unit_test(test_sockets_are_private),
        cmocka_unit_test(test_moving_bytes),     cmocka_unit_test(test_connect_failures),
        cmocka_unit_test(test_connect_deadline), cmocka_unit_test(test_localhost_has_two_addresses),
        cmocka_unit_test(test_backoff),          cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
