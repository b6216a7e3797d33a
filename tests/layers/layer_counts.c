/* tests/layers/layer_counts.c - what one attention and one feed-forward layer communicate and keep, to the byte.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <string.h>

/* Divisible by 1 to 4 ranks: figures are those of the papers, without remainders. */
enum { HIDDEN = 24, HEADS = 12, INNER = 4 * HIDDEN, SEQUENCE = 12, BATCH = 2, TOKENS = SEQUENCE * BATCH };

typedef struct two {
    kith_layers *layers;
    kith_attention *attention;
    kith_mlp *mlp;
    kith_tape *tape;
    int64_t own_tokens;
} two;

static two make_two(kith_layers *layers, int t, int is_sequence_parallel, int is_core_recomputed)
{
    two made = { .layers = layers, .own_tokens = is_sequence_parallel ? TOKENS / t : TOKENS };
    kith_attention_options attention = KITH_ATTENTION_OPTIONS_INIT;
    attention.features = HIDDEN, attention.heads = HEADS, attention.is_core_recomputed = is_core_recomputed;
    kith_mlp_options mlp = KITH_MLP_OPTIONS_INIT;
    mlp.features = HIDDEN, mlp.inner_features = INNER;
    REQUIRE_OK(kith_attention_create(layers, &attention, &made.attention));
    REQUIRE_OK(kith_mlp_create(layers, &mlp, &made.mlp));
    load_params(layers, fraction);
    made.tape = tape_of(layers, SEQUENCE, BATCH);
    return made;
}

static void end_two(two *made)
{
    kith_tape_destroy(made->tape);
    REQUIRE_OK(kith_layers_destroy(made->layers));
}

/* Zeros in the layers' memory, so that they are counted. */
static kith_tensor activation(two *p)
{
    kith_tensor x;
    REQUIRE_OK(kith_tensor_create(p->layers, KITH_BF16, 2, (const int64_t[]){ p->own_tokens, HIDDEN }, &x));
    if (x.data != NULL)
        memset(x.data, 0, (size_t)(p->own_tokens * HIDDEN) * 2);
    return x;
}

/* Forward of both, each with an input of its own as after a norm; outputs are let go. */
static void forward(two *p)
{
    kith_tensor x = activation(p), x2 = activation(p), y, y2;
    REQUIRE_OK(kith_attention_forward(p->attention, p->tape, &x, &y));
    REQUIRE_OK(kith_mlp_forward(p->mlp, p->tape, &x2, &y2));
    kith_tensor *all[] = { &x, &x2, &y, &y2 };
    for (int i = 0; i < 4; i++)
        kith_tensor_release(all[i]);
}

static void backward(two *p)
{
    kith_tensor dy = activation(p), dx;
    REQUIRE_OK(kith_mlp_backward(p->mlp, p->tape, &dy, &dx));
    kith_tensor_release(&dx);
    REQUIRE_OK(kith_attention_backward(p->attention, p->tape, &dy, &dx));
    kith_tensor_release(&dx), kith_tensor_release(&dy);
}

static void require_ops(const kith_layers_traffic *traffic, kith_layers_phase phase, uint64_t all_reduces,
                        uint64_t all_gathers, uint64_t reduce_scatters)
{
    static const kith_coll_kind kinds[] = { KITH_ALL_REDUCE, KITH_ALL_GATHER, KITH_REDUCE_SCATTER };
    const uint64_t wanted[] = { all_reduces, all_gathers, reduce_scatters };
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        uint64_t ops = 0;
        for (int i = 0; i < 3; i++)
            ops = (int)kinds[i] == kind ? wanted[i] : ops;
        if (traffic->ops[phase][kind] != ops || traffic->elements[phase][kind] != ops * TOKENS * HIDDEN)
            rank_fail(__FILE__, __LINE__, "phase %d, collective %d: %d of %d elements, wanted %d of %d each", phase,
                      kind, (int)traffic->ops[phase][kind], (int)traffic->elements[phase][kind], (int)ops,
                      TOKENS * HIDDEN);
    }
}

/* What a watch was told. */
typedef struct watched {
    uint64_t ops[KITH_PHASES][KITH_TRAFFIC_KINDS], nbytes[KITH_PHASES][KITH_TRAFFIC_KINDS];
    int64_t latest_ns;
} watched;

static void watch(void *arg, kith_layers_phase phase, kith_coll_kind kind, int64_t start_ns, int64_t end_ns,
                  uint64_t nbytes)
{
    watched *seen = (watched *)arg;
    seen->ops[phase][kind]++;
    seen->nbytes[phase][kind] += nbytes;
    REQUIRE(start_ns > 0 && start_ns <= end_ns && end_ns >= seen->latest_ns); // told in the order of their ends
    seen->latest_ns = end_ns;
}

/* A watch is told of all that is counted, and nobody stands still for what was not sent. */
static void require_watched(const kith_layers_traffic *traffic, const watched *seen)
{
    for (int phase = 0; phase < KITH_PHASES; phase++)
        for (int kind = 0; kind < KITH_TRAFFIC_KINDS; kind++) {
            if (traffic->ops[phase][kind] != seen->ops[phase][kind] ||
                traffic->nbytes[phase][kind] != seen->nbytes[phase][kind])
                rank_fail(__FILE__, __LINE__, "phase %d, collective %d: watched %d of %d bytes, counted %d of %d",
                          phase, kind, (int)seen->ops[phase][kind], (int)seen->nbytes[phase][kind],
                          (int)traffic->ops[phase][kind], (int)traffic->nbytes[phase][kind]);
            REQUIRE(traffic->ops[phase][kind] > 0 || traffic->wait_ns[phase][kind] == 0);
        }
}

/* Two all-reduces each way; with sequence parallelism two all-gathers and two reduce-scatters each way, and x gathered
 * again for the gradients of the column-parallel weights. Nothing for one rank. */
static void check_traffic(rank_info *info, int is_sequence_parallel, int is_core_recomputed)
{
    two p = make_two(layers_over(info, info->size, KITH_BF16, is_sequence_parallel), info->size, is_sequence_parallel,
                     is_core_recomputed);
    uint64_t some = info->size > 1 ? 2 : 0, split = is_sequence_parallel ? some : 0, plain = some - split;
    kith_layers_traffic traffic;
    watched seen;
    memset(&seen, 0, sizeof seen);
    kith_layers_reset_traffic(p.layers);
    kith_layers_set_watch(p.layers, watch, &seen);
    forward(&p);
    backward(&p);
    kith_layers_set_watch(p.layers, NULL, NULL);
    kith_layers_get_traffic(p.layers, &traffic);
    require_watched(&traffic, &seen);
    require_ops(&traffic, KITH_PHASE_FORWARD, plain, split, split);
    require_ops(&traffic, KITH_PHASE_BACKWARD, plain, 2 * split, split);
    require_ops(&traffic, KITH_PHASE_FINISH, 0, 0, 0);
    end_two(&p);
}

/* Bytes on the tape: inputs; q, k, v; the core's output with an f32 for each token and head, unless it is computed
 * again; both sides of the activation. */
static void check_memory(kith_layers *layers, int t, int is_sequence_parallel, int is_core_recomputed)
{
    two p = make_two(layers, t, is_sequence_parallel, is_core_recomputed);
    kith_layers_memory memory;
    forward(&p);
    kith_layers_get_memory(layers, &memory);
    int64_t inputs = 2 * p.own_tokens * HIDDEN * 2, qkv = TOKENS * 3 * HIDDEN / t * 2;
    int64_t core = TOKENS * HIDDEN / t * 2 + TOKENS * HEADS / t * 4, inner = 2 * TOKENS * INNER / t * 2;
    int64_t wanted = inputs + qkv + (is_core_recomputed ? 0 : core) + inner;
    if (memory.tensors != (uint64_t)wanted)
        rank_fail(__FILE__, __LINE__, "%llu bytes are kept, wanted %lld", (unsigned long long)memory.tensors,
                  (long long)wanted);
    backward(&p);
    kith_layers_get_memory(layers, &memory);
    REQUIRE(memory.tensors == 0);
    end_two(&p);
}

void case_counts(rank_info *info)
{
    for (int way = 0; way < 4; way++) {
        check_traffic(info, way % 2, way / 2);
        check_memory(layers_over(info, info->size, KITH_BF16, way % 2), info->size, way % 2, way / 2);
        kith_layers_options dry = KITH_LAYERS_OPTIONS_INIT;
        dry.dtype = KITH_BF16, dry.dry_tp = info->size, dry.is_sequence_parallel = way % 2;
        kith_layers *layers;
        REQUIRE_OK(kith_layers_create(&dry, &layers));
        check_memory(layers, info->size, way % 2, way / 2);
    }
}
