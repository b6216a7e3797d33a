/* tools/bench/bench.h - `kith bench`: what operations cost, over the public API, on any backend and any hosts.
 *
 *     options.c, sizes.c, help.c   flags, checks, help text: which points are measured
 *     ops.c, shape.c   the operations: their bus factors; who holds and gets how many elements, and from where
 *     data.c           what is sent, what must arrive, how many elements are wrong
 *     calls.c          one operation, blocking or started
 *     targets.c        the groups: the world, an axis of a mesh, all axes at once
 *     memory.c         buffers: the host's, mapped by all ranks, a device's
 *     measure.c        one point: warm-up, batches, rounds; overlap.c: the same beside a product of matrices
 *     cores.c          where the cores of ranks 0 and 1 are; stop.c: Ctrl-C
 *     stats.c          from samples to a median that can be trusted, or none
 *     job.h, points.c, look.c, run.c   one rank: its points, whether they can be measured, measuring, and the end
 *     rows.c, table.c, matrix.c, save.c, machine.c   JSON, CSV; text; pairs; files of results; what machine it was
 *     bench.c          the command; -n starts the ranks (tools/launch.h)
 *
 *     options --> (each rank) targets, memory --> point, again and again --> rows --> table, JSON, CSV
 *                                        ops, shape, data, calls --^
 *
 * Method. A sample is a batch of operations without a pause between, behind a barrier of a group that is there for
 * nothing else; it takes as long as on its slowest rank, divided by the operations of the batch. All samples of a round
 * stay on their rank until the round is over. docs/bench.md says it in full, with every column.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_BENCH_H
#define KI_TOOLS_BENCH_H

#include "../command.h"

#include <kith/kith.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_EXIT_FAILED 1 /* an operation failed, or its result was wrong */

/* ---- ops.c: what is measured ---- */

/* A collective (its kith_coll_kind), or a pattern of messages. */
typedef enum bench_op {
    BENCH_PING_PONG = KITH_COLL_COUNT, /* ranks 0 and 1 in turn; a time is one way */
    BENCH_BIDIRECTIONAL,               /* ranks 0 and 1, both ways at once */
    BENCH_MANY_TO_ONE,                 /* all others to the root at once */
    BENCH_RING_EXCHANGE,               /* to the next rank and from the one before, at once */
    BENCH_ALL_PAIRS,                   /* ping_pong of every two ranks, one pair after the other */
    BENCH_OP_COUNT
} bench_op;

const char *bench_op_name(bench_op op);
bool bench_op_parse(const char *name, bench_op *op);

bool bench_op_is_pattern(bench_op op);
bool bench_op_is_reduction(bench_op op); /* has an operator */
bool bench_op_is_rooted(bench_op op);
bool bench_op_is_uneven(bench_op op);   /* a v-form: rank r holds about (r + 1) shares of n (n + 1) / 2 */
bool bench_op_is_sizeless(bench_op op); /* barrier */
bool bench_op_has_place(bench_op op);   /* can be in place or not */
bool bench_op_takes_turns(bench_op op); /* messages one after the other: cannot be beside anything */

/* busbw = algbw * factor, algbw = nbytes / time; as nccl-tests have it. 0 where nothing crosses a link. */
double bench_op_bus_factor(bench_op op, int ranks);

/* ---- shape.c: who holds what ---- */

/* One operation as a rank sees it. Counts are elements. */
typedef struct bench_shape {
    bench_op op;
    int rank, size, root;
    int src, dst;      /* the two that talk: ping_pong, bidirectional, all_pairs */
    size_t count;      /* that nbytes stands for */
    size_t send_count; /* that this rank has to give; 0: nothing */
    size_t recv_count; /* that this rank gets; 0: nothing */
    size_t own_first;  /* of the rank's own part in the whole: where it lies in place */
    size_t *counts;    /* [size] of a v-form, owned: the rank's parts, or all_to_all_v's with each peer; NULL: even */
} bench_shape;

/* The operation of about nbytes: rounded down to what divides evenly, but at least an element for each part. False when
 * memory is short; bench_shape_free() in any case. */
bool bench_shape_make(bench_shape *shape, bench_op op, size_t nbytes, size_t element_nbytes, int rank, int size,
                      int root);
/* Of ping_pong, bidirectional and all_pairs: these two talk instead of ranks 0 and 1. */
void bench_shape_pair(bench_shape *shape, int src, int dst);
void bench_shape_free(bench_shape *shape);

/* From recv[i] on, *count elements are consecutive ones of what rank *from gives (-1: of the reduction), the first of
 * them number *index. */
void bench_shape_source(const bench_shape *shape, size_t i, int *from, size_t *index, size_t *count);

/* Whether this rank has a part in it, or only waits for the others. */
bool bench_shape_is_active(const bench_shape *shape);

/* ---- data.c: what is sent, and what must arrive ----
 *
 * All numbers are whole, and small enough that every partial result is exact in the type, in any order. Contributions
 * to a reduction differ between ranks, and their result has a closed form that no rank needs the others for. Content
 * repeats within pieces of 1024 elements, and is another in each piece and on each rank, so that what is moved to a
 * wrong place, twice or not at all, is seen. */
#define BENCH_PIECE 1024
#define BENCH_PERIOD_MAX 113

typedef struct bench_data {
    kith_dtype dtype;
    kith_op op; /* of reductions */
    bool is_reduction;
    int size, salt; /* ranks; another content for each salt */
    size_t nbytes;  /* of an element */
    int period;     /* after how many elements a piece repeats */
    unsigned char piece[(BENCH_PIECE + BENCH_PERIOD_MAX) * 8];
} bench_data;

void bench_data_init(bench_data *data, bench_op op, kith_dtype dtype, kith_op redop, int size, int salt);
/* Elements first .. first + count - 1 of what rank gives; rank -1: of the result. */
void bench_data_fill(bench_data *data, int rank, size_t first, size_t count, void *to);
/* How many of the elements at `got` are not those. */
size_t bench_data_count_wrong(bench_data *data, int rank, size_t first, size_t count, const void *got);

/* ---- options.c ---- */

#define BENCH_LIST_MAX 64 /* entries of a list on the command line */

typedef enum bench_memory { BENCH_HOST, BENCH_MAPPED, BENCH_DEVICE, BENCH_MEMORY_COUNT } bench_memory;
typedef enum bench_mode { BENCH_BLOCKING, BENCH_NON_BLOCKING, BENCH_OVERLAP } bench_mode;
typedef enum bench_place { BENCH_PLACE_IN, BENCH_PLACE_OUT, BENCH_PLACE_BOTH } bench_place;

const char *bench_memory_name(bench_memory memory);
const char *bench_mode_name(bench_mode mode);

typedef struct bench_options {
    int rank_count; /* -n; 0: this process is a rank already, or the only one */
    bench_op ops[BENCH_LIST_MAX];
    int op_count;
    size_t sizes[BENCH_LIST_MAX]; /* bytes, as on the line; without --sizes: what min, max, factor give */
    int size_count;
    const char *min, *max; /* NULL: not said */
    int factor;            /* 0: not said */
    kith_dtype dtypes[BENCH_LIST_MAX];
    int dtype_count;
    kith_op redops[BENCH_LIST_MAX];
    int redop_count;
    bench_place place;
    kith_mesh_axis axes[KITH_MESH_MAX_AXES];
    int axis_count;
    char axis_names[KITH_MESH_MAX_AXES][16];
    const char *groups[BENCH_LIST_MAX]; /* "world", an axis, "each", "all" */
    int group_count;
    bench_memory memories[BENCH_LIST_MAX];
    int memory_count;
    bool is_non_blocking, is_overlapped;
    double budget_s;
    bool is_unchecked;
    int root;
    const char *backend;           /* NULL: the default */
    const char *json, *csv, *save; /* NULL: not wanted; "": standard output */
    bool is_quiet;
    double timeout_s; /* 0: none but KITH_TIMEOUT_MS */
    char *texts[16];  /* owned: words that lists were cut from */
    int text_count;
} bench_options;

/* Reads and checks. rest: as in ki_flags_read(). Returns KI_EXIT_OK, KI_FLAGS_HELP, or the exit status after a sentence
 * on stderr. bench_options_free() whatever is returned. */
int bench_options_read(int argc, char **argv, bench_options *options, char **rest);
void bench_options_free(bench_options *options);

/* help.c */
extern const char bench_help[];

/* ---- sizes.c ---- */

/* "8", "64k", "1M", "2G": bytes; false for anything else, 0, or what is beyond size_t. */
bool bench_size_parse(const char *text, size_t *nbytes);
/* "64 KiB", "1000 B". */
void bench_size_print(size_t nbytes, char *text, size_t text_nbytes);

/* ---- stats.c ---- */

/* All but count NaN without samples. */
typedef struct bench_summary {
    size_t count;
    double min, p25, median, p75, p95, p99, max;
    double low, high; /* 95 % confidence interval of the median, from the order of samples; NaN below 6 of them */
    bool is_reliable; /* the interval is at most 10 % of the median wide */
} bench_summary;

#define BENCH_RELIABLE_WIDTH 0.10

/* Sorts samples. Percentiles are interpolated between neighbours. */
bench_summary bench_summarize(double *samples, size_t count);
/* Of the k-th smallest and the k-th largest of count samples, the median of what they come from lies between with at
 * least 95 %: the largest such k, from 1; 0: there is none. */
size_t bench_median_rank(size_t count);
/* Share of the operation that disappears behind the product, in percent; below 0: both together take longer than one
 * after the other. */
double bench_hidden_percent(double alone_us, double compute_us, double together_us);

/* ---- targets.c ---- */

/* Groups in which an operation runs at once on this rank: one, or one for each axis. */
typedef struct bench_target {
    char name[64]; /* "world", "tp", "all" */
    kith_group *groups[KITH_MESH_MAX_AXES];
    int count;
    int group_count; /* that run side by side in the whole job */
    int ranks;       /* of a group; the largest of them */
} bench_target;

typedef struct bench_targets {
    kith_mesh *mesh;     /* NULL: none */
    kith_group *control; /* all ranks; nothing is measured there */
    bench_target list[BENCH_LIST_MAX];
    int count;
} bench_targets;

/* Collective. False, with a sentence, when the mesh does not fit or a name is none of its axes. */
bool bench_targets_make(bench_targets *targets, kith_ctx *ctx, const bench_options *options, char *sentence,
                        size_t nbytes);
void bench_targets_free(bench_targets *targets);

/* ---- memory.c ---- */

typedef struct bench_buffers {
    bench_memory memory;
    kith_group *group;   /* of mapped memory */
    kith_device *device; /* of device memory */
    kith_stream *stream; /* for copies of data to it and from it */
    void *send, *recv;
    size_t send_nbytes, recv_nbytes;
} bench_buffers;

/* Two buffers of at least these sizes for operations on group, touched. Collective over the group for mapped memory.
 * What was made is freed by bench_buffers_free(), also after a failure. */
kith_status bench_buffers_make(bench_buffers *buffers, bench_memory memory, kith_group *group, size_t send_nbytes,
                               size_t recv_nbytes);
void bench_buffers_free(bench_buffers *buffers);
/* Writes from the host's memory into a buffer, or reads from it; the data are there on return. */
kith_status bench_buffers_write(bench_buffers *buffers, void *to, const void *from, size_t nbytes);
kith_status bench_buffers_read(bench_buffers *buffers, void *to, const void *from, size_t nbytes);
/* Bytes that this host can still give, by its own account; SIZE_MAX: not known. */
size_t bench_memory_available(void);

/* ---- calls.c ---- */

typedef struct bench_call {
    kith_group *group;
    bench_shape shape;
    kith_dtype dtype;
    kith_op redop;
    size_t element_nbytes;
    const void *send;
    void *recv;
    kith_coll_args args;     /* of a collective */
    kith_p2p_args *messages; /* [message_count] of a pattern, owned */
    kith_request **requests; /* [message_count or 1], owned */
    size_t message_count;
    size_t started; /* requests that are to be waited for */
} bench_call;

/* The operation on buffers of its size; takes over the shape. False when memory is short. */
bool bench_call_make(bench_call *call, kith_group *group, const bench_shape *shape, kith_dtype dtype, kith_op redop,
                     bool is_in_place, void *send_buffer, void *recv_buffer);
void bench_call_free(bench_call *call);
kith_status bench_call_run(bench_call *call);
kith_status bench_call_start(bench_call *call);
kith_status bench_call_wait(bench_call *call);

/* ---- measure.c ---- */

/* One point: the same operation in all groups of a target, by one way of calling. */
typedef struct bench_point {
    const bench_target *target;
    bench_op op;
    kith_dtype dtype;
    kith_op redop;
    size_t nbytes; /* asked for */
    bool is_in_place;
    bench_memory memory;
    bench_mode mode;
    int root, src, dst;
} bench_point;

typedef struct bench_overlap bench_overlap; /* overlap.c */

typedef struct bench_run {
    bench_call calls[KITH_MESH_MAX_AXES]; /* of one point, side by side */
    bench_buffers *buffers;               /* [call_count] */
    int call_count;
    bench_mode mode;
    bench_overlap *overlap; /* NULL: nothing is computed beside it */
    kith_group *control;
    double budget_s;
    double scale;     /* of a time: 0.5 where an operation is there and back */
    int stop_signal;  /* that makes all ranks stop; 0: none */
    bool is_given_up; /* before the point was over */
} bench_run;

typedef struct bench_timing {
    bench_summary us;  /* of an operation */
    int64_t batch;     /* operations of a sample */
    double compute_us; /* with overlap: the products alone, and the operation alone; NaN where not reliable */
    double alone_us;
} bench_timing;

/* Largest buffers that an operation of this shape needs on this rank, in elements. */
void bench_call_needs(const bench_shape *shape, bool is_in_place, size_t *send_count, size_t *recv_count);
/* One operation of each call, to its end on this rank. */
kith_status bench_run_once(bench_run *run);
/* Collective over the control group; *timing is the same on all ranks. */
kith_status bench_measure(bench_run *run, bench_timing *timing);
/* *errors: wrong elements over all ranks and calls after an operation of its own, with new data. Collective. */
kith_status bench_check(bench_run *run, int salt, int64_t *errors);
double bench_now_us(void);

/* ---- overlap.c ---- */

/* Products of matrices on this rank, with communication moving on between them. Local. bench_overlap_free() also
 * after a failure. */
kith_status bench_overlap_make(bench_overlap **overlap, kith_ctx *ctx, kith_device *device);
/* As many of them as take about us microseconds on the slowest rank; *compute: what they take. Collective. */
kith_status bench_overlap_fit(bench_overlap *overlap, kith_group *control, double us, bench_summary *compute);
void bench_overlap_free(bench_overlap *overlap);
kith_status bench_overlap_compute(bench_overlap *overlap);

/* ---- cores.c ---- */

typedef struct bench_cores {
    kith_group *control;
    int rank;
    bool is_there;             /* one host, two ranks, and flags between them */
    struct bench_flags *flags; /* of ranks 0 and 1, owned */
} bench_cores;

/* Collective over the control group, as probing is. bench_cores_free() in any case. */
kith_status bench_cores_make(bench_cores *cores, kith_ctx *ctx, kith_group *control);
void bench_cores_free(bench_cores *cores);
/* *ns: how long a flag takes from one of ranks 0 and 1 to the other, the same on all ranks; NaN: not known. */
kith_status bench_cores_probe(bench_cores *cores, double *ns);
/* "sibling", "near", "far", as in bench/peers; "": not known. */
const char *bench_cores_class(double ns);
/* Of a point: the same, or "moved" when the class was another afterwards. */
const char *bench_cores_name(double before_ns, double after_ns);

/* ---- stop.c ---- */

/* From now on SIGINT and SIGTERM are noted; a second one later ends the process. */
void bench_stop_listen(void);
void bench_stop_ignore(void);
int bench_stop_noted(void); /* the signal; 0: none */

/* ---- rows.c ---- */

typedef struct bench_row {
    const char *op, *dtype, *redop, *place, *memory, *mode, *link;
    char backend[32], group[64], algorithm[48];
    int ranks, group_count, hosts;
    size_t nbytes;
    bench_summary us;
    int64_t batch;
    double algbw_gbps, busbw_gbps;               /* NaN where the median is not reliable */
    int64_t errors;                              /* -1: not checked */
    double compute_us, alone_us, hidden_percent; /* NaN: no overlap */
    int src, dst;                                /* -1: not of a pair */
    const char *cores;                           /* "near", ..., "moved", "": bench_cores_name() */
    double cores_before_ns, cores_after_ns;      /* NaN: not known */
    char pair_link[32];                          /* of all_pairs: what joins the two; "": not said (tune/pairs.h) */
    double expected_gbps;                        /* what that lets expect; NaN: nothing */
    bool is_below;                               /* clearly less was reached */
} bench_row;

typedef struct bench_rows {
    bench_row *list; /* owned */
    size_t count, capacity;
} bench_rows;

/* False when memory is short. */
bool bench_rows_add(bench_rows *rows, const bench_row *row);
void bench_rows_free(bench_rows *rows);
/* The list, as JSON. */
void bench_rows_json(const bench_rows *rows, FILE *out);
void bench_rows_csv(const bench_rows *rows, FILE *out);

/* ---- table.c ---- */

/* A line for people, with columns of nccl-tests and more; a heading where it differs from the row before (NULL: none).
 */
void bench_table_row(FILE *out, const bench_row *row, const bench_row *before);

/* ---- matrix.c ---- */

#define BENCH_MATRIX_RANKS 16
/* Whether the pair stands in a matrix, not in a line of its own: there are at most BENCH_MATRIX_RANKS ranks. */
bool bench_matrix_is_shown(const bench_row *row);
void bench_matrix_print(FILE *out, const bench_rows *rows);

/* ---- machine.c, save.c ---- */

/* The object "meta" of a file of results. hosts: [host_count] names. */
void bench_machine_json(FILE *out, const char *command, const char *const *hosts, int host_count);
/* Whether rows go to standard output, so that the table does not. */
bool bench_prints_rows(const bench_options *options);
/* False, with a sentence, when one of the files could not be made now: better known before than after measuring. */
bool bench_can_write(const bench_options *options, char *sentence, size_t nbytes);
/* Writes --json, --csv and --save, which says by which signal (0: none) the run was cut off. Returns the exit status,
 * after a sentence. */
int bench_write(const bench_options *options, const bench_rows *rows, int stop_signal, const char *const *hosts,
                int host_count);

/* ---- bench.c ---- */

/* Started by a launcher, as another rank than 0. */
bool bench_is_other_rank(void);

/* What the others wait before they leave, so that rank 0 can say why: whoever started them ends all when one leaves. */
#define BENCH_SPEAKING_US 300000

/* ---- run.c ---- */

/* What each rank runs. Returns the exit status; sentences about failures are on stderr by then. */
int bench_run_rank(const bench_options *options);

/* The words that the user typed, for files of results; the environment carries them to ranks that -n starts. */
#define BENCH_COMMAND_VARIABLE "KI_BENCH_COMMAND"

#endif
