/* topology/plan_check.c - do the sizes of a layout divide what they split? Refusals name the sizes that would.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "plan_parts.h"

#include <stdio.h>
#include <string.h>

#define AXIS_MAX (1 << 20)
#define WORLD_MAX (1 << 24)
#define COUNT_MAX (INT64_C(1) << 40)
#define SEQUENCE_MAX (INT64_C(1) << 32)
#define LAYERS_MAX 1000000
#define WIDTH_MAX (INT64_C(1) << 32)

/* "1, 2, 4, 8": divisors of value, the small ones where there are many. */
static const char *divisors(int64_t value, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 1; i <= value && i <= 4096; i++) {
        if (value % i != 0)
            continue;
        if (used + 16 >= nbytes) {
            snprintf(text + used, nbytes - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, nbytes - used, "%s%lld", used > 0 ? ", " : "", (long long)i);
    }
    return text;
}

static kith_status must_divide(const char *axis, int64_t size, const char *what, int64_t value)
{
    char valid[160];
    if (size > 0 && value % size == 0)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: %s %lld does not divide the %s of %lld; valid: %s", axis,
                         (long long)size, what, (long long)value, divisors(value, valid, sizeof valid));
}

static kith_status in_range(const char *what, double value, double low, double high)
{
    if (value >= low && value <= high)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: %s is %g, it must be from %g to %g", what, value, low, high);
}

/* One check after the other, until one fails. */
#define RETURN_IF_FAILED(CHECK)                                                                                        \
    do {                                                                                                               \
        kith_status failure = (CHECK);                                                                                 \
        if (failure != KITH_OK)                                                                                        \
            return failure;                                                                                            \
    } while (0)

static kith_status check_model(const kith_model *model)
{
    RETURN_IF_FAILED(in_range("the model's number of layers", (double)model->layers, 1, LAYERS_MAX));
    RETURN_IF_FAILED(in_range("the model's hidden size", (double)model->hidden, 1, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the model's number of heads", (double)model->heads, 1, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the model's number of K and V heads", (double)model->kv_heads, 1, (double)model->heads));
    RETURN_IF_FAILED(in_range("the model's head size", (double)model->head_dim, 0, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the model's inner size", (double)model->ffn, 1, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the model's vocabulary", (double)model->vocab, 1, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the model's positions", (double)model->positions, 0, (double)SEQUENCE_MAX));
    RETURN_IF_FAILED(in_range("the model's number of experts", (double)model->experts, 0, AXIS_MAX));
    RETURN_IF_FAILED(in_range("experts of a token", (double)model->top_k, 0, (double)model->experts));
    RETURN_IF_FAILED(
        in_range("the distance of layers with experts", (double)model->moe_every, 1, (double)model->layers));
    RETURN_IF_FAILED(in_range("the inner size of an expert", (double)model->moe_ffn, 0, (double)WIDTH_MAX));
    RETURN_IF_FAILED(in_range("the inner size of the shared expert", (double)model->shared_ffn, 0, (double)WIDTH_MAX));
    if (model->head_dim == 0)
        RETURN_IF_FAILED(must_divide("the number of heads", model->heads, "hidden size", model->hidden));
    return must_divide("the number of K and V heads", model->kv_heads, "number of heads", model->heads);
}

static kith_status check_ranges(const kith_plan_options *o)
{
    RETURN_IF_FAILED(in_range("tp", o->tp, 1, AXIS_MAX));
    RETURN_IF_FAILED(in_range("cp", o->cp, 1, AXIS_MAX));
    RETURN_IF_FAILED(in_range("ep", o->ep, 1, AXIS_MAX));
    RETURN_IF_FAILED(in_range("dp", o->dp, 1, AXIS_MAX));
    RETURN_IF_FAILED(in_range("pp", o->pp, 1, AXIS_MAX));
    RETURN_IF_FAILED(in_range("the number of ranks", (double)o->tp * o->cp * o->ep * o->dp * o->pp, 1, WORLD_MAX));
    RETURN_IF_FAILED(in_range("the microbatch", (double)o->micro_batch, 1, (double)SEQUENCE_MAX));
    RETURN_IF_FAILED(in_range("the number of microbatches", (double)o->microbatches, 1, (double)SEQUENCE_MAX));
    RETURN_IF_FAILED(in_range("the global batch", (double)o->global_batch, 1, (double)COUNT_MAX));
    RETURN_IF_FAILED(in_range("the sequence", (double)o->sequence, 1, (double)SEQUENCE_MAX));
    RETURN_IF_FAILED(in_range("zero", o->zero, 0, 3));
    RETURN_IF_FAILED(in_range("the number of chunks", o->chunks, 1, LAYERS_MAX));
    RETURN_IF_FAILED(in_range("the efficiency", o->efficiency, 1e-6, 1));
    RETURN_IF_FAILED(in_range("the peak in TFLOP/s", o->peak_tflops, 0, 1e9));
    RETURN_IF_FAILED(in_range("the memory of a GPU", o->gpu_memory_nbytes, 0, 1e18));
    RETURN_IF_FAILED(in_range("the schedule", o->schedule, KITH_SCHEDULE_NAIVE, KITH_SCHEDULE_AUTO));
    RETURN_IF_FAILED(in_range("recomputation", o->recompute, KITH_RECOMPUTE_NONE, KITH_RECOMPUTE_FULL));
    if (o->parameter_nbytes != 1 && o->parameter_nbytes != 2 && o->parameter_nbytes != 4)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: a parameter has %d bytes; valid: 1, 2, 4",
                             o->parameter_nbytes);
    if (o->gradient_nbytes != 2 && o->gradient_nbytes != 4)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: a gradient has %d bytes; valid: 2, 4", o->gradient_nbytes);
    return KITH_OK;
}

static kith_status check_heads(const kith_model *model, int tp)
{
    RETURN_IF_FAILED(must_divide("tp", tp, "number of heads", model->heads));
    if (model->kv_heads % tp != 0 && tp % model->kv_heads != 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "plan: tp %d neither divides the %lld K and V heads nor is a multiple of them", tp,
                             (long long)model->kv_heads);
    return KITH_OK;
}

static kith_status check_splits(const kith_model *model, const kith_plan_options *o)
{
    RETURN_IF_FAILED(check_heads(model, o->tp));
    RETURN_IF_FAILED(must_divide("tp", o->tp, "inner size of the MLP", model->ffn));
    RETURN_IF_FAILED(must_divide("tp", o->tp, "inner size of an expert", model->moe_ffn));
    RETURN_IF_FAILED(must_divide("tp", o->tp, "inner size of the shared expert", model->shared_ffn));
    if (o->chunks > 1)
        RETURN_IF_FAILED(must_divide("pp * chunks =", (int64_t)o->pp * o->chunks, "number of layers", model->layers));
    RETURN_IF_FAILED(must_divide("pp", o->pp, "number of layers", model->layers));
    if (model->experts > 0 && o->pp > 1)
        RETURN_IF_FAILED(must_divide("the distance of layers with experts", model->moe_every,
                                     "number of layers of a stage", model->layers / o->pp));
    if (o->ep > 1 && model->experts == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: ep %d, but the model has no experts; valid: 1", o->ep);
    return must_divide("ep", o->ep, "number of experts", model->experts);
}

static kith_status check_sequence(const kith_model *model, const kith_plan_options *o)
{
    if (model->positions > 0 && o->sequence > model->positions)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "plan: the sequence of %lld tokens is longer than the model's %lld "
                             "learned positions",
                             (long long)o->sequence, (long long)model->positions);
    if (o->cp > 1) /* each rank has one part of the front and one of the back, so that causal work is even */
        RETURN_IF_FAILED(must_divide("2 * cp =", 2 * (int64_t)o->cp, "sequence", o->sequence));
    if (o->sequence_parallel)
        RETURN_IF_FAILED(must_divide("tp", o->tp, "sequence (of a cp rank)", o->sequence / o->cp));
    return KITH_OK;
}

static kith_status check_batch(const kith_plan_options *o)
{
    double wanted = (double)o->micro_batch * (double)o->microbatches * o->dp * o->ep;
    if (wanted == (double)o->global_batch)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "plan: a global batch of %lld sequences is not microbatch %lld * microbatches %lld * dp %d * "
                         "ep %d = %.0f",
                         (long long)o->global_batch, (long long)o->micro_batch, (long long)o->microbatches, o->dp,
                         o->ep, wanted);
}

static kith_status check_order(const kith_plan_options *o)
{
    static const char *const names[] = { "tp", "cp", "ep", "dp", "pp" };
    const int sizes[] = { o->tp, o->cp, o->ep, o->dp, o->pp };
    unsigned seen = 0;
    bool is_good = strlen(o->order) >= 2;
    for (const char *c = o->order; is_good && *c != '\0'; c += c[2] == '-' ? 3 : 2) {
        unsigned axis = 0;
        while (axis < 5 && strncmp(c, names[axis], 2) != 0)
            axis++;
        is_good = axis < 5 && (seen & 1u << axis) == 0 && (c[2] == '\0' || (c[2] == '-' && c[3] != '\0'));
        seen |= 1u << axis;
        if (!is_good)
            break;
    }
    for (unsigned axis = 0; axis < 5; axis++)
        is_good = is_good && (sizes[axis] == 1 || (seen & 1u << axis) != 0);
    if (is_good)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "plan: order '%.40s' must name each axis that is larger than 1 once, as in tp-cp-ep-dp-pp",
                         o->order);
}

kith_status ki_layout_check(const kith_plan *plan)
{
    RETURN_IF_FAILED(check_model(&plan->model));
    RETURN_IF_FAILED(check_ranges(&plan->options));
    RETURN_IF_FAILED(check_splits(&plan->model, &plan->options));
    RETURN_IF_FAILED(check_sequence(&plan->model, &plan->options));
    RETURN_IF_FAILED(check_batch(&plan->options));
    return check_order(&plan->options);
}
