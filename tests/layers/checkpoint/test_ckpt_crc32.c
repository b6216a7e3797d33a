/* tests/layers/checkpoint/test_ckpt_crc32.c - sums against their definition, bit by bit, and put together from pieces.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/checkpoint/crc32.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t plain(uint32_t crc, const unsigned char *data, size_t nbytes)
{
    crc = ~crc;
    for (size_t i = 0; i < nbytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

enum { NBYTES = 1000 };

static void fill(unsigned char *data)
{
    for (int i = 0; i < NBYTES; i++)
        data[i] = (unsigned char)(i * i + 7 * i + 1);
}

/* zlib.crc32() of these texts. */
static void test_known(void **state)
{
    (void)state;
    assert_int_equal(ki_crc32(0, "", 0), 0);
    assert_int_equal(ki_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(ki_crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
}

static void test_every_length(void **state)
{
    (void)state;
    unsigned char data[NBYTES];
    fill(data);
    for (size_t first = 0; first < 17; first++)
        for (size_t nbytes = 0; nbytes + first < 200; nbytes++)
            assert_int_equal(ki_crc32(0, data + first, nbytes), plain(0, data + first, nbytes));
    for (size_t cut = 0; cut < NBYTES; cut += 13)
        assert_int_equal(ki_crc32(ki_crc32(0, data, cut), data + cut, NBYTES - cut), plain(0, data, NBYTES));
}

static void test_pieces(void **state)
{
    (void)state;
    unsigned char data[NBYTES];
    fill(data);
    uint32_t whole = ki_crc32(0, data, NBYTES);
    for (size_t a = 0; a < NBYTES; a += 37)
        for (size_t b = a; b < NBYTES; b += 101) {
            uint32_t first = ki_crc32_shift(ki_crc32(0, data, a), NBYTES - a);
            uint32_t second = ki_crc32_shift(ki_crc32(0, data + a, b - a), NBYTES - b);
            assert_int_equal(first ^ second ^ ki_crc32(0, data + b, NBYTES - b), whole);
        }
}

/* Lengths beyond 32 bits: zeros behind a text, by steps that can be counted. */
static void test_far(void **state)
{
    (void)state;
    uint32_t crc = ki_crc32(0, "kith", 4), once = ki_crc32_shift(crc, UINT64_C(1) << 40), steps = crc;
    for (int i = 0; i < 1024; i++)
        steps = ki_crc32_shift(steps, UINT64_C(1) << 30);
    assert_int_equal(once, steps);
    assert_int_equal(ki_crc32_shift(crc, 0), crc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
