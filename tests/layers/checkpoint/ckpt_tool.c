/* tests/layers/checkpoint/ckpt_tool.c - one rank's part of golden/compare_hf.py: models to files, files to logits.
 *
 *     ckpt_tool save gpt2|llama|mixtral|qwen2 f32|f64 FOLDER     weights as golden/make_golden.py has them, step 1
 *     ckpt_tool logits CONFIG.json WEIGHTS f32|f64 OUT           OUT: f64 [SEQUENCE, BATCH, VOCABULARY] of ids_of(1)
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>

static const struct {
    const char *name;
    kith_transformer_config (*make)(void);
} families[] = {
    { "gpt2", golden_gpt2 }, { "llama", golden_llama }, { "mixtral", golden_mixtral }, { "qwen2", golden_qwen2 }
};

static kith_dtype dtype_of(const char *name)
{
    kith_dtype dtype;
    REQUIRE_OK(kith_dtype_parse(name, &dtype));
    return dtype;
}

static int save(char **arguments)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(families[i].name, arguments[0]) != 0)
            continue;
        kith_transformer_config config = families[i].make();
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        options.config = &config;
        setup s = make_setup(layers_alone(dtype_of(arguments[1])), &options);
        kith_checkpoint_place place = KITH_CHECKPOINT_PLACE_INIT;
        place.layers = s.layers;
        place.config = &config;
        REQUIRE_OK(kith_checkpoint_save(&place, arguments[2], 1, NULL, 0));
        end_setup(&s);
        return 0;
    }
    return 2;
}

static int logits(char **arguments)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_config_read(arguments[0], &config));
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    setup s = make_setup(layers_alone(dtype_of(arguments[2])), &options);
    kith_checkpoint_place place = KITH_CHECKPOINT_PLACE_INIT;
    place.layers = s.layers;
    place.config = &config;
    REQUIRE_OK(kith_weights_load(&place, arguments[1]));
    kith_tensor ids = ids_of(1), out = { 0 };
    REQUIRE_OK(kith_transformer_logits(s.transformer, s.tape, &ids, &out));
    FILE *file = fopen(arguments[3], "wb");
    REQUIRE(file != NULL);
    for (int64_t i = 0; i < kith_tensor_count(&out); i++) {
        double number = element(&out, i);
        REQUIRE(fwrite(&number, sizeof number, 1, file) == 1);
    }
    REQUIRE(fclose(file) == 0);
    kith_tensor_release(&out);
    free(ids.data);
    end_setup(&s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "save") == 0)
        return save(argv + 2);
    if (argc == 6 && strcmp(argv[1], "logits") == 0)
        return logits(argv + 2);
    fprintf(stderr, "usage: ckpt_tool save FAMILY DTYPE FOLDER | logits CONFIG WEIGHTS DTYPE OUT\n");
    return 2;
}
