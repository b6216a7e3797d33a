/* tests/tools/train/test_train_data.c - which tokens a step takes: forms of files, places of samples, what is refused.
 *
 * Files have tokens that tell their own position, so that a sample says where it came from.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/train/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOCABULARY 65536

static char folder[64];
static char path[128]; /* of the last file that was written */

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kith-train-data-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void write_file(const char *name, const void *bytes, size_t nbytes)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}

/* Little-endian numbers behind a header of llm.c (magic 0: none). */
static void write_numbers(const char *name, uint32_t magic, uint32_t version, uint32_t said, int nbytes,
                          const uint32_t *numbers, size_t count)
{
    size_t header = magic != 0 ? 1024 : 0;
    unsigned char *bytes = calloc(1, header + count * (size_t)nbytes + 1);
    assert_non_null(bytes);
    const uint32_t words[] = { magic, version, said };
    for (size_t i = 0; i < 12 && header > 0; i++)
        bytes[i] = (unsigned char)(words[i / 4] >> (8 * (i % 4)));
    for (size_t i = 0; i < count; i++)
        for (int b = 0; b < nbytes; b++)
            bytes[header + i * (size_t)nbytes + (size_t)b] = (unsigned char)(numbers[i] >> (8 * b));
    write_file(name, bytes, header + count * (size_t)nbytes);
    free(bytes);
}

/* Token i is i. */
static void write_places(const char *name, uint32_t count)
{
    uint32_t *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = i;
    write_numbers(name, 0, 0, 0, 2, numbers, count);
    free(numbers);
}

static train_options options_of(int64_t sequence, int64_t global_batch)
{
    return (train_options){
        .tokens = path, .sequence = sequence, .global_batch = global_batch, .seed = 7, .validation_batches = 1
    };
}

static train_data *must_open(const train_options *o, int64_t vocabulary)
{
    train_data *data = NULL;
    char *error = NULL;
    if (train_data_open(o, vocabulary, &data, &error) != 0)
        fail_msg("wanted an open file, got: %s", error);
    return data;
}

static void refused(const train_options *o, int64_t vocabulary, const char *wanted)
{
    train_data *data = NULL;
    char *error = NULL;
    if (train_data_open(o, vocabulary, &data, &error) == 0)
        fail_msg("wanted '%s', got an open file", wanted);
    if (error == NULL || strstr(error, wanted) == NULL || strstr(error, folder) == NULL)
        fail_msg("wanted '%s' and the name of the file, got: %s", wanted, error);
    free(error);
}

static void batch(const train_data *data, int64_t step, int64_t first, int64_t samples, int32_t *inputs,
                  int32_t *targets)
{
    char *error = NULL;
    if (train_data_batch(data, step, first, samples, inputs, targets, &error) != 0)
        fail_msg("wanted a batch, got: %s", error);
}

/* ---- forms ---- */

static void check_first_validation(const train_options *o, int64_t vocabulary, const int32_t *wanted)
{
    int32_t inputs[2], targets[2];
    char *error = NULL;
    train_data *data = must_open(o, vocabulary);
    assert_int_equal(train_data_tokens(data), 3);
    assert_int_equal(train_data_validation_tokens(data), 3);
    assert_int_equal(train_data_validation(data, 0, 1, inputs, targets, &error), 0);
    assert_memory_equal(inputs, wanted, sizeof inputs);
    assert_memory_equal(targets, wanted + 1, sizeof targets);
    train_data_close(data);
}

static void test_every_form_gives_its_tokens(void **state)
{
    (void)state;
    static const uint32_t small[] = { 1, 2, 3, 50256, 255, 0x1234 }, large[] = { 1, 2, 3, 128000, 7, 0x12345 };
    static const int32_t small_end[] = { 50256, 255, 0x1234 }, large_end[] = { 128000, 7, 0x12345 };
    static const int32_t text_end[] = { 0xff, 0, 'z' };
    train_options o = options_of(2, 1);
    write_numbers("gpt2.bin", 20240520, 1, 6, 2, small, 6);
    check_first_validation(&o, 50257, small_end);
    write_numbers("llama3.bin", 20240801, 7, 6, 4, large, 6);
    check_first_validation(&o, 128256, large_end);
    write_numbers("plain.u16", 0, 0, 0, 2, small, 6);
    check_first_validation(&o, 50257, small_end);
    write_numbers("plain.u32", 0, 0, 0, 4, large, 6);
    check_first_validation(&o, 128256, large_end);
    write_numbers("plain.bin", 0, 0, 0, 4, large, 6);
    o.token_nbytes = 4;
    check_first_validation(&o, 128256, large_end);
    o.token_nbytes = 2;
    write_numbers("plain.data", 0, 0, 0, 2, small, 6);
    check_first_validation(&o, 50257, small_end);
    write_file("text", "abc\xff\0z", 6);
    o = (train_options){ .text = path, .sequence = 2, .global_batch = 1, .validation_batches = 1 };
    check_first_validation(&o, 256, text_end);
}

static void test_wrong_files_are_refused(void **state)
{
    (void)state;
    static const uint32_t numbers[] = { 1, 2, 3, 4, 5, 6, 7, 300 };
    train_options o = options_of(2, 1),
                  text = { .text = path, .sequence = 2, .global_batch = 1, .validation_batches = 1 };
    snprintf(path, sizeof path, "%s/absent", folder);
    refused(&o, VOCABULARY, "No such file");
    snprintf(path, sizeof path, "%s/", folder);
    refused(&text, 256, "is a folder");
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(&text, 256, "a pipe, a device or a socket");
    write_file("empty", "", 0);
    refused(&text, 256, "is empty");
    write_file("short", "abcde", 5);
    refused(&text, 256, "has 5 tokens; with --seq 2 it needs at least 6");
    write_file("odd.u16", "abcdefghi", 9);
    refused(&o, VOCABULARY, "9 bytes, which are no whole number of tokens of 2 bytes");
    write_numbers("named.bin", 0, 0, 0, 2, numbers, 8);
    refused(&o, VOCABULARY, "--token-type u16 or u32");
    write_numbers("version.bin", 20240520, 2, 8, 2, numbers, 8);
    refused(&o, VOCABULARY, "version 2 of llm.c's files");
    write_numbers("more.bin", 20240520, 1, 9, 2, numbers, 8);
    refused(&o, VOCABULARY, "says 9 tokens, and its 1040 bytes have room for 8");
    write_numbers("huge.bin", 20240801, 7, UINT32_MAX, 4, numbers, 8);
    refused(&o, VOCABULARY, "says 4294967295 tokens");
    write_numbers("eval.bin", 20240522, 1, 8, 2, numbers, 8);
    refused(&o, VOCABULARY, "questions for llm.c's evaluation");
    write_numbers("fine.bin", 20240520, 1, 8, 2, numbers, 8);
    train_options typed = options_of(2, 1);
    typed.token_nbytes = 2;
    refused(&typed, VOCABULARY, "leave --token-type out");
    refused(&o, 300, "token 7 is 300, and the model has 0 to 299");
    train_data_close(must_open(&o, 301));
    write_file("bytes", "abcdef", 6);
    refused(&text, 'f', "token 5 is 102, and the model has 0 to 101");
}

/* In a long file a token that the model lacks is found when a sample has it. */
static void test_wrong_token_of_a_long_file_is_found_at_use(void **state)
{
    (void)state;
    enum { COUNT = 9000000, SEQUENCE = COUNT / 10 - 1 }; /* validation is one sample, which ends with the file */
    static int32_t inputs[SEQUENCE], targets[SEQUENCE];
    char *bytes = calloc(2, COUNT), *error = NULL;
    assert_non_null(bytes);
    bytes[2 * COUNT - 1] = 1; /* the last number is 256 */
    write_file("long.u16", bytes, (size_t)2 * COUNT);
    free(bytes);
    train_options o = options_of(SEQUENCE, 1);
    train_data *data = must_open(&o, 256);
    batch(data, 3, 0, 1, inputs, targets);
    assert_int_equal(train_data_validation(data, 0, 1, inputs, targets, &error), -1);
    assert_non_null(error);
    if (strstr(error, "token 8999999 is 256, and the model has 0 to 255") == NULL)
        fail_msg("wanted the last token, got: %s", error);
    free(error);
    train_data_close(data);
}

/* ---- places ---- */

static void test_targets_are_the_next_tokens_in_columns(void **state)
{
    (void)state;
    enum { SEQUENCE = 5, SAMPLES = 3 };
    int32_t inputs[SEQUENCE * SAMPLES], targets[SEQUENCE * SAMPLES];
    write_places("places.u16", 1000);
    train_options o = options_of(SEQUENCE, 8);
    train_data *data = must_open(&o, VOCABULARY);
    batch(data, 11, 2, SAMPLES, inputs, targets);
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < SEQUENCE; t++) {
            assert_int_equal(inputs[t * SAMPLES + s], inputs[s] + t);
            assert_int_equal(targets[t * SAMPLES + s], inputs[s] + t + 1);
        }
    train_data_close(data);
}

/* Samples longer than what is read at once. */
static void test_long_samples_are_whole(void **state)
{
    (void)state;
    enum { SEQUENCE = 9001 };
    int32_t *inputs = malloc(SEQUENCE * sizeof *inputs), *targets = malloc(SEQUENCE * sizeof *targets);
    write_places("long_samples.u16", 40000);
    train_options o = options_of(SEQUENCE, 2);
    train_data *data = must_open(&o, VOCABULARY);
    batch(data, 0, 1, 1, inputs, targets);
    for (int t = 0; t < SEQUENCE; t++) {
        assert_int_equal(inputs[t], inputs[0] + t);
        assert_int_equal(targets[t], inputs[0] + t + 1);
    }
    train_data_close(data);
    free(inputs);
    free(targets);
}

/* However ranks cut up the samples of a step, they are the same. */
static void test_samples_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    enum { SEQUENCE = 3, SAMPLES = 12 };
    int32_t whole[SEQUENCE * SAMPLES], part[SEQUENCE * SAMPLES], unused[SEQUENCE * SAMPLES];
    static const int cuts[] = { 1, 2, 3, 4, 6, 12 };
    write_places("layout.u16", 5000);
    train_options o = options_of(SEQUENCE, SAMPLES);
    train_data *data = must_open(&o, VOCABULARY);
    for (int64_t step = 0; step < 40; step++) {
        batch(data, step, 0, SAMPLES, whole, unused);
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++)
            for (int first = 0; first < SAMPLES; first += cuts[c]) {
                batch(data, step, first, cuts[c], part, unused);
                assert_memory_equal(part, whole + first, (size_t)cuts[c] * sizeof(int32_t));
            }
    }
    train_data_close(data);
}

/* Over an epoch no place comes twice, and all come but those that no whole step was left for. */
static void check_epoch(uint32_t tokens, int64_t sequence, int64_t samples)
{
    write_places("epoch.u16", tokens);
    train_options o = options_of(sequence, samples);
    train_data *data = must_open(&o, VOCABULARY);
    int64_t places = train_data_tokens(data) - sequence, steps = places / samples;
    int *times = calloc((size_t)places, sizeof *times);
    int32_t *inputs = malloc((size_t)(sequence * samples) * sizeof *inputs);
    int32_t *targets = malloc((size_t)(sequence * samples) * sizeof *targets);
    for (int64_t step = steps; step < 2 * steps; step++) { /* the second epoch */
        batch(data, step, 0, samples, inputs, targets);
        for (int64_t s = 0; s < samples; s++) {
            assert_in_range(inputs[s], 0, places - 1);
            if (times[inputs[s]]++ != 0)
                fail_msg("%u tokens: place %d came twice in an epoch of %lld steps", tokens, inputs[s],
                         (long long)steps);
        }
    }
    train_data_close(data);
    free(times);
    free(inputs);
    free(targets);
}

static void test_epochs_are_permutations(void **state)
{
    (void)state;
    check_epoch(1000, 8, 16);
    check_epoch(300, 4, 7);
    check_epoch(4097, 1, 1);
    check_epoch(40, 3, 30); /* one step takes nearly all */
    check_epoch(20000, 100, 64);
}

/* Where a step has more samples than there are places they come again. */
static void test_a_short_file_is_enough(void **state)
{
    (void)state;
    enum { SEQUENCE = 4, SAMPLES = 16 };
    int32_t inputs[SEQUENCE * SAMPLES], targets[SEQUENCE * SAMPLES];
    write_places("shortest.u16", 2 * (SEQUENCE + 1));
    train_options o = options_of(SEQUENCE, SAMPLES);
    train_data *data = must_open(&o, VOCABULARY);
    assert_int_equal(train_data_tokens(data), SEQUENCE + 1);
    batch(data, 1234567, 0, SAMPLES, inputs, targets);
    for (int s = 0; s < SAMPLES; s++)
        assert_int_equal(inputs[s], 0); /* the only place */
    train_data_close(data);
}

static void first_of_steps(uint64_t seed, int64_t step, int32_t *places, int count)
{
    int32_t inputs[8], targets[8];
    train_options o = options_of(1, 8);
    o.seed = seed;
    train_data *data = must_open(&o, VOCABULARY);
    for (int i = 0; i < count; i++) {
        batch(data, step + i, 0, 8, inputs, targets);
        places[i] = inputs[0];
    }
    train_data_close(data);
}

/* Seed and step change the places, and each tenth of the file has its share: 2000 draws, 200 wanted in each, where the
 * standard deviation is below 14. */
static void test_places_are_spread(void **state)
{
    (void)state;
    int32_t one[2000], other[2000];
    int tenths[10] = { 0 }, same = 0;
    write_places("spread.u16", 60001);
    first_of_steps(1, 0, one, 2000);
    first_of_steps(1, 0, other, 2000);
    assert_memory_equal(one, other, sizeof one);
    first_of_steps(2, 0, other, 2000);
    for (int i = 0; i < 2000; i++) {
        same += one[i] == other[i];
        tenths[one[i] / 5400]++; /* 54001 tokens of training */
    }
    assert_in_range(same, 0, 3);
    for (int i = 0; i < 10; i++)
        assert_in_range(tenths[i], 200 - 70, 200 + 70);
}

/* What training takes is never what validation takes. */
static void test_validation_is_apart(void **state)
{
    (void)state;
    enum { SEQUENCE = 9, TOKENS = 500 };
    int32_t inputs[SEQUENCE * 2], targets[SEQUENCE * 2];
    char *error = NULL;
    write_places("apart.u16", TOKENS);
    train_options o = options_of(SEQUENCE, 2);
    train_data *data = must_open(&o, VOCABULARY);
    assert_int_equal(train_data_tokens(data), 450);
    assert_int_equal(train_data_validation_tokens(data), 50);
    assert_int_equal(train_data_validation_samples(data), 5);
    for (int64_t step = 0; step < 500; step++) {
        batch(data, step, 0, 2, inputs, targets);
        for (int i = 0; i < SEQUENCE * 2; i++)
            assert_in_range(targets[i], 1, 449);
    }
    for (int64_t first = 0; first < 20; first++) { /* samples side by side; after the last again from the first */
        assert_int_equal(train_data_validation(data, first, 2, inputs, targets, &error), 0);
        assert_int_equal(inputs[0], 450 + first % 5 * SEQUENCE);
        assert_int_equal(inputs[1], 450 + (first + 1) % 5 * SEQUENCE);
        assert_int_equal(targets[2 * SEQUENCE - 1], inputs[1] + SEQUENCE);
    }
    train_data_close(data);
}

/* Then all places of the file are trained on, and one sample is enough. */
static void test_without_validation_nothing_is_kept_back(void **state)
{
    (void)state;
    int32_t inputs[4], targets[4];
    char *error = NULL;
    write_places("all.u16", 5);
    train_options o = options_of(4, 1);
    o.validation_batches = 0;
    train_data *data = must_open(&o, VOCABULARY);
    assert_int_equal(train_data_tokens(data), 5);
    assert_int_equal(train_data_validation_samples(data), 0);
    batch(data, 0, 0, 1, inputs, targets);
    assert_int_equal(inputs[0], 0);
    assert_int_equal(targets[3], 4);
    assert_int_equal(train_data_validation(data, 0, 1, inputs, targets, &error), -1);
    assert_non_null(strstr(error, "no tokens for validation"));
    free(error);
    train_data_close(data);
}

static void test_validation_may_be_a_file(void **state)
{
    (void)state;
    static const uint32_t other[] = { 60000, 60001, 60002, 60003, 60004 };
    char validation[128];
    int32_t inputs[4], targets[4];
    char *error = NULL;
    write_numbers("validation.u16", 0, 0, 0, 2, other, 5);
    memcpy(validation, path, sizeof validation);
    write_places("training.u16", 5);
    train_options o = options_of(4, 1);
    o.validation = validation;
    train_data *data = must_open(&o, VOCABULARY);
    assert_int_equal(train_data_tokens(data), 5);
    assert_int_equal(train_data_validation_samples(data), 1);
    assert_int_equal(train_data_validation(data, 0, 1, inputs, targets, &error), 0);
    assert_int_equal(inputs[0], 60000);
    assert_int_equal(targets[3], 60004);
    batch(data, 0, 0, 1, inputs, targets);
    assert_int_equal(inputs[0], 0);
    train_data_close(data);
    o.sequence = 5;
    refused(&o, VOCABULARY, "validation.u16 has 5 tokens; a sample of --seq 5 needs 6");
}

static void test_a_file_cut_off_is_a_sentence(void **state)
{
    (void)state;
    int32_t inputs[4], targets[4];
    char *error = NULL;
    write_places("cut.u16", 9000);
    train_options o = options_of(4, 1);
    train_data *data = must_open(&o, VOCABULARY);
    assert_int_equal(truncate(path, 1), 0);
    assert_int_equal(train_data_batch(data, 0, 0, 1, inputs, targets, &error), -1);
    assert_non_null(error);
    assert_non_null(strstr(error, "cut.u16 has become shorter"));
    free(error);
    train_data_close(data);
}

static train_identity identity_of(const unsigned char *bytes, size_t nbytes, bool is_text)
{
    train_identity identity = { 0 };
    char *error = NULL;
    write_file("identity.u16", bytes, nbytes);
    train_options o = options_of(4, 1);
    if (is_text)
        o.text = o.tokens, o.tokens = NULL;
    train_data *data = must_open(&o, VOCABULARY);
    if (train_data_identify(data, &identity, &error) != 0)
        fail_msg("wanted an identity, got: %s", error);
    train_data_close(data);
    return identity;
}

/* Any byte of a small file counts; of a large one the ends do, and most of what lies between is another file's. */
static void test_another_file_is_told_apart(void **state)
{
    (void)state;
    static unsigned char bytes[6 << 20];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 16);
    const size_t sizes[] = { 3000, 4096, 1 << 20, sizeof bytes };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t nbytes = sizes[s], last = nbytes - 1;
        train_identity wanted = identity_of(bytes, nbytes, false);
        if (wanted.nbytes != (double)nbytes || !(wanted.hash >= 0 && wanted.hash < 0x1p53))
            fail_msg("wanted %zu bytes and a hash below 2^53, got %.0f and %.0f", nbytes, wanted.nbytes, wanted.hash);
        assert_true(identity_of(bytes, nbytes, true).hash != wanted.hash);
        const size_t places[] = { 0, 1, 2047, last, nbytes <= 1 << 20 ? nbytes / 3 : 0 };
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            bytes[places[i]] ^= 0x80;
            if (identity_of(bytes, nbytes, false).hash == wanted.hash)
                fail_msg("%zu bytes: wanted another hash when byte %zu changes, got %.0f", nbytes, places[i],
                         wanted.hash);
            bytes[places[i]] ^= 0x80;
        }
        if (identity_of(bytes, nbytes, false).hash != wanted.hash)
            fail_msg("wanted one hash for one file, got another");
    }
}

/* Headers with random fields and files of random sizes: a sentence, or samples that can be read. */
static void test_random_files(void **state)
{
    (void)state;
    static const uint32_t magics[] = { 20240520, 20240801, 20240522, 0 }, versions[] = { 1, 7, 1, 0 };
    int opened = 0;
    uint64_t random = 12345;
    for (int i = 0; i < 2000; i++) {
        uint32_t numbers[64];
        for (int n = 0; n < 64; n++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            numbers[n] = (uint32_t)(random >> 33) % (i % 3 == 0 ? 300 : 70000);
        }
        uint32_t count = numbers[0] % 64, said = i % 2 == 0 ? count : numbers[1];
        int nbytes = numbers[2] % 4 == 1 ? 4 : 2;
        write_numbers(i % 7 == 0 ? "random.u32" : "random.bin", magics[numbers[2] % 4],
                      versions[numbers[numbers[3] % 4 == 0 ? 3 : 2] % 4], said, nbytes, numbers, count);
        if (numbers[4] % 4 == 0)
            assert_int_equal(truncate(path, numbers[5] % 1200), 0);
        train_options o = options_of(1 + numbers[6] % 12, 1 + numbers[7] % 20);
        o.token_nbytes = numbers[2] % 4 == 3 ? 2 : 0;
        train_data *data = NULL;
        char *error = NULL;
        int32_t inputs[12 * 4], targets[12 * 4];
        if (train_data_open(&o, i % 4 == 0 ? 1 + numbers[9] : 70000, &data, &error) != 0) {
            assert_non_null(error);
            assert_non_null(strstr(error, path));
            free(error);
            continue;
        }
        opened++;
        batch(data, numbers[10], numbers[11] % (o.global_batch), 4, inputs, targets);
        if (train_data_validation(data, numbers[12], 4, inputs, targets, &error) != 0)
            fail_msg("wanted validation, got: %s", error);
        train_data_close(data);
    }
    assert_in_range(opened, 50, 1500); /* or it would show little */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_gives_its_tokens),
        cmocka_unit_test(test_wrong_files_are_refused),
        cmocka_unit_test(test_wrong_token_of_a_long_file_is_found_at_use),
        cmocka_unit_test(test_targets_are_the_next_tokens_in_columns),
        cmocka_unit_test(test_long_samples_are_whole),
        cmocka_unit_test(test_samples_do_not_depend_on_the_layout),
        cmocka_unit_test(test_epochs_are_permutations),
        cmocka_unit_test(test_a_short_file_is_enough),
        cmocka_unit_test(test_places_are_spread),
        cmocka_unit_test(test_validation_is_apart),
        cmocka_unit_test(test_without_validation_nothing_is_kept_back),
        cmocka_unit_test(test_validation_may_be_a_file),
        cmocka_unit_test(test_a_file_cut_off_is_a_sentence),
        cmocka_unit_test(test_another_file_is_told_apart),
        cmocka_unit_test(test_random_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
