/* tests/core/test_mesh.c - the arithmetic of meshes against published rank groups.
 *
 * The lists are those of Megatron's documentation for world 16, tp 2, pp 4 and its relatives; a property test
 * compares with loops written the other way round, for many sizes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect_groups(const kith_mesh_axis *axes, size_t count, const char *order, const char *along, int world,
                          const int *wanted, int wanted_count, int wanted_size)
{
    int groups[64], size = 0, number = 0;
    kith_status status = kith_mesh_enumerate(axes, count, order, along, world, groups, &size, &number);
    if (status != KITH_OK)
        fail_msg("%s: %s", along, kith_error_detail());
    assert_int_equal(size, wanted_size);
    assert_int_equal(number, world / size);
    for (int i = 0; i < wanted_count; i++)
        if (groups[i] != wanted[i])
            fail_msg("%s: entry %d: wanted %d, got %d", along, i, wanted[i], groups[i]);
}

#define EXPECT(axes, order, along, world, size, ...)                                                                   \
    do {                                                                                                               \
        static const int wanted_[] = { __VA_ARGS__ };                                                                  \
        expect_groups(axes, sizeof axes / sizeof axes[0], order, along, world, wanted_,                                \
                      (int)(sizeof wanted_ / sizeof wanted_[0]), size);                                                \
    } while (0)

static void test_megatron_world_16(void **state)
{
    (void)state;
    const kith_mesh_axis axes[] = { { "tp", 2 }, { "pp", 4 }, { "dp", 0 } };
    EXPECT(axes, NULL, "tp", 16, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    EXPECT(axes, NULL, "dp", 16, 2, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    EXPECT(axes, NULL, "pp", 16, 4, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    EXPECT(axes, NULL, "tp-pp", 16, 8, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    EXPECT(axes, NULL, "pp-tp", 16, 8, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
}

static void test_other_orders(void **state)
{
    (void)state;
    const kith_mesh_axis cube[] = { { "tp", 2 }, { "pp", 2 }, { "dp", 2 } };
    EXPECT(cube, "tp-pp-dp", "dp", 8, 2, 0, 4, 1, 5, 2, 6, 3, 7);
    const kith_mesh_axis uneven[] = { { "tp", 2 }, { "dp", 3 }, { "pp", 4 } };
    EXPECT(uneven, NULL, "dp", 24, 3, 0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11, 12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21,
           23);
    const kith_mesh_axis four[] = { { "tp", 2 }, { "cp", 2 }, { "dp", 2 }, { "pp", 2 } };
    EXPECT(four, NULL, "cp", 16, 2, 0, 2, 1, 3);
    EXPECT(four, NULL, "dp", 16, 2, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12);
    EXPECT(four, NULL, "dp-cp", 16, 4, 0, 2, 4, 6);
    EXPECT(four, NULL, "pp", 16, 2, 0, 8);
    EXPECT(four, "tp-cp-pp-dp", "pp", 16, 2, 0, 4);
    EXPECT(four, "tp-cp-pp-dp", "dp", 16, 2, 0, 8);
    const kith_mesh_axis own[] = { { "row", 2 }, { "column", 3 } }; /* names of one's own: order of the array */
    EXPECT(own, NULL, "column", 6, 3, 0, 2, 4, 1, 3, 5);
}

/* The same groups from nested loops over coordinates. */
static void test_against_loops(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 2, 3, 4, 8 };
    for (int t = 0; t < 5; t++) {
        for (int c = 0; c < 3; c++) {
            for (int d = 0; d < 4; d++) {
                for (int p = 0; p < 5; p++) {
                    int T = sizes[t], C = sizes[c], D = sizes[d], P = sizes[p], world = T * C * D * P, size, number,
                        at = 0;
                    const kith_mesh_axis axes[] = { { "pp", P }, { "dp", D }, { "cp", C }, { "tp", T } };
                    int *groups = (int *)test_malloc((size_t)world * sizeof *groups);
                    assert_int_equal(kith_mesh_enumerate(axes, 4, NULL, "cp-pp", world, groups, &size, &number),
                                     KITH_OK);
                    assert_int_equal(size, C * P);
                    for (int id = 0; id < D; id++)
                        for (int it = 0; it < T; it++)
                            for (int ip = 0; ip < P; ip++)
                                for (int ic = 0; ic < C; ic++)
                                    assert_int_equal(groups[at++], it + T * (ic + C * (id + D * ip)));
                    test_free(groups);
                }
            }
        }
    }
}

static void expect_refused(const kith_mesh_axis *axes, size_t count, const char *order, const char *along, int world,
                           const char *word)
{
    int groups[64], size = -1, number = -1;
    assert_int_equal(kith_mesh_enumerate(axes, count, order, along, world, groups, &size, &number),
                     KITH_ERR_INVALID_ARG);
    if (strstr(kith_error_detail(), word) == NULL)
        fail_msg("the text lacks \"%s\": %s", word, kith_error_detail());
    assert_int_equal(size, -1);
}

static void test_bad_meshes(void **state)
{
    (void)state;
    const kith_mesh_axis good[] = { { "tp", 2 }, { "dp", 4 } }, twice[] = { { "tp", 2 }, { "tp", 4 } },
                         open[] = { { "tp", 0 }, { "dp", 0 } }, named[] = { { "t-p", 2 } },
                         negative[] = { { "tp", -2 } }, huge[] = { { "tp", INT32_MAX }, { "dp", INT32_MAX } };
    expect_refused(good, 2, NULL, "tp", 9, "9 ranks");
    expect_refused(good, 2, "tp", "tp", 8, "dp");
    expect_refused(good, 2, "tp-dp-tp", "tp", 8, "twice");
    expect_refused(good, 2, NULL, "cp2", 8, "cp2");
    expect_refused(good, 2, NULL, "", 8, "no axis");
    expect_refused(twice, 2, NULL, "tp", 8, "twice");
    expect_refused(open, 2, NULL, "tp", 8, "only one");
    expect_refused(named, 1, NULL, "tp", 2, "t-p");
    expect_refused(negative, 1, NULL, "tp", 2, "-2");
    expect_refused(huge, 2, NULL, "tp", 8, "product");
    expect_refused(NULL, 0, NULL, "tp", 8, "axes");
    expect_refused(good, 2, NULL, "tp", 0, "0 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_megatron_world_16),
        cmocka_unit_test(test_other_orders),
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_bad_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
