/* layers/block.h - what a block is inside.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_BLOCK_H
#define KI_LAYERS_BLOCK_H

#include "layers.h"

#include <kith/transformer.h>

struct kith_block {
    kith_layers *layers;
    const char *name;
    kith_norm *norm1, *norm2;
    kith_attention *attention;
    kith_mlp *mlp; /* one of these two is NULL */
    kith_moe *moe;
    kith_dropout_options dropout1, dropout2; /* of what attention and mlp add to the residual */
};

/* Sites of dropout: 0 is the embedding's, each block has three. */
enum { KI_SITES_OF_BLOCK = 3 };
static inline int ki_site_of_block(int64_t block, int which)
{
    return 1 + (int)block * KI_SITES_OF_BLOCK + which;
}

#endif
