/* core/base/fault.c - the n-th call of a kind fails, for tests (see fault.h for the syntax of KITH_FAULT).
 *
 * Each rule counts the calls of its kind on its own; "@rank" makes it count, and fail, only the calls of threads of
 * that world rank. Counters restart when the text of the variable changes, not at every kith_init(): "the 7th of this
 * process" spans the part of kith_init() before the rank is known. kith_init() refuses a malformed entry.
 *
 * Lock: rules are rewritten under `lock`; readers see them through the release store of `state`. Tests change the
 * variable only while no other thread is inside the library.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fault.h"
#include "error.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 16, TEXT_NBYTES = 512, ANY_RANK = -1, UNREAD = 0, QUIET = 1, ARMED = 2 };

typedef struct fault_rule {
    ki_fault_kind kind;
    int rank;
    unsigned long nth;
    atomic_ulong calls;
} fault_rule;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int state = UNREAD;
static fault_rule rules[MAX_RULES];
static int rule_count;
static char text[TEXT_NBYTES];
static char wrong_entry[64]; /* of text; empty: all are fine */
static _Thread_local int thread_rank = ANY_RANK;

static const char *const kind_names[KI_FAULT_KINDS] = { "alloc", "socket", "shm", "open" };

static bool parse_rule(const char *entry, fault_rule *rule)
{
    for (int kind = 0; kind < KI_FAULT_KINDS; kind++) {
        size_t n = strlen(kind_names[kind]);
        if (strncmp(entry, kind_names[kind], n) != 0 || entry[n] != ':')
            continue;
        int used = 0, used_rank = 0, rank = ANY_RANK;
        unsigned long nth = 0;
        if (sscanf(entry + n + 1, "%8lu%n", &nth, &used) != 1 || nth == 0)
            return false;
        const char *rest = entry + n + 1 + used;
        if (*rest == '@' && (sscanf(rest + 1, "%8d%n", &rank, &used_rank) != 1 || rank < 0 || rest[1 + used_rank]))
            return false;
        if (*rest && *rest != '@')
            return false;
        rule->kind = (ki_fault_kind)kind;
        rule->rank = rank;
        rule->nth = nth;
        atomic_store_explicit(&rule->calls, 0, memory_order_relaxed);
        return true;
    }
    return false;
}

/* Lock held. */
static void read_rules(void)
{
    char copy[TEXT_NBYTES], *next = NULL;
    wrong_entry[0] = '\0';
    rule_count = 0;
    strcpy(copy, text);
    for (char *entry = strtok_r(copy, ",", &next); entry; entry = strtok_r(NULL, ",", &next)) {
        if (rule_count < MAX_RULES && parse_rule(entry, &rules[rule_count]))
            rule_count++;
        else
            snprintf(wrong_entry, sizeof wrong_entry, "%s", entry);
    }
    atomic_store_explicit(&state, rule_count > 0 ? ARMED : QUIET, memory_order_release);
}

static void read_environment(void)
{
    const char *value = getenv("KITH_FAULT");
    if (!value)
        value = "";
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&state, memory_order_relaxed) == UNREAD || strncmp(text, value, sizeof text - 1) != 0) {
        snprintf(text, sizeof text, "%s", value);
        read_rules();
    }
    pthread_mutex_unlock(&lock);
}

void ki_fault_set_rank(int world_rank)
{
    thread_rank = world_rank;
}

kith_status ki_fault_configure(int world_rank)
{
    char wrong[sizeof wrong_entry];
    ki_fault_set_rank(world_rank);
    read_environment();
    pthread_mutex_lock(&lock);
    memcpy(wrong, wrong_entry, sizeof wrong);
    pthread_mutex_unlock(&lock);
    if (wrong[0] == '\0')
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG,
                   "KITH_FAULT: \"%s\" is not valid; valid: alloc:N socket:N shm:N open:N with N from 1, each also "
                   "with @rank, at most %d with commas between",
                   wrong, (int)MAX_RULES);
}

bool ki_fault(ki_fault_kind kind)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now == QUIET, 1))
        return false;
    if (now == UNREAD)
        read_environment();
    bool is_hit = false;
    for (int i = 0; i < rule_count; i++) {
        fault_rule *rule = &rules[i];
        if (rule->kind != kind || (rule->rank != ANY_RANK && rule->rank != thread_rank))
            continue;
        is_hit |= atomic_fetch_add_explicit(&rule->calls, 1, memory_order_relaxed) + 1 == rule->nth;
    }
    return is_hit;
}
