/* layers/checkpoint/crc32.h - CRC-32 as zlib, PNG and Ethernet have it (polynomial 0xedb88320, reflected, inverted).
 *
 * It is the sum that any tool at hand computes: Python's zlib.crc32 of a tensor's bytes is the number in kith.json. Of
 * a text that several ranks have in pieces it is the XOR of what ki_crc32_shift() makes of each piece's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_CRC32_H
#define KI_CHECKPOINT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Of what came before (0: nothing) and these bytes. */
uint32_t ki_crc32(uint32_t crc, const void *data, size_t nbytes);

/* crc(AB) = ki_crc32_shift(crc(A), bytes of B) ^ crc(B). */
uint32_t ki_crc32_shift(uint32_t crc, uint64_t nbytes);

#endif
