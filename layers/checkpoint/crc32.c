/* layers/checkpoint/crc32.c - see crc32.h.
 *
 * Sixteen bytes a step through sixteen tables ("slicing", Kounavis and Berry 2005): table[k][b] is what byte b does to
 * the sum when k more bytes follow. A sum is a polynomial over two elements modulo the CRC's, so bytes that follow
 * multiply it by a power of x, which repeated squaring finds (Adler's crc32_combine()).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "crc32.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0xedb88320)
enum { SLICES = 16, POWERS = 32 };

static uint32_t table[SLICES][256];
static uint32_t powers[POWERS]; /* x^(2^k) */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* a * b; bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ POLYNOMIAL : sum >> 1;
        table[0][byte] = sum;
    }
    for (int k = 1; k < SLICES; k++)
        for (int byte = 0; byte < 256; byte++)
            table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
    powers[0] = UINT32_C(1) << 30;
    for (int k = 1; k < POWERS; k++)
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
}

/* Four bytes of which the last is followed by `behind` more of this step. */
static uint32_t slice(uint32_t word, int behind)
{
    return table[behind + 3][word & 255] ^ table[behind + 2][word >> 8 & 255] ^ table[behind + 1][word >> 16 & 255] ^
           table[behind][word >> 24];
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of the text, and numbers in files, are little-endian");

uint32_t ki_crc32(uint32_t crc, const void *data, size_t nbytes)
{
    const unsigned char *at = data;
    pthread_once(&tables_once, make_tables);
    crc = ~crc;
    for (; nbytes >= SLICES; at += SLICES, nbytes -= SLICES) {
        uint32_t words[SLICES / 4];
        memcpy(words, at, sizeof words);
        crc = slice(words[0] ^ crc, 12) ^ slice(words[1], 8) ^ slice(words[2], 4) ^ slice(words[3], 0);
    }
    for (; nbytes > 0; at++, nbytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}

uint32_t ki_crc32_shift(uint32_t crc, uint64_t nbytes)
{
    uint32_t power = UINT32_C(1) << 31; /* x^0 */
    pthread_once(&tables_once, make_tables);
    for (int k = 3; nbytes > 0; k++, nbytes >>= 1) /* eight bits a byte; x^(2^32) is x^1 again */
        if (nbytes & 1)
            power = multiply(powers[k % POWERS], power);
    return multiply(power, crc);
}
