/* bench/baseline/ucx.c - bench-ucx: messages on bare UCP, without Kith and without MPI.
 *
 * ping_pong is a tag message there and one back, sendrecv one each way at once. Ranks are forked; worker addresses pass
 * through memory that they share. Which transports UCX takes is its own choice, or UCX_TLS.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../drivers/ordinary.h"
#include "../engine/clock.h"
#include "../engine/forked.h"
#include "../engine/session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#define ADDRESS_NBYTES 4096 /* room for one worker's address */
#define TAG_THERE 1
#define TAG_BACK 2
#define TAG_ALL ((ucp_tag_t)-1)
#define POLLS_BEFORE_YIELD 1000

typedef struct address_card {
    size_t nbytes;
    unsigned char bytes[ADDRESS_NBYTES];
} address_card;

typedef struct ucx_rank {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h partner; /* NULL: this rank only watches */
    bool is_spinning;
} ucx_rank;

static bool is_fine(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "bench-ucx: %s: %s\n", what, ucs_status_string(status));
    }
    return status == UCS_OK;
}

/* To the end of a request, or at once when there is none. */
static bool finish(const ucx_rank *ucx, ucs_status_ptr_t request, const char *what)
{
    if (request == NULL) {
        return true;
    }
    if (UCS_PTR_IS_ERR(request)) {
        return is_fine(UCS_PTR_STATUS(request), what);
    }
    ucs_status_t status;
    int polls = 0;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        if (ucp_worker_progress(ucx->worker) == 0 && !ucx->is_spinning && ++polls > POLLS_BEFORE_YIELD) {
            sched_yield();
            polls = 0;
        }
    }
    ucp_request_free(request);
    return is_fine(status, what);
}

static ucs_status_ptr_t put(const ucx_rank *ucx, const bench_call *call, ucp_tag_t tag)
{
    const ucp_request_param_t plain = { 0 };
    return ucp_tag_send_nbx(ucx->partner, call->send, call->shape->count * call->shape->element_nbytes, tag, &plain);
}

static ucs_status_ptr_t get(const ucx_rank *ucx, const bench_call *call, ucp_tag_t tag)
{
    const ucp_request_param_t plain = { 0 };
    return ucp_tag_recv_nbx(ucx->worker, call->recv, call->shape->count * call->shape->element_nbytes, tag, TAG_ALL,
                            &plain);
}

static bool run(void *self, const bench_call *call)
{
    const ucx_rank *ucx = self;
    if (bench_shape_partner(call->shape) < 0) {
        return true;
    }
    if (call->shape->op == BENCH_SENDRECV) {
        ucs_status_ptr_t incoming = get(ucx, call, TAG_THERE);
        return finish(ucx, put(ucx, call, TAG_THERE), "send") && finish(ucx, incoming, "receive");
    }
    if (call->shape->rank == 0) {
        return finish(ucx, put(ucx, call, TAG_THERE), "send") && finish(ucx, get(ucx, call, TAG_BACK), "receive");
    }
    return finish(ucx, get(ucx, call, TAG_THERE), "receive") && finish(ucx, put(ucx, call, TAG_BACK), "send");
}

static bool can_run(void *self, bench_op op, size_t nbytes, int size)
{
    (void)self;
    (void)nbytes;
    return (op == BENCH_PING_PONG || op == BENCH_SENDRECV) && size == 2;
}

static bool open_worker(ucx_rank *ucx, address_card *card)
{
    ucp_config_t *config;
    if (!is_fine(ucp_config_read(NULL, NULL, &config), "ucp_config_read")) {
        return false;
    }
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
    bool is_open = is_fine(ucp_init(&params, config, &ucx->context), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_SINGLE };
    ucp_address_t *address;
    if (!is_open || !is_fine(ucp_worker_create(ucx->context, &worker_params, &ucx->worker), "ucp_worker_create") ||
        !is_fine(ucp_worker_get_address(ucx->worker, &address, &card->nbytes), "ucp_worker_get_address")) {
        return false;
    }
    bool fits = card->nbytes <= sizeof(card->bytes);
    if (fits) {
        memcpy(card->bytes, address, card->nbytes);
    } else {
        fprintf(stderr, "bench-ucx: a worker's address has %zu bytes\n", card->nbytes);
    }
    ucp_worker_release_address(ucx->worker, address);
    return fits;
}

static bool connect_to(ucx_rank *ucx, const address_card *card)
{
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                               .address = (const ucp_address_t *)card->bytes };
    return is_fine(ucp_ep_create(ucx->worker, &params, &ucx->partner), "ucp_ep_create");
}

/* Endpoints first: the other rank may still wait for what a worker has to flush. */
static void close_worker(ucx_rank *ucx, bench_peers *peers)
{
    const ucp_request_param_t plain = { 0 };
    finish(ucx, ucp_ep_close_nbx(ucx->partner, &plain), "closing");
    bench_barrier(peers);
    ucp_worker_destroy(ucx->worker);
    ucp_cleanup(ucx->context);
}

int main(int argc, char **argv)
{
    bench_forked_options options;
    bench_forked_parse(argc, argv, "Measures messages on bare UCX, between two ranks.", &options);
    if (options.size != 2) {
        fprintf(stderr, "bench-ucx: -n is %d; messages are measured between 2 ranks\n", options.size);
        return 1;
    }
    int usable_cpus = bench_usable_cpus();
    bench_clock_init();
    bench_segment *segment = bench_segment_for_children();
    address_card *cards = mmap(NULL, 2 * sizeof(*cards), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (segment == NULL || cards == MAP_FAILED) {
        fprintf(stderr, "bench-ucx: no shared memory\n");
        return 1;
    }
    int rank = bench_fork_ranks(options.size);
    if (options.common.is_pinned) {
        bench_pin(rank);
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, rank, options.size, usable_cpus);
    ucx_rank ucx = { .is_spinning = peers.is_spinning };
    bool is_open = bench_agree(&peers, open_worker(&ucx, &cards[rank]));
    if (!bench_agree(&peers, is_open && connect_to(&ucx, &cards[rank ^ 1]))) {
        return 1;
    }
    bench_variant variant = {
        .name = "raw", .self = &ucx, .allocate = bench_allocate_ordinary, .run = run, .can_run = can_run
    };
    bench_driver driver = { "ucx", &variant, 1, &peers };
    int status = bench_session_run(&driver, &options.common);
    close_worker(&ucx, &peers);
    return status;
}
