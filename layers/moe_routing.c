/* layers/moe_routing.c - which choices an expert takes, and in which order rows travel.
 *
 * Capacity. With a limit an expert takes choices in the order of (place, token): the first choices of all tokens come
 * before any second one, so what is dropped is what mattered least. The limit holds for each home by itself; no rank
 * need know of another's tokens to decide.
 *
 * Lists of rows are cheap to make and not kept for backward: of a choice, its expert and its row are kept, and the
 * counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

#include <math.h>

static kith_status check_tokens(const kith_moe *moe, int64_t tokens)
{
    int64_t experts = moe->options.experts, top_k = moe->options.top_k, ranks = moe->layers->ep_size, rows;
    if (!__builtin_mul_overflow(top_k, ranks, &rows) && tokens <= INT32_MAX / (rows > experts ? rows : experts))
        return KITH_OK;
    return ki_fail(
        KITH_ERR_INVALID_ARG,
        "%s: a microbatch of %lld tokens, with %lld experts, top_k %lld and %lld expert-parallel ranks: tokens "
        "times experts, and tokens times top_k times ranks, may be at most 2^31 - 1",
        moe->name, (long long)tokens, (long long)experts, (long long)top_k, (long long)ranks);
}

kith_status ki_routing_create(kith_moe *moe, int64_t tokens, ki_routing *routing)
{
    kith_status status = check_tokens(moe, tokens);
    if (status != KITH_OK)
        return status;
    routing->tokens = tokens;
    routing->choices = tokens * moe->options.top_k;
    status = ki_tensor_create_on_host(moe->layers, KITH_INT32, 2, routing->choices, &routing->chosen);
    int64_t counts = moe->options.experts + moe->layers->ep_size * moe->expert_count;
    if (status == KITH_OK)
        status = ki_tensor_create_on_host(moe->layers, KITH_INT64, 1, counts, &routing->counts);
    return status;
}

void ki_routing_release(ki_routing *routing)
{
    kith_tensor_release(&routing->chosen);
    kith_tensor_release(&routing->counts);
}

/* Most choices of one home that an expert takes. */
static int64_t capacity_of(const kith_moe *moe, const ki_routing *routing)
{
    if (moe->options.capacity_factor == 0)
        return routing->tokens;
    double most = ceil(moe->options.capacity_factor * (double)routing->choices / (double)moe->options.experts);
    return most < (double)routing->tokens ? (int64_t)most : routing->tokens;
}

int64_t ki_routing_rows_to(const kith_moe *moe, const ki_routing *routing, int64_t expert)
{
    if (!moe->layers->is_dry)
        return ((const int64_t *)routing->counts.data)[expert];
    int64_t first, count, capacity = capacity_of(moe, routing);
    kith_split_range(routing->choices, (int)moe->options.experts, (int)expert, &first, &count);
    return count < capacity ? count : capacity;
}

int64_t ki_routing_rows_from(const kith_moe *moe, const ki_routing *routing, int source, int64_t index)
{
    if (moe->layers->is_dry)
        return ki_routing_rows_to(moe, routing, moe->first_expert + index);
    const int64_t *received = (const int64_t *)routing->counts.data + moe->options.experts;
    return received[source * moe->expert_count + index];
}

int64_t ki_routing_rows_of(const kith_moe *moe, const ki_routing *routing, int64_t index)
{
    int64_t rows = 0;
    for (int source = 0; source < moe->layers->ep_size; source++)
        rows += ki_routing_rows_from(moe, routing, source, index);
    return rows;
}

/* Counts what each expert takes, which is what rows are numbered by afterwards: here a choice that is taken gets 0, one
 * that comes too late -1. */
static int64_t take(const kith_moe *moe, ki_routing *routing)
{
    const int32_t *expert_of = ki_expert_of_choice(routing);
    int32_t *row_of = ki_row_of_choice(routing);
    int64_t *counts = (int64_t *)routing->counts.data;
    int64_t top_k = moe->options.top_k, capacity = capacity_of(moe, routing), dropped = 0;
    memset(counts, 0, (size_t)moe->options.experts * sizeof *counts);
    for (int64_t place = 0; place < top_k; place++)
        for (int64_t choice = place; choice < routing->choices; choice += top_k) {
            int64_t *count = &counts[expert_of[choice]];
            row_of[choice] = *count < capacity ? 0 : -1;
            if (*count < capacity)
                ++*count;
            else
                dropped++;
        }
    return dropped;
}

/* Numbers the rows by (expert, token). next: [experts]. */
static void number(const kith_moe *moe, ki_routing *routing, int64_t *next)
{
    const int32_t *expert_of = ki_expert_of_choice(routing);
    int32_t *row_of = ki_row_of_choice(routing);
    const int64_t *counts = (const int64_t *)routing->counts.data;
    for (int64_t e = 0, first = 0; e < moe->options.experts; first += counts[e++])
        next[e] = first;
    for (int64_t choice = 0; choice < routing->choices; choice++)
        if (row_of[choice] >= 0)
            row_of[choice] = (int32_t)next[expert_of[choice]]++;
}

kith_status ki_routing_deal(kith_moe *moe, ki_routing *routing, int64_t *dropped)
{
    kith_tensor next = { 0 };
    kith_status status = ki_tensor_create_on_host(moe->layers, KITH_INT64, 1, moe->options.experts, &next);
    if (status != KITH_OK)
        return status;
    *dropped = 0;
    if (!moe->layers->is_dry) {
        *dropped = take(moe, routing);
        number(moe, routing, (int64_t *)next.data);
    }
    routing->sent = 0;
    for (int64_t e = 0; e < moe->options.experts; e++)
        routing->sent += ki_routing_rows_to(moe, routing, e);
    if (moe->layers->is_dry)
        *dropped = routing->choices - routing->sent;
    kith_tensor_release(&next);
    return KITH_OK;
}

/* What came from other ranks decides sizes of memory. */
static kith_status check_counts(const kith_moe *moe, const ki_routing *routing)
{
    for (int source = 0; source < moe->layers->ep_size; source++)
        for (int64_t i = 0; i < moe->expert_count; i++) {
            int64_t rows = ki_routing_rows_from(moe, routing, source, i);
            if (rows < 0 || rows > routing->tokens)
                return ki_fail(KITH_ERR_MISMATCH,
                               "%s: rank %d of the expert-parallel group sends %lld tokens to expert %lld, wanted 0 to "
                               "%lld: its microbatch or its layer has another size",
                               moe->name, source, (long long)rows, (long long)(moe->first_expert + i),
                               (long long)routing->tokens);
        }
    return KITH_OK;
}

kith_status ki_routing_exchange(kith_moe *moe, kith_tape *tape, ki_routing *routing)
{
    kith_layers *layers = moe->layers;
    int ranks = layers->ep_size;
    int64_t *experts_of = (int64_t *)ki_calloc(NULL, 2 * (size_t)ranks, sizeof *experts_of);
    if (experts_of == NULL)
        return KITH_ERR_NO_MEMORY;
    int64_t *experts_here = experts_of + ranks, first;
    for (int r = 0; r < ranks; r++) {
        kith_split_range(moe->options.experts, ranks, r, &first, &experts_of[r]);
        experts_here[r] = moe->expert_count;
    }
    int64_t *counts = (int64_t *)routing->counts.data;
    int64_t *received = counts == NULL ? NULL : counts + moe->options.experts;
    kith_status status = ki_comm_all_to_all_v(layers, tape->phase, ki_comm_on_host(ki_comm_ep(layers)), counts,
                                              experts_of, received, experts_here, KITH_INT64);
    ki_free(NULL, experts_of);
    if (status == KITH_OK && !layers->is_dry)
        status = check_counts(moe, routing);
    routing->received = 0;
    for (int64_t i = 0; i < moe->expert_count && status == KITH_OK; i++)
        routing->received += ki_routing_rows_of(moe, routing, i);
    return status;
}

static void list_home(const kith_moe *moe, const ki_routing *routing, ki_routing_lists *lists)
{
    const int32_t *row_of = ki_row_of_choice(routing);
    for (int64_t choice = 0; choice < routing->choices; choice++)
        if (row_of[choice] >= 0) {
            lists->choice_of_row[row_of[choice]] = (int32_t)choice;
            lists->token_of_row[row_of[choice]] = (int32_t)(choice / moe->options.top_k);
        }
}

static void list_arrivals(const kith_moe *moe, const ki_routing *routing, ki_routing_lists *lists)
{
    int64_t arrival = 0;
    for (int source = 0; source < moe->layers->ep_size; source++) {
        int64_t expert_first = 0;
        for (int64_t i = 0; i < moe->expert_count; i++) {
            int64_t row = expert_first;
            for (int before = 0; before < source; before++)
                row += ki_routing_rows_from(moe, routing, before, i);
            for (int64_t n = ki_routing_rows_from(moe, routing, source, i); n > 0; n--, row++, arrival++) {
                lists->arrival_of_row[row] = (int32_t)arrival;
                lists->row_of_arrival[arrival] = (int32_t)row;
            }
            expert_first += ki_routing_rows_of(moe, routing, i);
        }
    }
}

/* Where each list begins in memory. */
static void lay_out(const kith_moe *moe, const ki_routing *routing, int32_t *memory, ki_routing_lists *lists)
{
    lists->token_of_row = memory;
    lists->choice_of_row = lists->token_of_row + routing->sent;
    lists->arrival_of_row = lists->choice_of_row + routing->sent;
    lists->row_of_arrival = lists->arrival_of_row + routing->received;
    lists->row_of_choice = ki_row_of_choice(routing);
    if (!ki_space_is_host(&moe->layers->space))
        lists->row_of_choice =
            ki_moe_is_sorting(moe) ? lists->row_of_arrival + routing->received : lists->arrival_of_row;
}

static int64_t count_numbers(const kith_moe *moe, const ki_routing *routing)
{
    int64_t sorting = ki_moe_is_sorting(moe) ? 2 * routing->received : 0;
    return 2 * routing->sent + sorting + (ki_space_is_host(&moe->layers->space) ? 0 : routing->choices);
}

static void fill(const kith_moe *moe, const ki_routing *routing, int32_t *memory)
{
    ki_routing_lists on_host = { .memory = { 0 } };
    lay_out(moe, routing, memory, &on_host);
    list_home(moe, routing, &on_host);
    if (ki_moe_is_sorting(moe))
        list_arrivals(moe, routing, &on_host);
    if (!ki_space_is_host(&moe->layers->space) && routing->choices > 0)
        memcpy(memory + count_numbers(moe, routing) - routing->choices, ki_row_of_choice(routing),
               (size_t)routing->choices * sizeof *memory);
}

/* Made on the host, used where the layers compute. */
kith_status ki_routing_list(kith_moe *moe, const ki_routing *routing, ki_routing_lists *lists)
{
    kith_tensor numbers = { 0 };
    kith_status status = ki_tensor_create_on_host(moe->layers, KITH_INT32, 1, count_numbers(moe, routing), &numbers);
    if (status == KITH_OK && !moe->layers->is_dry)
        fill(moe, routing, (int32_t *)numbers.data);
    if (status == KITH_OK)
        status = ki_tensor_bring_in(moe->layers, &numbers, &lists->memory);
    if (status == KITH_OK && !moe->layers->is_dry)
        lay_out(moe, routing, (int32_t *)lists->memory.data, lists);
    kith_tensor_release(&numbers);
    return status;
}
