/* tests/fuzz/fuzz_safetensors.c - libFuzzer: any bytes as the files that weights and checkpoints are read from.
 *
 * The first byte says what the others are: a header of safetensors, an index of several files, a kith.json. A header
 * that is accepted has its tensors inside of the file, one behind the other; a kith.json prints as what was read.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "must.h"

#include "layers/checkpoint/archive.h"
#include "layers/checkpoint/crc32.h"
#include "layers/checkpoint/manifest.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* The length of the data is whatever makes the file whole, when the tensors allow any. */
static void try_header(const char *text, size_t nbytes)
{
    ki_header header;
    for (int64_t data_nbytes = 0; data_nbytes < 65; data_nbytes += 4) {
        int64_t first = KI_HEADER_PREFIX + (int64_t)nbytes, total = 0;
        if (ki_header_parse("fuzz", text, nbytes, first + data_nbytes, &header) != KITH_OK)
            continue;
        for (size_t i = 0; i < header.count; i++) {
            const ki_stored *tensor = &header.tensors[i];
            MUST(tensor->begin >= first && tensor->begin <= tensor->end && tensor->end <= first + data_nbytes);
            MUST(i == 0 || strcmp(header.tensors[i - 1].name, tensor->name) < 0);
            total += tensor->end - tensor->begin;
        }
        MUST(total == data_nbytes);
        ki_header_fini(&header);
    }
}

static void try_index(const char *text, size_t nbytes)
{
    ki_index index;
    if (ki_index_parse("fuzz", text, nbytes, &index) != KITH_OK)
        return;
    for (size_t i = 0; i < index.count; i++)
        MUST(strchr(index.entries[i].file, '/') == NULL);
    ki_index_fini(&index);
}

/* With the sum that the text should have, so that the rest is read, too. */
static void try_manifest(const char *text, size_t nbytes)
{
    static const size_t line = sizeof "{\"crc32\": \"00000000\",\n" - 1;
    char *whole = malloc(line + nbytes + 1);
    ki_manifest manifest;
    if (whole == NULL)
        return;
    snprintf(whole, line + 1, "{\"crc32\": \"%08x\",\n", ki_crc32(0, text, nbytes));
    memcpy(whole + line, text, nbytes);
    if (ki_manifest_parse("fuzz", whole, line + nbytes, &manifest) == KITH_OK) {
        MUST(manifest.step >= 0 && manifest.file_count <= KI_MANIFEST_FILES);
        for (size_t i = 0; i < manifest.file_count; i++)
            MUST(ki_manifest_find(&manifest, manifest.files[i].name) != NULL);
        ki_manifest_fini(&manifest);
    }
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] % 3 == 0)
        try_header(text, nbytes - 1);
    else if (data[0] % 3 == 1)
        try_index(text, nbytes - 1);
    else
        try_manifest(text, nbytes - 1);
    return 0;
}
