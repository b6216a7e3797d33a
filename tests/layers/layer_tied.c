/* tests/layers/layer_tied.c - embedding, head and what they share: gradients by finite differences, tied weights in one
 * process and in two.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_vocabulary.h"

#include <math.h>
#include <string.h>

/* A model of embedding and head alone: loss(head(dropout(words[id] + positions[place]))). */
typedef struct model {
    kith_layers *layers;
    kith_embedding *embedding;
    kith_head *head;
    kith_tape *tape;
} model;

static void make_model(kith_layers *layers, int64_t multiple, int is_tied, double dropout, model *made)
{
    kith_embedding_options e = KITH_EMBEDDING_OPTIONS_INIT;
    e.name = "embedding", e.vocabulary = WORDS, e.features = FEATURES;
    e.padding_multiple = multiple, e.positions = SEQUENCE;
    e.dropout = dropout;
    kith_head_options h = KITH_HEAD_OPTIONS_INIT;
    h.name = "head", h.vocabulary = WORDS, h.features = FEATURES, h.padding_multiple = multiple;
    h.label_smoothing = 0.1;
    made->layers = layers;
    REQUIRE_OK(kith_embedding_create(layers, &e, &made->embedding));
    if (is_tied)
        h.tied = kith_embedding_weight(made->embedding);
    REQUIRE_OK(kith_head_create(layers, &h, &made->head));
    REQUIRE(!is_tied || kith_head_weight(made->head) == h.tied);
    load_params(layers, fraction);
    made->tape = tape_of(layers, SEQUENCE, SAMPLES);
}

static double forward(model *m)
{
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = SEQUENCE, batch.batch = SAMPLES, batch.first_sample = 17;
    REQUIRE_OK(kith_tape_begin(m->tape, &batch));
    kith_tensor ids = some_ids(1, WORDS), targets = some_ids(2, WORDS), x;
    ((int32_t *)targets.data)[4] = -100;
    double sum;
    REQUIRE_OK(kith_embedding_forward(m->embedding, m->tape, &ids, &x));
    REQUIRE_OK(kith_head_forward(m->head, m->tape, &x, &targets, NULL, &sum, NULL));
    kith_tensor_release(&x);
    return sum;
}

static void backward(model *m, double scale)
{
    kith_tensor dx;
    REQUIRE_OK(kith_head_backward(m->head, m->tape, scale, &dx));
    REQUIRE_OK(kith_embedding_backward(m->embedding, m->tape, &dx));
    kith_tensor_release(&dx);
    REQUIRE_OK(kith_tape_weight_grads(m->tape));
    REQUIRE_OK(kith_layers_finish_grads(m->layers));
}

static double loss_with(model *m, kith_param *param, const kith_tensor *whole)
{
    REQUIRE_OK(kith_param_load(param, whole));
    return forward(m);
}

/* Every element of every parameter, by central differences. */
static void check_param(model *m, kith_param *param)
{
    static const double step = 1e-5;
    double *values = whole_of(param, KITH_PARAM_VALUE), *grads = whole_of(param, KITH_PARAM_GRAD);
    kith_tensor whole = kith_tensor_view(values, KITH_F64, 2, param->global_shape);
    for (int64_t i = 0; i < kith_tensor_count(&whole); i++) {
        double kept = values[i];
        values[i] = kept + step;
        double above = loss_with(m, param, &whole);
        values[i] = kept - step;
        double below = loss_with(m, param, &whole), slope = (above - below) / (2 * step);
        values[i] = kept;
        if (!(fabs(slope - grads[i]) <= 1e-6 * fmax(fabs(slope), 0.1)))
            rank_fail(__FILE__, __LINE__, "%s: the gradient of element %lld is %.12g, differences say %.12g",
                      param->name, (long long)i, grads[i], slope);
    }
    REQUIRE_OK(kith_param_load(param, &whole));
    free(values), free(grads);
}

void case_head_differences(rank_info *info)
{
    for (int i = 0; i < 4; i++) {
        int sp = i & 1, is_tied = i >> 1;
        model m;
        make_model(layers_over(info, info->size, KITH_F64, sp), is_tied ? 4 : 0, is_tied, 0.25, &m);
        forward(&m);
        backward(&m, 1);
        for (size_t p = 0; p < kith_layers_param_count(m.layers); p++)
            check_param(&m, kith_layers_param(m.layers, p));
        REQUIRE_OK(kith_tape_begin(m.tape, &(const kith_batch){ sizeof(kith_batch), SEQUENCE, SAMPLES, 0, 1 }));
        end_layers(m.layers, m.tape);
    }
}

/* A tied weight's gradient is the sum of those of two weights with its value. */
void case_tied(rank_info *info)
{
    for (int i = 0; i < 4; i++) {
        int sp = i & 1, later = i >> 1;
        model tied, apart;
        make_model(layers_over(info, info->size, KITH_F64, sp), 4, 1, 0.25, &tied);
        make_model(layers_over(info, info->size, KITH_F64, sp), 0, 0, 0.25, &apart);
        REQUIRE(kith_layers_param_count(tied.layers) == 2 && kith_layers_param_count(apart.layers) == 3);
        double *value = whole_of(kith_embedding_weight(tied.embedding), KITH_PARAM_VALUE);
        kith_tensor whole = kith_tensor_view(value, KITH_F64, 2, (const int64_t[]){ WORDS, FEATURES });
        REQUIRE_OK(kith_param_load(kith_head_weight(apart.head), &whole));
        REQUIRE_OK(kith_tape_set_split_backward(tied.tape, later));
        double got = forward(&tied), wanted = forward(&apart);
        REQUIRE_NUMBERS("loss", &got, &wanted, 1, 1e-13);
        backward(&tied, 0.5), backward(&apart, 0.5);
        double *sum = whole_of(kith_embedding_weight(apart.embedding), KITH_PARAM_GRAD);
        double *more = whole_of(kith_head_weight(apart.head), KITH_PARAM_GRAD);
        double *grad = whole_of(kith_embedding_weight(tied.embedding), KITH_PARAM_GRAD);
        for (int c = 0; c < WORDS * FEATURES; c++)
            sum[c] += more[c];
        REQUIRE_NUMBERS("gradient of the tied weight", grad, sum, WORDS * FEATURES, 1e-13);
        free(value), free(sum), free(more), free(grad);
        end_layers(tied.layers, tied.tape), end_layers(apart.layers, apart.tape);
    }
}

/* ---- the first and the last stage of a pipeline, each of size / 2 ranks ---- */

typedef struct stage {
    int is_last;
    kith_group *tied; /* this rank and its like on the other stage */
    kith_layers *layers;
    kith_embedding *embedding; /* of the first */
    kith_head *head;           /* of the last */
    kith_param *weight;
    kith_tape *tape;
} stage;

static void make_stage(rank_info *info, int64_t words, stage *s)
{
    int tp = info->size / 2;
    s->is_last = info->rank >= tp;
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_F64, options.is_debug = 1, options.is_sequence_parallel = tp > 1;
    REQUIRE_OK(kith_group_split(info->world, s->is_last, info->rank, NULL, &options.tp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % tp, info->rank, NULL, &s->tied));
    REQUIRE_OK(kith_layers_create(&options, &s->layers));
    if (s->is_last) {
        kith_head_options h = KITH_HEAD_OPTIONS_INIT;
        h.name = "head", h.vocabulary = words, h.features = FEATURES, h.label_smoothing = 0.1;
        REQUIRE_OK(kith_head_create(s->layers, &h, &s->head));
        s->weight = kith_head_weight(s->head);
    } else {
        kith_embedding_options e = KITH_EMBEDDING_OPTIONS_INIT;
        e.name = "embedding", e.vocabulary = WORDS, e.features = FEATURES, e.positions = SEQUENCE;
        REQUIRE_OK(kith_embedding_create(s->layers, &e, &s->embedding));
        s->weight = kith_embedding_weight(s->embedding);
    }
    load_params(s->layers, fraction); // other values, as the names differ
    s->tape = tape_of(s->layers, SEQUENCE, SAMPLES);
}

/* What one stage has goes to the other. */
static void hand_over(const stage *s, kith_tensor *tensor, int from_last)
{
    REQUIRE_OK(kith_broadcast(s->tied, tensor->data, (size_t)kith_tensor_count(tensor), tensor->dtype, from_last));
}

static void train_stage(stage *s)
{
    kith_tensor ids = some_ids(1, WORDS), targets = some_ids(2, WORDS), x, dx;
    int64_t first, count;
    kith_split_range(SEQUENCE, kith_layers_tp_size(s->layers), kith_layers_tp_rank(s->layers), &first, &count);
    const int64_t shape[] = { count * SAMPLES, FEATURES };
    ((int32_t *)targets.data)[4] = -100;
    if (s->is_last)
        REQUIRE_OK(kith_tensor_create(s->layers, KITH_F64, 2, shape, &x));
    else
        REQUIRE_OK(kith_embedding_forward(s->embedding, s->tape, &ids, &x));
    hand_over(s, &x, 0);
    if (s->is_last) {
        REQUIRE_OK(kith_head_forward(s->head, s->tape, &x, &targets, NULL, NULL, NULL));
        REQUIRE_OK(kith_head_backward(s->head, s->tape, 0.5, &dx));
    } else {
        REQUIRE_OK(kith_tensor_create(s->layers, KITH_F64, 2, shape, &dx));
    }
    hand_over(s, &dx, 1);
    if (!s->is_last)
        REQUIRE_OK(kith_embedding_backward(s->embedding, s->tape, &dx));
    kith_tensor_release(&x), kith_tensor_release(&dx);
    REQUIRE_OK(kith_layers_finish_grads(s->layers));
}

/* weight -= 0.1 * grad, then compares the copies' bits. */
static void step_and_compare(stage *s)
{
    int64_t count = kith_tensor_count(&s->weight->value);
    double *value = s->weight->value.data, *grad = s->weight->grad.data,
           *others = malloc((size_t)count * sizeof *others);
    for (int64_t i = 0; i < count; i++)
        value[i] -= 0.1 * grad[i];
    memcpy(others, value, (size_t)count * sizeof *others);
    REQUIRE_OK(kith_broadcast(s->tied, others, (size_t)count, KITH_F64, 0));
    REQUIRE(memcmp(others, value, (size_t)count * sizeof *others) == 0);
    free(others);
}

/* Two copies of the weight take the first one's value, and have the gradient that one weight has in one process. */
void case_tied_stages(rank_info *info)
{
    stage s = { 0 };
    make_stage(info, WORDS, &s);
    REQUIRE_OK(kith_param_tie(s.weight, s.tied));
    REQUIRE(s.weight->is_counted == !s.is_last);
    kith_layers_reset_traffic(s.layers);
    train_stage(&s);
    REQUIRE_OK(kith_param_sum_tied(s.weight, s.tied));
    kith_layers_traffic traffic;
    kith_layers_get_traffic(s.layers, &traffic);
    uint64_t positions = info->size > 2 && !s.is_last; // whose gradient is a summand
    REQUIRE(traffic.ops[KITH_PHASE_FINISH][KITH_ALL_REDUCE] == 1 + positions);
    model whole;
    make_model(layers_alone(KITH_F64), 0, 1, 0, &whole);
    forward(&whole);
    backward(&whole, 0.5);
    double *grad = whole_of(s.weight, KITH_PARAM_GRAD);
    double *wanted = whole_of(kith_embedding_weight(whole.embedding), KITH_PARAM_GRAD);
    REQUIRE_NUMBERS("gradient of both copies", grad, wanted, WORDS * FEATURES, 1e-13);
    step_and_compare(&s);
    free(grad), free(wanted);
    end_layers(s.layers, s.tape), end_layers(whole.layers, whole.tape);
}

/* Parts of different sizes are not copies of one: all ranks hear of it. */
void case_tied_mismatch(rank_info *info)
{
    stage s = { 0 };
    make_stage(info, WORDS + 2, &s);
    REQUIRE_STATUS(kith_param_tie(s.weight, s.tied), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("differ in shape, place or dtype");
    REQUIRE_STATUS(kith_param_tie(s.weight, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_param_sum_tied(NULL, s.tied), KITH_ERR_INVALID_ARG);
    end_layers(s.layers, s.tape);
}
