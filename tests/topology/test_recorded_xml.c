/* tests/topology/test_recorded_xml.c - recorded machines (hwloc XML, NCCL XML, snapshots of file systems) against the
 * right answers that stand beside them in SOURCES.tsv. Skipped without KITH_SHARED_DIR.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_NBYTES = 64 * 1024 };

static char folder[2048];
static int checked;

/* One row of the table. */
typedef struct row {
    char *file, *machine, *answer;
} row;

static void check(bool is_right, const row *r, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void check(bool is_right, const row *r, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!is_right)
        fail_msg("%s: %s", r->file, text);
}

/* Calls each() for the rows whose file begins with prefix and ends with suffix. */
static void for_rows(const char *prefix, const char *suffix, void (*each)(row *r))
{
    static char line[LINE_NBYTES], path[4096];
    snprintf(path, sizeof path, "%s/SOURCES.tsv", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    checked = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        char *column[5] = { NULL }, *rest = line;
        for (int i = 0; i < 5; i++)
            column[i] = strsep(&rest, "\t\n");
        row r = { column[0], column[2], column[3] };
        size_t length = strlen(r.file);
        if (r.answer == NULL || strncmp(r.file, prefix, strlen(prefix)) != 0 || length < strlen(suffix) ||
            strcmp(r.file + length - strlen(suffix), suffix) != 0)
            continue;
        each(&r);
        checked++;
    }
    fclose(file);
    assert_true(checked > 0);
}

static kith_topology *load_row(const row *r)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, r->file);
    return load_file(path);
}

/* The part of an answer that begins with title, up to the next ";". NULL: there is none. */
static char *part_of(const row *r, const char *title)
{
    static char text[LINE_NBYTES];
    const char *start = r->answer;
    while (start != NULL && strncmp(start, title, strlen(title)) != 0) {
        start = strstr(start, "; ");
        start = start != NULL ? start + 2 : NULL;
    }
    if (start == NULL)
        return NULL;
    size_t length = strcspn(start + strlen(title), ";");
    memcpy(text, start + strlen(title), length);
    text[length] = '\0';
    return text;
}

static bool has_name(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *hit = names; hit != NULL && (hit = strstr(hit, name)) != NULL; hit++)
        if ((hit == names || strchr(" (", hit[-1]) != NULL) && strchr(" )", hit[length]) != NULL)
            return true;
    return false;
}

static const kith_gpu *gpu_named(const kith_node_kind *kind, const char *name)
{
    for (int i = 0; i < kind->gpu_count; i++)
        if (has_name(kind->gpus[i].name, name))
            return &kind->gpus[i];
    return NULL;
}

static const kith_nic *nic_named(const kith_node_kind *kind, const char *name)
{
    for (int i = 0; i < kind->nic_count; i++)
        if (strcmp(kind->nics[i].name, name) == 0)
            return &kind->nics[i];
    return NULL;
}

/* ---- hwloc XML ---- */

/* "cuda0@nodeset 0x00000001 nvml0@nodeset 0x00000001 ...": several names may be one GPU. */
static void check_hwloc_gpus(const row *r, const kith_node_kind *kind, char *text)
{
    char *rest = text, *name;
    bool is_named[KI_MAX_GPUS] = { false };
    while ((name = strsep(&rest, " ")) != NULL) {
        char *mark = strchr(name, '@');
        unsigned long nodes = mark != NULL && rest != NULL ? strtoul(strsep(&rest, " "), NULL, 16) : 0;
        if (mark == NULL)
            continue;
        *mark = '\0';
        const kith_gpu *gpu = gpu_named(kind, name);
        check(gpu != NULL, r, "wanted a GPU %s", name);
        check(gpu->numa_count == 1 && nodes == 1ul << gpu->numas[0], r, "%s: wanted nodes 0x%lx, got %s", name, nodes,
              gpu->numa_text);
        is_named[gpu - kind->gpus] = true;
    }
    for (int i = 0; i < kind->gpu_count; i++)
        check(is_named[i], r, "a GPU %s too many", kind->gpus[i].name);
}

/* "ib0@0x2 mlx5_0@0x2": an IP interface of a device that is listed too is the same NIC. */
static void check_hwloc_nics(const row *r, const kith_node_kind *kind, char *text)
{
    char *rest = text, *name;
    int found = 0;
    while ((name = strsep(&rest, " ")) != NULL) {
        char *mark = strchr(name, '@');
        if (mark == NULL)
            continue;
        *mark = '\0';
        const kith_nic *nic = nic_named(kind, name);
        bool is_interface = strncmp(name, "ib", 2) == 0 || strncmp(name, "hsi", 3) == 0;
        if (nic == NULL && is_interface && nic_named(kind, "mlx5_0") == NULL)
            nic = nic_named(kind, "mlx4_0");
        else if (nic == NULL && is_interface)
            continue;
        check(nic != NULL, r, "wanted a NIC %s", name);
        check(strtoul(mark + 1, NULL, 16) == 1ul << nic->numa, r, "%s: wanted nodes %s, got %d", name, mark + 1,
              nic->numa);
        found += strcmp(nic->name, name) == 0;
    }
    check(found == kind->nic_count, r, "wanted %d NICs, got %d", found, kind->nic_count);
}

/* "16 GPUs + 12 other (NVSwitch) to others MB/s: nvml0=150000 ..." */
static void check_hwloc_switches(const row *r, const kith_node_kind *kind, char *text)
{
    char *rest = strchr(text, ':');
    check(rest != NULL && kind->has_nvswitch, r, "wanted NVSwitch");
    for (rest++; rest != NULL;) {
        char *name = strsep(&rest, " "), *value = strchr(name, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        const kith_gpu *gpu = gpu_named(kind, name);
        const kith_link *link = &kind->links[(gpu - kind->gpus) * kind->gpu_count + (gpu == kind->gpus)];
        double raw = link->count * ki_constant(NULL, ki_nvlink_key(link->generation, false))->raw_gbps;
        check(raw == strtod(value, NULL) / 1000, r, "%s: wanted %s MB/s, got %g GB/s", name, value, raw);
    }
    int island[KI_MAX_GPUS];
    check(kith_nvlink_islands(kind, island) == 1, r, "wanted one island of all GPUs");
}

/* "8 GPUs + 0 other () direct: rsmi0-rsmi1=100000 ..." */
static void check_hwloc_xgmi(const row *r, const kith_node_kind *kind, char *text)
{
    char *rest = strstr(text, "direct: ");
    int pairs = 0, linked = 0;
    for (rest = rest != NULL ? rest + 8 : NULL; rest != NULL; pairs++) {
        char *name = strsep(&rest, " "), *peer = strchr(name, '-'), *value = strchr(name, '=');
        check(peer != NULL && value != NULL, r, "'%s' is no pair", name);
        *peer = *value = '\0';
        const kith_gpu *a = gpu_named(kind, name), *b = gpu_named(kind, peer + 1);
        check(a != NULL && b != NULL, r, "wanted GPUs %s and %s", name, peer + 1);
        const kith_link *link = &kind->links[(a - kind->gpus) * kind->gpu_count + (b - kind->gpus)];
        check(link->type == KITH_LINK_XGMI && link->count == atoi(value + 1) / 100000, r, "%s-%s: wanted xGMI", name,
              peer + 1);
    }
    for (int i = 0; i < kind->gpu_count * kind->gpu_count; i++)
        linked += kind->links[i].type == KITH_LINK_XGMI;
    check(pairs > 0 && linked == 2 * pairs, r, "wanted %d pairs with xGMI, got %d", pairs, linked / 2);
}

static void check_hwloc(row *r)
{
    if (strstr(r->file, "/v3/") != NULL)
        return;
    kith_topology *t = load_row(r);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    check(kind->numa_count == atoi(r->answer), r, "wanted %d NUMA nodes, got %d", atoi(r->answer), kind->numa_count);
    check(kith_numa_count_with_cpus(kind) >= 1, r, "wanted NUMA nodes with CPUs");
    char *gpus = part_of(r, "GPUs ");
    if (gpus != NULL)
        check_hwloc_gpus(r, kind, gpus);
    else
        for (int i = 0; i < kind->gpu_count; i++) /* known by their class, without a library's name */
            check(find_doubt(t, "gpu-by-class") != NULL || has_name(kind->gpus[i].name, "opencl0d0") ||
                      strstr(kind->gpus[i].name, "(opencl") != NULL,
                  r, "a GPU %s that is not in the file", kind->gpus[i].name);
    char *nics = part_of(r, "NICs ");
    if (nics != NULL)
        check_hwloc_nics(r, kind, nics);
    else
        for (int i = 0; i < kind->nic_count; i++)
            check(strcmp(kind->nics[i].fabric, "ethernet") == 0, r, "a NIC %s too many", kind->nics[i].name);
    char *nvlink = part_of(r, "NVLinkBandwidth ");
    if (nvlink != NULL)
        check_hwloc_switches(r, kind, nvlink);
    char *xgmi = part_of(r, "XGMIBandwidth ");
    if (xgmi != NULL)
        check_hwloc_xgmi(r, kind, xgmi);
    kith_topology_destroy(t);
}

static void test_hwloc(void **state)
{
    (void)state;
    for_rows("hwloc/", ".xml", check_hwloc);
    assert_true(checked >= 25);
}

static void check_version_3(row *r)
{
    kith_topology *t = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, r->file);
    const char *paths[] = { path };
    if (strstr(r->file, "/v3/") == NULL)
        return;
    check(kith_topology_load(paths, 1, NULL, &t) == KITH_ERR_UNSUPPORTED, r, "must be refused");
    check(strstr(kith_error_detail(), "cannot import XML version 3.0") != NULL, r, "wrong reason: %s",
          kith_error_detail());
}

static void test_version_3(void **state)
{
    (void)state;
    for_rows("hwloc", ".xml", check_version_3);
}

/* ---- NCCL XML ---- */

/* By number, or by bus id where the file has none. */
static int gpu_position(const kith_node_kind *kind, const char *key)
{
    for (int i = 0; i < kind->gpu_count; i++)
        if (strchr(key, ':') != NULL ? strcmp(kind->gpus[i].name, key) == 0 : kind->gpus[i].index == atoi(key))
            return i;
    return -1;
}

/* "mlx5_0+mlx5_1" or "15 NICs". */
static void check_nearest(const row *r, const kith_node_kind *kind, int gpu, const char *class_name, const char *wanted)
{
    int nics[KI_MAX_NICS];
    kith_link_type type;
    int count = kith_nearest_nics(kind, gpu, nics, KI_MAX_NICS, &type);
    char got[LINE_NBYTES] = "";
    for (int i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? "+" : "", kind->nics[nics[i]].name);
    check(strcmp(kith_link_type_name(type), class_name) == 0, r, "GPU %d: wanted %s, got %s", gpu, class_name,
          kith_link_type_name(type));
    if (strstr(wanted, " NICs") != NULL)
        check(atoi(wanted) == count, r, "GPU %d: wanted %s, got %d", gpu, wanted, count);
    else
        check(strcmp(got, wanted) == 0, r, "GPU %d: wanted %s, got %s", gpu, wanted, got);
}

/* "0:PIX:mlx5_0 1:PXB:8 NICs 0000:10:1c.0:PIX:0000:10:1b.0" */
static void check_nccl_nics(const row *r, const kith_node_kind *kind, char *text)
{
    static const char *const classes[] = { ":PIX:", ":PXB:", ":PHB:", ":SYS:" };
    char *rest = text;
    int gpus = 0;
    while (rest != NULL && *rest != '\0') {
        char *entry = strsep(&rest, " ");
        char wanted[4096];
        for (int c = 0; c < 4; c++) {
            char *middle = strstr(entry, classes[c]), name[8];
            if (middle == NULL)
                continue;
            *middle = '\0';
            snprintf(name, sizeof name, "%.3s", classes[c] + 1);
            bool is_number = rest != NULL && strncmp(rest, "NICs", 4) == 0;
            snprintf(wanted, sizeof wanted, "%s%s", middle + 5, is_number ? " NICs" : "");
            int gpu = gpu_position(kind, entry);
            check(gpu >= 0, r, "wanted a GPU %s", entry);
            check_nearest(r, kind, gpu, name, wanted);
            gpus++;
            break;
        }
    }
    check(gpus == kind->gpu_count, r, "nearest NICs of %d GPUs, of %d", gpus, kind->gpu_count);
}

/* "0=numa0 0000:10:1c.0=numa1" */
static void check_nccl_numas(const row *r, const kith_node_kind *kind, char *text)
{
    char *rest = text, *entry;
    while ((entry = strsep(&rest, " ")) != NULL) {
        char *mark = strstr(entry, "=numa");
        if (mark == NULL)
            continue;
        *mark = '\0';
        int gpu = gpu_position(kind, entry);
        check(gpu >= 0, r, "wanted a GPU %s", entry);
        const char *got = kind->gpus[gpu].numa_text;
        check(got != NULL && strcmp(got, mark + 5) == 0, r, "GPU %s: wanted NUMA node %s, got %s", entry, mark + 5,
              got != NULL ? got : "none");
    }
}

/* "GPU0:18 links to NVSwitch=370.8 GB/s GPU1:..." */
static void check_nccl_nvlinks(const row *r, const kith_node_kind *kind, const char *text)
{
    int index, links, gpus = 0;
    for (const char *c = text; (c = strstr(c, "GPU")) != NULL; c++) {
        if (sscanf(c, "GPU%d:%d links to", &index, &links) != 2)
            continue;
        char key[16];
        snprintf(key, sizeof key, "%d", index);
        int gpu = gpu_position(kind, key);
        check(gpu >= 0 && kind->gpus[gpu].link_count == links, r, "GPU%d: wanted %d links", index, links);
        bool is_switched = strncmp(strstr(c, "links to ") + 9, "NVSwitch", 8) == 0;
        const kith_link *link = &kind->links[gpu * kind->gpu_count + (gpu == 0)];
        check(link->is_switched == is_switched, r, "GPU%d: switched is %d", index, link->is_switched);
        double wanted = strtod(strchr(c, '=') + 1, NULL);
        int generation = ki_gpu_model_find(NULL, kind->gpus[gpu].compute_capability)->nvlink_generation;
        double got = is_switched ? link->gbps : links * ki_constant_gbps(NULL, ki_nvlink_key(generation, false));
        check(got > wanted - 0.1 && got < wanted + 0.1, r, "GPU%d: wanted %g GB/s, got %g", index, wanted, got);
        gpus++;
    }
    check(gpus == kind->gpu_count, r, "NVLinks of %d GPUs, of %d", gpus, kind->gpu_count);
}

static void check_nccl_xgmi(const row *r, const kith_node_kind *kind, const char *text)
{
    for (int i = 0; i < kind->gpu_count; i++) {
        check(kind->gpus[i].link_count == atoi(text), r, "GPU %d: wanted %d xGMI links, got %d", i, atoi(text),
              kind->gpus[i].link_count);
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : "0";
    }
}

static int contradictions;

/* A file in which one bus id is two things is refused, by name; its answer would depend on which is meant. */
static bool is_contradiction(const row *r)
{
    kith_topology *t = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, r->file);
    const char *paths[] = { path };
    if (kith_topology_load(paths, 1, NULL, &t) == KITH_OK) {
        kith_topology_destroy(t);
        return false;
    }
    check(strstr(kith_error_detail(), "is a bridge in one place and a device in another") != NULL, r, "%s",
          kith_error_detail());
    contradictions++;
    return true;
}

static void check_nccl(row *r)
{
    int cpus, gpus, nics;
    if (strstr(r->answer, "graph dump") != NULL) {
        kith_topology *t = NULL;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, r->file);
        const char *paths[] = { path };
        check(kith_topology_load(paths, 1, NULL, &t) == KITH_ERR_UNSUPPORTED, r, "must be refused");
        check(strstr(kith_error_detail(), "graph dump") != NULL, r, "wrong reason: %s", kith_error_detail());
        return;
    }
    if (is_contradiction(r))
        return;
    kith_topology *t = load_row(r);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    check(sscanf(r->answer, "%d cpu, %d GPUs, %d NICs", &cpus, &gpus, &nics) == 3, r, "no counts in '%s'", r->answer);
    check(kind->numa_count == cpus && kind->gpu_count == gpus && kind->nic_count == nics, r,
          "wanted %d CPUs, %d GPUs, %d NICs; got %d, %d, %d", cpus, gpus, nics, kind->numa_count, kind->gpu_count,
          kind->nic_count);
    char *text = part_of(r, "nearest NIC ");
    if (text != NULL)
        check_nccl_nics(r, kind, text);
    check_nccl_numas(r, kind, part_of(r, "NUMA "));
    if ((text = part_of(r, "NVLink ")) != NULL)
        check_nccl_nvlinks(r, kind, text);
    if ((text = part_of(r, "xGMI links per GPU ")) != NULL)
        check_nccl_xgmi(r, kind, text);
    check(strstr(r->answer, "no nvlink element") == NULL || !kind->has_nvswitch, r, "NVSwitch out of nothing");
    kith_topology_destroy(t);
}

static void test_nccl(void **state)
{
    (void)state;
    for_rows("nccl_xml/", ".xml", check_nccl);
    assert_true(checked >= 60);
    assert_true(contradictions <= 1);
}

/* The one file whose masks were repaired later is flagged, what came after it is not. */
static void check_masks(row *r)
{
    bool is_before = strstr(r->file, ".before-") != NULL;
    if (strstr(r->file, "azure-nd") == NULL)
        return;
    kith_topology *t = load_row(r);
    check((find_doubt(t, "numa-overlap") != NULL) == is_before, r, "wanted doubts about masks: %d", is_before);
    kith_topology_destroy(t);
}

static void test_masks(void **state)
{
    (void)state;
    for_rows("nccl_xml/azure", ".xml", check_masks);
}

/* ---- snapshots of file systems ---- */

/* The folder that an archive holds, unpacked; false: no tar or bzip2. */
static bool unpack(const row *r, const char *where, char *root, size_t nbytes)
{
    char command[8192];
    snprintf(command, sizeof command, "tar xjf '%s/%s' -C '%s' 2>/dev/null", folder, r->file, where);
    if (system(command) != 0)
        return false;
    DIR *dir = opendir(where);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            snprintf(root, nbytes, "%s/%s", where, entry->d_name);
    if (dir != NULL)
        closedir(dir);
    return true;
}

static kith_topology *detect(const row *r)
{
    kith_topology *t = NULL;
    check(kith_topology_detect(NULL, &t) == KITH_OK, r, "%s", kith_error_detail());
    check(ki_topology_check(t) == KITH_OK, r, "%s", kith_error_detail());
    return t;
}

static void check_snapshot(row *r)
{
    char where[64], root[4096] = "", command[128];
    /* thousands of small files: memory is ten times as fast as a disk */
    snprintf(where, sizeof where, "%s/kith-snapshot-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(where));
    if (!unpack(r, where, root, sizeof root)) {
        rmdir(where);
        skip(); /* no tar or bzip2 here */
    }
    setenv("HWLOC_FSROOT", root, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    kith_topology *t = detect(r);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int nodes, memories;
    if (sscanf(r->answer, "with HWLOC_FSROOT: %d CPU NUMA nodes (os 0, 8); %d GPU-memory", &nodes, &memories) == 2) {
        check(kind->numa_count == nodes && kind->numas[1].os_index == 8, r, "wanted %d NUMA nodes, got %d", nodes,
              kind->numa_count);
        kith_topology_destroy(t);
        setenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", 1);
        t = detect(r);
        kind = kith_topology_kind(t, 0);
        check(kind->numa_count == nodes + memories && kith_numa_count_with_cpus(kind) == nodes, r,
              "wanted %d NUMA nodes of which %d have CPUs, got %d and %d", nodes + memories, nodes, kind->numa_count,
              kith_numa_count_with_cpus(kind));
        check(kind->gpu_count == memories, r, "wanted %d GPUs, got %d", memories, kind->gpu_count);
        unsetenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES");
    } else if (sscanf(r->answer, "DGX Spark GB10: %d hybrid cores, %d NUMA node", &memories, &nodes) == 2) {
        check(kind->numa_count == nodes && strcmp(kind->numas[0].cpus, "0-19") == 0, r, "wanted CPUs 0-19, got %s",
              kind->numas[0].cpus);
        check(strcmp(kind->cpu_vendor, "arm") == 0, r, "wanted arm, got %s", kind->cpu_vendor);
    } else if (strstr(r->answer, "domain is > 16 bits") != NULL) {
        check(find_doubt(t, "pci-domain") != NULL, r, "wanted a doubt about PCI domains");
    }
    kith_topology_destroy(t);
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_THISSYSTEM");
    snprintf(command, sizeof command, "rm -rf '%s'", where);
    assert_int_equal(system(command), 0);
}

static void test_snapshots(void **state)
{
    (void)state;
    for_rows("hwloc_linux_fsroot/", ".tar.bz2", check_snapshot);
    assert_true(checked >= 9);
}

int main(void)
{
    const char *shared = getenv("KITH_SHARED_DIR");
    if (shared == NULL || shared[0] == '\0') {
        printf("skipped: KITH_SHARED_DIR is not set\n");
        return 77;
    }
    snprintf(folder, sizeof folder, "%s/topologies", shared);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hwloc), cmocka_unit_test(test_version_3), cmocka_unit_test(test_nccl),
        cmocka_unit_test(test_masks), cmocka_unit_test(test_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
