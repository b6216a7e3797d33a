/* tests/layers/checkpoint/test_ckpt_config.c - config.json: what each family's keys mean, what is refused, and that
 * what is written reads back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/checkpoint.h>
#include <kith/kith.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GPT2 "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":24,\"n_head\":4,\"vocab_size\":53,\"n_positions\":16"
#define LLAMA(type)                                                                                                    \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":2,\"hidden_size\":24,\"num_attention_heads\":4,"               \
    "\"num_key_value_heads\":2,\"intermediate_size\":40,\"vocab_size\":53"
#define EXPERTS ",\"num_local_experts\":4,\"num_experts_per_tok\":2"

static kith_status parse(const char *text, kith_transformer_config *config)
{
    kith_transformer_config fresh = KITH_TRANSFORMER_CONFIG_INIT;
    *config = fresh;
    return kith_config_parse("c", text, strlen(text), config);
}

static kith_transformer_config taken(const char *text)
{
    kith_transformer_config config;
    if (parse(text, &config) != KITH_OK)
        fail_msg("%s: %s", text, kith_error_detail());
    return config;
}

static void test_gpt2(void **state)
{
    (void)state;
    kith_transformer_config c = taken(GPT2 "}");
    assert_true(c.hidden == 24 && c.inner == 96 && c.blocks == 2 && c.heads == 4 && c.vocabulary == 53);
    assert_true(c.positions == 16 && c.rotary_base == 0 && c.norm == KITH_LAYER_NORM && c.norm_epsilon == 1e-5);
    assert_true(c.activation == KITH_GELU_TANH && c.has_bias && c.is_tied && !c.is_gated && c.dropout == 0);
    c = taken(GPT2 ",\"n_inner\":50,\"activation_function\":\"gelu\",\"layer_norm_epsilon\":1e-6,\"resid_pdrop\":0.1,"
                   "\"attn_pdrop\":0.2,\"tie_word_embeddings\":false,\"scale_attn_weights\":true}");
    assert_true(c.inner == 50 && c.activation == KITH_GELU && c.norm_epsilon == 1e-6 && !c.is_tied);
    assert_true(c.dropout == 0.1 && c.attention_dropout == 0.2);
    c = taken(GPT2 ",\"n_inner\":null,\"activation_function\":\"silu\"}");
    assert_true(c.inner == 96 && c.activation == KITH_SILU);
}

static void test_llama(void **state)
{
    (void)state;
    kith_transformer_config c = taken(LLAMA("llama") "}");
    assert_true(c.inner == 40 && c.kv_heads == 2 && c.positions == 0 && c.rotary_base == 10000);
    assert_true(c.norm == KITH_RMS_NORM && c.norm_epsilon == 1e-6 && c.activation == KITH_SILU && c.is_gated);
    assert_true(!c.is_tied && !c.has_bias && !c.has_qkv_bias && !c.has_head_norms && c.experts == 0);
    c = taken(LLAMA("llama") ",\"rope_theta\":500000,\"rms_norm_eps\":1e-5,\"rope_scaling\":null,\"head_dim\":8,"
                             "\"tie_word_embeddings\":true}");
    assert_true(c.rotary_base == 500000 && c.norm_epsilon == 1e-5 && c.head_dim == 8 && c.is_tied);
    c = taken(LLAMA("llama") ",\"rope_scaling\":{\"rope_type\":\"default\"}}");
    assert_true(c.rotary_base == 10000);
    c = taken(LLAMA("llama") ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":70000}}");
    assert_true(c.rotary_base == 70000);
}

static void test_descendants(void **state)
{
    (void)state;
    kith_transformer_config c = taken(LLAMA("mistral") ",\"sliding_window\":null}");
    assert_true(c.rotary_base == 10000 && c.experts == 0);
    taken(LLAMA("mistral") ",\"sliding_window\":2048,\"max_position_embeddings\":2048}");
    c = taken(LLAMA("mixtral") EXPERTS "}");
    assert_true(c.experts == 4 && c.top_k == 2 && c.is_router_normalized && c.rotary_base == 1e6);
    assert_true(c.norm_epsilon == 1e-5 && c.auxiliary_weight == 0.001);
    c = taken(LLAMA("qwen2") ",\"sliding_window\":10,\"use_sliding_window\":false}");
    assert_true(c.has_qkv_bias && !c.has_head_norms);
    c = taken(LLAMA("qwen3") ",\"head_dim\":16}");
    assert_true(c.has_head_norms && !c.has_qkv_bias && c.head_dim == 16);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        kith_status status;
        const char *detail;
    } cases[] = {
        { "", KITH_ERR_INVALID_ARG, "c:1:1" },
        { "[]", KITH_ERR_INVALID_ARG, "an object" },
        { GPT2, KITH_ERR_INVALID_ARG, "c:1" },
        { "{\"model_type\":\"gpt2\"}", KITH_ERR_INVALID_ARG, "'n_layer' is missing" },
        { "{\"model_type\":\"bert\"}", KITH_ERR_UNSUPPORTED, "'model_type' bert is not known" },
        { LLAMA("qwen3_moe") ",\"head_dim\":8,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":8}",
          KITH_ERR_UNSUPPORTED, "there are no layers for it" },
        { GPT2 ",\"activation_function\":\"relu\"}", KITH_ERR_UNSUPPORTED, "'activation_function' is relu" },
        { GPT2 ",\"activation_function\":7}", KITH_ERR_INVALID_ARG, "must be a text" },
        { GPT2 ",\"scale_attn_weights\":false}", KITH_ERR_UNSUPPORTED, "scale_attn_weights" },
        { GPT2 ",\"scale_attn_by_inverse_layer_idx\":true}", KITH_ERR_UNSUPPORTED, "scale_attn_by_inverse_layer_idx" },
        { GPT2 ",\"add_cross_attention\":true}", KITH_ERR_UNSUPPORTED, "add_cross_attention" },
        { GPT2 ",\"layer_norm_epsilon\":0}", KITH_ERR_INVALID_ARG, "layer_norm_epsilon" },
        { GPT2 ",\"layer_norm_epsilon\":\"small\"}", KITH_ERR_INVALID_ARG, "layer_norm_epsilon" },
        { GPT2 ",\"resid_pdrop\":1}", KITH_ERR_INVALID_ARG, "resid_pdrop" },
        { LLAMA("llama") ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", KITH_ERR_UNSUPPORTED,
          "rope_scaling" },
        { LLAMA("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\"}}", KITH_ERR_UNSUPPORTED, "rope_scaling" },
        { LLAMA("llama") ",\"rope_scaling\":7}", KITH_ERR_INVALID_ARG, "rope_scaling" },
        { LLAMA("llama") ",\"rope_parameters\":{\"rope_type\":\"yarn\"}}", KITH_ERR_UNSUPPORTED, "rope_parameters" },
        { LLAMA("llama") ",\"rope_theta\":0}", KITH_ERR_INVALID_ARG, "rope_theta" },
        { LLAMA("llama") ",\"partial_rotary_factor\":0.5}", KITH_ERR_UNSUPPORTED, "partial_rotary_factor" },
        { LLAMA("llama") ",\"attention_bias\":true}", KITH_ERR_UNSUPPORTED, "attention_bias" },
        { LLAMA("llama") ",\"hidden_act\":\"relu\"}", KITH_ERR_UNSUPPORTED, "'hidden_act' is relu" },
        { LLAMA("mistral") "}", KITH_ERR_UNSUPPORTED, "'sliding_window' of 4096 positions (what a missing one means)" },
        { LLAMA("mistral") ",\"sliding_window\":4096,\"max_position_embeddings\":32768}", KITH_ERR_UNSUPPORTED,
          "'sliding_window' of 4096" },
        { LLAMA("mixtral") EXPERTS ",\"sliding_window\":8}", KITH_ERR_UNSUPPORTED, "'sliding_window' of 8" },
        { LLAMA("qwen2") ",\"use_sliding_window\":true,\"sliding_window\":8}", KITH_ERR_UNSUPPORTED, "sliding_window" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_transformer_config config;
        kith_status status = parse(cases[i].text, &config);
        if (status != cases[i].status || strstr(kith_error_detail(), cases[i].detail) == NULL)
            fail_msg("%s: got %s '%s', wanted %s '%s'", cases[i].text, kith_status_name(status), kith_error_detail(),
                     kith_status_name(cases[i].status), cases[i].detail);
        assert_int_equal(config.hidden, 0); /* nothing was written */
    }
}

/* What is printed is read as the same. */
static void test_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        GPT2 "}",
        GPT2 ",\"n_inner\":50,\"activation_function\":\"gelu\",\"resid_pdrop\":0.1,\"tie_word_embeddings\":false}",
        LLAMA("llama") ",\"head_dim\":10,\"rope_theta\":12345.5}",
        LLAMA("mixtral") EXPERTS ",\"router_aux_loss_coef\":0.02}",
        LLAMA("qwen2") ",\"tie_word_embeddings\":true}",
        LLAMA("qwen3") ",\"head_dim\":16,\"hidden_act\":\"gelu_pytorch_tanh\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kith_transformer_config config = taken(texts[i]);
        char *text = NULL, *again = NULL;
        assert_int_equal(kith_config_print(&config, KITH_BF16, &text), KITH_OK);
        assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
        kith_transformer_config read = taken(text);
        assert_int_equal(kith_config_print(&read, KITH_BF16, &again), KITH_OK);
        assert_string_equal(text, again);
        config.head_dim = read.head_dim; /* 0 stands for what is written */
        assert_memory_equal(&config, &read, sizeof read);
        kith_free(text);
        kith_free(again);
    }
}

static void test_not_printed(void **state)
{
    (void)state;
    char *text = NULL;
    kith_transformer_config c = taken(LLAMA("llama") "}");
    c.has_bias = 1;
    assert_int_equal(kith_config_print(&c, KITH_F32, &text), KITH_ERR_UNSUPPORTED);
    c = taken(LLAMA("qwen2") "}");
    c.has_head_norms = 1;
    assert_int_equal(kith_config_print(&c, KITH_F32, &text), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "not both"));
    c = taken(GPT2 "}");
    c.rotary_base = 10000;
    assert_int_equal(kith_config_print(&c, KITH_F32, &text), KITH_ERR_UNSUPPORTED);
    c = taken(GPT2 "}");
    assert_int_equal(kith_config_print(&c, KITH_INT8, &text), KITH_ERR_INVALID_ARG);
    c.vocabulary = 0;
    assert_int_equal(kith_config_print(&c, KITH_F32, &text), KITH_ERR_INVALID_ARG);
    c.struct_size = 0;
    assert_int_equal(kith_config_print(&c, KITH_F32, &text), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_config_print(NULL, KITH_F32, &text), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_config_read("/nowhere/config.json", &c), KITH_ERR_IO);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),    cmocka_unit_test(test_llama),      cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_not_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
