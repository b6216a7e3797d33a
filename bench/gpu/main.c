/* bench/gpu/main.c - kith_gpu_bench: what a card does with Kith, beside what it does without.
 *
 *     kith_gpu_bench card                              which card and which libraries; how fast copies are
 *     kith_gpu_bench check --dtype bf16                the device's arithmetic beside the host's
 *     kith_gpu_bench kernels --dtype bf16              kernels beside the bandwidth of a copy
 *     kith_gpu_bench products --dtype f32 [--tf32]     products beside cuBLAS, and attention
 *     kith run -n N -- kith_gpu_bench nccl             kith_all_reduce() beside ncclAllReduce()
 *     kith run -n N -- kith_gpu_bench passing          device memory through shm, ucx or mpi (kith run --backend)
 *
 * --device cuda:0 instead of the local rank's; --quick: tiny sizes. Rows go to standard output (gpu.h); exit status 1
 * with a sentence when something fails or a result is wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "gpu.h"
#include "libraries.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *name;
    void (*run)(gpu *g);
    bool has_ranks;      /* a job of one or more ranks */
    const char *backend; /* NULL: as KITH_BACKEND says */
} command;

static const command commands[] = {
    { "card", bench_card, false, NULL },       { "check", bench_check, false, NULL },
    { "kernels", bench_kernels, false, NULL }, { "products", bench_products, false, NULL },
    { "nccl", bench_nccl, true, "nccl" },      { "passing", bench_passing, true, NULL },
};

static void usage(void)
{
    fputs("usage: kith_gpu_bench card|check|kernels|products|nccl|passing [--dtype f32|f64|bf16] [--tf32] "
          "[--device cuda:N] [--quick]\n",
          stderr);
    exit(2);
}

static const char *version_words(int version, int thousands)
{
    return words("%d.%d", version / thousands, version % thousands / 10);
}

static const char *nccl_words(void)
{
    char reason[256];
    int version = 0;
    bench_nccl_library nccl;
    if (!bench_open_nccl(&nccl, reason, sizeof reason) || nccl.ncclGetVersion(&version) != ncclSuccess)
        return "no NCCL";
    return words("NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void bench_card(gpu *g)
{
    char reason[256];
    int driver = 0, runtime = 0, count = 0;
    const ki_cuda *cuda = bench_open_cuda(reason, sizeof reason);
    if (cuda == NULL)
        give_up("%s", reason);
    (void)cuda->cudaDriverGetVersion(&driver);
    (void)cuda->cudaRuntimeGetVersion(&runtime);
    must(kith_device_count(&count), "devices");
    report_part("card");
    report(g->info.name,
           words("%d of it, sm_%d%d, %d SMs, %.0f GiB", count, g->info.major, g->info.minor, g->info.processors,
                 (double)g->info.memory_nbytes / (double)(1 << 30)),
           words("driver for CUDA %s, runtime %s, %s", version_words(driver, 1000), version_words(runtime, 1000),
                 nccl_words()),
           "");
    report("copies on the card", words("%.0f GB/s", gpu_copy_gbps(g)), "read and written", "");
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    usage();
    return NULL;
}

/* For what the benchmark calls itself. */
static void make_current(const gpu *g)
{
    char reason[256];
    int before;
    const ki_cuda *cuda = bench_open_cuda(reason, sizeof reason);
    if (cuda == NULL)
        give_up("%s", reason);
    if (ki_cuda_enter(cuda, g->info.ordinal, &before) != cudaSuccess)
        give_up("device %d cannot be made the current one", g->info.ordinal);
}

static void open_card(gpu *g, const command *c, const char *device)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.device = device;
    options.backend = c->backend;
    if (c->has_ranks) {
        must(kith_init(&options, &g->ctx), "kith_init");
        g->device = kith_ctx_device(g->ctx);
    } else {
        must(kith_device_open(-1, &g->device), "the card");
    }
    must(kith_device_describe(g->device, &g->info), "the card");
    make_current(g);
    must(kith_stream_create(g->device, &g->stream), "a stream");
}

static void close_card(gpu *g)
{
    gpu_close_compute(g);
    must(kith_stream_destroy(g->stream), "a stream");
    if (g->ctx != NULL)
        must(kith_finalize(g->ctx), "kith_finalize");
    else
        must(kith_device_close(g->device), "the card");
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "dtype", required_argument, NULL, 'd' },
                                             { "device", required_argument, NULL, 'g' },
                                             { "tf32", no_argument, NULL, 't' },
                                             { "quick", no_argument, NULL, 'q' },
                                             { NULL, 0, NULL, 0 } };
    gpu g = { .dtype = KITH_F32, .info = KITH_DEVICE_INFO_INIT };
    const char *device = "cuda:local";
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'd')
            must(kith_dtype_parse(optarg, &g.dtype), "--dtype");
        else if (option == 'g')
            device = optarg;
        else if (option == 't')
            g.allows_tf32 = true;
        else if (option == 'q')
            g.is_quick = true;
        else
            usage();
    }
    if (optind != argc - 1 || (g.dtype != KITH_F32 && g.dtype != KITH_F64 && g.dtype != KITH_BF16))
        usage();
    const command *c = find_command(argv[optind]);
    if (c->run == bench_products && g.dtype == KITH_F64)
        usage();
    open_card(&g, c, device);
    c->run(&g);
    close_card(&g);
    return 0;
}
