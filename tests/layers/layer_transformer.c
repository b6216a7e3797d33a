/* tests/layers/layer_transformer.c - whole models with dropout against themselves on one rank, in every layout and
 * with every kind of recomputation; and what they send.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <math.h>

static const struct way {
    const char *what;
    kith_recompute recompute;
    int run, is_from_start, is_split_backward;
} ways[] = {
    { "nothing again", KITH_RECOMPUTE_NONE, 0, 0, 0 },           { "weights later", KITH_RECOMPUTE_NONE, 0, 0, 1 },
    { "selective", KITH_RECOMPUTE_SELECTIVE, 0, 0, 0 },          { "every block", KITH_RECOMPUTE_FULL, 1, 0, 0 },
    { "runs of the square root", KITH_RECOMPUTE_FULL, 0, 0, 0 }, { "from the start", KITH_RECOMPUTE_FULL, 0, 1, 0 },
};

static void compare_layouts(rank_info *info, kith_transformer_config config)
{
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    config.dropout = 0.1;
    config.attention_dropout = 0.2;
    config.label_smoothing = 0.1;
    options.config = &config;
    setup alone = make_setup(layers_alone(KITH_F64), &options);
    step(&alone);
    for (int sp = 0; sp < 2; sp++) {
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            kith_transformer_options other = options;
            other.recompute = ways[w].recompute;
            other.recompute_run = ways[w].run;
            other.is_from_start = ways[w].is_from_start;
            other.vocabulary_multiple = w % 2 == 0 ? 0 : 8;
            setup s = make_setup(layers_over(info, info->size, KITH_F64, sp), &other);
            REQUIRE_OK(kith_tape_set_split_backward(s.tape, ways[w].is_split_backward));
            for (int again = 0; again < 2; again++) // memory that comes back from the first step is the second's
                step(&s);
            if (!(fabs(s.loss.sum - alone.loss.sum) <= 1e-12 * fabs(alone.loss.sum)))
                rank_fail(__FILE__, __LINE__, "%s, sp %d: the loss is %.17g, on one rank %.17g", ways[w].what, sp,
                          s.loss.sum, alone.loss.sum);
            REQUIRE_SAME_GRADS(s.layers, alone.layers, 1e-12);
            end_setup(&s);
        }
    }
    end_setup(&alone);
}

void case_transformer_layouts(rank_info *info)
{
    compare_layouts(info, gpt2().config);
    if (info->size == 3)
        return;
    compare_layouts(info, llama().config);
    compare_layouts(info, mixtral().config);
}

/* ---- what it sends ---- */

/* Facts on Megatron's counts: two layers send 7 times forward and 5 times back; the same bytes with sequence
 * parallelism. Recomputation of whole blocks sends their forward all-reduces again, selective recomputation none. */
void case_transformer_traffic(rank_info *info)
{
    double wire[2] = { 0, 0 };
    uint64_t some = info->size > 1;
    for (int sp = 0; sp < 2; sp++) {
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        family f = gpt2();
        options.config = &f.config;
        setup s = make_setup(layers_over(info, info->size, KITH_F32, sp), &options);
        step(&s);
        kith_layers_traffic t;
        kith_layers_get_traffic(s.layers, &t);
        uint64_t blocks = 2, plain = some && !sp, split = some && sp;
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == plain * (2 * blocks + 1) + 2 * some);
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE] == plain * (2 * blocks + 1));
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_ALL_GATHER] == split * (2 * blocks + 1));
        REQUIRE(t.ops[KITH_PHASE_FORWARD][KITH_REDUCE_SCATTER] == split * (2 * blocks + 1));
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_REDUCE_SCATTER] == split * (2 * blocks + 1));
        REQUIRE(t.ops[KITH_PHASE_BACKWARD][KITH_ALL_GATHER] == split * (2 * blocks + 1 + 2 * blocks + 1));
        REQUIRE(t.ops[KITH_PHASE_FINISH][KITH_ALL_REDUCE] == split);
        for (int k = 0; k < KITH_COLL_COUNT; k++)
            wire[sp] += t.wire_nbytes[KITH_PHASE_FORWARD][k];
        end_setup(&s);
    }
    REQUIRE(fabs(wire[0] - wire[1]) <= 1e-9 * wire[0]);
}

static uint64_t backward_all_reduces(rank_info *info, kith_recompute recompute)
{
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    family f = gpt2();
    options.config = &f.config;
    options.recompute = recompute;
    options.recompute_run = recompute == KITH_RECOMPUTE_FULL;
    setup s = make_setup(layers_over(info, info->size, KITH_F32, 0), &options);
    step(&s);
    kith_layers_traffic t;
    kith_layers_get_traffic(s.layers, &t);
    end_setup(&s);
    return t.ops[KITH_PHASE_BACKWARD][KITH_ALL_REDUCE];
}

void case_transformer_traffic_again(rank_info *info)
{
    uint64_t some = info->size > 1;
    REQUIRE(backward_all_reduces(info, KITH_RECOMPUTE_NONE) == 5 * some);
    REQUIRE(backward_all_reduces(info, KITH_RECOMPUTE_SELECTIVE) == 5 * some);
    REQUIRE(backward_all_reduces(info, KITH_RECOMPUTE_FULL) == (5 + 4) * some);
}
