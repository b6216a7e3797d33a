/* tools/train/infer.c - a trained model over its ranks, and the token that follows.
 *
 * All ranks are tensor-parallel. Every rank has all logits; rank 0 chooses and tells the others, so that no difference
 * between ranks could ever make them go different ways.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct generator {
    generate_options options;
    kith_ctx *ctx;
    kith_transformer_config config;
    kith_layers *layers;
    kith_transformer *transformer;
    kith_tape *tape;
    double *logits, *scratch; /* [vocabulary], of the last token; for train_sample() */
    void *row;                /* [vocabulary], the same as the layers have them */
};

/* ---- agreement ---- */

static void tell(const generator *self, const char *sentence)
{
    ki_say("generate", kith_rank(self->ctx), sentence);
}

bool generator_agree(generator *self, bool is_fine, const char *sentence, bool *has_failed)
{
    return ki_agree_over(self->ctx, "generate", is_fine, sentence, has_failed);
}

/* Where the exit status is the same whoever has failed. */
static bool agree(generator *self, bool is_fine, const char *sentence)
{
    bool has_failed = false;
    return generator_agree(self, is_fine, sentence, &has_failed);
}

static bool agree_status(generator *self, kith_status status)
{
    return agree(self, status == KITH_OK, kith_error_detail());
}

/* ---- loading ---- */

/* The folder that has config.json and weights: kith_free(). */
static kith_status find_folder(generator *self, char **folder)
{
    const generate_options *o = &self->options;
    int64_t step;
    if (o->checkpoint != NULL)
        return train_find_newest(self->ctx, "generate", o->checkpoint, folder, &step);
    *folder = strdup(o->model);
    return *folder != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static kith_status read_config(generator *self, const char *folder)
{
    char *path = NULL;
    if (asprintf(&path, "%s/config.json", folder) < 0)
        return KITH_ERR_NO_MEMORY;
    self->config = (kith_transformer_config)KITH_TRANSFORMER_CONFIG_INIT;
    kith_status status = kith_config_read(path, &self->config);
    free(path);
    return status;
}

static kith_status make_layers(generator *self)
{
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    place.tp = kith_world(self->ctx);
    place.dtype = dtypes[self->options.dtype];
    place.blas_threads = self->options.threads;
    place.device = kith_ctx_device(self->ctx);
    options.config = &self->config;
    kith_status status = kith_layers_create(&place, &self->layers);
    if (status == KITH_OK)
        status = kith_transformer_create(self->layers, &options, &self->transformer);
    if (status == KITH_OK)
        status = kith_tape_create(self->layers, &self->tape);
    return status;
}

static kith_status load_weights(generator *self, const char *folder)
{
    kith_checkpoint_place place = KITH_CHECKPOINT_PLACE_INIT;
    place.group = kith_world(self->ctx);
    place.layers = self->layers;
    place.config = &self->config;
    if (self->options.checkpoint == NULL)
        return kith_weights_load(&place, folder);
    return kith_checkpoint_load(&place, folder, NULL, 0); /* compares checksums, too */
}

/* Known before anything is read, and wrong usage. */
static bool check_ranks(generator *self)
{
    char sentence[256] = "";
    int size = kith_size(self->ctx), tp = self->options.tp;
    if (tp != 0 && tp != size)
        snprintf(sentence, sizeof sentence, "--tp %d needs as many ranks, and there %s %d: start %d with -n", tp,
                 size == 1 ? "is" : "are", size, tp);
    return agree(self, sentence[0] == '\0', sentence);
}

static bool load(generator *self)
{
    char *folder = NULL;
    bool is_fine = agree_status(self, find_folder(self, &folder)) && agree_status(self, read_config(self, folder));
    if (is_fine && self->config.positions > 0 && self->options.sequence > self->config.positions)
        self->options.sequence = self->config.positions;
    if (is_fine)
        is_fine = agree_status(self, make_layers(self)) && agree_status(self, load_weights(self, folder));
    if (is_fine) {
        self->logits = calloc((size_t)self->config.vocabulary, sizeof *self->logits);
        self->scratch = calloc((size_t)self->config.vocabulary, sizeof *self->scratch);
        self->row = calloc((size_t)self->config.vocabulary, sizeof(double));
        bool has_memory = self->logits != NULL && self->scratch != NULL && self->row != NULL;
        is_fine = agree(self, has_memory, "memory is short");
    }
    if (self->options.checkpoint != NULL)
        kith_free(folder);
    else
        free(folder);
    return is_fine;
}

generator *generator_create(const generate_options *options, int *status)
{
    *status = GENERATE_FAILED;
    generator *self = calloc(1, sizeof *self);
    if (self == NULL) {
        fputs("kith generate: memory is short\n", stderr);
        return NULL;
    }
    self->options = *options;
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.timeout_ms = (int64_t)(options->timeout_s * 1000);
    init.device = train_device_wanted(options->device);
    if (kith_init(&init, &self->ctx) != KITH_OK) {
        fprintf(stderr, "kith generate: %s\n", kith_error_detail());
        free(self);
        return NULL;
    }
    bool is_usable = check_ranks(self);
    if (is_usable && load(self))
        return self;
    *status = is_usable ? GENERATE_FAILED : KI_EXIT_USAGE;
    generator_destroy(self, true);
    return NULL;
}

void generator_destroy(generator *self, bool is_failed)
{
    if (self == NULL)
        return;
    free(self->logits);
    free(self->scratch);
    free(self->row);
    kith_tape_destroy(self->tape);
    if (self->layers != NULL && !is_failed)
        kith_layers_destroy(self->layers);
    if (is_failed)
        kith_abandon(self->ctx);
    else
        kith_finalize(self->ctx);
    free(self);
}

int generator_rank(const generator *self)
{
    return kith_rank(self->ctx);
}

int64_t generator_vocabulary(const generator *self)
{
    return self->config.vocabulary;
}

/* ---- the next token ---- */

/* bf16 is the upper half of an f32; f16 has its digits, with an exponent that is too small by 112. */
static double number_of_half(uint16_t half, kith_dtype dtype)
{
    uint32_t bits = dtype == KITH_BF16 ? (uint32_t)half << 16 : (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (dtype == KITH_BF16)
        return (double)value;
    if ((half & 0x7c00) == 0x7c00)
        return (half & 0x3ff) != 0 ? NAN : half & 0x8000 ? -INFINITY : INFINITY;
    return (half & 0x8000 ? -0x1p112 : 0x1p112) * (double)value;
}

static double number_of(const void *row, kith_dtype dtype, int64_t index)
{
    if (dtype == KITH_F64)
        return ((const double *)row)[index];
    if (dtype == KITH_F32)
        return (double)((const float *)row)[index];
    return number_of_half(((const uint16_t *)row)[index], dtype);
}

/* The last row of the logits of tokens [count]. */
static kith_status compute_logits(generator *self, const int32_t *tokens, int64_t count)
{
    kith_batch batch = KITH_BATCH_INIT;
    kith_tensor ids = kith_tensor_view((void *)tokens, KITH_INT32, 2, (const int64_t[]){ count, 1 });
    kith_tensor logits;
    batch.sequence = count;
    batch.batch = 1;
    batch.is_training = 0;
    kith_status status = kith_tape_begin(self->tape, &batch);
    if (status == KITH_OK)
        status = kith_transformer_logits(self->transformer, self->tape, &ids, &logits);
    if (status != KITH_OK)
        return status;
    kith_tensor last = kith_tensor_narrow(&logits, 0, count - 1, 1);
    status = kith_tensor_read(self->layers, &last, self->row,
                              (size_t)self->config.vocabulary * kith_dtype_nbytes(logits.dtype));
    for (int64_t i = 0; status == KITH_OK && i < self->config.vocabulary; i++)
        self->logits[i] = number_of(self->row, logits.dtype, i);
    kith_tensor_release(&logits);
    return status;
}

static int32_t choose(generator *self, int64_t number)
{
    const generate_options *o = &self->options;
    double temperature = o->is_greedy ? 0 : o->temperature;
    return (int32_t)train_sample(self->logits, self->config.vocabulary, temperature, o->top_k,
                                 train_uniform(o->seed, (uint64_t)number), self->scratch);
}

bool generator_next(generator *self, const int32_t *tokens, int64_t count, int64_t number, int32_t *next)
{
    int64_t seen = count < self->options.sequence ? count : self->options.sequence;
    int32_t token = 0;
    kith_status status = compute_logits(self, tokens + count - seen, seen);
    if (status == KITH_OK) {
        token = choose(self, number);
        status = kith_broadcast(kith_world(self->ctx), &token, 1, KITH_INT32, 0);
    }
    if (status != KITH_OK) {
        if (status != KITH_ERR_ABORTED) /* that is: another rank says why */
            tell(self, kith_error_detail());
        kith_group_abort(kith_world(self->ctx));
        return false;
    }
    if (token < 0 && generator_rank(self) == 0)
        tell(self, "the model's output is not finite: it has diverged in training, or its weights are damaged");
    *next = token;
    return token >= 0;
}
