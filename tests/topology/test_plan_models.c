/* tests/topology/test_plan_models.c - models by name and by config.json, against published parameter counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_expect.h"

/* Exact counts as the models' own pages or a load of their weights give them. */
static void test_published_counts(void **state)
{
    static const struct {
        const char *name;
        double parameters;
    } published[] = {
        { "gpt2", 124439808 },
        { "gpt2-medium", 354823168 },
        { "gpt2-large", 774030080 },
        { "gpt2-xl", 1557611200 },
        { "llama-2-7b", 6738415616 },
        { "llama-2-13b", 13015864320 },
        { "llama-2-70b", 68976648192 },
        { "llama-3-8b", 8030261248 },
        { "llama-3-70b", 70553706496 },
        { "llama-3-405b", 405853388800 },
        { "mistral-7b", 7241732096 },
        { "mixtral-8x7b", 46702792704 },
        { "qwen2-7b", 7615616512 },
        { "qwen3-8b", 8190735360 },
        { "qwen3-30b-a3b", 30532122624 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        kith_model model = named(published[i].name);
        expect_near(published[i].name, kith_model_parameters(&model), published[i].parameters, 0);
    }
}

/* Table 1 of Narayanan et al. 2021, in billions with one digit; and 12 l h^2 (1 + 13/(12h) + (V+s)/(12lh)). */
static void test_megatron_shapes(void **state)
{
    static const struct {
        const char *name;
        double billions;
    } published[] = { { "megatron-175b", 174.6 }, { "megatron-530b", 529.6 }, { "megatron-1t", 1008.0 } };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        kith_model m = named(published[i].name);
        double l = (double)m.layers, h = (double)m.hidden, positions = (double)m.positions,
               got = kith_model_parameters(&m);
        expect_near(published[i].name, round(got / 1e8) / 10, published[i].billions, 0);
        double formula = 12 * l * h * h * (1 + 13 / (12 * h) + ((double)m.vocab + positions) / (12 * l * h));
        expect_near(published[i].name, got, formula + 2 * h, 1e-12); /* the formula leaves the last norm out */
    }
}

static void test_active_parameters(void **state)
{
    (void)state;
    kith_model mixtral = named("mixtral-8x7b"), gpt2 = named("gpt2");
    expect_near("mixtral-8x7b", kith_model_active_parameters(&mixtral), 12879925248, 0);
    expect_near("gpt2", kith_model_active_parameters(&gpt2), kith_model_parameters(&gpt2), 0);
}

static void test_names(void **state)
{
    static const char *const same[][2] = { { "LLaMA 2 70B", "llama-2-70b" },
                                           { "llama2_70b", "llama-2-70b" },
                                           { "GPT-2", "gpt2" },
                                           { "Llama-3.1-405B", "llama-3-405b" },
                                           { "Mixtral8x7B", "mixtral-8x7b" } };
    (void)state;
    kith_model model;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_string_equal(named(same[i][0]).name, same[i][1]);
    int count = 0;
    while (kith_model_name(count) != NULL)
        assert_string_equal(named(kith_model_name(count)).name, kith_model_name(count)), count++;
    assert_true(count >= 16);
    assert_null(kith_model_name(-1));
    expect_refused("a near miss", kith_model_named("llama-2-71b", &model), KITH_ERR_INVALID_ARG, "llama-2-70b");
    expect_refused("a longer name", kith_model_named("Llama-2-70b-hf", &model), KITH_ERR_INVALID_ARG, "llama-2-70b");
    expect_refused("no such model", kith_model_named("resnet", &model), KITH_ERR_INVALID_ARG, "there are: gpt2, ");
    expect_refused("no name", kith_model_named("", &model), KITH_ERR_INVALID_ARG, "there is no model");
    expect_refused("NULL", kith_model_named(NULL, &model), KITH_ERR_INVALID_ARG, "NULL");
}

static kith_status parse(const char *text, kith_model *model)
{
    return kith_model_parse("dir/some-model/config.json", text, strlen(text), model);
}

static kith_model parsed(const char *text)
{
    kith_model model;
    if (parse(text, &model) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return model;
}

static void test_configs(void **state)
{
    (void)state;
    kith_model gpt2 = parsed("{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, "
                             "\"n_positions\": 1024, \"n_inner\": null, \"vocab_size\": 50257}");
    expect_near("gpt2", kith_model_parameters(&gpt2), 124439808, 0);
    assert_string_equal(gpt2.name, "some-model");
    kith_model old = parsed("{\"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, "
                            "\"intermediate_size\": 11008, \"vocab_size\": 32000}"); /* before "num_key_value_heads" */
    expect_near("llama", kith_model_parameters(&old), 6738415616, 0);
    kith_model mixtral =
        parsed("{\"model_type\": \"mixtral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096, "
               "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
               "\"vocab_size\": 32000, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}");
    expect_near("mixtral", kith_model_parameters(&mixtral), 46702792704, 0);
    kith_model qwen2 = parsed("{\"model_type\": \"qwen2\", \"num_hidden_layers\": 28, \"hidden_size\": 3584, "
                              "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"intermediate_size\": 18944, "
                              "\"vocab_size\": 152064, \"tie_word_embeddings\": false}");
    expect_near("qwen2", kith_model_parameters(&qwen2), 7615616512, 0);
    kith_model qwen3 = parsed("{\"model_type\": \"qwen3\", \"num_hidden_layers\": 36, \"hidden_size\": 4096, "
                              "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 12288, "
                              "\"vocab_size\": 151936, \"head_dim\": 128, \"attention_bias\": false}");
    expect_near("qwen3", kith_model_parameters(&qwen3), 8190735360, 0);
}

static void test_configs_with_experts(void **state)
{
    (void)state;
    kith_model shared = parsed("{\"model_type\": \"qwen2_moe\", \"num_hidden_layers\": 24, \"hidden_size\": 2048, "
                               "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"intermediate_size\": 5632, "
                               "\"vocab_size\": 151936, \"num_experts\": 60, \"num_experts_per_tok\": 4, "
                               "\"moe_intermediate_size\": 1408, \"shared_expert_intermediate_size\": 5632, "
                               "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []}");
    expect_near("qwen2_moe", kith_model_parameters(&shared), 14315784192, 0);
    kith_model many = parsed("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 48, \"hidden_size\": 2048, "
                             "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"head_dim\": 128, "
                             "\"intermediate_size\": 6144, \"vocab_size\": 151936, \"num_experts\": 128, "
                             "\"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768}");
    expect_near("qwen3_moe", kith_model_parameters(&many), 30532122624, 0);
}

/* One key of a good configuration replaced. */
static void expect_bad(const char *value, kith_status status, const char *words)
{
    char text[512];
    kith_model model;
    snprintf(text, sizeof text,
             "{\"model_type\": \"mistral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,\n"
             "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 32000, %s}",
             value);
    expect_refused(value, parse(text, &model), status, words);
}

static void test_bad_configs(void **state)
{
    (void)state;
    kith_model model;
    expect_bad("\"x\": 1", KITH_ERR_INVALID_ARG, "'intermediate_size' is missing");
    expect_bad("\"intermediate_size\": 0", KITH_ERR_INVALID_ARG, ":2: 'intermediate_size' must be");
    expect_bad("\"intermediate_size\": -5", KITH_ERR_INVALID_ARG, "'intermediate_size'");
    expect_bad("\"intermediate_size\": 1.5", KITH_ERR_INVALID_ARG, "'intermediate_size'");
    expect_bad("\"intermediate_size\": 1e300", KITH_ERR_INVALID_ARG, "'intermediate_size'");
    expect_bad("\"intermediate_size\": \"many\"", KITH_ERR_INVALID_ARG, "'intermediate_size'");
    expect_bad("\"intermediate_size\": 14336, \"head_dim\": 1e9", KITH_ERR_INVALID_ARG, "'head_dim'");
    expect_bad("\"intermediate_size\": 14336, \"attention_bias\": true", KITH_ERR_UNSUPPORTED, "'attention_bias'");
    expect_bad("\"intermediate_size\": 14336, \"tie_word_embeddings\": 1", KITH_ERR_INVALID_ARG, "true or false");
    expect_refused("heads",
                   parse("{\"num_hidden_layers\": 2, \"hidden_size\": 100, \"num_attention_heads\": 3, "
                         "\"intermediate_size\": 8, \"vocab_size\": 8}",
                         &model),
                   KITH_ERR_INVALID_ARG, "no multiple of the 3 heads");
    expect_refused("kv heads",
                   parse("{\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, "
                         "\"num_key_value_heads\": 3, \"intermediate_size\": 8, \"vocab_size\": 8}",
                         &model),
                   KITH_ERR_INVALID_ARG, "heads of K and V");
    expect_refused("another kind", parse("{\"model_type\": \"mamba\"}", &model), KITH_ERR_UNSUPPORTED, "mamba");
    expect_refused("a kind that is no text", parse("{\"model_type\": 7}", &model), KITH_ERR_UNSUPPORTED, "known: gpt2");
    expect_refused("a list", parse("[]", &model), KITH_ERR_INVALID_ARG, "object");
    expect_refused("rubbish", parse("{", &model), KITH_ERR_INVALID_ARG, "config.json:1:");
    expect_refused("no file", kith_model_read("does/not/exist.json", &model), KITH_ERR_IO, "exist.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_counts),  cmocka_unit_test(test_megatron_shapes),
        cmocka_unit_test(test_active_parameters), cmocka_unit_test(test_names),
        cmocka_unit_test(test_configs),           cmocka_unit_test(test_configs_with_experts),
        cmocka_unit_test(test_bad_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
