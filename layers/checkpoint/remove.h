/* layers/checkpoint/remove.h - removing a checkpoint's folder.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_REMOVE_H
#define KI_CHECKPOINT_REMOVE_H

#include <kith/status.h>

/* The files in it, and the folder. One that has folders inside is not ours, and stays: KITH_ERR_IO. */
kith_status ki_remove_folder(const char *path);

#endif
