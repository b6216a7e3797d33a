/* tools/train/generate.c - `kith generate`: a prompt, and what a trained model goes on with.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"
#include "../flags.h"
#include "../launch.h"

#include "../run.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 256 /* a vocabulary of this size is one of bytes */
#define PROMPT_NBYTES_MAX (1 << 24)
#define TOKENS_MAX 1e6
#define SECONDS_MAX (366.0 * 24 * 3600)
#define AT(field) offsetof(generate_options, field)

static const char generate_help[] =
    "Usage: kith generate [-n N] --checkpoint DIR|--model DIR [options]\n"
    "Prints a prompt and what a model goes on with, token by token.\n\n"
    "Model:\n"
    "  --checkpoint DIR        what kith train saved: the newest checkpoint in DIR, or DIR itself\n"
    "  --model DIR             config.json and safetensors as Hugging Face writes them\n"
    "  --dtype TYPE            f32 (default), f64, bf16, f16\n"
    "  --device cuda           computes on GPUs: each rank on its own of its machine; cuda:N: on GPU N; default: as\n"
    "                          KITH_DEVICE says, or the processors\n"
    "  --seq N                 tokens that the model sees at once, the newest; default 128, as in kith train, at most\n"
    "                          the positions that the model has\n\n"
    "Prompt (default: the end of a line):\n"
    "  --prompt TEXT           for models of bytes (a vocabulary of 256)\n"
    "  --prompt-file FILE      the same from a file\n"
    "  --prompt-tokens LIST    for any model: numbers of tokens, as in 15496,995. Models with another vocabulary\n"
    "                          print numbers, too: kith knows no tokenizer\n\n"
    "Choice:\n"
    "  --tokens N              how many to generate; default 200\n"
    "  --temperature X         0 to 100; default 0.8; 0: always the likeliest\n"
    "  --greedy                the same as --temperature 0\n"
    "  --top-k K               among the K likeliest; default 0: among all\n"
    "  --seed N                64 bits, default 0. The same seed gives the same text, on any number of ranks, as far "
    "as\n"
    "                          rounding does not make another token the likelier\n\n"
    "Ranks:\n"
    "  -n, --ranks N           ranks to start here, all of them tensor parallel\n"
    "  --tp N                  how many there must be\n"
    "  --threads N             of each rank: products, attention and loops; default 0: its share of the processors\n"
    "  --timeout S             longest wait for another rank, in seconds; default 0: as KITH_TIMEOUT_MS says\n\n"
    "The whole sequence is computed again for every token; nothing is kept in between.\n\n"
    "Exit status: 0, 1 when the model cannot be loaded or run, 2 wrong usage or output that cannot be written; with "
    "-n\n"
    "that of the first rank that failed (128 + N for signal N), 125 when the ranks cannot be started.\n\n"
    "Example: kith generate --checkpoint run --prompt 'The licenses' --tokens 300 --top-k 40\n";

static int generate_main(int argc, char **argv);
const ki_command ki_command_generate = { "generate", "Print what a trained model goes on with", generate_help,
                                         generate_main };

static const char *const dtype_words[] = { "f32", "f64", "bf16", "f16", NULL };

static const ki_flag flags[] = {
    { "ranks", FLAG_INT, AT(rank_count), 1, KI_RUN_RANKS_MAX, NULL, NULL },
    { "tp", FLAG_INT, AT(tp), 1, KI_RUN_RANKS_MAX, NULL, NULL },
    { "checkpoint", FLAG_TEXT, AT(checkpoint), 0, 0, NULL, NULL },
    { "model", FLAG_TEXT, AT(model), 0, 0, NULL, NULL },
    { "dtype", FLAG_WORD, AT(dtype), 0, 0, dtype_words, NULL },
    { "device", FLAG_TEXT, AT(device), 0, 0, NULL, NULL },
    { "seq", FLAG_INT64, AT(sequence), 1, 1 << 24, NULL, NULL },
    { "prompt", FLAG_TEXT, AT(prompt), 0, 0, NULL, NULL },
    { "prompt-file", FLAG_TEXT, AT(prompt_file), 0, 0, NULL, NULL },
    { "prompt-tokens", FLAG_TEXT, AT(prompt_tokens), 0, 0, NULL, NULL },
    { "tokens", FLAG_INT64, AT(tokens), 1, TOKENS_MAX, NULL, NULL },
    { "temperature", FLAG_REAL, AT(temperature), 0, 100, NULL, NULL },
    { "greedy", FLAG_SWITCH, AT(is_greedy), 0, 0, NULL, NULL },
    { "top-k", FLAG_INT64, AT(top_k), 0, INT32_MAX, NULL, NULL },
    { "seed", FLAG_BITS64, AT(seed), 0, 0, NULL, NULL },
    { "threads", FLAG_INT, AT(threads), 0, 1024, NULL, NULL },
    { "timeout", FLAG_REAL, AT(timeout_s), 0, SECONDS_MAX, NULL, NULL },
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])

static int read_options(int argc, char **argv, generate_options *o, char **rest)
{
    bool seen[FLAG_COUNT] = { false };
    const ki_command *command = &ki_command_generate;
    *o = (generate_options){ .tokens = 200, .sequence = TRAIN_SEQUENCE_DEFAULT, .temperature = 0.8 };
    int status = ki_flags_read(command, flags, FLAG_COUNT, argc, argv, o, seen, rest);
    if (status != KI_EXIT_OK)
        return status;
    if (train_device_check(command, o->device) != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if ((o->checkpoint == NULL) == (o->model == NULL))
        return ki_usage_error(command, "give either --checkpoint DIR or --model DIR");
    if ((o->prompt != NULL) + (o->prompt_file != NULL) + (o->prompt_tokens != NULL) > 1)
        return ki_usage_error(command, "give one of --prompt, --prompt-file and --prompt-tokens");
    if (o->tp != 0 && o->rank_count != 0 && o->tp != o->rank_count)
        return ki_usage_error(command, "--tp %d and -n %d differ: all ranks are tensor parallel", o->tp, o->rank_count);
    return KI_EXIT_OK;
}

/* ---- the prompt ---- */

/* Tokens so far. Room is made once: for the prompt and all that follows. */
typedef struct story {
    int32_t *tokens;
    int64_t count;
    char sentence[256]; /* what is wrong with the prompt */
    bool has_failed;    /* not for the prompt: memory is short */
} story;

static bool is_short(story *self)
{
    self->has_failed = true;
    snprintf(self->sentence, sizeof self->sentence, "memory is short");
    return false;
}

static bool make_room(story *self, int64_t prompt_count, int64_t more)
{
    self->tokens = calloc((size_t)(prompt_count + more), sizeof *self->tokens);
    return self->tokens != NULL || is_short(self);
}

static bool take_bytes(story *self, const char *bytes, size_t nbytes, int64_t more, int64_t vocabulary)
{
    if (vocabulary != BYTES) {
        snprintf(self->sentence, sizeof self->sentence,
                 "the model has %lld tokens, not the 256 bytes: say with --prompt-tokens what it begins with",
                 (long long)vocabulary);
        return false;
    }
    if (!make_room(self, (int64_t)nbytes, more))
        return false;
    for (size_t i = 0; i < nbytes; i++)
        self->tokens[self->count++] = (unsigned char)bytes[i];
    return true;
}

static bool take_file(story *self, const char *path, int64_t more, int64_t vocabulary)
{
    FILE *file = fopen(path, "rb");
    char *bytes = file != NULL ? malloc(PROMPT_NBYTES_MAX + 1) : NULL;
    size_t nbytes = bytes != NULL ? fread(bytes, 1, PROMPT_NBYTES_MAX + 1, file) : 0;
    bool is_taken = false;
    if (file == NULL || ferror(file))
        snprintf(self->sentence, sizeof self->sentence, "cannot read %s: %s", path, strerror(errno));
    else if (bytes == NULL)
        is_taken = is_short(self);
    else if (nbytes == 0 || nbytes > PROMPT_NBYTES_MAX)
        snprintf(self->sentence, sizeof self->sentence, "%s: a prompt has 1 to %d bytes", path, PROMPT_NBYTES_MAX);
    else
        is_taken = take_bytes(self, bytes, nbytes, more, vocabulary);
    free(bytes);
    if (file != NULL)
        fclose(file);
    return is_taken;
}

static bool take_list(story *self, const char *list, int64_t more, int64_t vocabulary)
{
    char word[24];
    if (!make_room(self, (int64_t)strlen(list), more))
        return false;
    for (const char *p = list;; p++) {
        size_t nbytes = strcspn(p, ",");
        long token;
        snprintf(word, sizeof word, "%.*s", (int)(nbytes < sizeof word ? nbytes : sizeof word - 1), p);
        if (nbytes >= sizeof word || !ki_parse_long(word, 0, (long)vocabulary - 1, &token)) {
            snprintf(self->sentence, sizeof self->sentence,
                     "--prompt-tokens: '%s' is no token; the model has 0 to %lld, and commas stand between them", word,
                     (long long)vocabulary - 1);
            return false;
        }
        self->tokens[self->count++] = (int32_t)token;
        p += nbytes;
        if (*p == '\0')
            return true;
    }
}

static bool take_prompt(story *self, const generate_options *o, int64_t vocabulary)
{
    if (o->prompt_tokens != NULL)
        return take_list(self, o->prompt_tokens, o->tokens, vocabulary);
    if (o->prompt_file != NULL)
        return take_file(self, o->prompt_file, o->tokens, vocabulary);
    const char *prompt = o->prompt != NULL ? o->prompt : "\n";
    return take_bytes(self, prompt, strlen(prompt), o->tokens, vocabulary);
}

/* ---- output ---- */

/* A terminal gets no control characters from a model. */
static void print_token(int32_t token, int64_t vocabulary, bool is_first)
{
    bool is_control = (token < ' ' && token != '\n' && token != '\t') || token == 0x7f;
    if (vocabulary != BYTES)
        printf(is_first ? "%d" : " %d", (int)token);
    else
        putchar(is_control && isatty(STDOUT_FILENO) ? '?' : (int)token);
}

static bool write_out(generator *model, story *self, const generate_options *o)
{
    int64_t vocabulary = generator_vocabulary(model);
    bool is_writer = generator_rank(model) == 0, is_fine = true;
    for (int64_t i = 0; is_writer && i < self->count; i++)
        print_token(self->tokens[i], vocabulary, i == 0);
    for (int64_t number = 0; is_fine && number < o->tokens; number++) {
        is_fine = generator_next(model, self->tokens, self->count, number, &self->tokens[self->count]);
        if (is_fine && is_writer) {
            print_token(self->tokens[self->count], vocabulary, false);
            fflush(stdout);
        }
        self->count += is_fine;
    }
    if (is_writer)
        putchar('\n');
    return is_fine;
}

static int generate_run(const generate_options *o)
{
    story told = { 0 };
    int status;
    generator *model = generator_create(o, &status);
    if (model == NULL)
        return status;
    bool is_fine = take_prompt(&told, o, generator_vocabulary(model));
    is_fine = generator_agree(model, is_fine, told.sentence, &told.has_failed);
    status = is_fine ? KI_EXIT_OK : told.has_failed ? GENERATE_FAILED : KI_EXIT_USAGE;
    if (is_fine && !write_out(model, &told, o))
        status = GENERATE_FAILED;
    generator_destroy(model, status == GENERATE_FAILED);
    free(told.tokens);
    return status;
}

static int generate_main(int argc, char **argv)
{
    generate_options options;
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL) {
        perror("kith generate");
        return KI_EXIT_USAGE;
    }
    words[0] = "kith";
    int status = read_options(argc, argv, &options, words + 1);
    if (status == KI_FLAGS_HELP) {
        fputs(generate_help, stdout);
        status = KI_EXIT_OK;
    } else if (status == KI_EXIT_OK) {
        status = options.rank_count > 0 ? ki_launch("generate", options.rank_count, words) : generate_run(&options);
    }
    free(words);
    return status;
}
