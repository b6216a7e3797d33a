/* core/check.h - check mode: before a collective all ranks compare what they are about to do.
 *
 * The fingerprint (operation, dtype, count, reduce operator, root, group, sequence, hash of counts) is all-gathered
 * over the group's messages. On disagreement every rank returns the same error with a text that says who called what.
 * A rank whose own arguments are invalid takes part as well, so the others are not left waiting. all_to_all_v gathers
 * the counts in a second round and names the pair that disagrees.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECK_H
#define KI_CHECK_H

#include "object.h"

kith_status ki_check_start(kith_request *request);
kith_status ki_check_step(kith_request *request, bool *is_done);
void ki_check_cancel(kith_request *request);
void ki_check_release(kith_request *request);

#endif
