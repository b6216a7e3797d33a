/* tests/layers/layer_attention.c - attention: against plain arithmetic, on any layout, and who has which heads.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_check.h"

#include <math.h>
#include <string.h>

enum { FEATURES = 6, BATCH = 2, SEQUENCE = 5, HEADS_MOST = 8, DIM_MOST = 4 };

SUBJECT_FUNCTIONS(attention)

static void make_attention(kith_layers *layers, const void *options, subject *made)
{
    kith_attention *attention;
    REQUIRE_OK(kith_attention_create(layers, options, &attention));
    made->layer = attention;
    made->forward = attention_forward, made->backward = attention_backward;
    made->in = made->out = ((const kith_attention_options *)options)->features;
    made->first_sample = 7;
}

static kith_attention_options options_of(int64_t heads, int64_t kv_heads)
{
    kith_attention_options options = KITH_ATTENTION_OPTIONS_INIT;
    options.name = "attention", options.features = FEATURES;
    options.heads = heads, options.kv_heads = kv_heads, options.head_dim = DIM_MOST;
    return options;
}

/* The kinds of attention of the models there are: GPT-2's, LLaMA's with groups, Qwen3's with norms of heads, one key
 * head, an encoder's. */
static int is_dealable(int64_t heads, int64_t kv_heads, int t)
{
    return kv_heads >= t || (heads >= t && t % kv_heads == 0 && (kv_heads == 1 || heads % t == 0));
}

static kith_attention_options kind(int which)
{
    kith_attention_options options;
    switch (which) {
    case 0:
        options = options_of(5, 0);
        options.has_bias = options.has_out_bias = 1;
        break;
    case 1:
        options = options_of(8, 2);
        options.rotary_base = 100;
        options.is_core_recomputed = 1;
        break;
    case 2:
        options = options_of(8, 4);
        options.rotary_base = 10000, options.has_bias = 1;
        options.has_head_norms = 1, options.norm_epsilon = 1e-3;
        break;
    case 3:
        options = options_of(5, 1);
        options.scale = 0.3;
        options.has_out_bias = 1, options.is_bias_left_out = 1;
        break;
    case 4:
        options = options_of(6, 3);
        options.is_bidirectional = 1;
        options.has_head_norms = 1, options.is_core_recomputed = 1;
        break;
    default:
        options = options_of(6, 6);
        options.dropout = 0.3, options.site = 9;
        options.is_core_recomputed = which == 6;
    }
    return options;
}
enum { KINDS = 7, KINDS_WITHOUT_DROPOUT = 5 };

/* ---- the reference: one head of one token at a time, in f64 ---- */

static double param_at(const kith_layers *layers, const char *part, const char *which, int64_t i)
{
    char name[64];
    snprintf(name, sizeof name, "attention.%s.%s", part, which);
    const kith_param *param = kith_layers_find_param(layers, name);
    return param == NULL ? 0 : element(&param->value, i);
}

/* q, k or v of a head at a row of x, normed and turned. */
static void head_at(const kith_layers *layers, const kith_attention_options *o, const char *part, const kith_tensor *x,
                    int64_t row, int64_t head, double *result)
{
    int64_t d = o->head_dim;
    double square = 0, before[DIM_MOST];
    for (int64_t i = 0; i < d; i++) {
        before[i] = param_at(layers, part, "bias", head * d + i);
        for (int64_t f = 0; f < FEATURES; f++)
            before[i] +=
                element(x, row * FEATURES + f) * param_at(layers, part, "weight", (head * d + i) * FEATURES + f);
        square += before[i] * before[i] / (double)d;
    }
    int is_v = part[0] == 'v';
    for (int64_t i = 0; i < d && o->has_head_norms && !is_v; i++)
        before[i] *= param_at(layers, part[0] == 'q' ? "q_norm" : "k_norm", "weight", i) /
                     sqrt(square + (o->norm_epsilon > 0 ? o->norm_epsilon : 1e-5));
    for (int64_t i = 0; i < d; i++) {
        int64_t pair = i % (d / 2);
        double angle = o->rotary_base == 0 || is_v
                           ? 0
                           : (double)(row / BATCH) * pow(o->rotary_base, -2 * (double)pair / (double)d);
        double partner = i < d / 2 ? -before[i + d / 2] : before[i - d / 2];
        result[i] = before[i] * cos(angle) + partner * sin(angle);
    }
}

/* The output of a head at a row: softmax over the positions of its sample that it sees. */
static void attend(const kith_layers *layers, const kith_attention_options *o, const kith_tensor *x, int64_t row,
                   int64_t head, double *out)
{
    int64_t d = o->head_dim, kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads, kv = head / (o->heads / kv_heads);
    double q[DIM_MOST], k[DIM_MOST], v[DIM_MOST], sum = 0;
    double scale = o->scale > 0 ? o->scale : 1 / sqrt((double)d);
    head_at(layers, o, "q", x, row, head, q);
    memset(out, 0, sizeof q);
    for (int64_t other = row % BATCH; other < x->shape[0]; other += BATCH) {
        if (other > row && !o->is_bidirectional)
            break;
        double score = 0;
        head_at(layers, o, "k", x, other, kv, k);
        head_at(layers, o, "v", x, other, kv, v);
        for (int64_t i = 0; i < d; i++)
            score += scale * q[i] * k[i];
        for (int64_t i = 0; i < d; i++)
            out[i] += exp(score) * v[i];
        sum += exp(score);
    }
    for (int64_t i = 0; i < d; i++)
        out[i] /= sum;
}

static void check_values(const kith_attention_options *options)
{
    recipe how = { make_attention, options, SEQUENCE, BATCH, fraction };
    subject s;
    make_subject(&how, layers_alone(KITH_F64), 0, &s);
    kith_tensor x = input_of(&s, KITH_F64, &how), y, dx;
    run_subject(&s, &x, &x, &y, &dx);
    int64_t d = options->head_dim, wide = options->heads * d;
    for (int64_t row = 0; row < SEQUENCE * BATCH; row++) {
        double heads[HEADS_MOST * DIM_MOST];
        for (int64_t h = 0; h < options->heads; h++)
            attend(s.layers, options, &x, row, h, heads + h * d);
        for (int64_t f = 0; f < FEATURES; f++) {
            double wanted = options->is_bias_left_out ? 0 : param_at(s.layers, "out", "bias", f);
            for (int64_t i = 0; i < wide; i++)
                wanted += heads[i] * param_at(s.layers, "out", "weight", f * wide + i);
            double got = element(&y, row * FEATURES + f);
            if (!(fabs(got - wanted) < 1e-12))
                rank_fail(__FILE__, __LINE__, "y[%d, %d] is %.17g, wanted %.17g", (int)row, (int)f, got, wanted);
        }
    }
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(x.data);
    end_subject(&s);
}

void case_attention(rank_info *info)
{
    for (int which = 0; which < KINDS; which++) {
        kith_attention_options options = kind(which);
        recipe how = { make_attention, &options, SEQUENCE, BATCH, fraction };
        if (which < KINDS_WITHOUT_DROPOUT && info->size == 1)
            check_values(&options);
        if (!is_dealable(options.heads, options.kv_heads > 0 ? options.kv_heads : options.heads, info->size))
            continue;
        require_layouts_agree(info, &how, KITH_F64, 1e-13, which < KINDS_WITHOUT_DROPOUT);
        if (which == 2) {
            require_layouts_agree(info, &how, KITH_F32, 1e-5, 1);
            require_layouts_agree(info, &how, KITH_BF16, 0.1, 1);
            for (int sp = 0; sp < 2; sp++)
                require_dry_run_counts(info, &how, KITH_F32, sp);
        }
    }
}

void case_attention_gradients(rank_info *info)
{
    for (int which = 0; which < KINDS; which++) {
        kith_attention_options options = kind(which);
        options.is_bias_left_out = 0; // its gradient is that of the sum that the caller makes
        recipe how = { make_attention, &options, 3, BATCH, fraction };
        require_gradients(info, &how, which % 2);
    }
}

/* Scores so far apart that one key of each query has the whole weight: every sum is exact. */
static double hundreds(unsigned seed, int64_t index)
{
    return 64 * whole_number(seed, index);
}

void case_attention_exact(rank_info *info)
{
    kith_attention_options options = options_of(8, 4);
    recipe how = { make_attention, &options, SEQUENCE, BATCH, hundreds };
    require_layouts_agree(info, &how, KITH_F64, 0, 1);
}

/* ---- heads ---- */

typedef struct heads {
    int64_t first, count, first_kv, kv_count;
} heads;

static heads heads_of(kith_layers *layers, int64_t count, int64_t kv_count, int64_t head_dim)
{
    kith_attention_options options = options_of(count, kv_count);
    options.name = NULL, options.head_dim = head_dim;
    kith_attention *attention;
    heads made;
    REQUIRE_OK(kith_attention_create(layers, &options, &attention));
    kith_attention_heads(attention, &made.first, &made.count, &made.first_kv, &made.kv_count);
    return made;
}

static void refused(kith_layers *layers, int64_t count, int64_t kv_count, const char *why)
{
    kith_attention_options options = options_of(count, kv_count);
    kith_attention *attention;
    size_t params = kith_layers_param_count(layers);
    REQUIRE_STATUS(kith_attention_create(layers, &options, &attention), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL(why);
    REQUIRE(kith_layers_param_count(layers) == params);
}

/* 8 heads, 2 key heads, 4 ranks: key head 0 on ranks 0 and 1 with heads 0-1 and 2-3; key head 1 likewise. */
static void check_shared_key_heads(rank_info *info, kith_layers *layers)
{
    heads got = heads_of(layers, 8, 2, 4);
    if (info->size == 4)
        REQUIRE(got.first == 2 * info->rank && got.count == 2 && got.first_kv == info->rank / 2 && got.kv_count == 1);
    const kith_param *k = kith_layers_find_param(layers, "attention0.k.weight");
    REQUIRE(k->global_shape[0] == 2 * 4); // two key heads in all, however many copies there are
    REQUIRE(k->copies == (info->size == 4 ? 2 : 1) && k->is_grad_partial == (info->size == 4));
    REQUIRE(kith_layers_find_param(layers, "attention0.q.weight")->copies == 1);
}

/* 28 heads on 8 ranks, as rank 0 of a dry run sees it. */
static void check_eight_ranks(void)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dry_tp = 8;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    heads got = heads_of(layers, 28, 28, 4);
    REQUIRE(got.first == 0 && got.count == 4 && got.kv_count == 4);
    refused(layers, 28, 4, "28 heads with 4 key heads cannot be dealt to 8 tensor-parallel ranks: wanted at least 8");
    REQUIRE_OK(kith_layers_destroy(layers));
}

void case_attention_heads(rank_info *info)
{
    check_eight_ranks();
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    int t = info->size, r = info->rank;
    if (t != 3)
        check_shared_key_heads(info, layers);
    heads uneven = heads_of(layers, 25, 25, 2); // 13 and 12 on two ranks
    int64_t first, count;
    kith_split_range(25, t, r, &first, &count);
    REQUIRE(uneven.first == first && uneven.count == count && uneven.first_kv == first && uneven.kv_count == count);
    heads groups = heads_of(layers, 24, 6, 2); // four heads go where their key head is
    kith_split_range(6, t, r, &first, &count);
    REQUIRE(groups.first == 4 * first && groups.count == 4 * count && groups.kv_count == count);
    if (t == 3) // neither three key heads nor a number that divides three
        refused(layers, 8, 2,
                "8 heads with 2 key heads cannot be dealt to 3 tensor-parallel ranks: wanted at least 3 "
                "key heads (any number of heads), or a number of them that divides 3 with heads a "
                "multiple of 3, or one key head with at least 3 heads");
    if (t == 4) {
        refused(layers, 6, 2, "6 heads with 2 key heads cannot be dealt to 4");
        refused(layers, 2, 2, "2 heads with 2 key heads cannot be dealt to 4");
    }
    refused(layers, 6, 4, "6 heads cannot share 4 key heads evenly");
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* 25 heads on two ranks are 13 and 12, and give what one rank gives. */
void case_attention_uneven(rank_info *info)
{
    kith_attention_options options = options_of(25, 25);
    options.features = 25, options.head_dim = 2;
    options.rotary_base = 10000;
    recipe how = { make_attention, &options, 5, BATCH, fraction };
    require_layouts_agree(info, &how, KITH_F64, 1e-12, 1);
}

/* Copies of a key head start equal and get equal gradients, so they stay equal after a step. */
void case_attention_copies(rank_info *info)
{
    kith_attention_options options = options_of(8, 2);
    recipe how = { make_attention, &options, SEQUENCE, BATCH, fraction };
    subject s;
    make_subject(&how, layers_over(info, info->size, KITH_F64, 0), 0, &s);
    kith_tensor x = input_of(&s, KITH_F64, &how), dy = output_grad_of(&s, KITH_F64, &how), y, dx;
    run_subject(&s, &x, &dy, &y, &dx);
    const kith_param *k = kith_layers_find_param(s.layers, "attention.k.weight");
    enum { MOST = 2 * 4 * FEATURES };
    size_t count = (size_t)kith_tensor_count(&k->grad);
    double all[4 * MOST];
    REQUIRE(count <= MOST);
    REQUIRE_OK(kith_all_gather(info->world, k->grad.data, all, count, KITH_F64));
    for (int r = 0; r < info->size; r++)
        if (r / k->copies == info->rank / k->copies)
            REQUIRE(memcmp(all + (size_t)r * count, k->grad.data, count * sizeof(double)) == 0);
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(x.data), free(dy.data);
    end_subject(&s);
}

static void refused_options(kith_layers *layers, const kith_attention_options *options, const char *why)
{
    kith_attention *attention;
    REQUIRE_STATUS(kith_attention_create(layers, options, &attention), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL(why);
}

void case_attention_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_attention_options options = options_of(8, 0);
    options.head_dim = 0;
    refused_options(layers, &options, "6 features are no multiple of 8 heads: set head_dim");
    options.head_dim = 3, options.rotary_base = 10000;
    refused_options(layers, &options, "even head_dim");
    options.head_dim = 4, options.dropout = 0.1;
    refused_options(layers, &options, "needs a site of 1 to 65535");
    options.dropout = 1, options.site = 1;
    refused_options(layers, &options, "wanted 0 <= probability < 1");
    options.dropout = 0, options.scale = NAN;
    refused_options(layers, &options, "finite");
    options.scale = 0;
    REQUIRE(kith_layers_param_count(layers) == 0);
    kith_attention *attention;
    REQUIRE_OK(kith_attention_create(layers, &options, &attention));
    kith_tape *tape = tape_of(layers, 4, BATCH);
    kith_tensor x = numbers(KITH_F64, 4 * BATCH, FEATURES, 1, fraction), y, dx;
    kith_tensor few = kith_tensor_narrow(&x, 0, 0, 2);
    REQUIRE_STATUS(kith_attention_forward(attention, tape, &few, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("kith_attention_forward: x has 2 rows (all dimensions but the last), wanted 8");
    REQUIRE_OK(kith_attention_forward(attention, tape, &x, &y));
    size_t depth = kith_tape_depth(tape);
    REQUIRE_STATUS(kith_attention_backward(attention, tape, &few, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_tape_depth(tape) == depth);
    REQUIRE_OK(kith_attention_backward(attention, tape, &x, NULL));
    REQUIRE(kith_tape_depth(tape) == 0);
    kith_tensor_release(&y);
    free(x.data);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}
