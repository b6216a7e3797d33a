/* topology/synthetic_check.c - does a description make sense, and what does it leave open?
 *
 * What is left open is filled in as such machines usually are: how the GPUs are joined (with a doubt), sockets, NUMA
 * nodes. What no such machine can be is refused with what it could be.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "synthetic.h"

#include <string.h>

/* ---- what is left open ---- */

static ki_shape usual_shape(const ki_synthetic *s)
{
    if (s->is_amd)
        return s->gpu_count >= 2 && strcmp(s->model->word, "MI300X") == 0 ? KI_SHAPE_MESH : KI_SHAPE_PCIE;
    if (!s->model->is_sxm_likely || s->gpu_count == 1)
        return KI_SHAPE_PCIE;
    if (s->model->nvlink_generation <= 2 && s->gpu_count == 8)
        return KI_SHAPE_CUBE;
    return s->gpu_count <= 4 && s->model->nvlink_generation < 5 ? KI_SHAPE_MESH : KI_SHAPE_NVSWITCH;
}

static void fill_in(ki_words *p, kith_topology *t, ki_synthetic *s)
{
    static const char *const names[] = { "?", "NVSwitch", "PCIe alone", "pairs of bridges", "a cube mesh", "a mesh" };
    if (s->gpu_name == NULL)
        s->gpu_name = ki_topology_dup(t, t->options.gpu);
    s->model = ki_gpu_model_find(s->gpu_name, 0);
    s->is_amd = s->model != NULL && strncmp(s->model->word, "MI", 2) == 0;
    s->is_grace = s->model != NULL && (strcmp(s->model->word, "GH200") == 0 || strcmp(s->model->word, "GB200") == 0 ||
                                       strcmp(s->model->word, "GB300") == 0);
    if (s->shape != KI_SHAPE_UNSAID)
        return;
    if (s->nodes_per_domain > 0) {
        s->shape = KI_SHAPE_NVSWITCH;
    } else if (s->model == NULL) {
        ki_words_refuse_value(p, "how the GPUs are joined is not said", "on NVSwitch, on PCIe, or a model of GPU");
    } else {
        s->shape = usual_shape(s);
        if (s->gpu_count > 1)
            ki_topology_doubt(t, -1, -1, p->file, 1, "join-assumed",
                              "the description does not say how the GPUs are joined; %s is assumed", names[s->shape]);
    }
}

/* ---- does it make sense ---- */

static bool check_join(ki_words *p, const ki_synthetic *s)
{
    bool is_bridged = s->model != NULL && s->model->nvlink_count > 0 && !s->model->is_sxm_likely;
    bool has_nvlink = s->model == NULL || s->model->nvlink_count > 0;
    switch (s->shape) {
    case KI_SHAPE_NVSWITCH:
        return (has_nvlink && !is_bridged && (s->model == NULL || s->model->nvlink_generation >= 2)) ||
               ki_words_refuse_value(p, "these GPUs cannot be on NVSwitch",
                                     "V100, A100, A800, H100, H200, H800, H20, GH200, "
                                     "B200, B300, GB200, GB300");
    case KI_SHAPE_PAIRS:
        return (is_bridged && s->gpu_count % 2 == 0) ||
               ki_words_refuse_value(
                   p, "these GPUs cannot be in pairs of bridges",
                   "an even number of A100 PCIe, A800 PCIe, H100 PCIe, H100 NVL, H200 NVL, A30, A40, A6000, 3090");
    case KI_SHAPE_CUBE:
        return (s->gpu_count == 8 && (s->model == NULL || (s->model->nvlink_generation >= 1 &&
                                                           s->model->nvlink_generation <= 2 && has_nvlink))) ||
               ki_words_refuse_value(p, "these GPUs cannot be in a cube mesh", "8 V100, 8 P100");
    case KI_SHAPE_MESH:
        if (s->is_amd)
            return (strcmp(s->model->word, "MI300X") == 0 && s->gpu_count >= 2 && s->gpu_count <= 8) ||
                   ki_words_refuse_value(p, "these GPUs cannot be in a mesh", "2 to 8 MI300X");
        return (s->model != NULL && !is_bridged && s->gpu_count >= 2 && s->gpu_count <= s->model->nvlink_count + 1) ||
               ki_words_refuse_value(
                   p, "these GPUs cannot be in a mesh",
                   "2 or more V100, P100, A100, A800, H100, H200, H800, H20, GH200, B200, at most one more than "
                   "each has NVLinks");
    default:
        return true;
    }
}

static bool check_rest(ki_words *p, ki_synthetic *s)
{
    int cores = s->is_grace ? 72 : 48;
    if (s->socket_count == 0)
        s->socket_count = s->is_grace && s->model->nvlink_generation == 4 ? (s->gpu_count < 16 ? s->gpu_count : 16)
                          : s->gpu_count == 1                             ? 1
                                                                          : 2;
    if (s->numa_count == 0)
        s->numa_count = s->socket_count;
    if (s->numa_count % s->socket_count != 0 || cores % (s->numa_count / s->socket_count) != 0)
        return ki_words_refuse_value(p, "the NUMA nodes cannot be shared out evenly over the sockets",
                                     "1, 2, 3, 4, 6 or 8 for each socket");
    if (s->leaves_per_spine > 0 && s->nodes_per_leaf == 0)
        return ki_words_refuse_value(p, "there are spines without leaves", "COUNT nodes a leaf, COUNT leaves a spine");
    if (s->has_rails && (s->nodes_per_leaf == 0 || s->nic_count == 0))
        return ki_words_refuse_value(p, "rails need leaves and NICs", "COUNT NICs, COUNT nodes a leaf, rails");
    if (s->oversubscription > 0 && (s->nodes_per_leaf == 0 || s->nic_count == 0))
        return ki_words_refuse_value(p, "an oversubscribed network needs leaves and NICs",
                                     "COUNT NICs, COUNT nodes a leaf");
    if (s->nodes_per_domain > 0 &&
        (s->shape != KI_SHAPE_NVSWITCH || (s->model != NULL && s->model->nvlink_generation < 4)))
        return ki_words_refuse_value(p, "these GPUs cannot be in an NVLink domain of several nodes",
                                     "H100, H200, GH200, B200, B300, GB200, GB300 on NVSwitch");
    return true;
}

bool ki_synthetic_complete(ki_words *p, kith_topology *t, ki_synthetic *s)
{
    fill_in(p, t, s);
    return p->status == KITH_OK && check_join(p, s) && check_rest(p, s);
}
