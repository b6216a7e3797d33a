/* tests/layers/checkpoint/ckpt_layouts.c - saved in one layout, loaded in another: every element is where it belongs,
 * and saving it again writes the same bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>

static const layout dense_layouts[] = {
    { "alone", 1, 1, 1, 1, 0, 0, 0 },
    { "tp 2", 2, 1, 1, 1, 0, 1, 0 },
    { "tp 4, padded", 4, 1, 1, 1, 0, 0, 8 },
    { "pp 2", 1, 2, 1, 1, 0, 0, 0 },
    { "tp 2 pp 2", 2, 2, 1, 1, 0, 0, 16 },
    { "dp 2", 1, 1, 2, 1, 0, 0, 0 },
    { "dp 2, shards", 1, 1, 2, 1, 1, 0, 0 },
    { "dp 3, shards", 1, 1, 3, 1, 1, 0, 7 },
    { "tp 2 dp 2, shards", 2, 1, 2, 1, 1, 1, 5 },
    { "pp 2 dp 2, shards", 1, 2, 2, 1, 1, 0, 0 },
    { "pp 3", 1, 3, 1, 1, 0, 0, 0 },
};

static const layout expert_layouts[] = {
    { "alone", 1, 1, 1, 1, 0, 0, 0 },
    { "tp 2", 2, 1, 1, 1, 0, 0, 0 },
    { "tp 4", 4, 1, 1, 1, 0, 0, 0 },
    { "dp 4, shards", 1, 1, 4, 1, 1, 0, 0 },
    { "ep 2", 1, 1, 2, 2, 0, 0, 0 },
    { "ep 4, shards", 1, 1, 4, 4, 1, 0, 0 },
    { "dp 4 ep 2, shards", 1, 1, 4, 2, 1, 0, 0 },
    { "tp 2 ep 2, shards", 2, 1, 2, 2, 1, 0, 0 },
    { "pp 2 ep 2, shards", 1, 2, 2, 2, 1, 0, 3 },
};

static const char *const files[] = { "config.json", "model.safetensors", "optimizer.safetensors", "kith.json" };

static const kith_checkpoint_number numbers_saved[] = {
    { "step", 7 }, { "seed", 9007199254740992.0 }, { "loss.best", 0.1 }, { "nothing", -0.0 }, { "far", 1e300 * 1e300 }
};
enum { NUMBERS = sizeof numbers_saved / sizeof numbers_saved[0] };

static int fits(const rank_info *info, const layout *l)
{
    return l->tp * l->pp * l->dp <= info->size;
}

static void save_in(rank_info *info, const layout *l, const kith_transformer_config *config, kith_dtype dtype,
                    with optim, const char *folder)
{
    model m = make_model(info, l, config, dtype, optim);
    m.place.config = &m.config;
    fill_model(&m, 1);
    if (m.is_in && m.optim != NULL)
        REQUIRE_OK(kith_optim_set_steps(m.optim, 41));
    if (m.is_in)
        REQUIRE_OK(kith_checkpoint_save(&m.place, folder, 7, numbers_saved, NUMBERS));
    end_model(&m);
}

static void require_numbers(const model *m, const char *path)
{
    kith_checkpoint_number got[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        got[i] = (kith_checkpoint_number){ numbers_saved[NUMBERS - 1 - i].name, 123 };
    REQUIRE_OK(kith_checkpoint_load(&m->place, path, got, NUMBERS));
    for (int i = 0; i < NUMBERS; i++)
        REQUIRE(memcmp(&got[i].value, &numbers_saved[NUMBERS - 1 - i].value, sizeof(double)) == 0);
}

static void load_in(rank_info *info, const layout *l, const kith_transformer_config *config, kith_dtype dtype,
                    with optim, const char *from, const char *again)
{
    model m = make_model(info, l, config, dtype, optim);
    m.place.config = &m.config;
    spoil_model(&m);
    if (m.is_in) {
        require_numbers(&m, from);
        REQUIRE_MODEL(&m, 1);
        if (m.optim != NULL)
            REQUIRE(kith_optim_steps(m.optim) == 41);
        REQUIRE_OK(kith_checkpoint_save(&m.place, again, 7, numbers_saved, NUMBERS));
        spoil_model(&m);
        REQUIRE_OK(kith_weights_load(&m.place, from));
    }
    end_model(&m);
}

static void any_to_any(rank_info *info, const layout *layouts, size_t count, const kith_transformer_config *config,
                       kith_dtype dtype, with optim)
{
    char scratch[256], first[300];
    make_scratch(info, scratch);
    snprintf(first, sizeof first, "%s/step-00000007", scratch);
    save_in(info, &layouts[0], config, dtype, optim, scratch);
    for (size_t i = 0; i < count; i++) {
        if (!fits(info, &layouts[i]))
            continue;
        const char *again = join(scratch, "again");
        load_in(info, &layouts[i], config, dtype, optim, first, again);
        REQUIRE_OK(kith_barrier(info->world));
        for (size_t f = 0; f < sizeof files / sizeof files[0] && info->rank == 0; f++)
            if (optim != WITHOUT_OPTIM || f != 2)
                require_equal_files(__FILE__, __LINE__, join(first, files[f]),
                                    join(join(scratch, "again/step-00000007"), files[f]));
        REQUIRE_OK(kith_barrier(info->world));
    }
    remove_scratch(info, scratch);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

void case_layouts_gpt2(rank_info *info)
{
    kith_transformer_config config = tiny_gpt2();
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &config, KITH_F32, WITH_ADAMW);
    config.is_tied = 0;
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &config, KITH_F64, WITHOUT_OPTIM);
}

void case_layouts_llama(rank_info *info)
{
    kith_transformer_config config = tiny_llama(), qwen2 = tiny_qwen2(), qwen3 = tiny_qwen3();
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &config, KITH_F64, WITH_ADAMW);
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &qwen2, KITH_F32, WITH_SGD);
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &qwen3, KITH_F32, WITHOUT_OPTIM);
}

void case_layouts_mixtral(rank_info *info)
{
    kith_transformer_config config = tiny_mixtral();
    any_to_any(info, expert_layouts, COUNT(expert_layouts), &config, KITH_F64, WITHOUT_OPTIM);
    any_to_any(info, expert_layouts, COUNT(expert_layouts), &config, KITH_F32, WITH_ADAMW);
}

/* Weights of bf16 and f16 beside masters of f32. */
void case_layouts_bf16(rank_info *info)
{
    kith_transformer_config config = tiny_gpt2();
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &config, KITH_BF16, WITH_ADAMW);
    any_to_any(info, dense_layouts, COUNT(dense_layouts), &config, KITH_F16, WITH_ADAMW);
}

/* A vocabulary that neither 2 nor 4 ranks share evenly, padded as Megatron pads. */
void case_layouts_wide(rank_info *info)
{
    static const layout layouts[] = { { "alone", 1, 1, 1, 1, 0, 0, 128 },
                                      { "tp 2", 2, 1, 1, 1, 0, 0, 128 },
                                      { "tp 4", 4, 1, 1, 1, 0, 0, 128 },
                                      { "tp 4, uneven", 4, 1, 1, 1, 0, 0, 0 } };
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_transformer_gpt2(&config, 4, 1, 4, 65535, 8));
    any_to_any(info, layouts, COUNT(layouts), &config, KITH_F32, WITH_ADAMW);
}
