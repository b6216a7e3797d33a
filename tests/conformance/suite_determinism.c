/* tests/conformance/suite_determinism.c - the bits of a row do not depend on where it stands, how long the message
 * is, on alignment, in-place use or the run.
 *
 * Rows of 7 values whose sum depends on the order of addition, in messages of 1, 7, 736 and 100,003 rows. The bits of
 * the row alone, computed here by the documented tree in f32, are the wanted ones. With the argument "any" the
 * algorithm is one that does not promise the order: then only the equality of all ranks is asked for. NCCL's sums are
 * of that kind; with deterministic=on its groups stage what is reduced, which has the documented bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include "memory.h"

#include <stdint.h>
#include <string.h>

enum { ROW = 7 };

static float value(int rank, int column)
{
    static const float scales[8] = { 1e8f, -1e8f, 3.14159f, 1e-3f, 77777.7f, -3.3e7f, 0.1f, 12345.678f };
    return scales[(rank + column) % 8] * (1.0f + 0.01f * (float)(rank * 3 + column));
}

static float tree(const float *x, int count)
{
    if (count == 1)
        return x[0];
    return tree(x, count / 2) + tree(x + count / 2, count / 2);
}

/* (0,1), (2,3), ... for the 2e lowest, then a balanced tree. */
static float documented(int size, int column)
{
    float x[64];
    int q = 1, count = 0, next = 0;
    while (2 * q <= size)
        q *= 2;
    for (int pair = 0; pair < size - q; pair++, next += 2)
        x[count++] = value(next, column) + value(next + 1, column);
    while (next < size)
        x[count++] = value(next++, column);
    return tree(x, count);
}

static void compare(const rank_info *info, const float *got, const float *wanted, size_t row, size_t rows,
                    const char *what)
{
    if (memcmp(got, wanted, ROW * sizeof *got) == 0)
        return;
    for (int c = 0; c < ROW; c++)
        if (memcmp(&got[c], &wanted[c], sizeof *got) != 0)
            rank_fail(__FILE__, __LINE__, "%s, %d ranks, row %zu of %zu, column %d: wanted %a, got %a", what,
                      info->size, row, rows, c, (double)wanted[c], (double)got[c]);
}

static float *zeros(size_t count)
{
    float *block = (float *)memory_alloc(count * sizeof *block);
    memset(block, 0, count * sizeof *block);
    return block;
}

static void test_rows(const rank_info *info, size_t rows, size_t shift, bool in_place, const float *wanted)
{
    size_t count = rows * ROW;
    float *block = zeros(2 * count + 64), *send = block + shift;
    float *recv = in_place ? send : send + count + 3;
    for (size_t i = 0; i < count; i++)
        send[i] = value(info->rank, (int)(i % ROW));
    memory_push();
    REQUIRE_OK(kith_all_reduce(info->world, memory_at(send), memory_at(recv), count, KITH_F32, KITH_SUM));
    memory_pull();
    for (size_t row = 0; row < rows; row++)
        compare(info, recv + row * ROW, wanted, row, rows, "all_reduce");
    memory_free(block);
}

/* The same through reduce_scatter, one block of rows for each rank. */
static void test_blocks(const rank_info *info, size_t rows, const float *wanted)
{
    size_t part = rows * ROW, count = part * (size_t)info->size;
    float *send = zeros(count), *recv = zeros(part);
    for (size_t i = 0; i < count; i++)
        send[i] = value(info->rank, (int)(i % ROW));
    memory_push();
    REQUIRE_OK(kith_reduce_scatter(info->world, memory_at(send), memory_at(recv), part, KITH_F32, KITH_SUM));
    memory_pull();
    for (size_t row = 0; row < rows; row++)
        compare(info, recv + row * ROW, wanted, row, rows, "reduce_scatter");
    memory_free(send);
    memory_free(recv);
}

/* Memory that all ranks map is the host's, also of a context with a device. */
static void test_mapped(const rank_info *info, size_t rows, const float *wanted)
{
    size_t count = rows * ROW;
    float *x = NULL;
    REQUIRE_OK(kith_mem_alloc(info->world, 2 * count * sizeof *x, (void **)&x));
    for (size_t i = 0; i < count; i++)
        x[i] = value(info->rank, (int)(i % ROW));
    REQUIRE_OK(kith_all_reduce(info->world, x, x + count, count, KITH_F32, KITH_SUM));
    for (size_t row = 0; row < rows; row++)
        compare(info, x + count + row * ROW, wanted, row, rows, "all_reduce, mapped");
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_OK(kith_mem_free(info->world, x));
}

static void test_equal_on_all_ranks(const rank_info *info)
{
    enum { COUNT = 5000 };
    float *x = zeros(COUNT), *first = zeros(COUNT);
    for (int i = 0; i < COUNT; i++)
        x[i] = value(info->rank, i);
    memory_push();
    REQUIRE_OK(kith_all_reduce(info->world, memory_at(x), memory_at(x), COUNT, KITH_F32, KITH_SUM));
    memory_pull();
    memcpy(first, x, COUNT * sizeof *x);
    memory_push();
    REQUIRE_OK(kith_broadcast(info->world, memory_at(first), COUNT, KITH_F32, 0));
    memory_pull();
    REQUIRE(memcmp(first, x, COUNT * sizeof *x) == 0);
    memory_free(x);
    memory_free(first);
}

static void test_documented(const rank_info *info)
{
    static const size_t rows[] = { 1, 7, 736, 100003 };
    /* A simulated device copies slowly, and its runs are told apart by what the host runs do not have: the copies. */
    const int repeats = memory_is_device() ? 20 : 100;
    float wanted[ROW];
    for (int c = 0; c < ROW; c++)
        wanted[c] = documented(info->size, c);
    for (int repeat = 0; repeat < repeats; repeat++)
        for (size_t i = 0; i < 3; i++)
            test_rows(info, rows[i], (size_t)repeat % 17, repeat % 2 == 1, wanted);
    for (size_t shift = 0; shift < 16; shift += 5)
        test_rows(info, rows[3], shift, shift % 2 == 1, wanted);
    for (size_t i = 0; i < 4; i++) {
        test_blocks(info, rows[i] / 2 + 1, wanted);
        test_mapped(info, rows[i], wanted);
    }
}

void suite_determinism(rank_info *info)
{
    memory_begin(info);
    test_equal_on_all_ranks(info);
    if (info->argument == NULL || strcmp(info->argument, "any") != 0)
        test_documented(info);
    memory_end();
}
