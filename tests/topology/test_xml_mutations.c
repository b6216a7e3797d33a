/* tests/topology/test_xml_mutations.c - damaged XML: cut, flipped and mixed fixtures are read or refused, never more.
 *
 * The seed is fixed, so a failure repeats; KITH_TEST_ROUNDS asks for more rounds. What is read must hold together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

enum { MOST_NBYTES = 64 * 1024, ROUNDS = 1500 };

static uint64_t state_of_random = 20240229;

static unsigned random_below(size_t limit)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state_of_random >> 33) % limit);
}

static size_t read_fixture(const char *name, char *text)
{
    FILE *file = fopen(fixture_path(name), "r");
    assert_non_null(file);
    size_t nbytes = fread(text, 1, MOST_NBYTES, file);
    fclose(file);
    assert_true(nbytes > 0 && nbytes < MOST_NBYTES);
    return nbytes;
}

/* Numbers and words that readers look at. */
static const char *const words[] = { "0",
                                     "-1",
                                     "4294967295",
                                     "18446744073709551616",
                                     "0x",
                                     "ffffffff,ffffffff",
                                     "0xf...f",
                                     "fffffff:ffff:ff",
                                     "0000:00:00.0",
                                     "NVSwitch",
                                     "GPUMemory",
                                     "PCIBusID",
                                     "nvml0",
                                     "cuda0",
                                     "mlx5_0",
                                     "" };

/* Replaces the value of a random attribute. */
static size_t replace_value(char *text, size_t nbytes)
{
    size_t at = random_below(nbytes), end;
    while (at < nbytes && text[at] != '"')
        at++;
    for (end = at + 1; end < nbytes && text[end] != '"'; end++)
        ;
    const char *word = words[random_below(sizeof words / sizeof words[0])];
    size_t length = strlen(word);
    if (end >= nbytes || nbytes + length >= 2 * MOST_NBYTES)
        return nbytes;
    memmove(text + at + 1 + length, text + end, nbytes - end);
    memcpy(text + at + 1, word, length);
    return nbytes - (end - at - 1) + length;
}

/* Takes a range of lines out, or writes it twice: XML often stays whole. */
static size_t change_lines(char *text, size_t nbytes, bool is_copy)
{
    char *from = memchr(text + random_below(nbytes), '\n', 1), *end = text + nbytes;
    from = from != NULL ? from : memchr(text, '\n', nbytes);
    for (unsigned skip = random_below(60); skip > 0 && from != NULL; skip--)
        from = memchr(from + 1, '\n', (size_t)(end - from) - 1);
    char *to = from;
    for (unsigned lines = 1 + random_below(6); lines > 0 && to != NULL; lines--)
        to = memchr(to + 1, '\n', (size_t)(end - to) - 1);
    if (from == NULL || to == NULL)
        return nbytes;
    size_t length = (size_t)(to - from);
    if (is_copy && nbytes + length < 2 * MOST_NBYTES) {
        memmove(to + length, to, (size_t)(end - to));
        memcpy(to, from, length);
        return nbytes + length;
    }
    memmove(from, to, (size_t)(end - to));
    return nbytes - length;
}

static size_t mutate(char *text, size_t nbytes)
{
    switch (random_below(6)) {
    case 0:
        return 1 + random_below(nbytes);
    case 1:
        text[random_below(nbytes)] = (char)random_below(256);
        return nbytes;
    case 2:
        return change_lines(text, nbytes, true);
    case 3:
        return change_lines(text, nbytes, false);
    default:
        return replace_value(text, nbytes);
    }
}

static void try_text(const char *text, size_t nbytes, int *read)
{
    kith_topology *t = NULL;
    if (kith_topology_parse("mutated.xml", text, nbytes, NULL, &t) != KITH_OK) {
        assert_true(kith_error_detail()[0] != '\0');
        return;
    }
    if (ki_topology_check(t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    ++*read;
    kith_topology_destroy(t);
}

static void mutate_fixture(const char *name)
{
    static char original[MOST_NBYTES], text[2 * MOST_NBYTES];
    const char *asked = getenv("KITH_TEST_ROUNDS");
    int rounds = asked != NULL ? atoi(asked) : ROUNDS, read = 0;
    size_t length = read_fixture(name, original);
    for (int i = 0; i < rounds; i++) {
        size_t nbytes = length;
        memcpy(text, original, length);
        for (unsigned changes = 1 + random_below(3); changes > 0; changes--)
            nbytes = mutate(text, nbytes);
        try_text(text, nbytes, &read);
    }
    printf("%s: %d of %d rounds were read\n", name, read, rounds);
    assert_true(read > 0 && read < rounds);
}

static void test_nccl(void **state)
{
    (void)state;
    mutate_fixture("nccl-switch.xml");
    mutate_fixture("nccl-mesh.xml");
    mutate_fixture("nccl-bare.xml");
}

static void test_hwloc(void **state)
{
    (void)state;
    mutate_fixture("hwloc-switch.xml");
    mutate_fixture("hwloc-memory.xml");
    mutate_fixture("hwloc-xgmi.xml");
    mutate_fixture("hwloc-1x.xml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nccl),
        cmocka_unit_test(test_hwloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
