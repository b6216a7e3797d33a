/* tests/topology/test_machine_json.c - Kith's own JSON: what is printed reads back; overrides; bad input.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json_machines.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *printed(const kith_topology *t)
{
    char *text = NULL;
    assert_int_equal(kith_topology_print(t, KITH_FORMAT_JSON, &text), KITH_OK);
    return text;
}

static void reads_what_it_prints(void **state)
{
    (void)state;
    kith_topology *first = machine_of(MACHINE_BRIDGES);
    char *once = printed(first);
    kith_topology *second = machine_of(once);
    char *twice = printed(second);
    assert_string_equal(once, twice);
    kith_topology *third = machine_of(twice);
    char *thrice = printed(third);
    assert_string_equal(once, thrice);
    kith_topology_destroy(first);
    kith_topology_destroy(second);
    kith_topology_destroy(third);
    kith_free(once);
    kith_free(twice);
    kith_free(thrice);
}

static void derives_what_is_left_out(void **state)
{
    (void)state;
    kith_topology *t = machine_of(MACHINE_BRIDGES);
    kith_link link = kith_topology_link(t, 0, 3);
    assert_int_equal(link.type, KITH_LINK_NVLINK);
    assert_int_equal(link.count, 4);
    assert_int_equal(link.generation, 3);
    assert_float_equal(link.gbps, 48, 1e-9); /* a bridge of sm86: 4 links of 12 GB/s */
    assert_false(link.is_switched);
    link = kith_topology_link(t, 0, 2);
    assert_int_equal(link.type, KITH_LINK_SYS);
    assert_float_equal(link.gbps, 10, 1e-9);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int island[4];
    assert_int_equal(kith_nvlink_islands(kind, island), 2);
    assert_int_equal(island[0], island[3]);
    assert_int_equal(island[1], island[2]);
    int nic;
    kith_link_type type;
    assert_int_equal(kith_nearest_nics(kind, 3, &nic, 1, &type), 1);
    assert_int_equal(nic, 1);
    assert_int_equal(type, KITH_LINK_PIX);
    kith_topology_destroy(t);
}

static void override_changes_a_machine(void **state)
{
    (void)state;
    char path[] = "/tmp/kith-override-XXXXXX", base[] = "/tmp/kith-base-XXXXXX";
    int over = mkstemp(path), machine = mkstemp(base);
    const char *text = "{\"kith_topology\": 1, \"override\": true, \"socket_gbps\": 22,\n"
                       "\"gpus\": [{\"pci\": \"0000:c1:00.0\", \"numa\": 7, \"cpus\": \"112-127\"}]}";
    FILE *file = fdopen(over, "w");
    fputs(text, file);
    fclose(file);
    file = fdopen(machine, "w");
    fputs(MACHINE_BRIDGES, file);
    fclose(file);
    const char *paths[] = { base, path };
    kith_topology *t = NULL;
    kith_status status = kith_topology_load(paths, 2, NULL, &t);
    if (status != KITH_OK)
        fail_msg("%s", kith_error_detail());
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpus[2].numas[0], 7);
    assert_string_equal(kind->gpus[2].cpus, "112-127");
    assert_string_equal(kind->gpus[2].name, "RTX A6000");
    assert_float_equal(kind->socket_gbps, 22, 1e-9);
    assert_non_null(find_doubt(t, "override"));
    kith_topology_destroy(t);
    assert_int_equal(kith_topology_load(paths + 1, 1, NULL, &t), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "first"));
    unlink(path);
    unlink(base);
}

static void refuse(const char *text, const char *word)
{
    kith_topology *t = NULL;
    kith_status status = kith_topology_parse("bad.json", text, strlen(text), NULL, &t);
    if (status == KITH_OK)
        fail_msg("accepted: %s", text);
    if (strstr(kith_error_detail(), word) == NULL)
        fail_msg("wanted '%s' in '%s'", word, kith_error_detail());
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    refuse("", "not recognized");
    refuse("{\"kith_topology\": 2}", "must be 1");
    refuse("{\"kith_topology\": 1, \"gpus\": 5}", "'gpus' must be an array");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0.5}]}", "'index'");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0, \"numa\": \"x\"}]}", "'numa'");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": -5}]}", "index of 0 or more");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0, \"cpus\": \"9-3\"}]}", "'cpus'");
    refuse("{\"kith_topology\": 1, \"numa_nodes\": [{\"os_index\": 0, \"cpus\": \"a-b\"}]}", "'cpus'");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0, \"pci\": \"0000:zz:00.0\"}]}", "'pci'");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}, {\"index\": 0}]}", "number 0");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}], \"links\": [[\"X\", \"X\"]]}", "'links'");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}], \"links\": [[\"NV999999999999\"]]}", "cell 0,0");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}, {\"index\": 1}],"
           " \"links\": [[\"X\", \"PIX\"], [\"SYS\", \"X\"]]}",
           "symmetric");
    refuse("{\"kith_topology\": 1, \"nodes\": [{\"name\": \"a\", \"kind\": 3}]}", "kind");
    refuse("{\"kith_topology\": 1, \"nodes\": [{\"name\": \"a\", \"kind\": 0, \"leaf\": 4}]}", "switch");
    refuse("{\"kith_topology\": 1, \"switches\": [{\"name\": \"a\", \"parent\": 0}]}", "parent");
    refuse("{\"kith_topology\": 1, \"gpus\": [{\"index\": 0, \"pci_switch\": 3}]}", "fit together");
    refuse("{\"kith_topology\": 1, \"name\": \"a\\u0000b\"}", "'name'");
}

/* Every prefix of a good file, and every file with one byte changed, ends in a status and loses nothing. */
static void damage_is_survived(void **state)
{
    (void)state;
    size_t nbytes = strlen(MACHINE_BRIDGES);
    char *text = malloc(nbytes + 1);
    uint32_t random = 12345;
    for (size_t cut = 0; cut < nbytes; cut += 7) {
        kith_topology *t = NULL;
        if (kith_topology_parse("cut", MACHINE_BRIDGES, cut, NULL, &t) == KITH_OK)
            kith_topology_destroy(t);
    }
    for (int round = 0; round < 4000; round++) {
        memcpy(text, MACHINE_BRIDGES, nbytes + 1);
        for (int i = 0; i < 3; i++) {
            random = random * 1664525u + 1013904223u;
            text[(random >> 8) % nbytes] = "0123456789{}[]\",:-X\\"[(random >> 3) % 20];
        }
        kith_topology *t = NULL;
        char *again = NULL;
        if (kith_topology_parse("damaged", text, nbytes, NULL, &t) != KITH_OK)
            continue;
        assert_int_equal(kith_topology_print(t, KITH_FORMAT_JSON, &again), KITH_OK);
        kith_free(again);
        assert_int_equal(kith_topology_print(t, KITH_FORMAT_TEXT, &again), KITH_OK);
        kith_free(again);
        kith_topology_destroy(t);
    }
    free(text);
}

static void constants_are_replaced(void **state)
{
    (void)state;
    char path[] = "/tmp/kith-constants-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fputs("{\"nvlink3-bridge\": {\"effective_gbps\": 13.5, \"source\": \"measured\"}}", file);
    fclose(file);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.constants_path = path;
    kith_topology *t = NULL, *again = NULL;
    assert_int_equal(kith_topology_parse("m", MACHINE_BRIDGES, strlen(MACHINE_BRIDGES), &options, &t), KITH_OK);
    assert_float_equal(kith_topology_link(t, 0, 3).gbps, 54, 1e-9);
    char *text = printed(t);
    again = machine_of(text);
    bool is_found = false;
    for (int i = 0; i < kith_topology_constant_count(again); i++) {
        const kith_constant *c = kith_topology_constant(again, i);
        if (strcmp(c->key, "nvlink3-bridge") == 0) {
            is_found = true;
            assert_true(c->is_replaced);
            assert_float_equal(c->effective_gbps, 13.5, 1e-12);
            assert_string_equal(c->source, "measured");
        }
    }
    assert_true(is_found);
    kith_topology_destroy(t);
    kith_topology_destroy(again);
    kith_free(text);
    file = fopen(path, "w");
    fputs("{\"nvlink9\": {\"effective_gbps\": 1}}", file);
    fclose(file);
    assert_int_equal(kith_topology_parse("m", MACHINE_BRIDGES, strlen(MACHINE_BRIDGES), &options, &t),
                     KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "nvlink9"));
    unlink(path);
}

/* What kith bench --model-fit writes beside the rows changes nothing; another form of it is refused. */
static void calibrations_are_passed_over(void **state)
{
    (void)state;
    char path[] = "/tmp/kith-calibration-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fputs("{\"calibration\": {\"format\": \"kith-calibration-1\", \"fits\": [{\"op\": \"all_reduce\"}]},\n"
          " \"nvlink3-bridge\": {\"effective_gbps\": 13.5}}",
          file);
    fclose(file);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.constants_path = path;
    kith_topology *t = NULL;
    assert_int_equal(kith_topology_parse("m", MACHINE_BRIDGES, strlen(MACHINE_BRIDGES), &options, &t), KITH_OK);
    assert_float_equal(kith_topology_link(t, 0, 3).gbps, 54, 1e-9);
    kith_topology_destroy(t);
    file = fopen(path, "w");
    fputs("{\"calibration\": {\"format\": \"kith-calibration-9\"}}", file);
    fclose(file);
    assert_int_equal(kith_topology_parse("m", MACHINE_BRIDGES, strlen(MACHINE_BRIDGES), &options, &t),
                     KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "kith-calibration-1"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_prints),       cmocka_unit_test(derives_what_is_left_out),
        cmocka_unit_test(override_changes_a_machine), cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(damage_is_survived),         cmocka_unit_test(constants_are_replaced),
        cmocka_unit_test(calibrations_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
