/* tests/conformance/cases_reports.c - errors that say who is behind, where, and what the ranks disagree about.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static kith_group *named(const rank_info *info, const char *name, int64_t timeout_ms)
{
    kith_group *group = NULL;
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.name = name;
    options.timeout_ms = timeout_ms;
    REQUIRE_OK(kith_group_dup(info->world, &options, &group));
    return group;
}

/* ---- who is behind ---- */

/* Rank 5 of 8 waits elsewhere: the others name it and the place, and do not name each other. */
static void behind(const rank_info *info, bool is_in_message)
{
    enum { BEHIND = 5 };
    const char *name = is_in_message ? "stage" : "main";
    kith_group *group = named(info, name, 1800), *side = named(info, "side", 900);
    float x = 1, y = 0;
    char text[200];
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(kith_all_reduce(group, &x, &y, 1, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == BEHIND) {
        if (is_in_message)
            REQUIRE_STATUS(kith_recv(side, &y, 1, KITH_F32, 0, 9, NULL), KITH_ERR_TIMEOUT);
        else
            REQUIRE_STATUS(kith_barrier(side), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("on group 'side'");
    } else {
        REQUIRE_STATUS(kith_all_reduce(group, &x, &y, 1, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("all_reduce f32 x1 sum seq 3");
        REQUIRE_DETAIL("missing rank: 5");
        snprintf(text, sizeof text, "rank 5 waits in %s on group 'side'",
                 is_in_message ? "receive of 4 B from rank 0 tag 9" : "barrier seq 0");
        REQUIRE_DETAIL(text);
        REQUIRE(strstr(kith_error_detail(), "rank 1 waits in") == NULL);
    }
    REQUIRE_OK(kith_barrier(info->world));
}

static void case_straggler(rank_info *info)
{
    REQUIRE(info->size == 8);
    behind(info, false);
    behind(info, true);
}

/* Rank 2 comes late to many large copies from one rank to another: the others go on, and nobody is left behind. */
static void case_ahead(rank_info *info)
{
    enum { LATE = 2, COUNT = 100 };
    const size_t nbytes = 65536, blocks = nbytes * (size_t)info->size;
    unsigned char *one = (unsigned char *)malloc(nbytes), *all = (unsigned char *)malloc(blocks);
    memset(one, info->rank, nbytes);
    memset(all, 0x77, blocks);
    for (int form = 0; form < 3; form++) {
        REQUIRE_OK(kith_barrier(info->world));
        if (info->rank == LATE)
            usleep(50000); /* the others run on as far as the rings reach */
        for (int i = 0; i < COUNT; i++) {
            if (form == 0)
                REQUIRE_OK(kith_broadcast(info->world, all, nbytes, KITH_UINT8, 0));
            else if (form == 1)
                REQUIRE_OK(kith_gather(info->world, one, all, nbytes, KITH_UINT8, LATE));
            else
                REQUIRE_OK(kith_scatter(info->world, all, one, nbytes, KITH_UINT8, 0));
        }
        REQUIRE(form != 0 || all[nbytes - 1] == 0x77);
        for (int r = 0; form == 1 && info->rank == LATE && r < info->size; r++)
            REQUIRE(all[(size_t)r * nbytes] == r && all[(size_t)(r + 1) * nbytes - 1] == r);
    }
    REQUIRE(one[0] == 0x77 && one[nbytes - 1] == 0x77);
    free(one);
    free(all);
}

/* A blocking message and a started one tell where the peer waits. */
static void case_where_the_peer_is(rank_info *info)
{
    kith_group *group = named(info, "pair", 1500), *side = named(info, "side", 700);
    int x = 0;
    REQUIRE(info->size >= 2);
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 1) {
        REQUIRE_STATUS(kith_barrier(side), KITH_ERR_TIMEOUT);
    } else if (info->rank == 0) {
        kith_request *request = NULL;
        REQUIRE_OK(kith_recv_start(group, &x, 1, KITH_INT32, 1, 3, &request));
        REQUIRE_STATUS(kith_recv(group, &x, 1, KITH_INT32, 1, 2, NULL), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("rank 1 has no matching send; it waits in barrier seq 0 on group 'side'");
        REQUIRE_STATUS(kith_wait(&request), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("rank 1 has no matching send; it waits in barrier seq 0 on group 'side'");
    }
    REQUIRE_OK(kith_barrier(info->world));
}

/* ---- what the ranks disagree about ---- */

/* All ranks get the same sentence. */
static void require_same_text(const rank_info *info)
{
    char own[1024] = "", first[1024] = "";
    snprintf(own, sizeof own, "%s", kith_error_detail());
    memcpy(first, own, sizeof own);
    REQUIRE_OK(kith_broadcast(info->world, first, sizeof first, KITH_UINT8, 0));
    if (strcmp(own, first) != 0)
        rank_fail(__FILE__, __LINE__, "the text is \"%s\", on rank 0 \"%s\"", own, first);
}

static void case_mismatch_text(rank_info *info)
{
    float x[64] = { 0 }, y[64 * 8] = { 0 };
    bool is_odd = info->rank == 1;
    REQUIRE(info->size >= 2 && info->size <= 8);
    REQUIRE_STATUS(kith_all_reduce(info->world, x, y, is_odd ? 32 : 64, KITH_F32, KITH_SUM), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("group 'world': ranks called different operations: rank");
    REQUIRE_DETAIL(": all_reduce f32 x64 sum seq 0; rank 1: all_reduce f32 x32 sum seq 0");
    require_same_text(info);
    kith_request *request = NULL;
    if (is_odd)
        REQUIRE_OK(kith_reduce_start(info->world, x, y, 8, KITH_F32, KITH_SUM, 0, &request));
    else
        REQUIRE_OK(kith_reduce_scatter_start(info->world, x, y, 8, KITH_F32, KITH_SUM, &request));
    REQUIRE_STATUS(kith_wait(&request), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("rank 1: reduce f32 x8 sum root 0");
    require_same_text(info);
    REQUIRE_STATUS(kith_all_reduce(info->world, is_odd ? NULL : x, y, 8, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("rank 1: all_reduce: a buffer is NULL");
    require_same_text(info);
}

static int run_mismatch_text(run_options *options)
{
    static const kith_setting check[] = { { "check", "1" } };
    options->settings = check;
    options->setting_count = 1;
    return run_ranks(options, case_mismatch_text, NULL);
}

/* The environment alone turns the check on. */
static int run_check_environment(run_options *options)
{
    setenv("KITH_CHECK", "1", 1);
    int failed = run_ranks(options, case_mismatch_text, NULL);
    unsetenv("KITH_CHECK");
    return failed;
}

/* ---- flight records ---- */

static char folder[256], record_path[300];

/* Rank 2 waits in a receive on group pp while the others are in a collective on tp; everyone writes its record. */
static void case_flight(rank_info *info)
{
    kith_group *tp = named(info, "tp", 1600), *pp = named(info, "pp", 800);
    float x[16] = { 0 }, y[16];
    REQUIRE(info->size == 4);
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(kith_all_gather(tp, x, y, 4, KITH_F32));
    REQUIRE_OK(kith_barrier(pp));
    if (info->rank == 2)
        REQUIRE_STATUS(kith_recv(pp, x, 1, KITH_F32, 0, 0, NULL), KITH_ERR_TIMEOUT);
    else
        REQUIRE_STATUS(kith_reduce_scatter(tp, x, y, 4, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("did not complete within"); /* writing the record does not hide the timeout */
}

/* Runs `kith flight folder` and looks for a sentence in its report. 0 when it is there. */
static int report_has(const char *sentence)
{
    char command[700], report[8192] = "";
    snprintf(command, sizeof command, "'%s' flight '%s' 2>&1", getenv("KITH_BIN"), folder);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL)
        return 1;
    size_t length = fread(report, 1, sizeof report - 1, pipe);
    report[length] = '\0';
    pclose(pipe);
    if (strstr(report, "without jansson") != NULL)
        return CASE_SKIPPED;
    if (strstr(report, sentence) != NULL)
        return 0;
    fprintf(stderr, "FAILED the report lacks \"%s\":\n%s", sentence, report);
    return 1;
}

static int run_flight(run_options *options)
{
    if (getenv("KITH_BIN") == NULL || access(getenv("KITH_BIN"), X_OK) != 0) {
        fprintf(stderr, "case flight SKIPPED: KITH_BIN does not name the kith command\n");
        return CASE_SKIPPED;
    }
    case_folder_make(folder, sizeof folder);
    snprintf(record_path, sizeof record_path, "%s/rank%%r.jsonl", folder);
    setenv("KITH_DUMP_ON_TIMEOUT", record_path, 1);
    int failed = run_ranks(options, case_flight, NULL);
    unsetenv("KITH_DUMP_ON_TIMEOUT");
    if (failed == 0)
        failed = report_has("rank 2 never called seq 3 (reduce_scatter, group tp)");
    if (failed == 0)
        failed = report_has("ranks 0, 1, 3 are waiting in it");
    if (failed == 0)
        failed = report_has("recv with group rank 0 of rank 2 (group pp) has not ended");
    case_folder_remove(folder);
    return failed;
}

const conformance_case cases_reports[] = {
    { "straggler", case_straggler, NULL },
    { "ahead", case_ahead, NULL },
    { "where_the_peer_is", case_where_the_peer_is, NULL },
    { "mismatch_text", NULL, run_mismatch_text },
    { "check_environment", NULL, run_check_environment },
    { "flight", NULL, run_flight },
    { NULL, NULL, NULL },
};
