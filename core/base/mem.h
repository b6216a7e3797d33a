/* core/base/mem.h - allocation through the context's hooks, and arithmetic on sizes that cannot overflow.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_MEM_H
#define KI_BASE_MEM_H

#include <kith/context.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copies *user (NULL: malloc). */
void ki_allocator_init(kith_allocator *allocator, const kith_allocator *user);

/* Zeroed memory, 64-byte aligned; NULL on failure (and a detail text) or when count * nbytes overflows. */
void *ki_calloc(const kith_allocator *allocator, size_t count, size_t nbytes);
void ki_free(const kith_allocator *allocator, void *ptr);
char *ki_strdup(const kith_allocator *allocator, const char *text);

/* *out = a * b; false on overflow. */
static inline bool ki_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool ki_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Options of a caller whose header may be older: what it has of them over the defaults in *options, whose
 * struct_size is set. False when struct_size, the first member, is below `least` (never initialised). Newer, longer
 * options are cut: what is behind is not known here. */
static inline bool ki_options_copy(void *options, size_t nbytes, const void *given, size_t least)
{
    size_t given_nbytes;
    memcpy(&given_nbytes, given, sizeof given_nbytes);
    if (given_nbytes < least)
        return false;
    memcpy(options, given, given_nbytes < nbytes ? given_nbytes : nbytes);
    memcpy(options, &nbytes, sizeof nbytes);
    return true;
}

/* FNV-1a over bytes; start with KI_HASH_INIT. */
#define KI_HASH_INIT UINT64_C(0xcbf29ce484222325)
static inline uint64_t ki_hash(uint64_t hash, const void *data, size_t nbytes)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
