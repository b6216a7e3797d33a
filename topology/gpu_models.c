/* topology/gpu_models.c - what the name of a GPU tells: its NVLink, its PCIe, its memory and its peak.
 *
 * From vendors' data sheets: dense bf16 or f16 TFLOP/s without sparsity, memory of the smallest variant. Words are
 * matched as parts of a name, the first row that fits wins, so longer words stand first. A name that is not here says
 * nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"

#include "core/base/error.h"

#include <kith/topology.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* word, NVLink generation, links, bridge, SXM likely, PCIe, memory GB, TFLOP/s, compute capability */
static const ki_gpu_model models[] = {
    { "GB300", 5, 18, false, true, 6, 288, 2500, 103 },
    { "GB200", 5, 18, false, true, 6, 186, 2500, 100 },
    { "GB10", 0, 0, false, false, 5, 128, 125, 121 },
    { "GH200", 4, 18, false, true, 5, 96, 989, 90 },
    { "B300", 5, 18, false, true, 6, 288, 2250, 103 },
    { "B200", 5, 18, false, true, 5, 180, 2250, 100 },
    { "B100", 5, 18, false, true, 5, 192, 1750, 100 },
    { "H100 NVL", 4, 12, false, false, 5, 94, 835, 90 },
    { "H200 NVL", 4, 18, false, false, 5, 141, 835, 90 },
    { "H100 PCIe", 4, 12, false, false, 5, 80, 756, 90 },
    { "H200", 4, 18, false, true, 5, 141, 989, 90 },
    { "H100", 4, 18, false, true, 5, 80, 989, 90 },
    { "H800", 4, 8, false, true, 5, 80, 989, 90 },
    { "H20", 4, 18, false, true, 5, 96, 148, 90 },
    { "A100-PCI", 3, 12, false, false, 4, 40, 312, 80 },
    { "A100 80GB PCI", 3, 12, false, false, 4, 80, 312, 80 },
    { "A800 80GB PCI", 3, 8, false, false, 4, 80, 312, 80 },
    { "A100", 3, 12, false, true, 4, 40, 312, 80 },
    { "A800", 3, 8, false, true, 4, 80, 312, 80 },
    { "A30", 3, 4, false, false, 4, 24, 165, 80 },
    { "A40", 3, 4, true, false, 4, 48, 150, 86 },
    { "A6000", 3, 4, true, false, 4, 48, 155, 86 },
    { "A10G", 0, 0, false, false, 4, 24, 70, 86 },
    { "A10", 0, 0, false, false, 4, 24, 125, 86 },
    { "3090", 3, 4, true, false, 4, 24, 71, 86 },
    { "L40S", 0, 0, false, false, 4, 48, 362, 89 },
    { "L40", 0, 0, false, false, 4, 48, 181, 89 },
    { "L4", 0, 0, false, false, 4, 24, 121, 89 },
    { "4090", 0, 0, false, false, 4, 24, 165, 89 },
    { "V100", 2, 6, false, true, 3, 16, 125, 70 },
    { "RTX 8000", 2, 2, false, false, 3, 48, 130, 75 },
    { "T4", 0, 0, false, false, 3, 16, 65, 75 },
    { "P100", 1, 4, false, true, 3, 16, 21, 60 },
    { "MI300X", 0, 0, false, false, 5, 192, 1307, 0 },
    { "MI250X", 0, 0, false, false, 4, 64, 191, 0 },
};

/* Is word in name, ignoring case, beginning and (unless it is meant as a beginning: "PCI") ending at a word's edge? */
static bool has_word(const char *name, const char *word)
{
    size_t length = strlen(word);
    bool may_go_on = length > 3 && strcmp(word + length - 3, "PCI") == 0;
    for (const char *c = name; *c != '\0'; c++) {
        size_t i = 0;
        while (i < length && c[i] != '\0' && tolower((unsigned char)c[i]) == tolower((unsigned char)word[i]))
            i++;
        if (i == length && (may_go_on || !isalnum((unsigned char)c[i])) &&
            (c == name || !isalnum((unsigned char)c[-1])))
            return true;
    }
    return false;
}

/* Which model stands for a compute capability when there is no name. */
static const char *model_of_capability(int compute_capability)
{
    static const struct {
        int capability;
        const char *word;
    } usual[] = { { 60, "P100" }, { 70, "V100" }, { 75, "T4" },    { 80, "A100" },  { 86, "A40" },
                  { 89, "L40" },  { 90, "H100" }, { 100, "B200" }, { 103, "B300" }, { 121, "GB10" } };
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (usual[i].capability == compute_capability)
            return usual[i].word;
    return NULL;
}

static const ki_gpu_model *find_by_name(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof models / sizeof models[0]; i++)
        if (has_word(name, models[i].word))
            return &models[i];
    return NULL;
}

const ki_gpu_model *ki_gpu_model_find(const char *name, int compute_capability)
{
    const ki_gpu_model *model = find_by_name(name);
    return model != NULL ? model : find_by_name(model_of_capability(compute_capability));
}

kith_status kith_gpu_check(const char *name)
{
    if (name == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_gpu_check: name is NULL");
    return ki_gpu_model_check(name);
}

kith_status ki_gpu_model_check(const char *name)
{
    char words[512] = "";
    size_t used = 0;
    if (name == NULL || find_by_name(name) != NULL)
        return KITH_OK;
    for (size_t i = 0; i < sizeof models / sizeof models[0] && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > 0 ? ", " : "", models[i].word);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "GPU '%.40s' is not known; valid: a name with one of these in it: %s",
                         name, words);
}
