/* layers/checkpoint/manifest.c - writing kith.json, and what both directions share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "manifest.h"

#include "core/base/error.h"
#include "core/text.h"
#include "crc32.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool ki_is_number_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    size_t nbytes = strnlen(name, KI_NUMBER_NAME);
    return nbytes > 0 && nbytes < KI_NUMBER_NAME && strspn(name, allowed) == nbytes;
}

const ki_manifest_file *ki_manifest_find(const ki_manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->file_count; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    return NULL;
}

static void add_numbers(ki_text *text, const ki_manifest *manifest)
{
    ki_text_add(text, "\"numbers\": {");
    for (size_t i = 0; i < manifest->number_count; i++) {
        const kith_checkpoint_number *number = &manifest->numbers[i];
        uint64_t bits;
        memcpy(&bits, &number->value, sizeof bits);
        ki_text_add(text, "%s\n\"%s\": {\"value\": ", i > 0 ? "," : "", number->name);
        ki_text_add_number(text, number->value);
        ki_text_add(text, ", \"bits\": \"%016llx\"}", (unsigned long long)bits);
    }
    ki_text_add(text, "},\n");
}

static void add_file(ki_text *text, const ki_manifest_file *file)
{
    ki_text_add(text, "\n{\"name\": \"%s\", \"nbytes\": %lld, \"crc32\": \"%08x\", \"tensors\": {", file->name,
                (long long)file->nbytes, file->crc);
    for (size_t i = 0; i < file->count; i++)
        ki_text_add(text, "%s\n\"%s\": \"%08x\"", i > 0 ? "," : "", file->sums[i].name, file->sums[i].crc);
    ki_text_add(text, "}}");
}

kith_status ki_manifest_print(const ki_manifest *manifest, char **text, size_t *nbytes)
{
    ki_text body = { 0 }, out = { 0 };
    ki_text_add(&body, "\"format\": 1,\n\"step\": %lld,\n\"optimizer_steps\": %lld,\n", (long long)manifest->step,
                (long long)manifest->optimizer_steps);
    add_numbers(&body, manifest);
    ki_text_add(&body, "\"files\": [");
    for (size_t i = 0; i < manifest->file_count; i++) {
        ki_text_add(&body, i > 0 ? "," : "");
        add_file(&body, &manifest->files[i]);
    }
    ki_text_add(&body, "\n]}\n");
    ki_text_add(&out, "{\"crc32\": \"%08x\",\n", ki_crc32(0, ki_text_chars(&body), body.length));
    ki_text_append(&out, ki_text_chars(&body), body.length);
    bool is_failed = body.is_failed || out.is_failed;
    ki_text_fini(&body);
    if (is_failed) {
        ki_text_fini(&out);
        return ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for " KI_MANIFEST_NAME);
    }
    *nbytes = out.length;
    *text = out.chars;
    return KITH_OK;
}

void ki_manifest_fini(ki_manifest *manifest)
{
    free(manifest->memory);
    free(manifest->sums);
    free(manifest->read_numbers);
    *manifest = (ki_manifest){ 0 };
}
