/* tests/layers/checkpoint/ckpt_model.c - models in layouts, whose every element is known.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <math.h>
#include <string.h>

/* ---- families ---- */

kith_transformer_config tiny_gpt2(void)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_gpt2(&config, 24, 3, 4, 53, 16);
    config.inner = 37;
    return config;
}

kith_transformer_config tiny_llama(void)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_llama(&config, 24, 37, 3, 4, 2, 53);
    config.head_dim = 10;
    return config;
}

kith_transformer_config tiny_mixtral(void)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_llama(&config, 24, 19, 2, 4, 1, 53);
    config.experts = 5;
    config.top_k = 2;
    config.is_router_normalized = 1;
    return config;
}

kith_transformer_config tiny_qwen2(void)
{
    kith_transformer_config config = tiny_llama();
    config.head_dim = 0;
    config.has_qkv_bias = 1;
    config.is_tied = 1;
    return config;
}

kith_transformer_config tiny_qwen3(void)
{
    kith_transformer_config config = tiny_llama();
    config.has_head_norms = 1;
    return config;
}

kith_transformer_config golden_gpt2(void)
{
    return gpt2().config;
}

kith_transformer_config golden_llama(void)
{
    return llama().config;
}

kith_transformer_config golden_mixtral(void)
{
    return mixtral().config;
}

kith_transformer_config golden_qwen2(void)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_llama(&config, 24, 40, 2, 4, 2, VOCABULARY);
    config.norm_epsilon = 1e-6;
    config.has_qkv_bias = 1;
    config.is_tied = 1;
    return config;
}

/* ---- groups ---- */

/* Rank = (stage * dp + replica) * tp + place in tp. */
static void make_groups(rank_info *info, model *m)
{
    const layout *l = &m->l;
    int size = l->tp * l->pp * l->dp, rank = info->rank;
    m->is_in = rank < size;
    REQUIRE(size <= info->size);
    int in_tp = rank % l->tp, replica = rank / l->tp % l->dp, stage = rank / (l->tp * l->dp);
    int is_end = stage == 0 || stage == l->pp - 1;
    int of_tp = stage * l->dp + replica, of_data = stage * l->tp + in_tp, of_tied = replica * l->tp + in_tp;
    int of_ep = (stage * l->tp + in_tp) * l->dp + replica / l->ep;
    int of_expert_data = (stage * l->tp + in_tp) * l->dp + replica % l->ep;
    const struct {
        int color, is_wanted;
        kith_group **group;
    } groups[] = { { 0, 1, &m->all },
                   { of_tp, 1, &m->tp },
                   { of_data, 1, &m->data },
                   { of_ep, l->ep > 1, &m->ep },
                   { of_expert_data, l->ep > 1, &m->expert_data },
                   { of_tied, m->config.is_tied && l->pp > 1 && is_end, &m->tied } };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        int color = m->is_in && groups[i].is_wanted ? groups[i].color : KITH_NO_COLOR;
        REQUIRE_OK(kith_group_split(info->world, color, rank, NULL, groups[i].group));
    }
}

static void make_layers(model *m, kith_dtype dtype)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.tp = m->tp;
    options.ep = m->ep;
    options.data = m->data;
    options.is_sequence_parallel = m->l.is_sequence_parallel;
    options.blas_threads = 1;
    REQUIRE_OK(kith_layers_create(&options, &m->layers));
}

static void make_stage(rank_info *info, model *m)
{
    const layout *l = &m->l;
    int stage = info->rank / (l->tp * l->dp);
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &m->config;
    options.vocabulary_multiple = l->vocabulary_multiple;
    kith_split_range(m->config.blocks, l->pp, stage, &options.first_block, &options.block_count);
    options.has_embedding = stage == 0;
    options.has_head = stage == l->pp - 1;
    REQUIRE_OK(kith_transformer_create(m->layers, &options, &m->transformer));
}

static kith_param *tie(model *m)
{
    if (m->tied == NULL)
        return NULL;
    kith_param *param = kith_layers_find_param(m->layers, "embedding.weight");
    if (param == NULL)
        param = kith_layers_find_param(m->layers, "head.weight");
    REQUIRE_OK(kith_param_tie(param, m->tied));
    return param;
}

static void make_optim(model *m, with which)
{
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    options.kind = which == WITH_SGD ? KITH_SGD : KITH_ADAMW;
    options.momentum = 0.9;
    options.data = m->data;
    options.expert_data = m->expert_data;
    options.all = m->all;
    options.tied = tie(m);
    options.tied_group = m->tied;
    options.is_sharded = m->l.is_sharded;
    options.bucket_nbytes = 4096;
    REQUIRE_OK(kith_optim_create(m->layers, &options, &m->optim));
}

model make_model(rank_info *info, const layout *l, const kith_transformer_config *config, kith_dtype dtype, with optim)
{
    model m = { .l = *l, .config = *config, .place = KITH_CHECKPOINT_PLACE_INIT };
    m.l.ep = l->ep > 0 ? l->ep : 1;
    make_groups(info, &m);
    if (!m.is_in)
        return m;
    make_layers(&m, dtype);
    make_stage(info, &m);
    if (optim != WITHOUT_OPTIM)
        make_optim(&m, optim);
    m.place.group = m.all;
    m.place.data = m.data;
    m.place.expert_data = m.expert_data;
    m.place.layers = m.layers;
    m.place.optim = m.optim;
    return m;
}

void end_model(model *m)
{
    kith_group *groups[] = { m->tied, m->expert_data, m->ep, m->data, m->tp, m->all };
    kith_optim_destroy(m->optim);
    if (m->is_in)
        REQUIRE_OK(kith_layers_destroy(m->layers));
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (groups[i] != NULL)
            REQUIRE_OK(kith_group_destroy(groups[i]));
}

/* ---- every element ---- */

/* A head that is tied has the embedding's. */
double number_of(const model *m, const kith_param *param, const char *state, unsigned seed, int64_t index)
{
    char name[128];
    int is_copy = m->config.is_tied && strcmp(param->name, "head.weight") == 0;
    snprintf(name, sizeof name, "%s.%s", is_copy ? "embedding.weight" : param->name, state);
    return fraction(seed_of_name(name) + 77 * seed, index);
}

int64_t index_in_whole(const kith_param *param, int64_t flat)
{
    const int64_t *shape = param->value.shape, *whole = param->global_shape;
    int last = param->dim_count - 1;
    int64_t at[2] = { last == 1 ? flat / shape[1] : 0, flat % shape[last] };
    if (param->split_dim >= 0)
        at[last == 0 ? 1 : param->split_dim] += param->first;
    int64_t rows = last == 1 ? whole[0] : 1;
    return at[0] < rows && at[1] < whole[last] ? at[0] * whole[last] + at[1] : -1;
}

static char *address(const kith_tensor *part, int64_t flat)
{
    int64_t cols = part->shape[part->dim_count - 1], row = flat / cols, col = flat % cols;
    int64_t stride = part->dim_count == 2 ? part->strides[0] : 0;
    return (char *)part->data + (row * stride + col) * (int64_t)kith_dtype_nbytes(part->dtype);
}

typedef void (*visit)(const model *m, const kith_param *param, const char *state, int64_t index, void *at,
                      kith_dtype dtype, void *arg);

static void visit_all(const model *m, visit each, void *arg)
{
    for (size_t i = 0; i < kith_layers_param_count(m->layers); i++) {
        const kith_param *param = kith_layers_param(m->layers, i);
        for (int64_t k = 0; k < kith_tensor_count(&param->value); k++)
            each(m, param, "value", index_in_whole(param, k), address(&param->value, k), param->value.dtype, arg);
    }
    for (size_t i = 0; i < kith_optim_piece_count(m->optim); i++) {
        kith_optim_piece piece;
        REQUIRE_OK(kith_optim_get_piece(m->optim, i, &piece));
        for (int64_t k = 0; k < piece.count; k++)
            each(m, piece.param, piece.state, index_in_whole(piece.param, piece.first + k),
                 (char *)piece.data + k * (int64_t)kith_dtype_nbytes(piece.dtype), piece.dtype, arg);
    }
}

static void fill(const model *m, const kith_param *param, const char *state, int64_t index, void *at, kith_dtype dtype,
                 void *arg)
{
    kith_tensor one = kith_tensor_view(at, dtype, 1, (const int64_t[]){ 1 });
    put_element(&one, 0, index < 0 ? 0 : number_of(m, param, state, *(unsigned *)arg, index));
}

void fill_model(model *m, unsigned seed)
{
    if (m->is_in)
        visit_all(m, fill, &seed);
}

static void spoil(const model *m, const kith_param *param, const char *state, int64_t index, void *at, kith_dtype dtype,
                  void *arg)
{
    (void)m, (void)param, (void)state, (void)index, (void)arg;
    memset(at, 0xff, kith_dtype_nbytes(dtype));
}

void spoil_model(model *m)
{
    if (m->is_in)
        visit_all(m, spoil, NULL);
}

typedef struct wanted {
    const char *file;
    int line;
    unsigned seed;
} wanted;

static void compare(const model *m, const kith_param *param, const char *state, int64_t index, void *at,
                    kith_dtype dtype, void *arg)
{
    const wanted *want = arg;
    int is_padding_of_state = index < 0 && strcmp(state, "value") != 0; /* is whatever it was */
    double number = index < 0 ? 0 : number_of(m, param, state, want->seed, index);
    unsigned char expected[8];
    kith_tensor one = kith_tensor_view(expected, dtype, 1, (const int64_t[]){ 1 });
    put_element(&one, 0, number);
    kith_tensor got = kith_tensor_view(at, dtype, 1, (const int64_t[]){ 1 });
    if (!is_padding_of_state && memcmp(expected, at, kith_dtype_nbytes(dtype)) != 0)
        rank_fail(want->file, want->line, "%s: %s.%s element %lld is %.17g, wanted %.17g", m->l.name, param->name,
                  state, (long long)index, element(&got, 0), element(&one, 0));
}

void require_model(const char *file, int line, const model *m, unsigned seed)
{
    wanted want = { file, line, seed };
    if (m->is_in)
        visit_all(m, compare, &want);
}

static void compare_spoilt(const model *m, const kith_param *param, const char *state, int64_t index, void *at,
                           kith_dtype dtype, void *arg)
{
    const wanted *want = arg;
    kith_tensor got = kith_tensor_view(at, dtype, 1, (const int64_t[]){ 1 });
    if (!isnan(element(&got, 0)))
        rank_fail(want->file, want->line, "%s: %s.%s element %lld was changed to %.17g", m->l.name, param->name, state,
                  (long long)index, element(&got, 0));
}

void require_spoilt(const char *file, int line, const model *m)
{
    wanted want = { file, line, 0 };
    if (m->is_in)
        visit_all(m, compare_spoilt, &want);
}
