/* tests/topology/machines.h - machines drawn in code, for tests of placement.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TEST_MACHINES_H
#define TEST_MACHINES_H

#include "topology/model.h"

/* A node from a matrix of words, "X NV4 SYS", row after row; missing words are unknown. numas: NUMA node of each GPU,
 * NULL: unknown. Adds the kind, not a node; fails the test when the text is wrong. */
ki_kind *machine_add_kind(kith_topology *t, int gpu_count, const char *matrix, const int *numas);
/* One node of it, finished. */
kith_topology *machine_of_matrix(int gpu_count, const char *matrix, const int *numas);
/* A kind whose pairs are all alike, with NICs near pairs of GPUs (NIC i near GPUs 2i, 2i+1) when nics > 0. */
ki_kind *machine_add_uniform(kith_topology *t, int gpu_count, const char *link, int nics);
kith_topology *machine_new(void);
void machine_finish(kith_topology *t);
/* nodes_per_leaf[leaf_count] nodes of `kind` on leaves "leaf<i>" under one spine for each leaves_per_spine leaves. Node
 * names "n1", "n2", ...; is_shuffled: nodes are dealt to the leaves one by one instead of leaf after leaf. */
void machine_add_tree(kith_topology *t, int kind, const int *nodes_per_leaf, int leaf_count, int leaves_per_spine,
                      bool is_shuffled);
/* GPU i of a kind gets the position number[i]; the kind is finished already. */
void machine_renumber(kith_topology *t, int kind, const int *number);
/* 0 to count - 1 in an order that follows from the seed; 0: as they are. */
void machine_shuffle(int *numbers, int count, unsigned seed);
/* Best sum and worst ring by trying everything, for comparison (at most 10 units). */
typedef struct brute_answer {
    int worst;
    int64_t sum, ways;
} brute_answer;
brute_answer brute_force(const int *value, int n, int k, int group_count);

#endif
