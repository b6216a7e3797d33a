/* tests/core/boot/test_store_tcp.c - the TCP store against the world: strangers, garbage, many clients, addresses,
 * killed ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/base/sock.h"
#include "core/boot/wire.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static rank_run serve(const char *url, int size, const char *secret)
{
    rank_run run = { .size = size, .url = url, .secret = secret, .timeout_ms = 20000 };
    assert_status(open_rank(&run), KITH_OK);
    return run;
}

static void stop(rank_run *run)
{
    ki_store_close(run->store, true, ki_deadline_after_ms(20000));
}

/* Port of "tcp://host:port...". */
static uint16_t port_of(const ki_store *store)
{
    const char *colon = strrchr(ki_store_url(store), ':');
    assert_non_null(colon);
    return (uint16_t)atoi(colon + 1);
}

static int raw_connect(uint16_t port)
{
    int fd;
    bool is_final;
    assert_status(ki_sock_connect("127.0.0.1", port, NULL, ki_deadline_after_ms(20000), &fd, &is_final), KITH_OK);
    return fd;
}

static ki_wire_hello good_hello(int rank, int size, const ki_store *store)
{
    ki_wire_hello hello = {
        .magic = KI_WIRE_MAGIC, .version = KI_WIRE_VERSION, .nbytes = sizeof hello, .rank = rank, .size = size
    };
    const char *token = strstr(ki_store_url(store), "token=");
    hello.token = token ? strtoull(token + 6, NULL, 16) : 0;
    return hello;
}

/* What the server says to a hello. */
static ki_wire_welcome exchange_hello(uint16_t port, const void *hello, size_t nbytes)
{
    ki_wire_welcome w;
    char more;
    int fd = raw_connect(port);
    int64_t deadline = ki_deadline_after_ms(20000);
    assert_status(ki_sock_send_all(fd, hello, nbytes, deadline), KITH_OK);
    assert_status(ki_sock_recv_all(fd, &w, sizeof w, deadline), KITH_OK);
    if (w.verdict != KI_WIRE_ACCEPTED) /* and it ends the connection */
        assert_status(ki_sock_recv_all(fd, &more, 1, deadline), KITH_ERR_UNREACHABLE);
    close(fd);
    return w;
}

/* ---- strangers ---- */

static void test_wrong_secret(void **state)
{
    (void)state;
    static const char *const secrets[] = { "", "Xorrect", "correct", "correct horsE", "correct horse2", NULL };
    rank_run server = serve("tcp://127.0.0.1:0", 3, "correct horse");
    for (int i = 0; i < 6; i++) {
        rank_run client = {
            .rank = 1, .size = 3, .url = ki_store_url(server.store), .secret = secrets[i], .timeout_ms = 20000
        };
        int64_t began = ki_now_ns();
        assert_status(open_rank(&client), KITH_ERR_MISMATCH);
        assert_has(kith_error_detail(), "KITH_SECRET");
        assert_true(ki_now_ns() - began < INT64_C(15000000000)); /* a refusal is final */
    }
    rank_run client = {
        .rank = 1, .size = 3, .url = ki_store_url(server.store), .secret = "correct horse", .timeout_ms = 20000
    };
    assert_status(open_rank(&client), KITH_OK);
    stop(&client);
    char secret[300];
    memset(secret, 's', sizeof secret - 1);
    secret[sizeof secret - 1] = '\0';
    client =
        (rank_run){ .rank = 2, .size = 3, .url = ki_store_url(server.store), .secret = secret, .timeout_ms = 20000 };
    assert_status(open_rank(&client), KITH_ERR_INVALID_ARG);
    stop(&server);
}

static void test_wrong_version_and_magic(void **state)
{
    (void)state;
    rank_run server = serve("tcp://127.0.0.1:0", 2, NULL);
    uint16_t port = port_of(server.store);
    ki_wire_hello hello = good_hello(1, 2, server.store);
    ki_wire_welcome w = exchange_hello(port, &hello, sizeof hello);
    assert_int_equal(w.verdict, KI_WIRE_ACCEPTED);
    hello.version = 77;
    w = exchange_hello(port, &hello,
                       16); /* a shorter or longer hello of another release is told apart by its first bytes */
    assert_int_equal(w.verdict, KI_WIRE_REFUSED);
    assert_int_equal(w.version, KI_WIRE_VERSION);
    assert_has(w.text, "77");
    w = exchange_hello(port, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_int_equal(w.verdict, KI_WIRE_REFUSED);
    assert_has(w.text, "Kith store");
    hello = good_hello(7, 2, server.store);
    w = exchange_hello(port, &hello, sizeof hello);
    assert_int_equal(w.verdict, KI_WIRE_REFUSED);
    hello = good_hello(-1, 2, server.store);
    w = exchange_hello(port, &hello, sizeof hello);
    assert_int_equal(w.verdict, KI_WIRE_REFUSED);
    hello = good_hello(0, 2, server.store);
    w = exchange_hello(port, &hello, sizeof hello);
    assert_has(w.text, "rank 0 of 2 is connected already");
    hello = good_hello(1, 2, server.store);
    hello.token ^= 1;
    w = exchange_hello(port, &hello, sizeof hello);
    assert_int_equal(w.verdict, KI_WIRE_RETRY);
    stop(&server);
}

typedef struct fake_server {
    ki_listener listener;
    const void *answer;
    size_t nbytes;
    pthread_t thread;
} fake_server;

static void *fake_main(void *arg)
{
    fake_server *fake = arg;
    char peer[64], byte;
    int64_t deadline = ki_deadline_after_ms(20000);
    ki_sock_wait(fake->listener.fds[0], 1 /* POLLIN */, deadline);
    int fd = ki_sock_accept(fake->listener.fds[0], peer, sizeof peer);
    if (fd < 0)
        return NULL;
    ki_sock_send_all(fd, fake->answer, fake->nbytes, deadline);
    while (ki_sock_recv_all(fd, &byte, 1, deadline) == KITH_OK) {
    }
    close(fd);
    return NULL;
}

/* What a client says about something that is no store, or is one of another release. */
static void ask_fake(const void *answer, size_t nbytes, kith_status wanted, const char *text)
{
    fake_server fake = { .answer = answer, .nbytes = nbytes };
    char url[64];
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &fake.listener), KITH_OK);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, &fake), 0);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)fake.listener.port);
    rank_run client = { .rank = 1, .size = 2, .url = url, .timeout_ms = 20000 };
    assert_status(open_rank(&client), wanted);
    assert_has(kith_error_detail(), text);
    pthread_join(fake.thread, NULL);
    ki_sock_listener_close(&fake.listener);
}

static void test_server_is_something_else(void **state)
{
    (void)state;
    static const char ssh[64] = "SSH-2.0-OpenSSH_9.2\r\n";
    ki_wire_welcome w = { .magic = KI_WIRE_MAGIC, .version = 9, .nbytes = sizeof w };
    ask_fake(ssh, sizeof ssh, KITH_ERR_UNREACHABLE, "not a Kith store");
    ask_fake(&w, sizeof w, KITH_ERR_MISMATCH, "protocol version 9");
}

/* Half-open clients, and clients that stop in the middle of a frame, hold up nobody. */
static void test_half_open_clients(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    rank_run server = serve("tcp://127.0.0.1:0", 2, NULL);
    ki_wire_hello hello = good_hello(1, 2, server.store);
    int fds[COUNT], out, mine = 5, both[2];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = raw_connect(port_of(server.store));
        assert_status(ki_sock_send_all(fds[i], &hello, (size_t)(i * 7) % 16, ki_deadline_after_ms(1000)), KITH_OK);
    }
    rank_run client = { .rank = 1, .size = 2, .url = ki_store_url(server.store), .timeout_ms = 20000 };
    assert_status(open_rank(&client), KITH_OK);
    assert_status(ki_store_gather(client.store, "one", 0, 1, NULL, &mine, sizeof mine, &out, 0, NULL), KITH_OK);
    assert_int_equal(out, 5);
    assert_status(
        ki_store_gather(client.store, "two", 0, 2, NULL, &mine, sizeof mine, both, ki_deadline_after_ms(50), NULL),
        KITH_ERR_TIMEOUT);
    stop(&client);
    stop(&server); /* does not wait for them */
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
}

/* ---- garbage ---- */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void fill_random(unsigned char *data, size_t nbytes, uint64_t *seed)
{
    for (size_t i = 0; i < nbytes; i++)
        data[i] = (unsigned char)(next_random(seed) >> 32);
}

/* A frame that is right up to a few fields: those the checks are about. */
static size_t mutated_frame(unsigned char *data, uint64_t *seed)
{
    static const uint64_t lengths[] = { 0,
                                        1,
                                        4,
                                        8,
                                        255,
                                        256,
                                        257,
                                        65536,
                                        UINT64_C(1) << 26,
                                        (UINT64_C(1) << 26) + 1,
                                        UINT64_C(1) << 32,
                                        UINT64_C(1) << 63,
                                        UINT64_MAX };
    static const int numbers[] = { 0, 1, 2, -1, 3, 1 << 20, (1 << 20) + 1, INT32_MAX, INT32_MIN };
    ki_wire_frame frame = { .op = (uint32_t)(next_random(seed) % 12), .id = (uint32_t)next_random(seed) };
    frame.key_nbytes = (uint32_t)(next_random(seed) % 4 == 0 ? lengths[next_random(seed) % 13] : next_random(seed) % 8);
    frame.value_nbytes = next_random(seed) % 3 == 0 ? lengths[next_random(seed) % 13] : next_random(seed) % 64;
    frame.arg = next_random(seed) % 2 ? frame.value_nbytes : lengths[next_random(seed) % 13];
    frame.a = numbers[next_random(seed) % 9];
    frame.b = numbers[next_random(seed) % 9];
    frame.flags = (uint32_t)(next_random(seed) % 3);
    memcpy(data, &frame, sizeof frame);
    size_t body =
        frame.key_nbytes < 300 && frame.value_nbytes < 300 ? frame.key_nbytes + (size_t)frame.value_nbytes : 64;
    fill_random(data + sizeof frame, body, seed);
    return sizeof frame + body;
}

/* One stranger, or one member gone mad: returns when the server has ended it or has had enough. */
static void attack(uint16_t port, const ki_wire_hello *hello, bool is_member, uint64_t *seed)
{
    unsigned char data[1024], answer[4096];
    int fd = raw_connect(port);
    int64_t deadline = ki_deadline_after_ms(2000);
    ki_wire_frame join = { .op = KI_WIRE_JOIN };
    if (is_member) {
        ki_sock_send_all(fd, hello, sizeof *hello, deadline);
        ki_sock_send_all(fd, &join, sizeof join, deadline);
    }
    for (int i = 0; i < 8; i++) {
        size_t nbytes = is_member ? mutated_frame(data, seed) : next_random(seed) % sizeof data;
        if (!is_member) {
            fill_random(data, nbytes, seed);
            if (next_random(seed) % 2 && nbytes > sizeof *hello) { /* a hello with one byte wrong */
                memcpy(data, hello, sizeof *hello);
                data[next_random(seed) % sizeof *hello] ^= (unsigned char)(1 + next_random(seed) % 255);
            }
        }
        if (ki_sock_send_all(fd, data, nbytes, deadline) != KITH_OK)
            break;
        recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    }
    close(fd);
}

static void test_garbage(void **state)
{
    (void)state;
    enum { CONNECTIONS = 600 };
    uint64_t seed = 88172645463325252u;
    start_capture(KITH_LOG_ERROR);
    for (int round = 0; round < 2; round++) {
        bool is_member = round == 1;
        rank_run server = serve("tcp://127.0.0.1:0", CONNECTIONS + 2, NULL);
        rank_run client = {
            .rank = 1, .size = CONNECTIONS + 2, .url = ki_store_url(server.store), .timeout_ms = 20000
        };
        assert_status(open_rank(&client), KITH_OK);
        for (int i = 0; i < CONNECTIONS; i++) {
            ki_wire_hello hello = good_hello(2 + i, CONNECTIONS + 2, server.store);
            attack(port_of(server.store), &hello, is_member, &seed);
        }
        int mine = 77, out = 0; /* the others notice nothing but deaths */
        assert_status(ki_store_gather(client.store, "still here", 0, 1, NULL, &mine, sizeof mine, &out,
                                      ki_deadline_after_ms(20000), NULL),
                      KITH_OK);
        assert_int_equal(out, 77);
        ki_event event;
        while (ki_store_poll_event(client.store, &event)) {
            assert_true(is_member);
            assert_true(event.rank >= 2 && event.rank < CONNECTIONS + 2);
        }
        stop(&client);
        stop(&server);
    }
    stop_capture();
}

/* ---- many ---- */

enum { MANY = 512 };

static void many_body(rank_run *run)
{
    int mine = run->rank * 3, *all = calloc(MANY, sizeof *all);
    RANK_CHECK(all);
    for (int round = 0; round < 2; round++) {
        char key[32];
        snprintf(key, sizeof key, "round %d", round);
        RANK_CHECK(ki_store_gather(run->store, key, run->rank, MANY, NULL, &mine, sizeof mine, all,
                                   ki_deadline_after_ms(100000), NULL) == KITH_OK);
        for (int i = 0; i < MANY; i++)
            RANK_CHECK(all[i] == i * 3);
    }
    free(all);
}

static void *many_main(void *arg)
{
    rank_run *run = arg;
    if (open_rank(run) != KITH_OK) {
        run->failed_line = __LINE__;
        snprintf(run->detail, sizeof run->detail, "%s", kith_error_detail());
        return NULL;
    }
    run->body(run);
    ki_store_close(run->store, true, ki_deadline_after_ms(100000));
    return NULL;
}

/* 512 ranks that all connect at once. */
static void test_many_clients(void **state)
{
    (void)state;
    static rank_run runs[MANY];
    char url[512];
    struct rlimit limit;
    pthread_attr_t attributes;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2 * MANY + 50) {
        print_message("skipped: 512 clients need %d descriptors, %ld are allowed\n", 2 * MANY + 50,
                      (long)limit.rlim_max);
        skip();
    }
    make_url("tcp", url, sizeof url);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    for (int i = MANY - 1; i >= 0; i--) { /* rank 0 last: all others are retrying */
        runs[i] = (rank_run){ .rank = i, .size = MANY, .url = url, .timeout_ms = 100000, .body = many_body };
        assert_int_equal(pthread_create(&runs[i].thread, &attributes, many_main, &runs[i]), 0);
    }
    for (int i = 0; i < MANY; i++)
        pthread_join(runs[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    for (int i = 0; i < MANY; i++) {
        if (runs[i].failed_line)
            fail_msg("rank %d, line %d: %s", i, runs[i].failed_line, runs[i].detail);
    }
}

/* ---- addresses ---- */

static void test_ipv6(void **state)
{
    (void)state;
    ki_listener probe;
    if (ki_sock_listen("::1", 0, NULL, 1, &probe) != KITH_OK) {
        print_message("skipped: this host has no ::1\n");
        skip();
    }
    ki_sock_listener_close(&probe);
    rank_run server = serve("tcp://[::1]:0", 2, NULL);
    assert_int_equal(strncmp(ki_store_url(server.store), "tcp://[::1]:", 12), 0);
    rank_run client = { .rank = 1, .size = 2, .url = ki_store_url(server.store), .timeout_ms = 20000 };
    assert_status(open_rank(&client), KITH_OK);
    stop(&client);
    stop(&server);
}

static void test_name(void **state)
{
    (void)state;
    char url[64];
    rank_run server = serve("tcp://localhost:0", 3, NULL);
    rank_run client = { .rank = 1, .size = 3, .url = ki_store_url(server.store), .timeout_ms = 20000 };
    assert_status(open_rank(&client), KITH_OK);
    const char *token = strstr(ki_store_url(server.store), "?token=");
    snprintf(url, sizeof url, "tcp://localhost:%u%s", (unsigned)port_of(server.store), token);
    rank_run by_name = { .rank = 2, .size = 3, .url = url, .timeout_ms = 20000 };
    assert_status(open_rank(&by_name), KITH_OK);
    stop(&by_name);
    stop(&client);
    stop(&server);
}

/* 127.0.0.2 answers where it was told to, and 127.0.0.1 does not. */
static void test_binds_only_its_address(void **state)
{
    (void)state;
    int fd;
    bool is_final;
    rank_run server = serve("tcp://127.0.0.2:0", 2, NULL);
    uint16_t port = port_of(server.store);
    assert_status(ki_sock_connect("127.0.0.1", port, NULL, ki_deadline_after_ms(1000), &fd, &is_final),
                  KITH_ERR_UNREACHABLE);
    assert_has(kith_error_detail(), "refused");
    assert_status(ki_sock_connect("127.0.0.2", port, NULL, ki_deadline_after_ms(20000), &fd, &is_final), KITH_OK);
    close(fd);
    stop(&server);
}

static void test_port_busy(void **state)
{
    (void)state;
    char url[64], port[16];
    ki_listener listener;
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &listener), KITH_OK);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)listener.port);
    snprintf(port, sizeof port, "%u", (unsigned)listener.port);
    rank_run run = { .size = 2, .url = url, .timeout_ms = 20000 };
    assert_status(open_rank(&run), KITH_ERR_NO_RESOURCE);
    assert_has(kith_error_detail(), "127.0.0.1");
    assert_has(kith_error_detail(), port);
    assert_has(kith_error_detail(), "in use");
    ki_sock_listener_close(&listener);
}

static void test_address_of_another_host(void **state)
{
    (void)state;
    rank_run run = { .size = 2, .url = "tcp://203.0.113.77:4444", .timeout_ms = 20000 };
    assert_status(open_rank(&run), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "not an address of this host");
    assert_has(kith_error_detail(), "lo 127.0.0.1");
}

static void test_interface_that_does_not_exist(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        rank_run run = {
            .rank = rank, .size = 2, .url = "tcp://127.0.0.1:4444", .ifname = "nope", .timeout_ms = 20000
        };
        int64_t began = ki_now_ns();
        assert_status(open_rank(&run), KITH_ERR_INVALID_ARG);
        assert_has(kith_error_detail(), "KITH_IFNAME=nope");
        assert_has(kith_error_detail(), "lo 127.0.0.1");
        assert_true(ki_now_ns() - began < INT64_C(10000000000));
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    ki_listener listener;
    char url[64];
    assert_status(ki_sock_listen("127.0.0.1", 0, NULL, 4, &listener), KITH_OK);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)listener.port);
    ki_sock_listener_close(&listener);
    rank_run run = { .rank = 1, .size = 2, .url = url, .timeout_ms = 400 };
    int64_t began = ki_now_ns();
    assert_status(open_rank(&run), KITH_ERR_UNREACHABLE);
    assert_true(ki_now_ns() - began >= 400000000);
    assert_has(kith_error_detail(), url);
    assert_has(kith_error_detail(), "refused");
    assert_has(kith_error_detail(), "lo 127.0.0.1");
    assert_has(kith_error_detail(), "KITH_IFNAME");
}

static void test_port_zero_needs_help(void **state)
{
    (void)state;
    rank_run run = { .rank = 1, .size = 2, .url = "tcp://127.0.0.1:0", .timeout_ms = 400 };
    assert_status(open_rank(&run), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "?file=");
    run.url = "";
    assert_status(open_rank(&run), KITH_ERR_INVALID_ARG);
    rank_run server = serve("", 2, NULL); /* rank 0 may choose all by itself */
    run = (rank_run){ .rank = 1, .size = 2, .url = ki_store_url(server.store), .timeout_ms = 20000 };
    assert_status(open_rank(&run), KITH_OK);
    stop(&run);
    stop(&server);
}

/* The file with the port is private, and gone once all have joined. An old one that points nowhere is replaced. */
static void test_port_file(void **state)
{
    (void)state;
    char url[512], path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s", temporary_path("port"));
    snprintf(url, sizeof url, "tcp://127.0.0.1:0?file=%s", path);
    FILE *old = fopen(path, "w");
    assert_non_null(old);
    fprintf(old, "127.0.0.1 1 ff\n");
    fclose(old);
    rank_run server = serve(url, 2, NULL);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    rank_run client = { .rank = 1, .size = 2, .url = url, .timeout_ms = 20000 };
    assert_status(open_rank(&client), KITH_OK);
    int mine = 1, both[2];
    assert_status(ki_store_gather(client.store, "x", 0, 1, NULL, &mine, sizeof mine, both, 0, NULL), KITH_OK);
    assert_int_not_equal(stat(path, &st), 0);
    stop(&client);
    stop(&server);
    server = serve(url, 2, NULL); /* nobody joins: it goes with the server */
    assert_int_equal(stat(path, &st), 0);
    stop(&server);
    assert_int_not_equal(stat(path, &st), 0);
    rank_run bad = { .size = 2, .url = "tcp://127.0.0.1:0?file=/nonexistent/folder/file", .timeout_ms = 400 };
    assert_status(open_rank(&bad), KITH_ERR_NO_RESOURCE);
    assert_has(kith_error_detail(), "/nonexistent/folder/file");
}

/* ---- killed ranks ---- */

static _Noreturn void child_main(const char *url)
{
    rank_run run = { .rank = 1, .size = 2, .url = url, .timeout_ms = 20000 };
    int mine = 1, both[2];
    if (open_rank(&run) != KITH_OK)
        _exit(1);
    ki_store_gather(run.store, "begin", 1, 2, NULL, &mine, sizeof mine, both, ki_deadline_after_ms(20000), NULL);
    while (true)
        pause();
}

static void kill_a_rank(const char *kind)
{
    char url[512];
    int mine = 0, both[2], ranks[2] = { 0, 1 };
    make_url(kind, url, sizeof url);
    pid_t child = fork();
    if (child == 0)
        child_main(url);
    assert_true(child > 0);
    rank_run run = serve(url, 2, NULL);
    assert_status(
        ki_store_gather(run.store, "begin", 0, 2, ranks, &mine, sizeof mine, both, ki_deadline_after_ms(20000), NULL),
        KITH_OK);
    ki_event event;
    assert_false(ki_store_poll_event(run.store, &event));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    kith_status s =
        ki_store_gather(run.store, "next", 0, 2, ranks, &mine, sizeof mine, both, ki_deadline_after_ms(20000), NULL);
    assert_int_equal(s, KITH_ERR_PEER_FAILED);
    assert_has(kith_error_detail(), "rank 1");
    assert_true(ki_store_poll_event(run.store, &event));
    assert_int_equal(event.kind, KI_EVENT_RANK_DIED);
    assert_int_equal(event.rank, 1);
    stop(&run); /* does not wait for the dead */
}

static void test_killed_rank_tcp(void **state)
{
    (void)state;
    kill_a_rank("tcp");
}

static void test_killed_rank_file(void **state)
{
    (void)state;
    kill_a_rank("file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_tcp),
        cmocka_unit_test(test_killed_rank_file),
        cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_wrong_version_and_magic),
        cmocka_unit_test(test_server_is_something_else),
        cmocka_unit_test(test_half_open_clients),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_many_clients),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_binds_only_its_address),
        cmocka_unit_test(test_port_busy),
        cmocka_unit_test(test_address_of_another_host),
        cmocka_unit_test(test_interface_that_does_not_exist),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_port_zero_needs_help),
        cmocka_unit_test(test_port_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
