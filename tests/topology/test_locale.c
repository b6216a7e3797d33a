/* tests/topology/test_locale.c - what programs read is the same in a program that has set a locale with a decimal
 * comma: every JSON of the library, and what it reads.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "comma.h"
#include "plan_expect.h"

#include <kith/context.h>

enum { TEXTS = 8 };

static void need(kith_status status)
{
    if (status != KITH_OK) {
        setlocale(LC_NUMERIC, "C");
        fail_msg("%s", kith_error_detail());
    }
}

/* A fabric with fractions in its text, too. */
static kith_topology *load(void)
{
    const char *machine = "2 nodes of 8 H100 on NVSwitch, 8 NICs of 2.5 Gb/s";
    kith_topology *topology;
    need(kith_topology_load(&machine, 1, NULL, &topology));
    return topology;
}

static void write_plans(const kith_topology *topology, char *texts[])
{
    kith_model model;
    kith_plan plan;
    kith_plan_options o = options_of(2, 2, 1, 1024);
    kith_placement_options po = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *placement;
    need(kith_model_named("gpt2", &model));
    need(kith_plan_make(topology, &model, &o, &plan));
    need(kith_plan_print(&plan, KITH_FORMAT_JSON, &texts[0]));
    po.tp = 8;
    need(kith_place(topology, &po, &placement));
    need(kith_placement_print(topology, placement, KITH_FORMAT_JSON, &texts[1]));
    need(kith_placement_export(topology, placement, KITH_EXPORT_KITH, &texts[2]));
    kith_placement_destroy(placement);
}

static void write_schedules(char *texts[])
{
    kith_schedule_costs costs;
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *schedule;
    kith_simulation *run;
    o.ranks = 4;
    o.microbatches = 8;
    need(kith_schedule_costs_parse("F=1.5,I=2.25,W=0.1,C=1e-3", &costs));
    need(kith_schedule_create(&o, &schedule));
    need(kith_schedule_simulate(schedule, &costs, &run));
    need(kith_simulation_print(schedule, run, KITH_SIMULATION_JSON, NULL, &texts[0]));
    need(kith_simulation_print(schedule, run, KITH_SIMULATION_TRACE, NULL, &texts[1]));
    need(kith_simulation_print(schedule, run, KITH_SIMULATION_TEXT, NULL, &texts[2]));
    kith_simulation_destroy(run);
    kith_schedule_destroy(schedule);
}

static void write_all(char *texts[TEXTS])
{
    kith_topology *topology = load();
    need(kith_topology_print(topology, KITH_FORMAT_JSON, &texts[0]));
    need(kith_info_json(&texts[1]));
    write_plans(topology, texts + 2);
    write_schedules(texts + 5);
    kith_topology_destroy(topology);
}

static void test_same_texts(void **state)
{
    char *plain[TEXTS], *comma[TEXTS];
    (void)state;
    write_all(plain);
    if (!set_comma_locale()) {
        print_message("skipped: no localedef, which makes a locale with a decimal comma\n");
        skip();
    }
    write_all(comma);
    setlocale(LC_NUMERIC, "C");
    int fractions = 0;
    for (int i = 0; i < TEXTS; i++) {
        fractions += strstr(plain[i], ".5") != NULL;
        size_t same = 0;
        while (plain[i][same] != '\0' && plain[i][same] == comma[i][same])
            same++;
        if (plain[i][same] != comma[i][same])
            fail_msg("text %d: wanted '%.40s', got '%.40s'", i, plain[i] + same, comma[i] + same);
        kith_free(plain[i]);
        kith_free(comma[i]);
    }
    assert_true(fractions >= 3); /* or the test shows nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
