/* bench/baseline/nccl.c - bench-nccl: collectives and messages on bare NCCL, without Kith, one GPU for each rank.
 *
 *     bench-nccl -n 8 --max 256M --json nccl.json       the rows for kith compare
 *
 * Buffers lie on the GPU. The engine fills and checks host memory; copies go before and after what is timed, and a
 * time ends when the stream is through, as nccl-tests has it. all_to_all and messages are grouped sends and receives.
 * NCCL has no barrier. Both libraries are opened when it runs: KITH_NCCL_LIBRARY, KITH_CUDART_LIBRARY, or the usual
 * names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../drivers/ordinary.h"
#include "../engine/clock.h"
#include "../engine/forked.h"
#include "../engine/session.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NCCL_FUNCTIONS(X)                                                                                              \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRank)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclAllReduce)                                                                                                   \
    X(ncclReduceScatter)                                                                                               \
    X(ncclAllGather)                                                                                                   \
    X(ncclBroadcast)                                                                                                   \
    X(ncclReduce)                                                                                                      \
    X(ncclSend)                                                                                                        \
    X(ncclRecv)                                                                                                        \
    X(ncclGroupStart)                                                                                                  \
    X(ncclGroupEnd)                                                                                                    \
    X(ncclGetErrorString)
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cudaGetDeviceCount)                                                                                              \
    X(cudaSetDevice)                                                                                                   \
    X(cudaMalloc)                                                                                                      \
    X(cudaFree)                                                                                                        \
    X(cudaMemcpyAsync)                                                                                                 \
    X(cudaStreamCreateWithFlags)                                                                                       \
    X(cudaStreamDestroy)                                                                                               \
    X(cudaStreamSynchronize)                                                                                           \
    X(cudaGetErrorString)

#define MEMBER(function) __typeof__(function) *function;
typedef struct nccl_rank {
    NCCL_FUNCTIONS(MEMBER)
    CUDA_FUNCTIONS(MEMBER)
    ncclComm_t comm;
    cudaStream_t stream;
    void *send, *recv; /* on the GPU */
} nccl_rank;
#undef MEMBER

static bool cuda_is_fine(const nccl_rank *n, cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "bench-nccl: %s: %s\n", what, n->cudaGetErrorString(error));
    }
    return error == cudaSuccess;
}

static bool nccl_is_fine(const nccl_rank *n, ncclResult_t result, const char *what)
{
    if (result != ncclSuccess) {
        fprintf(stderr, "bench-nccl: %s: %s\n", what, n->ncclGetErrorString(result));
    }
    return result == ncclSuccess;
}

/* The first of the names that opens; the variable, when it is set, stands alone. */
static void *open_library(const char *variable, const char *const *names)
{
    const char *asked = getenv(variable);
    void *handle = asked != NULL && asked[0] != '\0' ? dlopen(asked, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (; asked == NULL && handle == NULL && *names != NULL; names++) {
        handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == NULL) {
        fprintf(stderr, "bench-nccl: %s\n", dlerror());
    }
    return handle;
}

static bool find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof(address));
    if (address == NULL) {
        fprintf(stderr, "bench-nccl: %s is missing\n", name);
    }
    return address != NULL;
}

static bool open_libraries(nccl_rank *n)
{
    static const char *const nccl_names[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL };
    static const char *const cuda_names[] = { "libcudart.so.13", "libcudart.so.12",
                                              "/usr/local/cuda/lib64/libcudart.so", NULL };
    void *nccl = open_library("KITH_NCCL_LIBRARY", nccl_names);
    void *cuda = nccl != NULL ? open_library("KITH_CUDART_LIBRARY", cuda_names) : NULL;
    bool is_whole = cuda != NULL;
#define FIND_NCCL(function) is_whole = is_whole && find(nccl, #function, &n->function);
#define FIND_CUDA(function) is_whole = is_whole && find(cuda, #function, &n->function);
    NCCL_FUNCTIONS(FIND_NCCL)
    CUDA_FUNCTIONS(FIND_CUDA)
#undef FIND_NCCL
#undef FIND_CUDA
    return is_whole;
}

static ncclDataType_t nccl_type(bench_dtype dtype)
{
    switch (dtype) {
    case BENCH_F64:
        return ncclFloat64;
    case BENCH_BF16:
        return ncclBfloat16;
    case BENCH_INT32:
        return ncclInt32;
    default:
        return ncclFloat32;
    }
}

static ncclResult_t exchange(const nccl_rank *n, const bench_call *call, ncclDataType_t type, int partner)
{
    size_t count = call->shape->count;
    ncclResult_t result = n->ncclGroupStart();
    result = result != ncclSuccess ? result : n->ncclSend(n->send, count, type, partner, n->comm, n->stream);
    result = result != ncclSuccess ? result : n->ncclRecv(n->recv, count, type, partner, n->comm, n->stream);
    ncclResult_t ended = n->ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

static ncclResult_t ping_pong(const nccl_rank *n, const bench_call *call, ncclDataType_t type, int partner)
{
    size_t count = call->shape->count;
    bool is_first = call->shape->rank == 0;
    ncclResult_t result = is_first ? n->ncclSend(n->send, count, type, partner, n->comm, n->stream)
                                   : n->ncclRecv(n->recv, count, type, partner, n->comm, n->stream);
    if (result != ncclSuccess) {
        return result;
    }
    return is_first ? n->ncclRecv(n->recv, count, type, partner, n->comm, n->stream)
                    : n->ncclSend(n->send, count, type, partner, n->comm, n->stream);
}

static ncclResult_t all_to_all(const nccl_rank *n, const bench_call *call, ncclDataType_t type)
{
    const bench_shape *shape = call->shape;
    size_t nbytes = shape->block * shape->element_nbytes;
    ncclResult_t result = n->ncclGroupStart();
    for (int r = 0; r < shape->size && result == ncclSuccess; r++) {
        char *to = (char *)n->send + (size_t)r * nbytes, *from = (char *)n->recv + (size_t)r * nbytes;
        result = n->ncclSend(to, shape->block, type, r, n->comm, n->stream);
        result = result != ncclSuccess ? result : n->ncclRecv(from, shape->block, type, r, n->comm, n->stream);
    }
    ncclResult_t ended = n->ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

static ncclResult_t call_nccl(const nccl_rank *n, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    const ncclDataType_t type = nccl_type(call->dtype);
    const int partner = bench_shape_partner(shape);
    switch (shape->op) {
    case BENCH_ALL_REDUCE:
        return n->ncclAllReduce(n->send, n->recv, shape->count, type, ncclSum, n->comm, n->stream);
    case BENCH_REDUCE_SCATTER:
        return n->ncclReduceScatter(n->send, n->recv, shape->block, type, ncclSum, n->comm, n->stream);
    case BENCH_ALL_GATHER:
        return n->ncclAllGather(n->send, n->recv, shape->block, type, n->comm, n->stream);
    case BENCH_ALL_TO_ALL:
        return all_to_all(n, call, type);
    case BENCH_BROADCAST:
        return n->ncclBroadcast(n->send, n->recv, shape->count, type, 0, n->comm, n->stream);
    case BENCH_REDUCE:
        return n->ncclReduce(n->send, n->recv, shape->count, type, ncclSum, 0, n->comm, n->stream);
    case BENCH_PING_PONG:
        return partner < 0 ? ncclSuccess : ping_pong(n, call, type, partner);
    default:
        return partner < 0 ? ncclSuccess : exchange(n, call, type, partner);
    }
}

static bool run(void *self, const bench_call *call)
{
    const nccl_rank *n = self;
    return nccl_is_fine(n, call_nccl(n, call), bench_op_name(call->shape->op)) &&
           cuda_is_fine(n, n->cudaStreamSynchronize(n->stream), bench_op_name(call->shape->op));
}

static bool can_run(void *self, bench_op op, size_t nbytes, int size)
{
    (void)self;
    (void)nbytes;
    (void)size;
    return op != BENCH_BARRIER;
}

static bool copy(const nccl_rank *n, void *to, const void *from, size_t count, const bench_call *call,
                 enum cudaMemcpyKind kind)
{
    size_t nbytes = count * call->shape->element_nbytes;
    return nbytes == 0 || (cuda_is_fine(n, n->cudaMemcpyAsync(to, from, nbytes, kind, n->stream), "copy") &&
                           cuda_is_fine(n, n->cudaStreamSynchronize(n->stream), "copy"));
}

static bool push(void *self, const bench_call *call)
{
    const nccl_rank *n = self;
    return copy(n, n->send, call->send, call->shape->send_count, call, cudaMemcpyHostToDevice);
}

static bool pull(void *self, const bench_call *call)
{
    const nccl_rank *n = self;
    return copy(n, call->recv, n->recv, call->shape->recv_count, call, cudaMemcpyDeviceToHost);
}

static bool allocate(void *self, size_t nbytes, void **send, void **recv)
{
    nccl_rank *n = self;
    return bench_allocate_ordinary(NULL, nbytes, send, recv) &&
           cuda_is_fine(n, n->cudaMalloc(&n->send, nbytes), "memory on the GPU") &&
           cuda_is_fine(n, n->cudaMalloc(&n->recv, nbytes), "memory on the GPU");
}

static bool open_device(nccl_rank *n, int rank, int size)
{
    int devices = 0;
    if (!cuda_is_fine(n, n->cudaGetDeviceCount(&devices), "counting GPUs")) {
        return false;
    }
    if (devices < size) {
        fprintf(stderr, "bench-nccl: there are %d GPUs for %d ranks; NCCL wants one for each\n", devices, size);
        return false;
    }
    return cuda_is_fine(n, n->cudaSetDevice(rank), "taking a GPU") &&
           cuda_is_fine(n, n->cudaStreamCreateWithFlags(&n->stream, cudaStreamNonBlocking), "making a stream");
}

/* Opens everything on every rank, or nothing counts. */
static bool join(nccl_rank *n, bench_peers *peers, ncclUniqueId *id)
{
    bool mine = open_libraries(n) && open_device(n, peers->rank, peers->size);
    mine = mine && (peers->rank != 0 || nccl_is_fine(n, n->ncclGetUniqueId(id), "ncclGetUniqueId"));
    return bench_agree(peers, mine) &&
           bench_agree(peers, nccl_is_fine(n, n->ncclCommInitRank(&n->comm, peers->size, *id, peers->rank),
                                           "ncclCommInitRank"));
}

static void leave(nccl_rank *n)
{
    n->ncclCommDestroy(n->comm);
    n->cudaFree(n->send);
    n->cudaFree(n->recv);
    n->cudaStreamDestroy(n->stream);
}

int main(int argc, char **argv)
{
    bench_forked_options options;
    bench_forked_parse(argc, argv, "Measures bare NCCL, one GPU for each rank.", &options);
    int usable_cpus = bench_usable_cpus();
    bench_clock_init();
    bench_segment *segment = bench_segment_for_children();
    ncclUniqueId *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (segment == NULL || id == MAP_FAILED) {
        fprintf(stderr, "bench-nccl: no shared memory\n");
        return 1;
    }
    int rank = bench_fork_ranks(options.size); /* before CUDA, which does not survive it */
    if (options.common.is_pinned) {
        bench_pin(rank);
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, rank, options.size, usable_cpus);
    nccl_rank n = { 0 };
    if (!join(&n, &peers, id)) {
        return 1;
    }
    bench_variant variant = {
        .name = "device", .self = &n, .allocate = allocate, .run = run, .can_run = can_run, .push = push, .pull = pull
    };
    bench_driver driver = { "nccl", &variant, 1, &peers };
    int status = bench_session_run(&driver, &options.common);
    leave(&n);
    return status;
}
