/* tests/layers/optim/optim_state.c - what an optimizer keeps, as a checkpoint sees it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <string.h>

/* Of each state, elements of pieces that count, over all ranks: as many as the model has. */
static void check_cover(rank_info *info, const training *t)
{
    static const char *const states[] = { "m", "v" };
    for (int s = 0; s < 2; s++) {
        int64_t counted = 0, wanted = 0;
        for (size_t i = 0; i < kith_optim_piece_count(t->optim); i++) {
            kith_optim_piece piece;
            REQUIRE_OK(kith_optim_get_piece(t->optim, i, &piece));
            REQUIRE(piece.count > 0 && piece.first >= 0 && piece.data != NULL && piece.dtype == KITH_F32);
            REQUIRE(piece.first + piece.count <= kith_tensor_count(&piece.param->value));
            if (strcmp(piece.state, states[s]) == 0 && piece.is_counted)
                counted += piece.count;
        }
        for (size_t i = 0; i < kith_layers_param_count(t->s.layers); i++) {
            const kith_tensor shape = kith_layers_param(t->s.layers, i)->value;
            wanted += kith_tensor_count(&shape);
        }
        REQUIRE_OK(kith_all_reduce(info->world, &counted, &counted, 1, KITH_INT64, KITH_SUM));
        REQUIRE(counted == wanted);
    }
}

/* Moves all pieces of one optimizer into another by their names, as a checkpoint would. */
static void copy_pieces(const kith_optim *from, const kith_optim *to)
{
    REQUIRE(kith_optim_piece_count(from) == kith_optim_piece_count(to));
    for (size_t i = 0; i < kith_optim_piece_count(from); i++) {
        kith_optim_piece a, b;
        REQUIRE_OK(kith_optim_get_piece(from, i, &a));
        REQUIRE_OK(kith_optim_get_piece(to, i, &b));
        REQUIRE(strcmp(a.state, b.state) == 0 && strcmp(a.param->name, b.param->name) == 0);
        REQUIRE(a.first == b.first && a.count == b.count && a.dtype == b.dtype);
        memcpy(b.data, a.data, (size_t)a.count * kith_dtype_nbytes(a.dtype));
    }
}

/* Training that goes on from values, pieces and the number of steps is training that went on. */
void case_pieces(rank_info *info)
{
    family f = gpt2();
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0), other = layers_on_grid(info, 1, KITH_F32, 0, 0);
        kith_optim_options options = options_of(info, &grid);
        options.is_sharded = is_sharded;
        training t = make_training(&grid, &f, &options);
        check_cover(info, &t);
        train(&t, 0, 2, info->size);
        options.data = other.data;
        training resumed = make_training(&other, &f, &options);
        round_params(grid.layers, other.layers);
        copy_pieces(t.optim, resumed.optim);
        REQUIRE_OK(kith_optim_set_steps(resumed.optim, kith_optim_steps(t.optim)));
        REQUIRE_OK(kith_optim_reset_masters(resumed.optim));
        train(&t, 2, 2, info->size), train(&resumed, 2, 2, info->size);
        REQUIRE_SAME_VALUES(other.layers, grid.layers);
        REQUIRE_STATUS(kith_optim_get_piece(t.optim, kith_optim_piece_count(t.optim), &(kith_optim_piece){ 0 }),
                       KITH_ERR_INVALID_ARG);
        end_training(&t), end_training(&resumed);
    }
}

/* Weights in bf16 move by steps that are too small for them, since their masters do; new values make new masters. */
void case_masters(rank_info *info)
{
    grid_layers grid = layers_on_grid(info, 1, KITH_BF16, 0, 0);
    add_norm(grid.layers, "a", 40);
    kith_optim_options options = options_of(info, &grid);
    options.kind = KITH_SGD, options.allows_unused = 1, options.clip_norm = 0, options.is_sharded = 1;
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(grid.layers, &options, &optim));
    kith_param *param = kith_layers_param(grid.layers, 0);
    for (int step = 0; step < 8; step++) {
        REQUIRE_OK(kith_optim_begin(optim, 1));
        put_grad(grid.layers, "a.weight", 1);
        REQUIRE_OK(kith_optim_step(optim, 0x1p-10 / info->size, NULL)); // bf16 has 2^-8 below 1
        double wanted = 1 - 0x1p-10 * (step + 1), got = element(&param->value, 39);
        REQUIRE_NEAR(got, wanted, 0x1p-9);
    }
    REQUIRE(element(&param->value, 0) == 1 - 0x1p-7);
    kith_optim_piece piece;
    REQUIRE(kith_optim_piece_count(optim) <= 1);
    if (kith_optim_piece_count(optim) == 1) {
        REQUIRE_OK(kith_optim_get_piece(optim, 0, &piece));
        REQUIRE(strcmp(piece.state, "master") == 0 && piece.dtype == KITH_F32);
        REQUIRE_NEAR((double)((float *)piece.data)[0], 1 - 0x1p-7, info->size == 3 ? 1e-6 : 0);
        REQUIRE_OK(kith_param_fill(param, 2));
        REQUIRE_OK(kith_optim_reset_masters(optim));
        REQUIRE(((float *)piece.data)[piece.count - 1] == 2);
    } else {
        REQUIRE_OK(kith_param_fill(param, 2));
        REQUIRE_OK(kith_optim_reset_masters(optim));
    }
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_OK(kith_optim_step(optim, 0.5, NULL));
    REQUIRE(element(&param->value, 17) == 2);
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(grid.layers));
}

/* Equal values have equal hashes; one bit, a name or a place makes another. */
void case_hashes(rank_info *info)
{
    (void)info;
    kith_layers *layers[4];
    for (int i = 0; i < 4; i++) {
        layers[i] = layers_alone(KITH_F32);
        add_norm(layers[i], i == 3 ? "other" : "a", i == 2 ? 8 : 9);
    }
    uint64_t hash = kith_layers_hash_values(layers[0]);
    REQUIRE(hash == kith_layers_hash_values(layers[1]));
    REQUIRE(hash != kith_layers_hash_values(layers[2]) && hash != kith_layers_hash_values(layers[3]));
    float *value = kith_layers_param(layers[1], 0)->value.data;
    value[8] = 1 + 0x1p-23f;
    REQUIRE(hash != kith_layers_hash_values(layers[1]));
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(kith_layers_destroy(layers[i]));
}
