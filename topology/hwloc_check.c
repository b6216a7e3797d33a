/* topology/hwloc_check.c - see hwloc_check.h.
 *
 * hwloc trusts the files that it imports: an object without one of its sets, a core outside of its package or cores out
 * of order end in a crash or with a message on the terminal. So what hwloc relies on is checked first, and damage is
 * told with its line:
 *
 * - normal objects and memory have cpuset, complete_cpuset, nodeset and complete_nodeset, I/O objects have none;
 * - an object's CPUs are part of its parent's; siblings have none in common and stand in the order of their first CPU;
 * - a PU has one CPU, a NUMA node one node; their numbers are numbers;
 * - below PCI bridges and devices there is only I/O;
 * - addresses and classes of PCI are in hwloc's form;
 * - there is no text between elements.
 *
 * Files of hwloc 1.x have NUMA nodes among the normal objects, and may lack nodesets altogether.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hwloc_check.h"

#include "document.h"
#include "hardware.h"
#include "sets.h"
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_NBYTES = 256, SET_COUNT = 4 };

typedef enum sort { SORT_NORMAL, SORT_MEMORY, SORT_IO, SORT_MISC, SORT_BAD } sort;

static const char *const set_names[SET_COUNT] = { "cpuset", "complete_cpuset", "nodeset", "complete_nodeset" };
enum { CPUS, COMPLETE_CPUS, NODES, COMPLETE_NODES };

typedef struct checker {
    const ki_source *source;
    kith_status status; /* first refusal */
    bool is_old;        /* hwloc 1.x */
    bool has_nodesets;
    int numa_count;
} checker;

/* The sets of an object; NULL where it has none. */
typedef struct sets {
    hwloc_bitmap_t of[SET_COUNT];
} sets;

static void refuse(checker *c, const ki_xml *element, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void refuse(checker *c, const ki_xml *element, const char *format, ...)
{
    char why[REASON_NBYTES];
    if (c->status != KITH_OK)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    c->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", c->source->name, element->line, why);
}

static const char *type_of(const ki_xml *object)
{
    const char *type = ki_xml_get(object, "type");
    return type != NULL ? type : "";
}

static sort sort_of(const checker *c, const ki_xml *object)
{
    static const char *const normal[] = { "Machine", "System",  "Package",  "Socket",   "Die",     "Core",
                                          "PU",      "Group",   "Cache",    "L1Cache",  "L2Cache", "L3Cache",
                                          "L4Cache", "L5Cache", "L1iCache", "L2iCache", "L3iCache" };
    const char *type = type_of(object);
    if (strcmp(type, "NUMANode") == 0)
        return c->is_old ? SORT_NORMAL : SORT_MEMORY;
    if (strcmp(type, "MemCache") == 0)
        return SORT_MEMORY;
    if (strcmp(type, "Bridge") == 0 || strcmp(type, "PCIDev") == 0 || strcmp(type, "OSDev") == 0)
        return SORT_IO;
    if (strcmp(type, "Misc") == 0)
        return SORT_MISC;
    for (size_t i = 0; i < sizeof normal / sizeof normal[0]; i++)
        if (strcmp(type, normal[i]) == 0)
            return SORT_NORMAL;
    return SORT_BAD;
}

/* ---- sets ---- */

/* "0x0000ffff,0xffffffff", also with empty words "0x1,,0x0". */
static bool is_set(const char *text)
{
    if (strncmp(text, "0x", 2) != 0)
        return false;
    for (const char *word = text;; word++) {
        size_t digits = strncmp(word, "0x", 2) == 0 ? strspn(word + 2, "0123456789abcdefABCDEF") : 0;
        if (digits == 0 && *word != ',' && *word != '\0')
            return false;
        word += digits > 0 ? digits + 2 : 0;
        if (digits > 8 || (*word != ',' && *word != '\0'))
            return false;
        if (*word == '\0')
            return strlen(text) < KI_CPU_LIMIT / 32 * 11;
    }
}

static hwloc_bitmap_t read_set(checker *c, const ki_xml *object, int which)
{
    const char *text = ki_xml_get(object, set_names[which]);
    hwloc_bitmap_t set = NULL;
    if (text == NULL) {
        if (which < NODES || c->has_nodesets)
            refuse(c, object, "a %s without %s", type_of(object), set_names[which]);
        return NULL;
    }
    if (!is_set(text)) {
        refuse(c, object, "%s is '%.40s'; valid: like 0x0000ffff,0xffffffff", set_names[which], text);
        return NULL;
    }
    set = hwloc_bitmap_alloc();
    if (set == NULL || hwloc_bitmap_sscanf(set, text) != 0)
        refuse(c, object, "%s '%.40s' cannot be read", set_names[which], text);
    return set;
}

static void free_sets(sets *s)
{
    for (int i = 0; i < SET_COUNT; i++)
        hwloc_bitmap_free(s->of[i]);
}

static void read_sets(checker *c, const ki_xml *object, sets *s)
{
    for (int i = 0; i < SET_COUNT; i++)
        s->of[i] = read_set(c, object, i);
    if (c->status != KITH_OK)
        return;
    if (!hwloc_bitmap_isincluded(s->of[CPUS], s->of[COMPLETE_CPUS]) ||
        (s->of[NODES] != NULL && s->of[COMPLETE_NODES] != NULL &&
         !hwloc_bitmap_isincluded(s->of[NODES], s->of[COMPLETE_NODES])))
        refuse(c, object, "the sets of a %s are not part of its complete sets", type_of(object));
}

static void check_inside(checker *c, const ki_xml *object, const sets *own, const sets *parent)
{
    for (int i = 0; i < SET_COUNT && parent != NULL; i++)
        if (own->of[i] != NULL && parent->of[i] != NULL && !hwloc_bitmap_isincluded(own->of[i], parent->of[i]))
            refuse(c, object, "%s of a %s is not part of its parent's", set_names[i], type_of(object));
}

/* ---- one object ---- */

static int number_of(checker *c, const ki_xml *object, const char *name, bool is_needed)
{
    const char *text = ki_xml_get(object, name);
    int number = ki_text_number(text, 10);
    if (number < 0 && (text != NULL || is_needed))
        refuse(c, object, "%s of a %s is '%.40s'; valid: a number", name, type_of(object), text != NULL ? text : "");
    return number;
}

/* hwloc takes any digits, and "-5" for nearly 2^64; our own JSON holds whole numbers below 2^53. */
static void check_nbytes(checker *c, const ki_xml *object, const char *name)
{
    const char *text = ki_xml_get(object, name);
    if (text == NULL)
        return;
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 16 || text[length] != '\0' || strtoull(text, NULL, 10) >= 1ull << 53)
        refuse(c, object, "%s of a %s is '%.40s'; valid: a number below 2^53", name, type_of(object), text);
}

static void check_numbers(checker *c, const ki_xml *object, const sets *s)
{
    static const char *const names[] = { "gp_index", "depth", "cache_linesize", "osdev_type" };
    bool is_pu = strcmp(type_of(object), "PU") == 0, is_numa = strcmp(type_of(object), "NUMANode") == 0;
    const char *os_index = ki_xml_get(object, "os_index");
    c->numa_count += is_numa;
    bool may_be_unknown = !is_pu && !is_numa && os_index != NULL && strcmp(os_index, "4294967295") == 0;
    int number = may_be_unknown ? 0 : number_of(c, object, "os_index", is_pu || is_numa);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        number_of(c, object, names[i], false);
    check_nbytes(c, object, "cache_size");
    check_nbytes(c, object, "local_memory");
    if (c->status != KITH_OK)
        return;
    if (is_pu &&
        !(hwloc_bitmap_weight(s->of[COMPLETE_CPUS]) == 1 && hwloc_bitmap_isset(s->of[COMPLETE_CPUS], (unsigned)number)))
        refuse(c, object, "PU %d has other CPUs", number);
    if (is_numa && s->of[COMPLETE_NODES] != NULL &&
        !(hwloc_bitmap_weight(s->of[COMPLETE_NODES]) == 1 &&
          hwloc_bitmap_isset(s->of[COMPLETE_NODES], (unsigned)number)))
        refuse(c, object, "NUMA node %d has other nodes", number);
}

static void check_pci(checker *c, const ki_xml *object)
{
    unsigned n[8];
    int end = 0;
    kith_pci_address address;
    const char *bus = ki_xml_get(object, "pci_busid"), *type = ki_xml_get(object, "pci_type");
    bool is_device = strcmp(type_of(object), "PCIDev") == 0;
    if ((bus != NULL || is_device) && ki_pci_parse(bus, &address) != KI_PCI_GOOD)
        refuse(c, object, "pci_busid is '%.40s'; valid: like 0000:1b:00.0", bus != NULL ? bus : "");
    if ((type != NULL || is_device) &&
        (type == NULL ||
         sscanf(type, "%4x [%4x:%4x] [%4x:%4x] %2x%n", n, n + 1, n + 2, n + 3, n + 4, n + 5, &end) != 6 ||
         type[end] != '\0'))
        refuse(c, object, "pci_type is '%.40s'; valid: like 0302 [10de:20b0] [10de:134f] a1", type != NULL ? type : "");
    if (strcmp(type_of(object), "Bridge") != 0)
        return;
    const char *bridge = ki_xml_get(object, "bridge_type"), *buses = ki_xml_get(object, "bridge_pci");
    if (bridge == NULL || sscanf(bridge, "%1u-%1u%n", n, n + 1, &end) != 2 || bridge[end] != '\0' || n[0] > 1 ||
        n[1] != 1)
        refuse(c, object, "bridge_type is '%.40s'; valid: 0-1 and 1-1", bridge != NULL ? bridge : "");
    else if (n[0] == 1 && (bus == NULL || type == NULL))
        refuse(c, object, "a PCI bridge without address or type");
    if (buses == NULL || sscanf(buses, "%8x:[%2x-%2x]%n", n, n + 1, n + 2, &end) != 3 || buses[end] != '\0')
        refuse(c, object, "bridge_pci is '%.40s'; valid: like 0000:[01-05]", buses != NULL ? buses : "");
}

/* ---- the tree ---- */

static void check_place(checker *c, const ki_xml *object, sort own, sort parent)
{
    bool is_right = own == SORT_MISC || (own == SORT_NORMAL && parent == SORT_NORMAL) ||
                    (own == SORT_MEMORY && (parent == SORT_NORMAL || parent == SORT_MEMORY)) ||
                    (own == SORT_IO && (parent == SORT_NORMAL || parent == SORT_IO));
    if (own == SORT_BAD)
        refuse(c, object, "an object of type '%.40s'", type_of(object));
    else if (!is_right)
        refuse(c, object, "a %s does not stand here", type_of(object));
    else if (own == SORT_IO && (ki_xml_get(object, "cpuset") != NULL || ki_xml_get(object, "nodeset") != NULL))
        refuse(c, object, "a %s with a set of CPUs", type_of(object));
}

/* Siblings that are normal objects: no CPU twice, in order. Those without CPUs (NUMA nodes of 1.x) stand anywhere. */
static void check_order(checker *c, const ki_xml *object, const sets *own, hwloc_bitmap_t before, int *first)
{
    int own_first = hwloc_bitmap_first(own->of[COMPLETE_CPUS]);
    if (own_first < 0)
        return;
    if (hwloc_bitmap_intersects(before, own->of[COMPLETE_CPUS]))
        refuse(c, object, "a %s has CPUs of its neighbour", type_of(object));
    if (own_first < *first)
        refuse(c, object, "a %s out of order", type_of(object));
    *first = own_first;
    hwloc_bitmap_or(before, before, own->of[COMPLETE_CPUS]);
}

static void check_children(checker *c, const ki_xml *parent, sort parent_sort, const sets *parent_sets);

static void check_object(checker *c, const ki_xml *object, sort parent_sort, const sets *parent_sets,
                         hwloc_bitmap_t before, int *first)
{
    sort own = sort_of(c, object);
    sets s = { { NULL } };
    check_place(c, object, own, parent_sort);
    if (c->status == KITH_OK && (own == SORT_NORMAL || own == SORT_MEMORY))
        read_sets(c, object, &s);
    if (c->status == KITH_OK)
        check_numbers(c, object, &s);
    if (c->status == KITH_OK && own == SORT_IO)
        check_pci(c, object);
    if (c->status == KITH_OK && (own == SORT_NORMAL || own == SORT_MEMORY))
        check_inside(c, object, &s, parent_sets);
    if (c->status == KITH_OK && own == SORT_NORMAL)
        check_order(c, object, &s, before, first);
    if (c->status == KITH_OK)
        check_children(c, object, own, own == SORT_NORMAL || own == SORT_MEMORY ? &s : NULL);
    free_sets(&s);
}

/* Depth is bounded by the parser (libxml2 refuses more than 256), so this may recurse. */
static void check_children(checker *c, const ki_xml *parent, sort parent_sort, const sets *parent_sets)
{
    int first = -1;
    hwloc_bitmap_t before = hwloc_bitmap_alloc();
    if (before == NULL)
        refuse(c, parent, "no memory for sets");
    for (const ki_xml *child = parent->first; child != NULL && c->status == KITH_OK; child = child->next)
        if (strcmp(child->name, "object") == 0)
            check_object(c, child, parent_sort, parent_sets, before, &first);
    hwloc_bitmap_free(before);
}

/* Sizes that hwloc multiplies; and text between elements, behind which hwloc drops the rest. */
static void check_element(checker *c, const ki_xml *element)
{
    static const char *const with_text[] = {
        "indexes", "u64values", "userdata", "latency", "cpukind", "memattr_value"
    };
    bool may_have_text = false;
    for (size_t i = 0; i < sizeof with_text / sizeof with_text[0]; i++)
        may_have_text = may_have_text || strcmp(element->name, with_text[i]) == 0;
    if (element->has_text && !may_have_text)
        refuse(c, element, "text inside of <%.40s>", element->name);
    const char *count = ki_xml_get(element, "nbobjs");
    if (count != NULL && (ki_text_number(count, 10) < 1 || ki_text_number(count, 10) > KI_MAX_PARTS))
        refuse(c, element, "nbobjs is '%.20s'; valid: 1 to %d", count, KI_MAX_PARTS);
}

static void check_elements(checker *c, const ki_xml *element)
{
    for (; element != NULL && c->status == KITH_OK; element = element->next) {
        check_element(c, element);
        check_elements(c, element->first);
    }
}

static void check_version(checker *c, const ki_xml *root)
{
    const char *version = ki_xml_get(root, "version");
    if (strcmp(root->name, "topology") != 0 && strcmp(root->name, "root") != 0)
        refuse(c, root, "hwloc XML begins with <topology>, not <%.40s>", root->name);
    else if (version != NULL && strtoul(version, NULL, 10) > hwloc_get_api_version() >> 16)
        c->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                                  "%s:%d: hwloc " HWLOC_VERSION " cannot import XML version %.10s; write the file with "
                                  "'lstopo --of xml --export-xml-flags v2'",
                                  c->source->name, root->line, version);
    c->is_old = version == NULL || version[0] == '1';
}

static void check_tree(checker *c, const ki_xml *root)
{
    const ki_xml *machine = root->first;
    while (machine != NULL && strcmp(machine->name, "object") != 0)
        machine = machine->next;
    if (machine == NULL) {
        refuse(c, root, "a topology without objects");
        return;
    }
    c->has_nodesets = !c->is_old || ki_xml_get(machine, "nodeset") != NULL;
    for (const ki_xml *other = machine->next; other != NULL; other = other->next)
        if (strcmp(other->name, "object") == 0)
            refuse(c, other, "a second machine");
    if (sort_of(c, machine) != SORT_NORMAL)
        refuse(c, machine, "the outermost object is a '%.40s'; valid: Machine", type_of(machine));
    if (c->status == KITH_OK)
        check_children(c, root, SORT_NORMAL, NULL);
    if (c->status == KITH_OK && c->numa_count == 0 && c->has_nodesets)
        refuse(c, machine, "a machine without NUMA node");
    if (c->status == KITH_OK)
        check_elements(c, root);
}

kith_status ki_hwloc_check(const ki_source *source)
{
    ki_xml *root = NULL;
    checker c = { .source = source };
    kith_status status = ki_xml_parse(source->name, source->text, source->nbytes, &root);
    if (status != KITH_OK)
        return status;
    check_version(&c, root);
    if (c.status == KITH_OK)
        check_tree(&c, root);
    ki_xml_free(root);
    return c.status;
}
