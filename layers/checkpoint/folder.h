/* layers/checkpoint/folder.h - the folder in which checkpoints lie, and how one comes to be there at once.
 *
 *     step-00000100              a checkpoint
 *     step-00000100.<n>.part     one that is being written (its writer holds a lock on it), or was not written to
 *                                its end: the next one that is written removes it
 *     step-00000100.old          the one before, for the moment in which a file system that cannot exchange two
 *                                names has neither of the two under its name
 *
 * A folder is written under its .part name, synchronised, and renamed; where there is one of that name already the two
 * are exchanged. At any moment the newest checkpoint is whole and has its name. All of this is one rank's work.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_FOLDER_H
#define KI_CHECKPOINT_FOLDER_H

#include <kith/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ki_draft {
    char *folder; /* of all checkpoints */
    char *path;   /* of this one's .part */
    int64_t step;
    int lock;   /* of the .part folder */
    int parent; /* opened before the renaming, after which nothing can fail any more but the disk itself */
} ki_draft;

/* Makes folder where it is missing (one level), and the .part folder. */
kith_status ki_draft_create(const char *folder, int64_t step, ki_draft *draft);
/* It becomes the checkpoint of its step. can_exchange false: as on file systems that cannot, for tests. */
kith_status ki_draft_publish(ki_draft *draft, bool can_exchange);
/* Removes what is still there under the .part name. Published ones stay. */
void ki_draft_end(ki_draft *draft);

/* See kith_checkpoint_newest() and kith_checkpoint_prune(). */
kith_status ki_folder_newest(const char *folder, char **path, int64_t *step);
kith_status ki_folder_prune(const char *folder, int keep, int64_t stays);
/* Removes .part folders whose lock nobody holds. Fails for memory alone. */
kith_status ki_folder_clear(const char *folder);

/* The checkpoint of a folder, "step-00000100"; malloc's. */
kith_status ki_folder_path(const char *folder, int64_t step, const char *end, char **path);

#endif
