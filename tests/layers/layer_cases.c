/* tests/layers/layer_cases.c - runs one case on n ranks; see layer_cases.h.
 *
 *     layer_cases --case linear -n 4 [--threads] [--backend shm] [--timeout 60]
 *     mpirun -n 4 layer_cases --case linear -n 4 --environment
 *     layer_cases --list
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <string.h>

static const struct named_case {
    const char *name;
    rank_function run;
} cases[] = {
    { "creation_alone", case_creation_alone },
    { "creation_local", case_creation_local },
    { "creation_grid", case_creation_grid },
    { "creation_mismatch", case_creation_mismatch },
    { "transformer_refusals", case_transformer_refusals },
    { "transformer_init", case_transformer_init },
    { "transformer_both_ends", case_transformer_both_ends },
    { "linear", case_linear },
    { "linear_exact", case_linear_exact },
    { "linear_parts", case_linear_parts },
    { "linear_gathered", case_linear_gathered },
    { "linear_traffic", case_linear_traffic },
    { "linear_misuse", case_linear_misuse },
    { "regions", case_regions },
    { "place_misuse", case_place_misuse },
    { "place_memory", case_place_memory },
    { "place_finish", case_place_finish },
    { "steps_microbatches", case_steps_microbatches },
    { "steps_lengths", case_steps_lengths },
    { "steps_norm", case_steps_norm },
    { "memory", case_memory },
    { "transformer_gpt2", case_transformer_gpt2 },
    { "transformer_llama", case_transformer_llama },
    { "transformer_mixtral", case_transformer_mixtral },
    { "transformer_layouts", case_transformer_layouts },
    { "transformer_experts", case_transformer_experts },
    { "transformer_rounding", case_transformer_rounding },
    { "transformer_stages", case_transformer_stages },
    { "transformer_traffic", case_transformer_traffic },
    { "transformer_traffic_again", case_transformer_traffic_again },
    { "row", case_row },
    { "norm", case_norm },
    { "norm_gradients", case_norm_gradients },
    { "norm_heads", case_norm_heads },
    { "norm_misuse", case_norm_misuse },
    { "norm_sequence", case_norm_sequence },
    { "dropout", case_dropout },
    { "dropout_misuse", case_dropout_misuse },
    { "mlp", case_mlp },
    { "mlp_exact", case_mlp_exact },
    { "mlp_golden", case_mlp_golden },
    { "mlp_gradients", case_mlp_gradients },
    { "mlp_misuse", case_mlp_misuse },
    { "attention", case_attention },
    { "attention_copies", case_attention_copies },
    { "attention_exact", case_attention_exact },
    { "attention_gradients", case_attention_gradients },
    { "attention_heads", case_attention_heads },
    { "attention_misuse", case_attention_misuse },
    { "attention_uneven", case_attention_uneven },
    { "counts", case_counts },
    { "moe", case_moe },
    { "moe_data", case_moe_data },
    { "moe_exact", case_moe_exact },
    { "moe_layouts", case_moe_layouts },
    { "moe_gradients", case_moe_gradients },
    { "moe_repeated", case_moe_repeated },
    { "moe_types", case_moe_types },
    { "moe_traffic", case_moe_traffic },
    { "moe_dry", case_moe_dry },
    { "moe_misuse", case_moe_misuse },
    { "embedding", case_embedding },
    { "embedding_dropout", case_embedding_dropout },
    { "embedding_traffic", case_embedding_traffic },
    { "embedding_misuse", case_embedding_misuse },
    { "vocabulary_padding", case_vocabulary_padding },
    { "head", case_head },
    { "head_exact", case_head_exact },
    { "head_golden", case_head_golden },
    { "head_nan", case_head_nan },
    { "head_logits", case_head_logits },
    { "head_misuse", case_head_misuse },
    { "head_traffic", case_head_traffic },
    { "head_memory", case_head_memory },
    { "head_differences", case_head_differences },
    { "tied", case_tied },
    { "tied_stages", case_tied_stages },
    { "tied_mismatch", case_tied_mismatch },
};

#define CASES (sizeof cases / sizeof cases[0])

static const struct named_case *find(const char *name)
{
    for (size_t i = 0; i < CASES; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    return NULL;
}

static int usage(const char *why)
{
    fprintf(stderr,
            "layer_cases: %s\nusage: layer_cases --case NAME -n RANKS [--threads|--environment] [--backend B] "
            "[--timeout S]\n",
            why);
    return 2;
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = 1, .timeout_s = 60 };
    const struct named_case *chosen = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            for (size_t c = 0; c < CASES; c++)
                puts(cases[c].name);
            return 0;
        }
        if (strcmp(argv[i], "--threads") == 0 || strcmp(argv[i], "--environment") == 0) {
            options.mode = argv[i][2] == 't' ? LAUNCH_THREADS : LAUNCH_ENVIRONMENT;
            continue;
        }
        if (i + 1 == argc)
            return usage("an option lacks its value, or is unknown");
        const char *option = argv[i], *value = argv[++i];
        if (strcmp(option, "--case") == 0)
            chosen = find(value);
        else if (strcmp(option, "-n") == 0)
            options.size = atoi(value);
        else if (strcmp(option, "--backend") == 0)
            options.backend = value;
        else if (strcmp(option, "--timeout") == 0)
            options.timeout_s = atoi(value);
        else
            return usage("unknown option");
    }
    if (chosen == NULL)
        return usage("no such case");
    return run_ranks(&options, chosen->run, NULL) == 0 ? 0 : 1;
}
