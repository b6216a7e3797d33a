/* tools/compare/words.c - texts of the files, each kept once, so that comparing two is comparing two numbers, and what
 * came first in the files comes first in reports.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../draw.h"
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 256

static uint64_t hash_of(const char *text) /* FNV-1a */
{
    uint64_t hash = 14695981039346656037u;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
        hash = (hash ^ *p) * 1099511628211u;
    return hash;
}

/* Where the text stands, or the free slot where it would. */
static size_t slot_of(const ki_words *self, const char *text)
{
    size_t slot = hash_of(text) & (self->slot_count - 1);
    while (self->slots[slot] >= 0 && strcmp(self->texts[self->slots[slot]], text) != 0)
        slot = (slot + 1) & (self->slot_count - 1);
    return slot;
}

static bool grow_slots(ki_words *self)
{
    size_t count = self->slot_count == 0 ? SLOTS_FIRST : 2 * self->slot_count;
    ki_word *slots = malloc(count * sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        slots[i] = -1;
    free(self->slots);
    self->slots = slots;
    self->slot_count = count;
    for (size_t i = 0; i < self->count; i++)
        slots[slot_of(self, self->texts[i])] = (ki_word)i;
    return true;
}

static bool grow_texts(ki_words *self)
{
    size_t room = self->room == 0 ? 64 : 2 * self->room;
    char **texts = realloc(self->texts, room * sizeof(*texts));
    if (texts == NULL)
        return false;
    self->texts = texts;
    self->room = room;
    return true;
}

bool ki_words_init(ki_words *self)
{
    *self = (ki_words){ 0 };
    return grow_slots(self) && ki_words_add(self, "") == 0;
}

void ki_words_fini(ki_words *self)
{
    for (size_t i = 0; i < self->count; i++)
        free(self->texts[i]);
    free(self->texts);
    free(self->slots);
    *self = (ki_words){ 0 };
}

ki_word ki_words_add(ki_words *self, const char *text)
{
    char *clean = strdup(text);
    if (clean == NULL)
        return -1;
    ki_text_clean(clean);
    size_t slot = slot_of(self, clean);
    if (self->slots[slot] >= 0) {
        free(clean);
        return self->slots[slot];
    }
    if (2 * self->count >= self->slot_count) {
        if (!grow_slots(self)) {
            free(clean);
            return -1;
        }
        slot = slot_of(self, clean);
    }
    if (self->count == self->room && !grow_texts(self)) {
        free(clean);
        return -1;
    }
    self->texts[self->count] = clean;
    self->slots[slot] = (ki_word)self->count;
    return (ki_word)self->count++;
}

const char *ki_words_text(const ki_words *self, ki_word word)
{
    return self->texts[word];
}
