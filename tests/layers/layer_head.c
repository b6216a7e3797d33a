/* tests/layers/layer_head.c - heads: losses and gradients of every form and layout, against arithmetic written out.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_vocabulary.h"

#include <math.h>

typedef struct form {
    int is_sequence_parallel, is_gathered, is_split_backward;
    int64_t multiple;
    double smoothing;
} form;

static kith_head *make_head(kith_layers *layers, const form *how, int32_t ignored)
{
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.vocabulary = WORDS, options.features = FEATURES;
    options.padding_multiple = how->multiple;
    options.is_gathered = how->is_gathered;
    options.label_smoothing = how->smoothing;
    options.ignored = ignored;
    kith_head *head;
    REQUIRE_OK(kith_head_create(layers, &options, &head));
    return head;
}

static kith_tensor some_targets(int32_t ignored)
{
    kith_tensor targets = some_ids(2, WORDS);
    ((int32_t *)targets.data)[4] = ignored;
    return targets;
}

static void require_losses(const kith_tensor *losses, const double *wanted, double tolerance)
{
    REQUIRE(losses->dim_count == 1 && losses->shape[0] == TOKENS && losses->layout == KITH_REPLICATED);
    double *got = doubles_of(losses);
    REQUIRE_NUMBERS("losses", got, wanted, TOKENS, tolerance);
    free(got);
}

/* dx of this rank, and the weight's gradient, against the plain ones. */
static void require_grads(kith_layers *layers, kith_head *head, const form *how, const kith_tensor *dx,
                          const double *wanted_dx, const double *wanted_dw, double tolerance)
{
    int64_t first = 0, count = SEQUENCE;
    if (how->is_sequence_parallel)
        kith_split_range(SEQUENCE, kith_layers_tp_size(layers), kith_layers_tp_rank(layers), &first, &count);
    double *own_dx = doubles_of(dx), *dw = whole_of(kith_head_weight(head), KITH_PARAM_GRAD);
    REQUIRE(kith_tensor_count(dx) == count * SAMPLES * FEATURES);
    REQUIRE_NUMBERS("dx", own_dx, wanted_dx + first * SAMPLES * FEATURES, count * SAMPLES * FEATURES, tolerance);
    REQUIRE_NUMBERS("gradient of the weight", dw, wanted_dw, WORDS * FEATURES, tolerance);
    free(own_dx), free(dw);
}

static void try_form(kith_layers *layers, kith_dtype dtype, const form *how, int32_t ignored, double tolerance)
{
    static const double scale = 0.25;
    kith_head *head = make_head(layers, how, ignored);
    kith_tensor w = numbers(dtype, WORDS, FEATURES, 5, fraction), x = numbers(dtype, TOKENS, FEATURES, 6, fraction);
    kith_tensor targets = some_targets(ignored), losses, dx;
    REQUIRE_OK(kith_param_load(kith_head_weight(head), &w));
    double *w_values = doubles_of(&w), *x_values = doubles_of(&x), sum;
    double wanted[TOKENS], wanted_dw[WORDS * FEATURES], wanted_dx[TOKENS * FEATURES];
    plain_head plain = { TOKENS,  WORDS,         FEATURES, x_values, w_values, (const int32_t *)targets.data,
                         ignored, how->smoothing };
    double wanted_sum = plain_head_run(&plain, scale, wanted, NULL, wanted_dw, wanted_dx);
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    REQUIRE_OK(kith_tape_set_split_backward(tape, how->is_split_backward));
    kith_tensor mine = shard_of(layers, &x, SEQUENCE, SAMPLES, how->is_sequence_parallel);
    int64_t count, ignored_count = 0;
    REQUIRE_OK(kith_head_forward(head, tape, &mine, &targets, &losses, &sum, &count));
    for (int t = 0; t < TOKENS; t++)
        ignored_count += ((const int32_t *)targets.data)[t] == ignored;
    REQUIRE(count == TOKENS - ignored_count && ignored_count > 0);
    require_losses(&losses, wanted, tolerance);
    REQUIRE_NUMBERS("sum", &sum, &wanted_sum, 1, tolerance);
    REQUIRE_OK(kith_head_backward(head, tape, scale, &dx));
    REQUIRE_OK(kith_tape_weight_grads(tape));
    REQUIRE(kith_tape_depth(tape) == 0);
    require_grads(layers, head, how, &dx, wanted_dx, wanted_dw, tolerance);
    kith_tensor_release(&losses), kith_tensor_release(&dx);
    kith_tape_destroy(tape);
    free(w.data), free(x.data), free(w_values), free(x_values);
}

/* Fused and gathered, with and without smoothing, padded or not, with and without sequence parallelism: the same
 * numbers. Padding to 4 leaves some ranks without a word. */
static void try_forms(rank_info *info, kith_dtype dtype, double tolerance)
{
    static const int64_t multiples[] = { 0, 1, 4 };
    for (int sp = 0; sp < 2; sp++) {
        kith_layers *layers = layers_over(info, info->size, dtype, sp);
        for (int i = 0; i < 12; i++) {
            form how = { sp, i & 1, (i + sp) % 3 == 0, multiples[i / 2 % 3], i / 6 * 0.1 };
            try_form(layers, dtype, &how, i % 4 == 0 ? 2 : -100, tolerance); // 2 is a word, too
        }
        REQUIRE_OK(kith_layers_destroy(layers));
    }
}

void case_head(rank_info *info)
{
    try_forms(info, KITH_F64, 1e-13);
    try_forms(info, KITH_F32, 1e-6);
    try_forms(info, KITH_BF16, 2e-2);
    try_forms(info, KITH_F16, 4e-3);
}

/* Logits are 0 (x and the words have no feature in common) and p is a power of two, so gradients are exact: bits of the
 * plain ones, however words are dealt. */
void case_head_exact(rank_info *info)
{
    enum { EIGHT = 8, WIDE = 6 };
    for (int i = 0; i < 8; i++) {
        int sp = i & 1, is_gathered = i >> 1 & 1;
        kith_layers *layers = layers_over(info, info->size, KITH_F32, sp);
        kith_head_options options = KITH_HEAD_OPTIONS_INIT;
        options.vocabulary = EIGHT, options.features = WIDE, options.is_gathered = is_gathered;
        options.padding_multiple = i >> 2;
        kith_head *head;
        REQUIRE_OK(kith_head_create(layers, &options, &head));
        kith_tensor x = numbers(KITH_F32, TOKENS, WIDE, 1, whole_number),
                    w = numbers(KITH_F32, EIGHT, WIDE, 2, whole_number);
        for (int t = 0; t < TOKENS; t++)
            for (int f = 0; f < WIDE / 2; f++)
                ((float *)x.data)[t * WIDE + f] = 0;
        for (int v = 0; v < EIGHT; v++)
            for (int f = WIDE / 2; f < WIDE; f++)
                ((float *)w.data)[v * WIDE + f] = 0;
        REQUIRE_OK(kith_param_load(kith_head_weight(head), &w));
        double *x_values = doubles_of(&x), *w_values = doubles_of(&w);
        double wanted_dw[EIGHT * WIDE], wanted_dx[TOKENS * WIDE];
        kith_tensor targets = some_ids(1, EIGHT), dx;
        plain_head plain = { TOKENS, EIGHT, WIDE, x_values, w_values, (const int32_t *)targets.data, -100, 0 };
        for (int c = 0; c < TOKENS * WIDE; c++)
            wanted_dx[c] = 0;
        plain_head_run(&plain, 0.5, NULL, NULL, wanted_dw, wanted_dx);
        kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
        kith_tensor mine = shard_of(layers, &x, SEQUENCE, SAMPLES, sp);
        REQUIRE_OK(kith_head_forward(head, tape, &mine, &targets, NULL, NULL, NULL));
        REQUIRE_OK(kith_head_backward(head, tape, 0.5, &dx));
        double *dw = whole_of(kith_head_weight(head), KITH_PARAM_GRAD), *own = doubles_of(&dx);
        int64_t first = 0, count = SEQUENCE;
        if (sp)
            kith_split_range(SEQUENCE, info->size, info->rank, &first, &count);
        REQUIRE_NUMBERS("gradient of the weight", dw, wanted_dw, EIGHT * WIDE, 0);
        REQUIRE_NUMBERS("dx", own, wanted_dx + first * SAMPLES * WIDE, count * SAMPLES * WIDE, 0);
        kith_tensor_release(&dx);
        end_layers(layers, tape);
        free(x.data), free(w.data), free(x_values), free(w_values), free(dw), free(own);
    }
}

/* One feature that is `size` in every token: the logit of a word is size * weight[word]. */
typedef struct column {
    kith_layers *layers;
    kith_head *head;
    kith_tape *tape;
    double *losses, sum;
} column;

static void run_column(rank_info *info, int64_t words, double (*weight)(int64_t word), double size, double smoothing,
                       const int32_t *targets, int64_t tokens, column *c)
{
    c->layers = layers_over(info, info->size, KITH_F64, 0);
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.vocabulary = words, options.features = 1, options.label_smoothing = smoothing;
    REQUIRE_OK(kith_head_create(c->layers, &options, &c->head));
    double *weights = malloc((size_t)words * sizeof *weights), *xs = malloc((size_t)tokens * sizeof *xs);
    for (int64_t v = 0; v < words; v++)
        weights[v] = weight(v);
    for (int64_t t = 0; t < tokens; t++)
        xs[t] = size;
    kith_tensor whole = kith_tensor_view(weights, KITH_F64, 2, (const int64_t[]){ words, 1 });
    kith_tensor x = kith_tensor_view(xs, KITH_F64, 2, (const int64_t[]){ tokens, 1 });
    kith_tensor ids = kith_tensor_view((void *)targets, KITH_INT32, 1, (const int64_t[]){ tokens }), losses;
    REQUIRE_OK(kith_param_load(kith_head_weight(c->head), &whole));
    c->tape = tape_of(c->layers, tokens, 1);
    REQUIRE_OK(kith_head_forward(c->head, c->tape, &x, &ids, &losses, &c->sum, NULL));
    REQUIRE_OK(kith_head_backward(c->head, c->tape, 1, NULL));
    c->losses = doubles_of(&losses);
    kith_tensor_release(&losses);
    free(weights), free(xs);
}

static void end_column(column *c)
{
    free(c->losses);
    end_layers(c->layers, c->tape);
}

static double same_as_word(int64_t word)
{
    return (double)word;
}

static double below_eight(int64_t word)
{
    return (double)(word % 8);
}

static double nothing(int64_t word)
{
    (void)word;
    return 0;
}

/* Known numbers: PyTorch's and Megatron's. */
void case_head_golden(rank_info *info)
{
    static const int32_t three[] = { 3 }, zero[] = { 0 }, evens[] = { 0, 2, 4, 6, 8, 10, 12, 14 };
    column c;
    run_column(info, 8, same_as_word, 1, 0.1, three, 1, &c); // smoothed over all 8 words, on whichever ranks they are
    REQUIRE_NUMBERS("smoothed loss", c.losses, (const double[]){ 4.401197 }, 1, 1e-6);
    end_column(&c);
    run_column(info, 8, same_as_word, 1000, 0.1, three, 1, &c); // 0.9 * 4000 + 0.1 / 7 * (7000 + 6000 + ... but 3)
    REQUIRE_NUMBERS("smoothed loss of large logits", c.losses, (const double[]){ 0.9 * 4000 + 0.1 / 7 * 24000 }, 1,
                    1e-12);
    end_column(&c);
    run_column(info, 128, below_eight, 1, 0, evens, 8, &c);
    static const double uniform[] = { -0.75, 0.25, 0.25, 0.25 };
    static const double wanted[] = { 10.230929, 8.230929, 6.230929, 4.230929, 10.230929, 8.230929, 6.230929, 4.230929 };
    REQUIRE_NUMBERS("loss", c.losses, wanted, 8, 1e-6);
    end_column(&c);
    run_column(info, 4, nothing, 1, 0, zero, 1, &c); // x is 1, so the gradient of the weight is that of the logits
    double *dlogits = whole_of(kith_head_weight(c.head), KITH_PARAM_GRAD);
    REQUIRE_NUMBERS("dlogits", dlogits, uniform, 4, 0);
    const kith_param *weight = kith_head_weight(c.head); // and each rank has its own
    for (int64_t v = 0; v < weight->value.shape[0]; v++)
        REQUIRE(element(&weight->grad, v) == (weight->first + v == 0 ? -0.75 : 0.25));
    free(dlogits);
    end_column(&c);
}

/* An infinite logit or a NaN on one rank makes the loss NaN on every rank; tokens without one are as they were. */
void case_head_nan(rank_info *info)
{
    static const int32_t targets[] = { 1, 1 };
    static const double last_word[] = { 1e200, NAN };
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    form how = { 0 };
    kith_head *head = make_head(layers, &how, -100);
    kith_tape *tape = tape_of(layers, 2, 1);
    kith_tensor ids = kith_tensor_view((void *)targets, KITH_INT32, 1, (const int64_t[]){ 2 }), losses;
    kith_tensor w = numbers(KITH_F64, WORDS, FEATURES, 5, fraction), x = numbers(KITH_F64, 2, FEATURES, 6, fraction);
    ((double *)x.data)[0] = 0, ((double *)x.data)[FEATURES] = 1e200;
    for (int i = 0; i < 2; i++) {
        double sum;
        ((double *)w.data)[(WORDS - 1) * FEATURES] = last_word[i];
        REQUIRE_OK(kith_param_load(kith_head_weight(head), &w));
        REQUIRE_OK(kith_head_forward(head, tape, &x, &ids, &losses, &sum, NULL));
        REQUIRE(isfinite(element(&losses, 0)) == (i == 0)); // 0 * 1e200, and 0 * NaN
        REQUIRE(isnan(element(&losses, 1)) && isnan(sum));
        kith_tensor_release(&losses);
        REQUIRE_OK(kith_head_backward(head, tape, 1, NULL));
    }
    end_layers(layers, tape);
    free(w.data), free(x.data);
}

/* Logits of all words on all ranks; nothing is saved. */
void case_head_logits(rank_info *info)
{
    static const int64_t multiples[] = { 0, 1, 4 };
    for (int i = 0; i < 6; i++) {
        form how = { i % 2, 0, 0, multiples[i / 2], 0 };
        kith_layers *layers = layers_over(info, info->size, KITH_F64, how.is_sequence_parallel);
        kith_head *head = make_head(layers, &how, -100);
        load_params(layers, whole_number);
        double *w = whole_of(kith_head_weight(head), KITH_PARAM_VALUE), wanted[TOKENS * WORDS] = { 0 };
        kith_tensor x = numbers(KITH_F64, TOKENS, FEATURES, 6, whole_number), logits;
        for (int c = 0; c < TOKENS * WORDS; c++)
            for (int f = 0; f < FEATURES; f++)
                wanted[c] += element(&x, c / WORDS * FEATURES + f) * w[c % WORDS * FEATURES + f];
        kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
        kith_tensor mine = shard_of(layers, &x, SEQUENCE, SAMPLES, how.is_sequence_parallel);
        REQUIRE_OK(kith_head_logits(head, tape, &mine, &logits));
        REQUIRE(kith_tape_depth(tape) == 0);
        REQUIRE(logits.dim_count == 2 && logits.shape[0] == TOKENS && logits.shape[1] == WORDS);
        double *got = doubles_of(&logits);
        REQUIRE_NUMBERS("logits", got, wanted, TOKENS * WORDS, 0);
        kith_tensor_release(&logits);
        end_layers(layers, tape);
        free(x.data), free(w), free(got);
    }
}

static void refuse_options(kith_layers *layers, const kith_head_options *options, const char *text)
{
    kith_head *head;
    REQUIRE_STATUS(kith_head_create(layers, options, &head), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL(text);
}

static void refuse_creation(kith_layers *layers)
{
    kith_head_options good = KITH_HEAD_OPTIONS_INIT, o;
    good.vocabulary = WORDS, good.features = FEATURES;
    o = good, o.vocabulary = -5;
    refuse_options(layers, &o, "a vocabulary of -5 words");
    o = good, o.label_smoothing = 1;
    refuse_options(layers, &o, "label_smoothing 1, wanted at least 0 and below 1");
    o = good, o.label_smoothing = NAN;
    refuse_options(layers, &o, "label_smoothing");
    o = good, o.vocabulary = 1, o.label_smoothing = 0.5;
    refuse_options(layers, &o, "at least two words");
    kith_linear_options whole = KITH_LINEAR_OPTIONS_INIT; // of the right size, but split by columns
    whole.kind = KITH_LINEAR_ROW, whole.in_features = 4, whole.out_features = WORDS;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &whole, &linear));
    o = good, o.tied = kith_linear_weight(linear, 0);
    refuse_options(layers, &o, "is not a weight of [7, 3]");
    o.features = 4;
    if (kith_layers_tp_size(layers) > 1)
        refuse_options(layers, &o, "with its rows split over tp");
}

static void refuse_linear(kith_layers *layers, kith_param *tied)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.in_features = FEATURES, options.out_features = WORDS, options.tied = tied, options.has_bias = 1;
    kith_linear *linear;
    REQUIRE_STATUS(kith_linear_create(layers, &options, &linear), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has no bias, and no gathered output when the weight is padded");
    options.has_bias = 0, options.is_output_gathered = 1;
    REQUIRE_STATUS(kith_linear_create(layers, &options, &linear), KITH_ERR_INVALID_ARG);
}

/* Wrong calls are found on all ranks before anything is sent, and leave nothing behind. */
void case_head_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    refuse_creation(layers);
    form how = { 0, 0, 0, 4, 0 };
    kith_head *head = make_head(layers, &how, -100);
    refuse_linear(layers, kith_head_weight(head));
    kith_tape *tape = tape_of(layers, SEQUENCE, SAMPLES);
    kith_tensor x = numbers(KITH_F64, TOKENS, FEATURES, 6, fraction), targets = some_targets(-100), dx;
    kith_layers_reset_traffic(layers);
    int32_t *target = (int32_t *)targets.data + 5, kept = *target;
    *target = WORDS;
    REQUIRE_STATUS(kith_head_forward(head, tape, &x, &targets, NULL, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("targets: 7 at position 2 of sample 1; wanted 0 to 6, or -100, which is ignored");
    *target = kept;
    kith_tensor few = kith_tensor_narrow(&x, 0, 0, TOKENS - 1);
    REQUIRE_STATUS(kith_head_forward(head, tape, &few, &targets, NULL, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("x has 9 rows");
    kith_layers_traffic traffic;
    kith_layers_get_traffic(layers, &traffic);
    REQUIRE(traffic.ops[KITH_PHASE_FORWARD][KITH_ALL_REDUCE] == 0);
    REQUIRE(kith_tape_depth(tape) == 0);
    REQUIRE_STATUS(kith_head_backward(head, tape, 1, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_head_forward(head, tape, &x, &targets, NULL, NULL, NULL));
    REQUIRE_STATUS(kith_head_backward(head, tape, NAN, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("grad_scale is nan, wanted a finite number");
    REQUIRE_OK(kith_head_backward(head, tape, 1, &dx)); // the one before took nothing
    kith_tensor_release(&dx);
    kith_batch evaluation = KITH_BATCH_INIT;
    evaluation.sequence = SEQUENCE, evaluation.batch = SAMPLES, evaluation.is_training = 0;
    REQUIRE_OK(kith_tape_begin(tape, &evaluation));
    REQUIRE_OK(kith_head_forward(head, tape, &x, &targets, NULL, NULL, NULL));
    REQUIRE_STATUS(kith_head_backward(head, tape, 1, &dx), KITH_ERR_INVALID_ARG);
    end_layers(layers, tape);
    free(x.data);
}
