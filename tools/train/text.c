/* tools/train/text.c - tokens in a file: bytes of a text, .bin of llm.c, plain numbers.
 *
 * A .bin of llm.c has a header of 256 int32: a magic number, a version, how many tokens follow; then the tokens, uint16
 * for GPT-2 (20240520, version 1), uint32 for LLaMA-3 (20240801, version 7); see llmc/dataloader.h and
 * dev/data/data_common.py there.
 *
 * Tokens are read with pread(), not through a mapping. Either way a rank touches the pages of its own samples alone,
 * and the ranks of a machine share them in the page cache; but when somebody cuts the file off, a mapping is a SIGBUS
 * in the middle of a step, and reading is a sentence. It costs one call a sample.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_NBYTES 1024
#define SCAN_NBYTES_MAX (INT64_C(16) << 20)
#define CHUNK_TOKENS 4096
#define MAGIC_EVAL 20240522 /* questions with answers, for llm.c's evaluation */

static const struct llmc_form {
    uint32_t magic, version;
    int token_nbytes;
} llmc_forms[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };

bool train_source_wrong(char **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(error, format, arguments) < 0)
        *error = NULL;
    va_end(arguments);
    return false;
}

/* Of a machine of any byte order. */
static uint32_t number_at(const unsigned char *bytes, int nbytes)
{
    uint32_t number = 0;
    for (int i = nbytes; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

/* ---- reading ---- */

static bool read_bytes(const train_source *self, int64_t offset, size_t nbytes, unsigned char *bytes, char **error)
{
    for (size_t done = 0; done < nbytes;) {
        ssize_t more = pread(self->fd, bytes + done, nbytes - done, (off_t)(offset + (int64_t)done));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return train_source_wrong(error, "cannot read %s: %s", self->path, strerror(errno));
        if (more == 0)
            return train_source_wrong(error, "%s has become shorter: it ends at byte %lld, and had tokens beyond",
                                      self->path, (long long)(offset + (int64_t)done));
        done += (size_t)more;
    }
    return true;
}

bool train_source_read(const train_source *self, int64_t first, int64_t count, int32_t *tokens, char **error)
{
    unsigned char bytes[CHUNK_TOKENS * sizeof(uint32_t)];
    for (int64_t done = 0; done < count;) {
        int64_t some = count - done < CHUNK_TOKENS ? count - done : CHUNK_TOKENS;
        int64_t offset = self->skipped + (first + done) * self->token_nbytes;
        if (!read_bytes(self, offset, (size_t)(some * self->token_nbytes), bytes, error))
            return false;
        for (int64_t i = 0; i < some; i++) {
            uint32_t token = number_at(bytes + i * self->token_nbytes, self->token_nbytes);
            if (token >= self->vocabulary)
                return train_source_wrong(error, "%s: token %lld is %u, and the model has 0 to %lld", self->path,
                                          (long long)(first + done + i), token, (long long)self->vocabulary - 1);
            tokens[done + i] = (int32_t)token;
        }
        done += some;
    }
    return true;
}

static bool scan(const train_source *self, char **error)
{
    int32_t tokens[CHUNK_TOKENS];
    for (int64_t first = 0; first < self->count; first += CHUNK_TOKENS) {
        int64_t some = self->count - first < CHUNK_TOKENS ? self->count - first : CHUNK_TOKENS;
        if (!train_source_read(self, first, some, tokens, error))
            return false;
    }
    return true;
}

/* ---- which file it is ---- */

#define PIECE_NBYTES 4096
#define PIECES 256

int64_t train_source_nbytes(const train_source *self)
{
    return self->skipped + self->count * self->token_nbytes;
}

/* FNV-1a's steps over words of 8 bytes, with the upper half folded in so that it matters below 2^53. */
static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 8) {
        uint64_t word = 0;
        for (size_t k = i; k < nbytes && k < i + 8; k++)
            word |= (uint64_t)bytes[k] << (8 * (k - i));
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    return hash;
}

bool train_source_hash(const train_source *self, uint64_t *hash, char **error)
{
    unsigned char bytes[PIECE_NBYTES];
    int64_t nbytes = train_source_nbytes(self), pieces = (nbytes + PIECE_NBYTES - 1) / PIECE_NBYTES;
    int64_t some = pieces < PIECES ? pieces : PIECES;
    uint64_t made = hash_bytes(0xcbf29ce484222325u, (const unsigned char[]){ (unsigned char)self->token_nbytes }, 1);
    for (int64_t i = 0; i < some; i++) {
        int64_t piece = some == pieces ? i : (int64_t)((__int128)i * (pieces - 1) / (some - 1));
        int64_t left = nbytes - piece * PIECE_NBYTES;
        size_t count = left < PIECE_NBYTES ? (size_t)left : PIECE_NBYTES;
        if (!read_bytes(self, piece * PIECE_NBYTES, count, bytes, error))
            return false;
        made = hash_bytes(made, bytes, count);
    }
    *hash = made >> 11;
    return true;
}

/* ---- what the bytes are ---- */

static bool ends_with(const char *path, const char *end)
{
    size_t path_nbytes = strlen(path), end_nbytes = strlen(end);
    return path_nbytes >= end_nbytes && strcmp(path + path_nbytes - end_nbytes, end) == 0;
}

static bool take_plain(train_source *self, int64_t nbytes, int token_nbytes, char **error)
{
    if (token_nbytes == 0)
        token_nbytes = ends_with(self->path, ".u16") ? 2 : ends_with(self->path, ".u32") ? 4 : 0;
    if (token_nbytes == 0)
        return train_source_wrong(
            error,
            "%s: there is no header of llm.c; say with --token-type u16 or u32 what its numbers are, or "
            "train on its bytes with --text",
            self->path);
    if (nbytes % token_nbytes != 0)
        return train_source_wrong(error, "%s has %lld bytes, which are no whole number of tokens of %d bytes",
                                  self->path, (long long)nbytes, token_nbytes);
    self->token_nbytes = token_nbytes;
    self->count = nbytes / token_nbytes;
    return true;
}

static bool take_llmc(train_source *self, int64_t nbytes, const struct llmc_form *form, const unsigned char *header,
                      int token_nbytes, char **error)
{
    int64_t room = (nbytes - HEADER_NBYTES) / form->token_nbytes;
    self->token_nbytes = form->token_nbytes;
    self->skipped = HEADER_NBYTES;
    self->count = number_at(header + 8, 4);
    if (token_nbytes != 0)
        return train_source_wrong(
            error, "%s has a header of llm.c, which says what its numbers are: leave --token-type out", self->path);
    if (number_at(header + 4, 4) != form->version)
        return train_source_wrong(error, "%s: version %u of llm.c's files with magic %u; version %u can be read",
                                  self->path, number_at(header + 4, 4), form->magic, form->version);
    if (self->count != room || (nbytes - HEADER_NBYTES) % form->token_nbytes != 0)
        return train_source_wrong(error,
                                  "%s is damaged: its header says %lld tokens, and its %lld bytes have room for %lld",
                                  self->path, (long long)self->count, (long long)nbytes, (long long)room);
    return true;
}

static bool take_tokens(train_source *self, int64_t nbytes, int token_nbytes, char **error)
{
    unsigned char header[12];
    if (nbytes < HEADER_NBYTES)
        return take_plain(self, nbytes, token_nbytes, error);
    if (!read_bytes(self, 0, sizeof header, header, error))
        return false;
    uint32_t magic = number_at(header, 4);
    for (size_t i = 0; i < sizeof llmc_forms / sizeof llmc_forms[0]; i++)
        if (llmc_forms[i].magic == magic)
            return take_llmc(self, nbytes, &llmc_forms[i], header, token_nbytes, error);
    if (magic == MAGIC_EVAL && token_nbytes == 0)
        return train_source_wrong(error, "%s has questions for llm.c's evaluation, not tokens to train on", self->path);
    return take_plain(self, nbytes, token_nbytes, error);
}

/* ---- opening ---- */

/* O_NONBLOCK: a FIFO without a writer would not come back. */
static bool open_file(train_source *self, int64_t *nbytes, char **error)
{
    struct stat info;
    self->fd = open(self->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (self->fd < 0)
        return train_source_wrong(error, "cannot open %s: %s", self->path, strerror(errno));
    if (fstat(self->fd, &info) != 0)
        return train_source_wrong(error, "cannot read %s: %s", self->path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return train_source_wrong(error, "%s is %s, not a file whose tokens can be taken in any order", self->path,
                                  S_ISDIR(info.st_mode) ? "a folder" : "a pipe, a device or a socket");
    *nbytes = info.st_size;
    if (*nbytes == 0)
        return train_source_wrong(error, "%s is empty", self->path);
    return true;
}

bool train_source_open(train_source *self, const char *path, bool is_text, int token_nbytes, int64_t vocabulary,
                       char **error)
{
    int64_t nbytes = 0;
    *self = (train_source){ .path = path, .fd = -1, .token_nbytes = 1, .vocabulary = vocabulary };
    bool is_fine = open_file(self, &nbytes, error);
    self->count = nbytes;
    if (is_fine && !is_text)
        is_fine = take_tokens(self, nbytes, token_nbytes, error);
    bool can_be_wrong = vocabulary < INT64_C(1) << (8 * self->token_nbytes);
    if (is_fine && can_be_wrong && nbytes <= SCAN_NBYTES_MAX)
        is_fine = scan(self, error);
    if (is_fine)
        posix_fadvise(self->fd, 0, 0, POSIX_FADV_RANDOM); /* what lies behind a sample is another rank's */
    else
        train_source_close(self);
    return is_fine;
}

void train_source_close(train_source *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}
