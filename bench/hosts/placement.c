/* bench/hosts/placement.c - bench-placement: does a layout that knows the machine pay as much as the cost model says?
 *
 *     bench/hosts/placement.sh --build BUILD      starts it, on 2 hosts of 2 ranks with a slow link between them
 *
 * A step is what training sends: in each layer four all_reduces of activations in the tp groups (two forward, two
 * backward), at the end one all_reduce of gradients in the dp groups. The groups of an axis run at the same time, as in
 * training; computing is left out, since it is the same in every layout.
 *
 *   aware   positions as kith_place() puts them on a machine of these bandwidths
 *   naive   positions in the order in which a launcher deals ranks out to hosts in turn: tp groups lie across the link
 *
 * What the model is told: the bandwidth inside a host, from an all_reduce in each; the link's, as it was shaped; a
 * step's latency on both, from 8 bytes. All ranks are at work in each of these. They and the layouts take turns, so
 * that what else the machine does meets all; times are medians of the slowest rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <kith/placement.h>
#include <kith/topology.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, HOSTS = 2, LAYERS = 4, CALLS = 4 * LAYERS, ROUNDS = 11, FIRST_ROUNDS = 5, MOST_ROUNDS = 101 };
enum { AWARE, NAIVE, LAYOUTS };

#define ACTIVATION_NBYTES ((size_t)4 << 20) /* long enough that latencies count little where CPUs are shared */
#define GRADIENT_NBYTES ((size_t)16 << 20)
#define WITHIN 0.20 /* of the predicted factor */
#define NOISY 0.25  /* quartiles this far apart: others used the machine */

/* Seconds, of each round. */
typedef struct samples {
    double inside_latency[MOST_ROUNDS], link_latency[MOST_ROUNDS], inside[MOST_ROUNDS];
    double steps[LAYOUTS][MOST_ROUNDS];
} samples;

static const char *const layout_names[LAYOUTS] = { "aware", "naive" };

typedef struct layout {
    int ranks[RANKS]; /* of each mesh position, tp varying fastest */
    kith_group *tp, *dp;
    double predicted_s, measured_s, low_s, high_s; /* low, high: quartiles */
} layout;

typedef struct bench {
    kith_group *world;
    layout layouts[LAYOUTS];
    float *activations, *gradients;
    double link_gbps; /* 0: only the inside is measured */
    double inside_gbps, inside_latency_us, link_latency_us;
} bench;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Ranks of other hosts cannot be waited for once one has failed: the process ends, and the launcher ends the others. */
static void must(kith_status status, const char *what)
{
    if (status != KITH_OK) {
        fprintf(stderr, "bench-placement: %s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
        exit(1);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time since start on the slowest rank. */
static double slowest(const bench *b, double start)
{
    double seconds = now_s() - start;
    must(kith_all_reduce(b->world, &seconds, &seconds, 1, KITH_F64, KITH_MAX), "the slowest rank");
    return seconds;
}

static void sum(kith_group *group, float *data, size_t nbytes)
{
    must(kith_all_reduce(group, data, data, nbytes / sizeof(float), KITH_F32, KITH_AVG), "all_reduce");
}

static void step(const bench *b, const layout *l)
{
    for (int call = 0; call < CALLS; call++) {
        sum(l->tp, b->activations, ACTIVATION_NBYTES);
    }
    sum(l->dp, b->gradients, GRADIENT_NBYTES);
}

/* Seconds of one all_reduce of nbytes in groups of all ranks at once. */
static double time_sum(const bench *b, kith_group *group, size_t nbytes, int calls)
{
    must(kith_barrier(b->world), "barrier");
    double start = now_s();
    for (int call = 0; call < calls; call++) {
        sum(group, b->activations, nbytes);
    }
    return slowest(b, start) / calls;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), compare_doubles);
    return values[count / 2];
}

/* One round of what the model is told. Two ranks' all_reduce of n bytes sends n each way. */
static void sample(const bench *b, samples *s, int round)
{
    const layout *naive = &b->layouts[NAIVE];
    s->inside_latency[round] = time_sum(b, naive->dp, 8, 10);
    s->link_latency[round] = time_sum(b, naive->tp, 8, 10);
    s->inside[round] = time_sum(b, naive->dp, ACTIVATION_NBYTES, 4);
}

static void calibrate(bench *b, samples *s, int rounds)
{
    const double seconds = median(s->inside, rounds), latency_s = median(s->inside_latency, rounds);
    b->inside_latency_us = 1e6 * latency_s;
    b->link_latency_us = 1e6 * median(s->link_latency, rounds);
    b->inside_gbps = 1e-9 * (double)ACTIVATION_NBYTES / (seconds > 2 * latency_s ? seconds - latency_s : seconds);
}

/* A machine of these bandwidths, in the words of kith topo. */
static kith_topology *describe(const bench *b)
{
    const char *const words = "2 nodes of 2 GPUs on PCIe, 1 NIC of NDR, 1 sockets";
    char path[] = "/tmp/bench-placement-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) {
        fprintf(stderr, "bench-placement: %s cannot be written\n", path);
        exit(1);
    }
    fprintf(file, "{");
    for (int generation = 1; generation <= 6; generation++) {
        fprintf(file, "\"pcie%d\": {\"effective_gbps\": %.9g, \"latency_us\": %.9g}, ", generation, b->inside_gbps,
                b->inside_latency_us);
    }
    fprintf(file, "\"ndr\": {\"effective_gbps\": %.9g, \"latency_us\": %.9g}}\n", b->link_gbps, b->link_latency_us);
    fclose(file);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.constants_path = path;
    kith_topology *topology;
    kith_status status = kith_topology_load(&words, 1, &options, &topology);
    unlink(path);
    must(status, "describing the machine");
    return topology;
}

/* Seconds of a step whose mesh positions lie on these ranks, which are the GPUs of the description. */
static double predict(const kith_topology *topology, const layout *l)
{
    const int *r = l->ranks;
    const int tp[RANKS] = { r[0], r[1], r[2], r[3] }, dp[RANKS] = { r[0], r[2], r[1], r[3] };
    kith_cost activations, gradients;
    must(kith_cost_collective(topology, KITH_COST_ALL_REDUCE, NULL, tp, 2, 2, (double)ACTIVATION_NBYTES, &activations),
         "cost of tp");
    must(kith_cost_collective(topology, KITH_COST_ALL_REDUCE, NULL, dp, 2, 2, (double)GRADIENT_NBYTES, &gradients),
         "cost of dp");
    return CALLS * activations.time_s + gradients.time_s;
}

static void place(const kith_topology *topology, layout *l)
{
    kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = { 0 };
    traffic[0] = (kith_axis_traffic){ KITH_COST_ALL_REDUCE, CALLS, (double)ACTIVATION_NBYTES, 0 };
    traffic[3] = (kith_axis_traffic){ KITH_COST_ALL_REDUCE, 1, (double)GRADIENT_NBYTES, 0 };
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    options.tp = 2;
    options.dp = 2;
    options.traffic = traffic;
    kith_placement *placement;
    must(kith_place(topology, &options, &placement), "kith_place");
    for (int i = 0; i < RANKS; i++) {
        l->ranks[i] = kith_placement_gpu(placement, i);
    }
    kith_placement_destroy(placement);
}

static void make_groups(const bench *b, layout *l)
{
    const kith_mesh_axis axes[] = { { "tp", 2 }, { "dp", 2 } };
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.placement = l->ranks;
    kith_mesh *mesh;
    must(kith_mesh_create(b->world, axes, 2, &options, &mesh), "kith_mesh_create");
    l->tp = kith_mesh_group(mesh, "tp");
    l->dp = kith_mesh_group(mesh, "dp");
}

/* One step on known data: averages of averages are exact for these. */
static void check(const bench *b, const layout *l)
{
    const float rank = (float)kith_group_rank(b->world);
    b->activations[0] = rank;
    b->gradients[0] = 4 * rank;
    step(b, l);
    float activations[2] = { rank, 0 }, gradients[2] = { 4 * rank, 0 };
    must(kith_all_gather(l->tp, &rank, activations, 1, KITH_F32), "all_gather");
    must(kith_all_gather(l->dp, &rank, gradients, 1, KITH_F32), "all_gather");
    if (b->activations[0] != (activations[0] + activations[1]) / 2 ||
        b->gradients[0] != 2 * (gradients[0] + gradients[1])) {
        fprintf(stderr, "bench-placement: wrong data in layout %s on rank %g\n", layout_names[l - b->layouts],
                (double)rank);
        exit(1);
    }
}

static void measure(bench *b, samples *s, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        sample(b, s, round);
        for (int k = 0; k < LAYOUTS; k++) {
            int which = (k + round) % LAYOUTS;
            must(kith_barrier(b->world), "barrier");
            double start = now_s();
            step(b, &b->layouts[which]);
            s->steps[which][round] = slowest(b, start);
        }
    }
    calibrate(b, s, rounds);
    for (int which = 0; which < LAYOUTS; which++) {
        layout *l = &b->layouts[which];
        l->measured_s = median(s->steps[which], rounds);
        l->low_s = s->steps[which][rounds / 4];
        l->high_s = s->steps[which][rounds - 1 - rounds / 4];
    }
}

/* The exit status: is the measured factor within 20 % of the predicted one? */
static int tell(const bench *b, int rounds)
{
    const layout *aware = &b->layouts[AWARE], *naive = &b->layouts[NAIVE];
    printf("inside a host: %.2f GB/s, %.0f us; link: %.3f GB/s, %.0f us; %d rounds\n", b->inside_gbps,
           b->inside_latency_us, b->link_gbps, b->link_latency_us, rounds);
    printf("%-8s %-12s %14s %14s %24s %8s\n", "layout", "positions", "predicted ms", "measured ms", "quartiles",
           "ratio");
    for (int which = 0; which < LAYOUTS; which++) {
        const layout *l = &b->layouts[which];
        char positions[32], quartiles[32];
        snprintf(positions, sizeof(positions), "%d %d %d %d", l->ranks[0], l->ranks[1], l->ranks[2], l->ranks[3]);
        snprintf(quartiles, sizeof(quartiles), "%.1f to %.1f", 1e3 * l->low_s, 1e3 * l->high_s);
        printf("%-8s %-12s %14.1f %14.1f %24s %8.2f\n", layout_names[which], positions, 1e3 * l->predicted_s,
               1e3 * l->measured_s, quartiles, l->measured_s / l->predicted_s);
    }
    const double predicted = naive->predicted_s / aware->predicted_s, measured = naive->measured_s / aware->measured_s;
    const int is_within = measured >= predicted * (1 - WITHIN) && measured <= predicted * (1 + WITHIN);
    printf("naive / aware: predicted %.2f, measured %.2f (%+.0f %%): %s\n", predicted, measured,
           100 * (measured / predicted - 1), is_within ? "within 20 %" : "NOT within 20 %");
    for (int which = 0; which < LAYOUTS; which++) {
        const layout *l = &b->layouts[which];
        const double apart = (l->high_s - l->low_s) / l->measured_s;
        if (apart > NOISY) {
            printf("not reliable: the quartiles of %s are %.0f %% of its median apart\n", layout_names[which],
                   100 * apart);
        }
    }
    return is_within ? 0 : 1;
}

/* The layouts beside each other; the exit status. */
static int compare(bench *b, samples *s, int rounds)
{
    kith_topology *topology = describe(b);
    place(topology, &b->layouts[AWARE]);
    kith_topology_destroy(topology);
    make_groups(b, &b->layouts[AWARE]);
    for (int which = 0; which < LAYOUTS; which++) {
        check(b, &b->layouts[which]);
    }
    measure(b, s, rounds);
    topology = describe(b); /* with what the same rounds showed */
    for (int which = 0; which < LAYOUTS; which++) {
        b->layouts[which].predicted_s = predict(topology, &b->layouts[which]);
    }
    kith_topology_destroy(topology);
    return kith_group_rank(b->world) == 0 ? tell(b, rounds) : 0;
}

static double number(const char *text, const char *name, double low, double high)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high)) {
        fprintf(stderr, "bench-placement: %s is '%s'; it must be a number from %g to %g\n", name, text, low, high);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    bench b = { .link_gbps = 0 };
    int rounds = ROUNDS;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--link") == 0 && i + 1 < argc) {
            b.link_gbps = number(argv[++i], "--link", 1e-6, 1e6);
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = (int)number(argv[++i], "--rounds", 3, MOST_ROUNDS);
        } else {
            fprintf(stderr, "bench-placement: unknown argument '%s'; it takes --link GB/s and --rounds N\n", argv[i]);
            return 2;
        }
    }
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    b.world = kith_world(ctx);
    const int rank = kith_rank(ctx);
    if (kith_size(ctx) != RANKS || kith_node_count(ctx) != HOSTS || kith_local_size(ctx) != RANKS / HOSTS) {
        if (rank == 0)
            fprintf(stderr, "bench-placement: needs 2 hosts with 2 ranks each (bench/hosts/placement.sh)\n");
        kith_finalize(ctx);
        return 2;
    }
    b.activations = calloc(1, ACTIVATION_NBYTES);
    b.gradients = calloc(1, GRADIENT_NBYTES);
    must(kith_agree(b.world, b.activations != NULL && b.gradients != NULL ? KITH_OK : KITH_ERR_NO_MEMORY), "memory");
    layout *naive = &b.layouts[NAIVE];
    naive->ranks[0] = 0, naive->ranks[1] = 2, naive->ranks[2] = 1, naive->ranks[3] = 3;
    make_groups(&b, naive);
    static samples s;
    for (int round = 0; round < FIRST_ROUNDS; round++) {
        sample(&b, &s, round);
    }
    calibrate(&b, &s, FIRST_ROUNDS);
    const int status = b.link_gbps > 0 ? compare(&b, &s, rounds) : 0;
    if (b.link_gbps == 0 && rank == 0) {
        printf("inside a host: %.4f GB/s\n", b.inside_gbps);
    }
    free(b.activations);
    free(b.gradients);
    must(kith_finalize(ctx), "kith_finalize");
    return status;
}
