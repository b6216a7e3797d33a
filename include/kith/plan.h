/* kith/plan.h - what training a model costs in a layout: memory of a rank, bytes and time of each axis, step time.
 *
 *     kith_model model;
 *     kith_model_named("llama-2-70b", &model);
 *     kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
 *     o.tp = 8; o.micro_batch = 4; o.sequence = 4096;
 *     kith_plan plan;
 *     kith_plan_make(NULL, &model, &o, &plan);
 *     plan.forward_table.bytes                       // 80 GiB: 160 all-reduces of 512 MiB
 *
 * Pure arithmetic; sources of the formulas stand in docs/plan.md.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_PLAN_H
#define KITH_PLAN_H

#include <kith/placement.h>
#include <kith/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Shape of a decoder-only transformer. Dropout is what tells GPT-style models from LLaMA-style ones in the activation
 * formulas; it is taken to be there when has_bias is set. The caller allocates it and it has no struct_size: before
 * version 1.0 its size belongs to the version of this header, so compile against the header of the library in use. */
typedef struct kith_model {
    char name[64];
    int64_t layers, hidden, heads, kv_heads, head_dim; /* head_dim 0: hidden / heads */
    int64_t ffn;                                       /* inner size of the MLP (of one expert) */
    int64_t vocab, positions;                          /* positions: learned embeddings; 0 with rotary ones */
    int64_t experts, top_k, moe_every;                 /* experts 0: dense; every n-th layer has experts (1: all) */
    int64_t moe_ffn;                                   /* inner size of an expert where it differs; 0: ffn */
    bool is_gated;                                     /* SwiGLU: three matrices instead of two */
    bool is_tied;                                      /* head and embedding share their weights */
    bool has_bias;                                     /* biases in linear layers, and LayerNorm instead of RMSNorm */
    int64_t shared_ffn; /* inner size of an expert that every token uses, with a gate of its own; 0: none */
    bool has_qkv_bias;  /* biases of Q, K and V alone (Qwen2) */
    bool has_qk_norm;   /* RMSNorm of each head's Q and K (Qwen3) */
} kith_model;

/* A model by name, "gpt2", "llama-2-70b", ...; case and punctuation do not matter. KITH_ERR_INVALID_ARG lists the
 * names. */
KITH_API kith_status kith_model_named(const char *name, kith_model *model);
/* Names of the table, NULL past the end. */
KITH_API const char *kith_model_name(int index);
/* A config.json in Hugging Face form: GPT-2, LLaMA, Mistral, Mixtral, Qwen2, Qwen3 and their mixtures of experts.
 * Missing or absurd values are KITH_ERR_INVALID_ARG with the key; another kind of model is KITH_ERR_UNSUPPORTED, for
 * its shape cannot be told from its keys. */
KITH_API kith_status kith_model_read(const char *path, kith_model *model);
KITH_API kith_status kith_model_parse(const char *name, const char *text, size_t nbytes, kith_model *model);
/* All parameters; and those that one token uses (fewer with experts). */
KITH_API double kith_model_parameters(const kith_model *model);
KITH_API double kith_model_active_parameters(const kith_model *model);

typedef enum kith_recompute { KITH_RECOMPUTE_NONE, KITH_RECOMPUTE_SELECTIVE, KITH_RECOMPUTE_FULL } kith_recompute;
/* "none", "selective", "full". NULL past the end. */
KITH_API const char *kith_recompute_name(kith_recompute recompute);

typedef struct kith_plan_options {
    size_t struct_size;
    int tp, cp, ep, dp, pp; /* 0: 1; with a topology dp 0: what kith_place() has room for. ep splits the batch, too */
    int64_t micro_batch;    /* sequences of one microbatch on one data-parallel rank; 0: 1 */
    int64_t microbatches;   /* per step and pipeline; 0: 1, or from global_batch */
    int64_t global_batch;   /* sequences of a step; 0: micro_batch * microbatches * dp * ep */
    int64_t sequence;       /* tokens; 0: 2048, or the model's positions where they are fewer */
    int parameter_nbytes;   /* 2 (bf16, f16) or 4 (f32), 1 (fp8: activations stay in 2 bytes); 0: 2 */
    int gradient_nbytes;    /* 0: as activations (2, or 4 with f32) */
    bool sequence_parallel;
    bool flash_attention; /* attention core without the s^2 terms */
    int zero;             /* 0: optimizer replicated over dp; 1: sharded; 2: and gradients; 3: and parameters */
    kith_recompute recompute;
    kith_schedule_kind schedule; /* all but custom */
    int chunks;                  /* on each rank, as in kith_schedule_options; 0: 2 with zb-v, dualpipe-v and, where pp
                                    is not 1, interleaved, looped-bfs and interleaved-zb; 1 with the others */
    const char *order;           /* NULL: "tp-cp-ep-dp-pp"; borrowed by the plan */
    double peak_tflops;          /* of one GPU in that precision; 0: from the GPU's name, else 312 (assumed) */
    double efficiency;           /* share of it that GEMMs reach; 0: 0.5 */
    double gpu_memory_nbytes;    /* 0: from the topology or the GPU's name; else unknown */
    const char *gpu;             /* model of the GPUs where no topology says ("H100"); NULL: unknown; borrowed */
    /* Called now and then on the calling thread while a plan is placed or layouts are searched for, which may take
     * seconds on thousands of GPUs: what is done ("laying out", "placing"; static) and how much of it, 0 to 1. Anything
     * but 0 ends the work with KITH_ERR_ABORTED. NULL: none. */
    int (*progress)(void *arg, const char *what, double fraction);
    void *progress_arg;
    bool keep_order; /* on a machine: ranks stay in the order of the GPUs' numbers */
} kith_plan_options;

#define KITH_PLAN_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_plan_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false, 0, KITH_RECOMPUTE_NONE,              \
            KITH_SCHEDULE_1F1B, 0, NULL, 0, 0, 0, NULL, NULL, NULL, false                                              \
    }

/* The classes of link that a plan is priced on side by side. */
typedef enum kith_plan_link { KITH_PLAN_NVLINK, KITH_PLAN_PCIE, KITH_PLAN_IB, KITH_PLAN_LINKS } kith_plan_link;
KITH_API const char *kith_plan_link_name(kith_plan_link link); /* "nvlink", "pcie", "ib" */
/* The nominal GB/s of the forward table: 900 (NVLink 4, both directions), 64 (PCIe 5 x16), 50 (NDR). */
KITH_API double kith_plan_link_nominal_gbps(kith_plan_link link);

/* Bytes of the all-reduces of one forward pass as lecture notes and papers count them: an all-reduce of n bytes moves
 * 2n, and time is bytes over the nominal bandwidth. Coarse on purpose, for comparing links: the exact counts are the
 * rows below. */
typedef struct kith_forward_table {
    double ops;          /* 2 for each layer; 0 with tp 1 */
    double bytes_per_op; /* 2 * micro_batch * sequence / cp * hidden * bytes of an activation */
    double bytes;        /* ops * bytes_per_op */
    double time_s[KITH_PLAN_LINKS];
} kith_forward_table;

/* One kind of communication in a step, exactly counted. Scalars (the loss, the norm of the gradient) are left out. */
typedef struct kith_plan_traffic_row {
    const char *axis;  /* "tp", "cp", "ep", "dp", "pp" */
    const char *group; /* whose ranks it joins: "tp", "dp-cp", ..., or "embed" (first and last stage) */
    const char *what;  /* "row-parallel outputs", "gradients", ... */
    const char *phase; /* "forward", "backward", "recompute" (each microbatch) or "step" (once) */
    const char *op;    /* "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv" */
    int group_size;
    int stage;                      /* 0 or pp - 1: only ranks of the first or last stage; -1: every stage */
    double ops;                     /* per step on the busiest rank */
    double group_ops;               /* per step, all ranks of a group together: differs from ops for messages only */
    double message_nbytes;          /* the whole vector, as in kith_cost_collective() */
    double wire_nbytes;             /* what a rank sends for one: all_reduce 2(n-1)/n, all_gather (n-1)/n, ... */
    double time_s[KITH_PLAN_LINKS]; /* of all ops, alpha-beta on that class alone */
    double placed_s;                /* on the topology where it was placed; -1 without one */
    bool is_overlapped;             /* may hide behind compute; not part of the step time unless longer */
} kith_plan_traffic_row;

#define KITH_PLAN_MAX_ROWS 48

typedef struct kith_plan_memory {
    double weights, gradients, optimizer, activations, total; /* bytes of the fullest rank */
    double activations_per_layer;                             /* one microbatch */
    double in_flight;                                         /* microbatches (layers' worth) held on that rank */
    int stage;                                                /* the fullest rank's */
    double capacity;                                          /* 0: unknown */
    bool fits;                                                /* true when the capacity is unknown, too */
} kith_plan_memory;

/* Where the time of a step goes. */
typedef struct kith_plan_step {
    double compute_s;       /* all microbatches of the slowest stage, recomputation included */
    double communication_s; /* of every microbatch, what compute does not hide */
    double bubble_s;        /* idle in the pipeline */
    double once_s;          /* communication at the end of the step that compute does not hide */
    double total_s;
} kith_plan_step;

#define KITH_PLAN_MAX_NOTES 8

/* The caller allocates it and it has no struct_size: before version 1.0 its size belongs to the version of this header,
 * so compile against the header of the library in use. */
typedef struct kith_plan {
    kith_model model;
    kith_plan_options options; /* with all zeros replaced by what was used; capacity may stay 0; progress is NULL */
    int world;
    int64_t padded_vocab; /* multiple of 128 * tp */
    kith_forward_table forward_table;
    kith_plan_traffic_row rows[KITH_PLAN_MAX_ROWS];
    int row_count;
    kith_plan_memory memory;
    double compute_s;       /* one microbatch on the slowest stage, forward and backward */
    double recompute_s;     /* of it */
    double bubble;          /* share of the ideal time: (p-1)/m and so on, from the first start to the last end */
    double bubble_in_stage; /* the same within each stage's own span, as the papers on zero bubbles count */
    kith_plan_step steps[KITH_PLAN_LINKS + 1]; /* everything on that class; the last: placed, total_s -1 without */
    double step_s[KITH_PLAN_LINKS];            /* steps[i].total_s */
    double placed_step_s;                      /* on the topology; -1 without one */
    double tokens_per_s;                       /* placed, else on nvlink */
    double model_flops;                        /* of a step, all ranks, without recomputation */
    double mfu;                                /* model flops / (step time * peak * world) */
    bool is_peak_assumed;
    const char *notes[KITH_PLAN_MAX_NOTES]; /* what to know about this layout; static sentences */
    int note_count;
} kith_plan;

/* Makes a plan. topology NULL: only the classes side by side. KITH_ERR_INVALID_ARG when sizes do not divide what they
 * split (heads, inner size of the MLP, layers, experts, sequence, batch), with the valid ones. KITH_ERR_ABORTED when
 * progress() asked to stop. options may be NULL. */
KITH_API kith_status kith_plan_make(const kith_topology *topology, const kith_model *model,
                                    const kith_plan_options *options, kith_plan *plan);

/* The same with the placement that the plan's times hold for, which is the caller's: the best that kith_place() finds
 * for this traffic, or the order of the GPUs' numbers where the step is shorter with it or options->keep_order wants
 * it. The topology must outlive it. */
KITH_API kith_status kith_plan_make_placed(const kith_topology *topology, const kith_model *model,
                                           const kith_plan_options *options, kith_plan *plan,
                                           kith_placement **placement);

/* Traffic of the axes for kith_placement_options.traffic: KITH_PLACEMENT_AXES entries. What overlaps with compute (of
 * dp the gradients, of cp the blocks of K and V) has the seconds of compute that hide it. */
KITH_API void kith_plan_traffic(const kith_plan *plan, kith_axis_traffic *traffic);

/* Tries all layouts of `world` ranks (0: as many as kith_place() has room for with the axes that are given) and sorts
 * those that fit into memory by predicted step time. With a topology they are compared by an estimate first; the best,
 * three times `capacity` and at least 24, are placed and sorted by their placed times. options gives what is not
 * searched (batch, sequence, precision, schedule; tp, pp, cp, ep, dp that are not 0 are kept). All layouts do the same
 * work: global_batch 0 is micro_batch * microbatches * world. plans receives at most capacity; *count how many were
 * written, *tried how many were looked at. No layout at all that divides what it splits is KITH_ERR_INVALID_ARG; none
 * that fits into memory is KITH_OK with *count 0. Layouts that kith_place() refuses are passed over; when it refuses
 * all, its last refusal is the answer. When progress() asks to stop it is KITH_ERR_ABORTED; after a failure plans hold
 * nothing of use. */
KITH_API kith_status kith_plan_search(const kith_topology *topology, const kith_model *model,
                                      const kith_plan_options *options, int world, kith_plan *plans, int capacity,
                                      int *count, int *tried);

/* Text or JSON (keys: docs/plan.md). Caller's: kith_free(). */
KITH_API kith_status kith_plan_print(const kith_plan *plan, kith_format format, char **text);

#ifdef __cplusplus
}
#endif
#endif
