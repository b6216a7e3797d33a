/* layers/compute/philox.h - Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC11).
 *
 * Ten rounds turn a counter of four words and a key of two into four random words, so a word is a function of its
 * coordinates alone. This is the generator of the library Random123, whose known answers the tests compare with; it is
 * written out here because the loops want the counters of a whole row side by side in vector registers, a GPU must be
 * able to read it, and a missing header should not switch off dropout.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_PHILOX_H
#define KI_LAYERS_PHILOX_H

#include "arith.h"

typedef struct ki_philox_key {
    uint32_t words[2];
} ki_philox_key;

KI_ARITH ki_philox_key ki_philox_key_of(uint64_t seed)
{
    ki_philox_key key = { { (uint32_t)seed, (uint32_t)(seed >> 32) } };
    return key;
}

/* The four words of counter (c0, c1, c2, c3), in place. */
KI_ARITH void ki_philox(ki_philox_key key, uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3)
{
    uint32_t k0 = key.words[0], k1 = key.words[1];
    KI_UNROLL(10)
    for (int round = 0; round < 10; round++) { /* unrolled, or gcc makes no vector code of a loop around it */
        uint64_t left = (uint64_t)0xd2511f53u * *c0, right = (uint64_t)0xcd9e8d57u * *c2;
        *c0 = (uint32_t)(right >> 32) ^ *c1 ^ k0;
        *c1 = (uint32_t)right;
        *c2 = (uint32_t)(left >> 32) ^ *c3 ^ k1;
        *c3 = (uint32_t)left;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* words[4 * i + j] = word j of counter (first + i, c1, c2, c3), i < count. */
KI_ARITH void ki_philox_row(ki_philox_key key, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3, int count,
                            uint32_t *words)
{
    KI_VECTOR
    for (int i = 0; i < count; i++) {
        uint32_t w0 = first + (uint32_t)i, w1 = c1, w2 = c2, w3 = c3;
        ki_philox(key, &w0, &w1, &w2, &w3);
        words[4 * i] = w0;
        words[4 * i + 1] = w1;
        words[4 * i + 2] = w2;
        words[4 * i + 3] = w3;
    }
}

/* The least word that is kept; 2^32 when none is. */
KI_ARITH uint64_t ki_dropout_threshold(double probability)
{
    return (uint64_t)(probability * 4294967296.0 + 0.5);
}

#endif
