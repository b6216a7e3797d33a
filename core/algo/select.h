/* core/algo/select.h - which algorithm runs: a small table of rules, looked up by values that all ranks agree on.
 *
 * A rule says: this collective, on min_ranks to max_ranks ranks, with at most max_nbytes bytes, with or without
 * messages between hosts: that algorithm. The first rule that fits, whose algorithm is possible and, in deterministic
 * mode, follows the documented order, wins; when none does, the collective's first algorithm, which is always possible.
 *
 * Bytes, for every collective the same idea: all the data the operation is about.
 *   all_reduce, reduce, broadcast:       count elements (the vector)
 *   reduce_scatter(_v), all_gather(_v):  the blocks of all ranks together
 *   gather, scatter, all_to_all:         size * count elements (for all_to_all: what one rank sends)
 *   gather_v, scatter_v, all_to_all_v:   0, because no number is known on all ranks: only max_ranks and hosts decide
 *   barrier:                             0
 *
 * The algorithm setting forces: "ring" for every collective that has it, "all_reduce=ring,broadcast=knomial" for single
 * ones. A forced algorithm that cannot run is an error and never replaced by another.
 *
 * The table file is JSON; its rules replace the built-in rules of the collectives that it names:
 *   { "version": 1, "rules": [
 *       { "collective": "all_reduce", "max_ranks": 16, "max_nbytes": "64k", "hosts": "one", "algorithm": "ring" } ] }
 * min_ranks, max_ranks, max_nbytes absent: no limit. hosts: "one", "many" or "any" (absent). `kith tune` writes such a
 * file: rules for the number of ranks that it measured, and the rules that held before for all others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_ALGO_SELECT_H
#define KI_ALGO_SELECT_H

#include "algo.h"

typedef struct ki_select ki_select;

typedef enum ki_select_hosts { KI_HOSTS_ANY, KI_HOSTS_ONE, KI_HOSTS_MANY } ki_select_hosts;

typedef struct ki_select_rule {
    kith_coll_kind kind;
    int min_ranks, max_ranks; /* 0: no limit */
    size_t max_nbytes;        /* 0: no limit */
    ki_select_hosts hosts;
    const ki_algo *algo;
} ki_select_rule;

typedef struct ki_select_options {
    const char *force;      /* the "algo" setting; NULL or "": nothing */
    const char *table_path; /* JSON file; NULL or "": built-in table */
    bool is_deterministic;  /* only algorithms that give the documented bits */
    const kith_allocator *allocator;
} ki_select_options;

/* KITH_ERR_INVALID_ARG: unknown collective or algorithm (the detail lists the valid ones), broken file (line and
 * column); KITH_ERR_IO: the file cannot be read. */
kith_status ki_select_create(const ki_select_options *options, ki_select **select);
void ki_select_destroy(ki_select *select);

/* The algorithm for an operation. Pure function of the table and of agreed values of args: kind, size, counts,
 * dtype, operator, order, node_of. KITH_ERR_UNSUPPORTED when the forced one cannot run, naming those that can. */
kith_status ki_select_find(const ki_select *select, const ki_algo_args *args, const ki_algo **algo);

/* "Bytes" as defined above. */
size_t ki_select_nbytes(const ki_algo_args *args);

/* Hash of rules, forced algorithms and mode, for agreement when a group is made. */
uint64_t ki_select_hash(const ki_select *select);

/* For `kith info --algorithms`: rules in order of looking, false past the end; the forced algorithm's name or NULL. */
bool ki_select_rule_at(const ki_select *select, size_t index, ki_select_rule *rule);
const char *ki_select_forced(const ki_select *select, kith_coll_kind kind);
const char *ki_select_hosts_name(ki_select_hosts hosts);

#endif
