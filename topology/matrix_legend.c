/* topology/matrix_legend.c - what stands around the matrix and tells more about it.
 *
 * The legend below it: drivers of 2017 write SOC for SYS; `topo -mp` leaves out the line "NV#", as it leaves out
 * NVLink. The "NIC Legend" names the device of each NICn. Lists of `nvidia-smi -L` in the same text ("GPU 0: NVIDIA
 * H100 80GB HBM3 (UUID: GPU-...)", and below a GPU its MIG instances) name the GPUs. Where nvidia-smi failed, its
 * message stands instead of a matrix.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 128 };

/* ---- the legend ---- */

/* "SYS  = Connection ...": the word before the equals sign. */
static bool explains(const char *line, const char *word)
{
    size_t length = strlen(word);
    line = ki_skip_blanks(line);
    return strncmp(line, word, length) == 0 && *ki_skip_blanks(line + length) == '=';
}

static ki_matrix_command command_in(const char *line)
{
    ki_matrix_command command = KI_MATRIX_NO_COMMAND;
    for (const char *at = strstr(line, "topo -m"); at != NULL; at = strstr(at + 1, "topo -m")) {
        char behind = at[7] == 'p' ? at[8] : at[7];
        if (behind == '\0' || strchr(" \t\"'`;|>&)", behind) != NULL)
            command = at[7] == 'p' ? KI_MATRIX_TOPO_MP : KI_MATRIX_TOPO_M;
    }
    return command;
}

ki_matrix_legend ki_matrix_read_legend(const ki_matrix *m)
{
    ki_matrix_legend legend = { .is_there = false };
    for (int i = 0; i < m->header; i++) {
        ki_matrix_command command = command_in(m->text.lines[i].chars);
        if (command != KI_MATRIX_NO_COMMAND)
            legend.command = command;
    }
    for (int i = m->end; i < m->text.line_count; i++) {
        const char *line = m->text.lines[i].chars;
        legend.is_there = legend.is_there || explains(line, "X") || explains(line, "PIX");
        legend.has_nvlink = legend.has_nvlink || explains(line, "NV#");
        legend.is_of_2017 = legend.is_of_2017 || explains(line, "SOC");
    }
    return legend;
}

/* ---- the NIC legend ---- */

/* A name of an RDMA device as the kernel gives them: one word of small letters with a number. */
static bool is_device_name(const char *name, size_t length)
{
    bool has_digit = false;
    if (length < 3 || length > 64 || !islower((unsigned char)*name))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!islower((unsigned char)name[i]) && !ki_is_digit(name[i]) && strchr("_-.", name[i]) == NULL)
            return false;
        has_digit = has_digit || ki_is_digit(name[i]);
    }
    return has_digit;
}

/* "NIC3: mlx5_5": the number, and what is written behind the colon. */
static bool read_nic_line(const char *line, long *number, ki_slice *value)
{
    line = ki_skip_blanks(line);
    if (strncmp(line, "NIC", 3) != 0 || !ki_is_digit(line[3]))
        return false;
    char *end;
    *number = strtol(line + 3, &end, 10);
    if (*end != ':')
        return false;
    value->at = ki_skip_blanks(end + 1);
    value->length = strlen(value->at);
    while (value->length > 0 && ki_is_blank(value->at[value->length - 1]))
        value->length--;
    return true;
}

static int nic_of_number(const ki_matrix *m, long number)
{
    for (int i = m->gpu_count; i < m->device_count; i++)
        if (m->devices[i].number >= 0 && m->devices[i].number == number)
            return i - m->gpu_count;
    return -1;
}

/* Two NICs cannot be one device: then both lines are doubtful. */
static void drop_twins(ki_kind *kind, int nic)
{
    kith_nic *nics = (kith_nic *)(uintptr_t)kind->view.nics;
    bool is_twin = false;
    for (int i = 0; i < kind->view.nic_count && nics[nic].device != NULL; i++) {
        if (i == nic || nics[i].device == NULL || strcmp(nics[i].device, nics[nic].device) != 0)
            continue;
        nics[i].device = NULL;
        is_twin = true;
    }
    if (is_twin)
        nics[nic].device = NULL;
}

void ki_matrix_read_nic_legend(const ki_matrix *m, ki_kind *kind)
{
    kith_nic *nics = (kith_nic *)(uintptr_t)kind->view.nics;
    int first_bad = 0, without = 0;
    for (int i = m->end; i < m->text.line_count; i++) {
        long number;
        ki_slice value;
        if (!read_nic_line(m->text.lines[i].chars, &number, &value))
            continue;
        int nic = nic_of_number(m, number);
        if (nic >= 0 && is_device_name(value.at, value.length)) {
            nics[nic].device = ki_topology_dup_n(m->t, value.at, value.length);
            drop_twins(kind, nic);
        } else if (first_bad == 0)
            first_bad = m->text.lines[i].number;
    }
    for (int i = 0; i < kind->view.nic_count; i++)
        without += nics[i].device == NULL;
    if (without > 0)
        ki_topology_doubt(m->t, ki_kind_index(m->t, kind), -1, m->source->name, first_bad, "nic-legend",
                          "the device names of %d of %d NICs are unknown: the NIC Legend is %s", without,
                          kind->view.nic_count, first_bad > 0 ? "damaged" : "missing or not complete");
}

/* ---- names of GPUs ---- */

/* "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)": the number, and what is behind the colon. NULL: no such line. */
static const char *read_gpu_line(const char *line, int *number)
{
    line = ki_skip_blanks(line);
    if (strncmp(line, "GPU ", 4) != 0 || !ki_is_digit(line[4]))
        return NULL;
    char *end;
    long value = strtol(line + 4, &end, 10);
    if (end[0] != ':' || end[1] != ' ' || value > 9999 || end - line > 10)
        return NULL;
    *number = (int)value;
    return ki_skip_blanks(end + 1);
}

static kith_gpu *gpu_of_number(ki_kind *kind, int number)
{
    for (int i = 0; i < kind->view.gpu_count; i++)
        if (kind->view.gpus[i].index == number)
            return (kith_gpu *)(uintptr_t)&kind->view.gpus[i];
    return NULL;
}

/* False when the GPU has another name already. */
static bool set_name(const ki_matrix *m, kith_gpu *gpu, const char *text)
{
    const char *uuid = strstr(text, "(UUID: ");
    size_t length = uuid != NULL ? (size_t)(uuid - text) : strlen(text);
    while (length > 0 && ki_is_blank(text[length - 1]))
        length--;
    if (length == 0 || length > MOST_NAME)
        return true;
    if (gpu->name != NULL && (strlen(gpu->name) != length || memcmp(gpu->name, text, length) != 0))
        return false;
    gpu->name = ki_topology_dup_n(m->t, text, length);
    size_t uuid_length = uuid != NULL ? strcspn(uuid + 7, ")") : 0;
    if (uuid_length > 0 && uuid_length <= MOST_NAME && uuid[7 + uuid_length] == ')')
        gpu->uuid = ki_topology_dup_n(m->t, uuid + 7, uuid_length);
    return true;
}

/* "  MIG 1g.18gb     Device  0: ..." below the line of its GPU. */
static bool is_mig_line(const char *line)
{
    line = ki_skip_blanks(line);
    return strncmp(line, "MIG ", 4) == 0 && ki_is_digit(line[4]) && strstr(line, "Device") != NULL;
}

void ki_matrix_read_names(const ki_matrix *m, ki_kind *kind)
{
    kith_gpu *gpu = NULL;
    int conflict = 0, number = -1;
    for (int i = 0; i < m->text.line_count; i++) {
        const char *line = m->text.lines[i].chars, *name = read_gpu_line(line, &number);
        if (name != NULL) {
            gpu = gpu_of_number(kind, number);
            if (gpu != NULL && !set_name(m, gpu, name) && conflict == 0)
                conflict = m->text.lines[i].number;
        } else if (is_mig_line(line)) {
            if (gpu != NULL)
                gpu->is_mig = true;
        } else if (*ki_skip_blanks(line) != '\0')
            gpu = NULL;
    }
    if (conflict == 0)
        return;
    for (int i = 0; i < kind->view.gpu_count; i++) {
        kith_gpu *each = (kith_gpu *)(uintptr_t)&kind->view.gpus[i];
        each->name = each->uuid = NULL;
    }
    ki_topology_doubt(m->t, ki_kind_index(m->t, kind), -1, m->source->name, conflict, "gpu-names",
                      "the text lists GPUs twice, with different names; none of them is used");
}

/* ---- messages ---- */

const char *ki_matrix_find_error(const char *line)
{
    static const char *const words[] = {
        "NVIDIA-SMI has failed",
        "couldn't communicate with the NVIDIA driver",
        "No devices were found",
        "Failed to initialize NVML",
        "Unable to determine the device handle",
        "command line argument must be used in conjunction",
        "nvidia-smi: command not found",
        "nvidia-smi: not found",
        "NVIDIA-SMI couldn't find libnvidia-ml",
        "Insufficient Permissions",
        "GPU is lost",
        "Option -m is not recognized",
        "Invalid combination of input arguments",
        "Failed to retrieve the topology",
        "Failed to get topology",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(line, words[i]) != NULL)
            return ki_skip_blanks(line);
    return NULL;
}
