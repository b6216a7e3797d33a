/* topology/read_synthetic.c - a machine in words, for planning before there is one.
 *
 *     machine = [COUNT nodes of] COUNT gpu [join] [domain] { , clause }
 *     gpu     = GPUs | MODEL [GPUs]                             H100, H100 PCIe, A100, GB200, MI300X, ...
 *     join    = on NVSwitch | on PCIe | in pairs of bridges | in a cube mesh | in a mesh
 *     domain  = in one NVLink domain | in NVLink domains of COUNT nodes
 *     clause  = join | domain
 *             | COUNT NICs [of SPEED]                           of each node; SPEED: NDR, HDR, ..., 400 Gb/s
 *             | COUNT nodes a leaf | COUNT leaves a spine       switches; spines are joined by one core
 *             | rails                                           NIC i of the nodes of a leaf hangs on a leaf of its own
 *             | oversubscribed COUNT:1                          uplinks of leaves; else as many as downlinks
 *             | COUNT sockets | COUNT NUMA nodes                of each node; else two sockets with one each
 *
 *     512 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 16 nodes a leaf, 4 leaves a spine, rails
 *
 * Case and singular or plural do not matter; "with" and "and" stand for the comma. A word that does not fit is refused
 * with the words that are valid in its place. What the words leave open and the reader fills in is told in doubts, but
 * for what every such node has: two GPUs behind one PCI switch, or one where there is a NIC for each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "synthetic.h"

#include "core/base/number.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What descriptions call a GPU and what its driver does; longer words first. */
static const struct {
    const char *word, *name;
} gpus[] = {
    { "h100 pcie", "NVIDIA H100 PCIe" },
    { "h100 nvl", "NVIDIA H100 NVL" },
    { "h100", "NVIDIA H100 80GB HBM3" },
    { "h200 nvl", "NVIDIA H200 NVL" },
    { "h200", "NVIDIA H200" },
    { "h800", "NVIDIA H800" },
    { "h20", "NVIDIA H20" },
    { "gh200", "NVIDIA GH200 480GB" },
    { "b200", "NVIDIA B200" },
    { "b300", "NVIDIA B300" },
    { "gb200", "NVIDIA GB200" },
    { "gb300", "NVIDIA GB300" },
    { "a100 pcie", "NVIDIA A100-PCIE-40GB" },
    { "a100", "NVIDIA A100-SXM4-40GB" },
    { "a800 pcie", "NVIDIA A800 80GB PCIe" },
    { "a800", "NVIDIA A800-SXM4-80GB" },
    { "a30", "NVIDIA A30" },
    { "a40", "NVIDIA A40" },
    { "a6000", "NVIDIA RTX A6000" },
    { "a10g", "NVIDIA A10G" },
    { "a10", "NVIDIA A10" },
    { "l40s", "NVIDIA L40S" },
    { "l40", "NVIDIA L40" },
    { "l4", "NVIDIA L4" },
    { "v100", "Tesla V100-SXM2-16GB" },
    { "t4", "Tesla T4" },
    { "p100", "Tesla P100-SXM2-16GB" },
    { "3090", "NVIDIA GeForce RTX 3090" },
    { "4090", "NVIDIA GeForce RTX 4090" },
    { "mi300x", "AMD Instinct MI300X" },
    { "mi250x", "AMD Instinct MI250X" },
};
enum { GPU_COUNT = sizeof gpus / sizeof gpus[0] };
static const char gpu_words[] = "GPUs, H100, H100 PCIe, H100 NVL, H200, H200 NVL, H800, H20, GH200, B200, B300, GB200, "
                                "GB300, A100, A100 PCIe, A800, A800 PCIe, A30, A40, A6000, A10, A10G, L4, L40, L40S, "
                                "V100, P100, T4, 3090, 4090, MI300X, MI250X";
static const char clause_words[] =
    "on NVSwitch, on PCIe, in pairs of bridges, in a cube mesh, in a mesh, in one NVLink "
    "domain, COUNT NICs, COUNT nodes a leaf, COUNT leaves a spine, rails, oversubscribed "
    "COUNT:1, COUNT sockets, COUNT NUMA nodes";

typedef enum seen {
    SEEN_JOIN = 1 << 0,
    SEEN_DOMAIN = 1 << 1,
    SEEN_NICS = 1 << 2,
    SEEN_LEAVES = 1 << 3,
    SEEN_SPINES = 1 << 4,
    SEEN_RAILS = 1 << 5,
    SEEN_OVERSUBSCRIBED = 1 << 6,
    SEEN_SOCKETS = 1 << 7,
    SEEN_NUMAS = 1 << 8
} seen;

/* The words, what was said already, and what they mean. */
typedef struct parser {
    ki_words w;
    unsigned seen;
    ki_synthetic *s;
} parser;

static bool mark(parser *p, seen what)
{
    if ((p->seen & what) != 0) {
        p->w.at--; /* to the word that says it again */
        return ki_words_refuse(&p->w, "each thing once");
    }
    p->seen |= what;
    return true;
}

/* ---- parts of the grammar ---- */

static bool take_gpu_name(parser *p)
{
    while (ki_words_take(&p->w, "nvidia") || ki_words_take(&p->w, "tesla") || ki_words_take(&p->w, "rtx") ||
           ki_words_take(&p->w, "geforce") || ki_words_take(&p->w, "amd") || ki_words_take(&p->w, "instinct"))
        ;
    if (ki_words_take(&p->w, "gpu"))
        return true;
    for (int i = 0; i < GPU_COUNT; i++) {
        if (!ki_words_take(&p->w, gpus[i].word))
            continue;
        p->s->gpu_name = gpus[i].name;
        ki_words_take(&p->w, "sxm");
        ki_words_take(&p->w, "gpu");
        return true;
    }
    return ki_words_refuse(&p->w, gpu_words);
}

/* Takes "on NVSwitch" and its like; false when none is next. */
static bool take_join(parser *p)
{
    static const struct {
        const char *phrase;
        ki_shape shape;
    } joins[] = { { "on nvswitch", KI_SHAPE_NVSWITCH },
                  { "on nvswitche", KI_SHAPE_NVSWITCH },
                  { "on pcie", KI_SHAPE_PCIE },
                  { "on pci", KI_SHAPE_PCIE },
                  { "in pair of bridge", KI_SHAPE_PAIRS },
                  { "in bridged pair", KI_SHAPE_PAIRS },
                  { "in a cube mesh", KI_SHAPE_CUBE },
                  { "in a hybrid cube mesh", KI_SHAPE_CUBE },
                  { "in a mesh", KI_SHAPE_MESH },
                  { "in a full mesh", KI_SHAPE_MESH } };
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        if (ki_words_take(&p->w, joins[i].phrase)) {
            p->s->shape = joins[i].shape;
            mark(p, SEEN_JOIN);
            return true;
        }
    return false;
}

static bool take_domain(parser *p)
{
    if (ki_words_take(&p->w, "in one nvlink domain") || ki_words_take(&p->w, "in a nvlink domain") ||
        ki_words_take(&p->w, "in an nvlink domain")) {
        p->s->nodes_per_domain = KI_MAX_NODES;
        mark(p, SEEN_DOMAIN);
        return true;
    }
    if (!ki_words_take(&p->w, "in nvlink domain of"))
        return false;
    if (ki_words_take_count(&p->w, 1, KI_MAX_NODES, "nodes of an NVLink domain", &p->s->nodes_per_domain) &&
        !ki_words_take(&p->w, "node"))
        ki_words_refuse(&p->w, "nodes");
    mark(p, SEEN_DOMAIN);
    return true;
}

/* "of NDR", "of 400 Gb/s", "of 400Gb/s" */
static void take_speed(parser *p, const kith_topology *t)
{
    static const char *const rates[] = { "fdr", "edr", "hdr", "ndr", "xdr" };
    static const char valid[] = "FDR, EDR, HDR, NDR, XDR, a number of Gb/s";
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (ki_words_take(&p->w, rates[i])) {
            p->s->nic_gbps = ki_constant_gbps(t, rates[i]);
            p->s->nic_fabric = "infiniband";
            return;
        }
    const char *word = ki_words_next(&p->w);
    double gigabits = 0;
    const char *end = word + (isdigit((unsigned char)*word) ? ki_number_scan(word, &gigabits) : 0);
    if (gigabits <= 0) {
        ki_words_refuse(&p->w, valid);
        return;
    }
    if (!(gigabits >= 1 && gigabits <= 100000)) {
        ki_words_refuse_value(&p->w, "that speed of a NIC is out of range", "1 to 100000 Gb/s");
        return;
    }
    p->w.at++;
    const char *unit = *end != '\0' ? end : p->w.words[p->w.at++];
    if (strcmp(unit, "gb/s") != 0 && strcmp(unit, "gbps") != 0 && strcmp(unit, "gbit/s") != 0 &&
        strcmp(unit, "g") != 0) {
        p->w.at--;
        ki_words_refuse(&p->w, "Gb/s");
        return;
    }
    p->s->nic_gbps = gigabits / 8 * ki_constant_gbps(t, "net-efficiency");
}

static void take_counted(parser *p, const kith_topology *t)
{
    int at = p->w.at, count = 0;
    static const struct {
        const char *phrase;
        seen what;
        int least, most;
    } things[] = { { "nic", SEEN_NICS, 0, KI_MAX_NICS },         { "node a leaf", SEEN_LEAVES, 1, 65536 },
                   { "node per leaf", SEEN_LEAVES, 1, 65536 },   { "leave a spine", SEEN_SPINES, 1, 65536 },
                   { "leave per spine", SEEN_SPINES, 1, 65536 }, { "leaf a spine", SEEN_SPINES, 1, 65536 },
                   { "leaf per spine", SEEN_SPINES, 1, 65536 },  { "socket", SEEN_SOCKETS, 1, 16 },
                   { "numa node", SEEN_NUMAS, 1, 128 } };
    p->w.at++;
    size_t i = 0;
    while (i < sizeof things / sizeof things[0] && !ki_words_take(&p->w, things[i].phrase))
        i++;
    if (i == sizeof things / sizeof things[0]) {
        ki_words_refuse(&p->w, "NICs, nodes a leaf, leaves a spine, sockets, NUMA nodes");
        return;
    }
    int behind = p->w.at;
    if (!mark(p, things[i].what))
        return;
    p->w.at = at;
    if (!ki_words_take_count(&p->w, things[i].least, things[i].most, things[i].phrase, &count))
        return;
    p->w.at = behind;
    if (things[i].what == SEEN_NICS) {
        p->s->nic_count = count;
        if (ki_words_take(&p->w, "of") || ki_words_take(&p->w, "at"))
            take_speed(p, t);
    }
    *(things[i].what == SEEN_LEAVES    ? &p->s->nodes_per_leaf
      : things[i].what == SEEN_SPINES  ? &p->s->leaves_per_spine
      : things[i].what == SEEN_SOCKETS ? &p->s->socket_count
      : things[i].what == SEEN_NUMAS   ? &p->s->numa_count
                                       : &count) = count;
}

static void take_oversubscribed(parser *p)
{
    const char *word = ki_words_next(&p->w);
    size_t digits = strspn(word, "0123456789");
    if (digits == 0 || digits > 3 || strcmp(word + digits, ":1") != 0 || word[0] == '0') {
        ki_words_refuse(&p->w, "COUNT:1");
        return;
    }
    p->s->oversubscription = (int)strtol(word, NULL, 10);
    p->w.at++;
}

static void take_clause(parser *p, const kith_topology *t)
{
    if (ki_words_is_count(ki_words_next(&p->w))) {
        take_counted(p, t);
    } else if (ki_words_take(&p->w, "rail") || ki_words_take(&p->w, "rail-optimised") ||
               ki_words_take(&p->w, "rail-optimized")) {
        p->s->has_rails = true;
        mark(p, SEEN_RAILS);
    } else if (ki_words_take(&p->w, "oversubscribed")) {
        if (mark(p, SEEN_OVERSUBSCRIBED))
            take_oversubscribed(p);
    } else if (!take_join(p) && !take_domain(p)) {
        ki_words_refuse(&p->w, clause_words);
    }
}

static void take_machine(parser *p, const kith_topology *t)
{
    p->s->node_count = 1;
    if (p->w.at + 1 < p->w.count && (ki_words_is_next(&p->w, 1, "node") || ki_words_is_next(&p->w, 1, "nodes"))) {
        if (!ki_words_take_count(&p->w, 1, KI_MAX_NODES, "nodes", &p->s->node_count))
            return;
        p->w.at++;
        if (!ki_words_take(&p->w, "of")) {
            ki_words_refuse(&p->w, "of");
            return;
        }
    }
    if (!ki_words_take_count(&p->w, 1, KI_MAX_GPUS, "GPUs", &p->s->gpu_count) || !take_gpu_name(p))
        return;
    while (p->w.status == KITH_OK && p->w.at < p->w.count) {
        bool is_new = ki_words_take(&p->w, ",") || ki_words_take(&p->w, "with") || ki_words_take(&p->w, "and");
        while (is_new && (ki_words_take(&p->w, "with") || ki_words_take(&p->w, "and")))
            ;
        if (!is_new && (ki_words_is_count(ki_words_next(&p->w)) ||
                        (!ki_words_is_next(&p->w, 0, "on") && !ki_words_is_next(&p->w, 0, "in")))) {
            ki_words_refuse(
                &p->w,
                "a comma, or how the GPUs are joined (on NVSwitch, on PCIe, in pairs of bridges, in a cube mesh, "
                "in a mesh, in one NVLink domain)");
            return;
        }
        take_clause(p, t);
    }
}

static bool is_made_sense_of(parser *p, kith_topology *t)
{
    take_machine(p, t);
    return p->w.status == KITH_OK && ki_synthetic_complete(&p->w, t, p->s);
}

static kith_status read_synthetic(const ki_source *source, kith_topology *t)
{
    ki_synthetic s = { 0 };
    parser p = { .w = { .file = source->name }, .s = &s };
    if (!ki_words_cut(&p.w, source))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: a description of a machine has letters, digits and commas, at most %d words",
                             source->name, KI_WORDS_MOST);
    if (!is_made_sense_of(&p, t))
        return p.w.status;
    size_t length = source->nbytes;
    while (length > 0 && isspace((unsigned char)source->text[length - 1]))
        length--;
    s.text = ki_topology_dup_n(t, source->text, length);
    if (t->part_count > 0)
        t->parts[t->part_count - 1].has_made_up_nodes = true;
    int kind = ki_synthetic_add_kind(t, &s);
    return t->status == KITH_OK ? ki_synthetic_add_nodes(t, &s, kind) : t->status;
}

/* One short line that begins with a number and "nodes of", or a number and a GPU. */
static int probe(const ki_source *source)
{
    ki_synthetic s = { 0 };
    parser p = { .w = { .file = "", .status = KITH_ERR_INTERNAL }, .s = &s }; /* so that no refusal is recorded */
    size_t nbytes = source->nbytes;
    while (nbytes > 0 && isspace((unsigned char)source->text[nbytes - 1]))
        nbytes--;
    ki_source line = { source->name, source->text, nbytes };
    if (nbytes == 0 || nbytes >= KI_WORDS_TEXT || memchr(source->text, '\n', nbytes) != NULL ||
        !ki_words_cut(&p.w, &line) || !ki_words_is_count(p.w.words[0]) || p.w.count < 2)
        return 0;
    p.w.at = 1;
    if (ki_words_take(&p.w, "node"))
        return 90;
    return take_gpu_name(&p) ? 80 : 0;
}

const ki_reader ki_reader_synthetic = { "synthetic", probe, read_synthetic };
