/* schedules/generate.h - the generators, one file each.
 *
 * A generator gets options that were checked for what holds for all kinds (sizes, numbers of chunks) and a plan that is
 * empty, with its stages laid out; it refuses what its own mathematics does not allow and appends the actions.
 *
 * To add a kind: a row in KITH_SCHEDULE_KIND_TABLE, a file gen_<kind>.c, a row in the table of generate.c, its
 * bubble and in-flight counts in docs/schedules.md and in tests/schedules/test_generate.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_GENERATE_H
#define KI_SCHEDULES_GENERATE_H

#include "schedule.h"

typedef kith_status (*ki_generate_fn)(const kith_schedule_options *options, kith_schedule *schedule);

kith_status ki_generate_naive(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_gpipe(const kith_schedule_options *o, kith_schedule *s); /* and looped-bfs */
kith_status ki_generate_1f1b(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_interleaved(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_zb_h(const kith_schedule_options *o, kith_schedule *s); /* zb-h1 and zb-h2 */
kith_status ki_generate_zb_v(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_interleaved_zb(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_dualpipe_v(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_auto(const kith_schedule_options *o, kith_schedule *s);
kith_status ki_generate_forward(const kith_schedule_options *o, kith_schedule *s); /* forward-only, any kind */

#endif
