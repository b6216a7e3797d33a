/* core/exchange.h - all-gather with agreement on a status, for everything that is set up together.
 *
 * A rank that failed still takes part and gives its status; then all participants return the same one, with the text
 * of the rank that gave it. Rounds are numbered by the caller, the number is part of the key: a participant that
 * skips the rest of its set-up and goes to the closing round meets the others at the round where they wait, because
 * statuses are gathered before payloads. A round is one or two gathers, and one more where some rank failed; for a rank
 * each is one round trip, however many take part.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_EXCHANGE_H
#define KI_EXCHANGE_H

#include "object.h"

/* Participant `index` of `count`; world_ranks[count] for texts. out [count * nbytes]; nbytes 0: statuses only. Blocks
 * up to the context's connect deadline. what: for the text when ranks are missing ("creating group 'tp'"). */
kith_status ki_boot_exchange(kith_ctx *ctx, const char *key, const char *what, const int *world_ranks, int index,
                             int count, kith_status mine, const void *in, size_t nbytes, void *out);

/* The next round among the members of a group. */
kith_status ki_group_exchange(kith_group *group, const char *what, kith_status mine, const void *in, size_t nbytes,
                              void *out);

/* The first round of a group of which this rank could not even make its part: the others learn why. Returns `mine`, or
 * what another rank has that is worse. */
kith_status ki_group_give_up(kith_ctx *ctx, const ki_group_spec *spec, kith_status mine);

#endif
