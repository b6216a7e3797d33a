/* layers/moe_dispatch.c - rows to their experts and home again.
 *
 * Rows leave sorted by expert, so those for one rank lie together. They arrive by rank and then by expert, and are put
 * into the order of experts by one copy; on the way back it is the other way round. With one rank nothing moves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

/* Elements that go to each rank of ep, and that come from it: [2 * ep]. Free with ki_free(NULL, ...). */
static kith_status count_elements(const kith_moe *moe, const ki_routing *routing, int64_t cols, int64_t **counts)
{
    int ranks = moe->layers->ep_size;
    int64_t *made = (int64_t *)ki_calloc(NULL, 2 * (size_t)ranks, sizeof *made);
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int r = 0; r < ranks; r++) {
        int64_t first, count;
        kith_split_range(moe->options.experts, ranks, r, &first, &count);
        for (int64_t e = first; e < first + count; e++)
            made[r] += ki_routing_rows_to(moe, routing, e) * cols;
        for (int64_t i = 0; i < moe->expert_count; i++)
            made[ranks + r] += ki_routing_rows_from(moe, routing, r, i) * cols;
    }
    *counts = made;
    return KITH_OK;
}

/* The same rows in another order: row i is row from[i]. */
static kith_status reorder(kith_moe *moe, const int32_t *from, const kith_tensor *rows, kith_tensor *reordered)
{
    kith_layers *layers = moe->layers;
    kith_status status = ki_tensor_create_2d(layers, rows->dtype, ki_rows(rows), ki_features(rows), reordered);
    if (status != KITH_OK)
        return status;
    return layers->compute->ops->pick_rows(layers->compute, from, ki_no_mat(), ki_mat_of(rows), ki_mat_of(reordered));
}

kith_status ki_moe_dispatch(kith_moe *moe, kith_tape *tape, const ki_routing *routing, const ki_routing_lists *lists,
                            const kith_tensor *rows, kith_tensor *arrived)
{
    kith_layers *layers = moe->layers;
    if (layers->ep_size == 1)
        return kith_tensor_retain(rows, arrived);
    kith_tensor arriving = { 0 };
    int64_t *counts = NULL, cols = ki_features(rows);
    kith_status status;
    KI_OR_GOTO(end, count_elements(moe, routing, cols, &counts));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, rows->dtype, routing->received, cols, &arriving));
    KI_OR_GOTO(end, ki_comm_all_to_all_v(layers, tape->phase, ki_comm_ep(layers), rows->data, counts, arriving.data,
                                         counts + layers->ep_size, rows->dtype));
    if (ki_moe_is_sorting(moe))
        KI_OR_GOTO(end, reorder(moe, lists->arrival_of_row, &arriving, arrived));
    else
        KI_OR_GOTO(end, kith_tensor_retain(&arriving, arrived));
end:
    ki_free(NULL, counts);
    kith_tensor_release(&arriving);
    return status;
}

kith_status ki_moe_return_start(kith_moe *moe, kith_tape *tape, const ki_routing *routing,
                                const ki_routing_lists *lists, const kith_tensor *rows, ki_trip *trip)
{
    kith_layers *layers = moe->layers;
    trip->started.request = NULL;
    if (layers->ep_size == 1)
        return kith_tensor_retain(rows, &trip->arriving);
    int64_t *counts = NULL, cols = ki_features(rows);
    kith_status status;
    if (ki_moe_is_sorting(moe))
        KI_OR_GOTO(end, reorder(moe, lists->row_of_arrival, rows, &trip->sending));
    else
        KI_OR_GOTO(end, kith_tensor_retain(rows, &trip->sending));
    KI_OR_GOTO(end, count_elements(moe, routing, cols, &counts));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, rows->dtype, routing->sent, cols, &trip->arriving));
    KI_OR_GOTO(end, ki_comm_all_to_all_v_start(layers, tape->phase, ki_comm_ep(layers), trip->sending.data,
                                               counts + layers->ep_size, trip->arriving.data, counts, rows->dtype,
                                               &trip->started));
end:
    ki_free(NULL, counts);
    return status;
}

kith_status ki_trip_end(ki_trip *trip, kith_tensor *arrived)
{
    kith_status status = ki_comm_wait(&trip->started);
    kith_tensor_release(&trip->sending);
    if (status == KITH_OK)
        status = kith_tensor_retain(&trip->arriving, arrived);
    kith_tensor_release(&trip->arriving);
    return status;
}

void ki_trip_settle(ki_trip *trip)
{
    ki_comm_settle(&trip->started);
    kith_tensor_release(&trip->sending);
    kith_tensor_release(&trip->arriving);
}

kith_status ki_moe_combine(kith_moe *moe, const ki_routing_lists *lists, const kith_tensor *rows,
                           const kith_tensor *weights, const kith_tensor *like, kith_tensor *sum)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    kith_tensor exact = { 0 }, made = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_like(layers, like, ki_features(like), &made));
    if (layers->accumulator == layers->dtype) // bf16 is rounded once, not after each row
        KI_OR_GOTO(end, kith_tensor_retain(&made, &exact));
    else
        KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, ki_rows(like), ki_features(like), &exact));
    KI_OR_GOTO(end, compute->ops->fill(compute, ki_mat_of(&exact), 0));
    KI_OR_GOTO(end,
               compute->ops->add_rows(compute, lists->token_of_row, weights == NULL ? ki_no_mat() : ki_mat_of(weights),
                                      ki_mat_of(rows), ki_mat_of(&exact)));
    if (layers->accumulator != layers->dtype)
        KI_OR_GOTO(end, compute->ops->copy(compute, ki_mat_of(&exact), ki_mat_of(&made)));
    made = ki_with_layout(made, KITH_PARTIAL, 0);
    KI_OR_GOTO(end, kith_tensor_retain(&made, sum));
end:
    kith_tensor_release(&exact);
    kith_tensor_release(&made);
    return status;
}
