/* tools/compare/peers.h - the figures of a run of the harness with peers: Kith beside other libraries, point by point.
 *
 * A figure is one point of such a file: the median time of each contender, all taken while the cores were in one class
 * (the harness puts samples together and chooses the class). So nothing here is compared across classes. A contender is
 * Kith's ("kith-..."), a floor ("floors/...", left out here), or a peer. A Kith contender is set beside the fastest
 * peer of its type: those with "-bf16" in their name have another type of element than those without.
 *
 *     peers.c        reads figures, puts them into tables
 *     peers_text.c   tables for a terminal, and lines of CSV
 *     peers_page.c   the section of the page
 *     plot_peers.c   times by size: Kith and the best peer
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMPARE_PEERS_H
#define KI_TOOLS_COMPARE_PEERS_H

#include "compare.h"

/* Figures of one file, section, operation and mode, by size. */
typedef struct ki_peer_table {
    const ki_figure *figures;
    size_t count;
    ki_word contenders[KI_CONTENDERS_MAX]; /* Kith's first, then peers */
    int kith_count, contender_count;
} ki_peer_table;

/* The table that begins with figure number first; the next one begins at first + count. first: below figure_count. */
ki_peer_table ki_peer_table_at(const ki_results *results, size_t first);
/* "all_reduce, 2 ranks, cold". Returns buffer. */
const char *ki_peer_table_name(const ki_results *results, const ki_peer_table *table, char *buffer, size_t nbytes);
/* "kith-shm ordinary", "openmpi": the harness calls what has one way alone "raw". */
const char *ki_contender_name(const ki_results *results, ki_word contender, char *buffer, size_t nbytes);

/* NAN: not measured in the figure's class of cores. */
double ki_figure_us(const ki_figure *figure, ki_word contender);
/* The fastest peer of the contender's type; 0: there is none. */
ki_word ki_figure_best_peer(const ki_results *results, const ki_figure *figure, ki_word contender);
/* How many times as fast as that; NAN: one of both is missing. */
double ki_figure_ratio(const ki_results *results, const ki_figure *figure, ki_word contender);
/* Geometric mean of that over all sizes, and of how many; NAN for none. */
double ki_peer_table_mean(const ki_results *results, const ki_peer_table *table, ki_word contender, size_t *count);

void ki_compare_text_peers(const ki_comparison *comparison, FILE *out);
void ki_compare_csv_peers(const ki_comparison *comparison, FILE *out);
void ki_compare_page_peers(const ki_comparison *comparison, FILE *out);

#endif
