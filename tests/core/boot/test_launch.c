/* tests/core/boot/test_launch.c - the rules by which rank, size and store are found, in their order, and what is said
 * when they fail.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/boot/launch.h"
#include <sys/wait.h>

extern char **environ;

/* ---- harness ---- */

/* Nothing of the real launcher's environment is left. */
static int clean_environment(void **state)
{
    (void)state;
    static const char *const prefixes[] = { "KITH_",
                                            "OMPI_",
                                            "PMI",
                                            "MPI_",
                                            "SLURM_",
                                            "MASTER_",
                                            "TORCHELASTIC_",
                                            "RANK=",
                                            "WORLD_SIZE=",
                                            "LOCAL_RANK=",
                                            "LOCAL_WORLD_SIZE=",
                                            "TMPDIR=" };
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (char **e = environ; *e && !is_changed; e++) {
            for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
                if (strncmp(*e, prefixes[i], strlen(prefixes[i])) == 0) {
                    char name[256];
                    snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
                    unsetenv(name);
                    is_changed = true;
                    break;
                }
            }
        }
    }
    return 0;
}

/* "RANK=1 WORLD_SIZE=4" */
static void set_variables(const char *text)
{
    char copy[1024], *next = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = strtok_r(copy, " ", &next); p; p = strtok_r(NULL, " ", &next)) {
        char *equals = strchr(p, '=');
        assert_non_null(equals);
        *equals = '\0';
        setenv(p, equals + 1, 1);
    }
}

/* An MPI that answers what the test says. */
static struct {
    int rank, size;
    kith_status when_initialised, when_asked_to;
    int init_calls;
} mpi;

static kith_status mpi_launch(int may_init, int *rank, int *size)
{
    mpi.init_calls += may_init;
    kith_status s = may_init ? mpi.when_asked_to : mpi.when_initialised;
    if (s == KITH_OK) {
        *rank = mpi.rank;
        *size = mpi.size;
    }
    return s;
}

static kith_status mpi_broadcast(void *buffer, size_t nbytes)
{
    (void)buffer;
    (void)nbytes;
    return KITH_OK;
}

static const kith_backend openmpi = { .abi = KITH_BACKEND_ABI,
                                      .struct_size = sizeof(kith_backend),
                                      .name = "mpi",
                                      .variant = "openmpi",
                                      .launch = mpi_launch,
                                      .launch_broadcast = mpi_broadcast };

static kith_status detect_with(const kith_init_options *options, size_t modules, ki_launch *launch)
{
    const kith_backend *module = &openmpi;
    ki_config *config = NULL;
    kith_status s = ki_config_create(NULL, 0, NULL, 0, &config);
    memset(launch, 0xee, sizeof *launch);
    if (s == KITH_OK)
        s = ki_launch_detect(options, config, &module, modules, launch);
    ki_config_destroy(config);
    return s;
}

static void expect_in(const char *variables, int rank, int size, int local_rank, int local_size, const char *source,
                      const char *store)
{
    ki_launch launch;
    clean_environment(NULL);
    set_variables(variables);
    kith_status s = detect_with(NULL, 0, &launch);
    if (s != KITH_OK)
        fail_msg("%s: %s (%s)", variables, kith_status_name(s), kith_error_detail());
    if (launch.rank != rank || launch.size != size || launch.local_rank != local_rank ||
        launch.local_size != local_size)
        fail_msg("%s: got rank %d of %d, local %d of %d", variables, launch.rank, launch.size, launch.local_rank,
                 launch.local_size);
    assert_has(launch.source, source);
    if (strcmp(launch.store, store) != 0 && (!*store || strncmp(launch.store, store, strlen(store)) != 0))
        fail_msg("%s: store is \"%s\", wanted \"%s\"", variables, launch.store, store);
    assert_false(launch.needs_broadcast);
    assert_null(launch.module);
}

static void expect_error(const char *variables, const char *text, const char *more)
{
    ki_launch launch;
    clean_environment(NULL);
    set_variables(variables);
    kith_status s = detect_with(NULL, 0, &launch);
    if (s != KITH_ERR_INVALID_ARG)
        fail_msg("%s: got %s", variables, kith_status_name(s));
    assert_has(kith_error_detail(), text);
    if (more)
        assert_has(kith_error_detail(), more);
}

/* ---- rank and size ---- */

#define MASTER " MASTER_ADDR=node1 MASTER_PORT=29500"

static void test_sources(void **state)
{
    (void)state;
    expect_in("", 0, 1, -1, 0, "no launcher", "inproc://alone-");
    expect_in("KITH_RANK=2 KITH_SIZE=4 KITH_STORE=tcp://h:1", 2, 4, -1, 0, "KITH_RANK", "tcp://h:1");
    expect_in("KITH_RANK=2 KITH_SIZE=4 KITH_LOCAL_RANK=0 KITH_LOCAL_SIZE=2 KITH_STORE=file:///x", 2, 4, 0, 2,
              "KITH_RANK", "file:///x");
    expect_in("RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2" MASTER, 3, 8, 1, 2, "torchrun",
              "tcp://node1:29500");
    expect_in("RANK=3 WORLD_SIZE=8" MASTER, 3, 8, -1, 0, "torchrun", "tcp://node1:29500");
    expect_in("RANK=3 WORLD_SIZE=8 LOCAL_RANK=3" MASTER, 3, 8, 3, 0, "torchrun", "tcp://node1:29500");
    expect_in("RANK=0 WORLD_SIZE=2 MASTER_ADDR=fd00::5 MASTER_PORT=1", 0, 2, -1, 0, "torchrun", "tcp://[fd00::5]:1");
    expect_in("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
              "OMPI_MCA_ess_base_jobid=77",
              1, 2, 1, 2, "Open MPI", "tcp://127.0.0.1:0?file=/tmp/kith-");
    expect_in("PMI_RANK=1 PMI_SIZE=3 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=3", 1, 3, 1, 3, "PMI",
              "tcp://127.0.0.1:0?file=/tmp/kith-");
    expect_in("SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_LOCALID=5 SLURM_STEP_ID=0 SLURM_JOB_ID=9 SLURM_STEP_NUM_NODES=1", 5,
              6, 5, 0, "Slurm", "tcp://127.0.0.1:0?file=/tmp/kith-");
    expect_in("SLURM_PROCID=0 SLURM_NTASKS=6", 0, 1, -1, 0, "no launcher",
              "inproc://alone-"); /* a batch script, no step */
    expect_in("RANK= WORLD_SIZE=", 0, 1, -1, 0, "no launcher", "inproc://alone-");
}

static void test_order(void **state)
{
    (void)state;
#define SLURM "SLURM_PROCID=50 SLURM_NTASKS=60 SLURM_STEP_ID=0"
#define PMI "PMI_RANK=40 PMI_SIZE=60 " SLURM
#define OMPI "OMPI_COMM_WORLD_RANK=30 OMPI_COMM_WORLD_SIZE=60 " PMI
#define TORCH "RANK=20 WORLD_SIZE=60 " OMPI
    expect_in(SLURM MASTER, 50, 60, -1, 0, "Slurm", "tcp://node1:29500");
    expect_in(PMI MASTER, 40, 60, -1, 0, "PMI", "tcp://node1:29500");
    expect_in(OMPI MASTER, 30, 60, -1, 0, "Open MPI", "tcp://node1:29500");
    expect_in(TORCH MASTER, 20, 60, -1, 0, "torchrun", "tcp://node1:29500");
    expect_in("KITH_RANK=10 KITH_SIZE=60 KITH_STORE=tcp://k:2 " TORCH MASTER, 10, 60, -1, 0, "KITH_RANK", "tcp://k:2");
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    ki_launch launch;
    options.rank = 5;
    options.size = 60;
    assert_status(detect_with(&options, 0, &launch), KITH_OK); /* in the environment of the line above */
    assert_int_equal(launch.rank, 5);
    assert_string_equal(launch.source, "kith_init options");
    assert_string_equal(launch.store, "tcp://k:2");
    options.store = "tcp://mine:3";
    assert_status(detect_with(&options, 0, &launch), KITH_OK);
    assert_string_equal(launch.store, "tcp://mine:3");
    options.size = 0; /* then the options' rank does not count */
    assert_status(detect_with(&options, 0, &launch), KITH_OK);
    assert_int_equal(launch.rank, 10);
}

static void test_bad_values(void **state)
{
    (void)state;
    expect_error("KITH_RANK=abc KITH_SIZE=4", "KITH_RANK=\"abc\"", "number");
    expect_error("KITH_RANK=4 KITH_SIZE=4", "KITH_RANK=4", "KITH_SIZE=4");
    expect_error("KITH_RANK=0 KITH_SIZE=0", "KITH_SIZE=\"0\"", "from 1");
    expect_error("KITH_RANK=1", "KITH_RANK=1 is set but KITH_SIZE is not", NULL);
    expect_error("KITH_SIZE=1", "KITH_SIZE=1 is set but KITH_RANK is not", NULL);
    expect_error("RANK=abc WORLD_SIZE=4", "RANK=\"abc\"", "torchrun");
    expect_error("RANK=-1 WORLD_SIZE=4", "RANK=\"-1\"", "from 0");
    expect_error("RANK=4 WORLD_SIZE=4", "RANK=4", "WORLD_SIZE=4");
    expect_error("RANK=0x1 WORLD_SIZE=4", "RANK=\"0x1\"", NULL);
    expect_error("RANK=1.5 WORLD_SIZE=4", "RANK=\"1.5\"", NULL);
    expect_error("RANK=0 WORLD_SIZE=0", "WORLD_SIZE=\"0\"", "from 1");
    expect_error("RANK=0 WORLD_SIZE=4294967297", "WORLD_SIZE=\"4294967297\"", NULL);
    expect_error("RANK=0", "RANK=0 is set but WORLD_SIZE is not", NULL);
    expect_error("WORLD_SIZE=2", "WORLD_SIZE=2 is set but RANK is not", NULL);
    expect_error("RANK=0 WORLD_SIZE=2 LOCAL_RANK=x" MASTER, "LOCAL_RANK=\"x\"", NULL);
    expect_error("RANK=0 WORLD_SIZE=2 LOCAL_RANK=2" MASTER, "LOCAL_RANK=2", "WORLD_SIZE=2");
    expect_error("RANK=0 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1" MASTER, "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=1");
    expect_error("RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3" MASTER, "LOCAL_WORLD_SIZE=3", "WORLD_SIZE=2");
    expect_error("RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=0" MASTER, "LOCAL_WORLD_SIZE=\"0\"", NULL);
    expect_error("KITH_RANK=0 KITH_SIZE=2 KITH_LOCAL_RANK=5 KITH_STORE=tcp://h:1", "KITH_LOCAL_RANK=5", NULL);
    expect_error("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not", NULL);
    expect_error("OMPI_COMM_WORLD_RANK=z OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=\"z\"", "Open MPI");
    expect_error("PMI_SIZE=2", "PMI_RANK is not", NULL);
    expect_error("PMI_RANK=2 PMI_SIZE=2", "PMI_RANK=2", NULL);
    expect_error("SLURM_PROCID=x SLURM_NTASKS=2 SLURM_STEP_ID=0", "SLURM_PROCID=\"x\"", NULL);
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct {
        int rank, size, local_rank, local_size;
    } cases[] = { { -1, 4, 0, 0 }, { 4, 4, 0, 0 },  { 0, -1, 0, 0 }, { 0, 4, 0, 5 },
                  { 0, 4, 2, 2 },  { 0, 4, -1, 2 }, { 0, 4, 0, -1 } };
    ki_launch launch;
    clean_environment(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_init_options options = KITH_INIT_OPTIONS_INIT;
        options.rank = cases[i].rank;
        options.size = cases[i].size;
        options.local_rank = cases[i].local_rank;
        options.local_size = cases[i].local_size;
        options.store = "tcp://h:1";
        assert_status(detect_with(&options, 0, &launch), KITH_ERR_INVALID_ARG);
        assert_has(kith_error_detail(), "options.");
    }
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    char url[700];
    memset(url, 'u', sizeof url - 1);
    url[sizeof url - 1] = '\0';
    options.size = 2;
    options.local_size = 2;
    options.local_rank = 1;
    options.store = "tcp://h:1";
    assert_status(detect_with(&options, 0, &launch), KITH_OK);
    assert_int_equal(launch.local_rank, 1);
    assert_int_equal(launch.local_size, 2);
    options.store = url;
    assert_status(detect_with(&options, 0, &launch), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "options.store");
}

/* ---- store ---- */

static void test_master(void **state)
{
    (void)state;
    expect_error("RANK=0 WORLD_SIZE=2", "no store", "MASTER_ADDR");
    expect_error("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", "MASTER_ADDR=h is set but MASTER_PORT is not", NULL);
    expect_error("RANK=0 WORLD_SIZE=2 MASTER_PORT=5", "MASTER_PORT=5 is set but MASTER_ADDR is not", NULL);
    expect_error("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", "MASTER_PORT=\"0\"", "65535");
    expect_error("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65536", "MASTER_PORT=\"65536\"", NULL);
    expect_error("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=http", "MASTER_PORT=\"http\"", NULL);
    /* torchrun's agent itself sits at MASTER_PORT */
    expect_in("RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True" MASTER, 0, 2, -1, 0, "torchrun",
              "tcp://node1:29501");
    expect_in("RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=False" MASTER, 0, 2, -1, 0, "torchrun",
              "tcp://node1:29500");
    expect_in("RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True MASTER_ADDR=n MASTER_PORT=65535", 0, 2, -1, 0,
              "torchrun", "tcp://n:65534");
    expect_in("RANK=0 WORLD_SIZE=2 KITH_STORE=inproc://x" MASTER, 0, 2, -1, 0, "torchrun", "inproc://x");
}

static void test_job_file(void **state)
{
    (void)state;
    ki_launch a, b;
    clean_environment(NULL);
    set_variables("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
                  "PMIX_NAMESPACE=prterun-h-12@1/x TMPDIR=/var/tmp");
    assert_status(detect_with(NULL, 0, &a), KITH_OK);
    assert_has(a.store, "?file=/var/tmp/kith-");
    assert_has(a.store, "ompi-prterun-h-12_1_x"); /* no / in a file's name */
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    assert_status(detect_with(NULL, 0, &b), KITH_OK);
    assert_string_equal(a.store, b.store);
    setenv("OMPI_MCA_ess_base_jobid", "99", 1); /* another job: another file */
    assert_status(detect_with(NULL, 0, &b), KITH_OK);
    assert_string_not_equal(a.store, b.store);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1); /* two hosts: a file would not be shared */
    assert_status(detect_with(NULL, 0, &b), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "spans hosts");
    assert_has(kith_error_detail(), "KITH_STORE=tcp://");
    clean_environment(NULL);
    set_variables("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=3 SLURM_JOB_ID=44 SLURM_STEP_NUM_NODES=2");
    assert_status(detect_with(NULL, 0, &b), KITH_ERR_INVALID_ARG);
    setenv("SLURM_STEP_NUM_NODES", "1", 1);
    assert_status(detect_with(NULL, 0, &b), KITH_OK);
    assert_has(b.store, "slurm-44-3");
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.size = 2; /* explicit, and the launcher agrees */
    assert_status(detect_with(&options, 0, &b), KITH_OK);
    assert_has(b.store, "slurm-44-3");
    options.size = 3; /* it does not */
    assert_status(detect_with(&options, 0, &b), KITH_ERR_INVALID_ARG);
    char folder[600];
    memset(folder, 'f', sizeof folder - 1);
    folder[0] = '/';
    folder[sizeof folder - 1] = '\0';
    setenv("TMPDIR", folder, 1);
    assert_status(detect_with(NULL, 0, &b), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "TMPDIR");
}

/* ---- MPI ---- */

static void test_initialised_mpi(void **state)
{
    (void)state;
    ki_launch launch;
    clean_environment(NULL);
    mpi.rank = 3;
    mpi.size = 5;
    mpi.when_initialised = KITH_OK;
    mpi.when_asked_to = KITH_ERR_UNSUPPORTED;
    mpi.init_calls = 0;
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_int_equal(launch.rank, 3);
    assert_int_equal(launch.size, 5);
    assert_string_equal(launch.source, "initialised MPI");
    assert_true(launch.needs_broadcast);
    assert_ptr_equal(launch.module, &openmpi);
    assert_string_equal(launch.store, "");
    setenv("KITH_STORE", "tcp://h:1", 1); /* comes first */
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_false(launch.needs_broadcast);
    assert_int_equal(launch.rank, 3);
    unsetenv("KITH_STORE");
    set_variables(
        "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=5 OMPI_COMM_WORLD_LOCAL_SIZE=5 OMPI_MCA_ess_base_jobid=1");
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_string_equal(launch.source, "Open MPI environment");
    assert_true(launch.needs_broadcast); /* the initialised MPI before the file */
    mpi.size = 4;                        /* an MPI that sees the job otherwise is not asked */
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_false(launch.needs_broadcast);
    assert_has(launch.store, "ompi-1");
    assert_int_equal(mpi.init_calls, 0);
}

/* mpirun over hosts, without a store: MPI is initialised for it. On one host it is not. */
static void test_mpi_over_hosts(void **state)
{
    (void)state;
    ki_launch launch;
    clean_environment(NULL);
    mpi.rank = 1;
    mpi.size = 4;
    mpi.when_initialised = KITH_ERR_UNSUPPORTED;
    mpi.when_asked_to = KITH_OK;
    mpi.init_calls = 0;
    set_variables(
        "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_ess_base_jobid=1");
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_false(launch.needs_broadcast);
    assert_int_equal(mpi.init_calls, 0);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_status(detect_with(NULL, 1, &launch), KITH_OK);
    assert_true(launch.needs_broadcast);
    assert_ptr_equal(launch.module, &openmpi);
    assert_int_equal(mpi.init_calls, 1);
    clean_environment(NULL); /* MPICH's launcher: not with Open MPI's module */
    set_variables("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALNRANKS=2");
    assert_status(detect_with(NULL, 1, &launch), KITH_ERR_INVALID_ARG);
    assert_int_equal(mpi.init_calls, 1);
    clean_environment(NULL); /* options without a store and without a launcher: nothing to ask */
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.size = 4;
    assert_status(detect_with(&options, 1, &launch), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "options.store");
    assert_int_equal(mpi.init_calls, 1);
    mpi.when_asked_to = KITH_ERR_UNSUPPORTED;
}

/* ---- host ---- */

static void test_host_identity(void **state)
{
    (void)state;
    char a[256], b[256], name[200] = "";
    ki_config *config = NULL;
    clean_environment(NULL);
    assert_status(ki_config_create(NULL, 0, NULL, 0, &config), KITH_OK);
    ki_host_identity(config, a, sizeof a);
    ki_host_identity(config, b, sizeof b);
    gethostname(name, sizeof name - 1);
    assert_string_equal(a, b);
    assert_has(a, name);
    assert_has(a, "pid:[");
    ki_config_destroy(config);
    setenv("KITH_HOSTID", "node-a", 1);
    assert_status(ki_config_create(NULL, 0, NULL, 0, &config), KITH_OK);
    ki_host_identity(config, a, sizeof a);
    assert_string_equal(a, "node-a");
    ki_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),         cmocka_unit_test(test_order),
        cmocka_unit_test(test_bad_values),      cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_master),          cmocka_unit_test(test_job_file),
        cmocka_unit_test(test_initialised_mpi), cmocka_unit_test(test_mpi_over_hosts),
        cmocka_unit_test(test_host_identity),
    };
    return cmocka_run_group_tests(tests, clean_environment, NULL);
}
