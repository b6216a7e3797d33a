/* tests/topology/test_recorded_placement.c - recorded machines whose best groups are known.
 *
 * PLACEMENT_GOLDEN.tsv tells for each matrix of `nvidia-smi topo -m` and each size of tp the best groups, the worst
 * link of their rings, and how many partitions are as good. Groups are compared as lists: ranks keep the order of the
 * numbers where nothing is gained.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/context.h>
#include <kith/placement.h>
#include <kith/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COLUMNS = 9, FILE_NAME = 0, TP = 2, GROUPS = 5, WORST = 6, EQUALLY_GOOD = 7 };

static const char *shared;

static int split(char *line, char **cells)
{
    int count = 0;
    for (char *cell; count < COLUMNS && (cell = strsep(&line, "\t\n")) != NULL;)
        cells[count++] = cell;
    return count;
}

/* "{0,3} {1,2}" by the numbers that the source gives its GPUs, groups and members in the order of the ranks. */
static void write_groups(const kith_topology *t, const kith_axis_report *axis, char *text, size_t nbytes)
{
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    text[0] = '\0';
    for (int i = 0; i < axis->size * axis->group_count; i++)
        snprintf(text + strlen(text), nbytes - strlen(text), "%s%d%s",
                 i == 0                ? "{"
                 : i % axis->size == 0 ? " {"
                                       : ",",
                 kind->gpus[axis->groups[i]].index, i % axis->size == axis->size - 1 ? "}" : "");
}

static int check_row(const kith_topology *t, char **cells)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p;
    char groups[1024], link[16];
    o.tp = atoi(cells[TP]);
    if (kith_place(t, &o, &p) != KITH_OK) {
        print_error("%s, tp %d: %s\n", cells[FILE_NAME], o.tp, kith_error_detail());
        return 1;
    }
    const kith_axis_report *axis = kith_placement_axis(p, "tp");
    write_groups(t, axis, groups, sizeof groups);
    kith_link_name(&axis->bottleneck, link, sizeof link);
    int failures = strcmp(groups, cells[GROUPS]) != 0 || strcmp(link, cells[WORST]) != 0 ||
                   axis->equally_good != atoll(cells[EQUALLY_GOOD]) ||
                   kith_placement_cost(p) > kith_placement_identity_cost(p);
    if (failures > 0)
        print_error("%s, tp %d: wanted %s, %s, %s; got %s, %s, %lld; cost %g, identity %g\n", cells[FILE_NAME], o.tp,
                    cells[GROUPS], cells[WORST], cells[EQUALLY_GOOD], groups, link, (long long)axis->equally_good,
                    kith_placement_cost(p), kith_placement_identity_cost(p));
    kith_placement_destroy(p);
    return failures;
}

static void test_golden(void **state)
{
    (void)state;
    static char line[65536];
    char path[1024];
    int rows = 0, failures = 0;
    snprintf(path, sizeof path, "%s/topologies/PLACEMENT_GOLDEN.tsv", shared);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        skip(); /* a folder without golden rows */
    while (fgets(line, sizeof line, file) != NULL) {
        char *cells[COLUMNS];
        if (line[0] == '#' || split(line, cells) < COLUMNS || strcmp(cells[FILE_NAME], "file") == 0)
            continue;
        snprintf(path, sizeof path, "%s/topologies/nvidia_smi_topo/%s.txt", shared, cells[FILE_NAME]);
        const char *const paths[] = { path };
        kith_topology *t;
        rows++;
        if (kith_topology_load(paths, 1, NULL, &t) != KITH_OK) {
            print_error("%s: %s\n", cells[FILE_NAME], kith_error_detail());
            failures++;
            continue;
        }
        failures += check_row(t, cells);
        kith_topology_destroy(t);
    }
    fclose(file);
    if (rows < 100 || failures > 0)
        fail_msg("%d of %d rows are wrong; wanted more than 100 rows, none wrong", failures, rows);
}

int main(void)
{
    shared = getenv("KITH_SHARED_DIR");
    if (shared == NULL) {
        printf("KITH_SHARED_DIR is not set: no recorded machines\n");
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
