/* core/algo/select.c - builds the table of rules (built-in, file, forced) and looks algorithms up in it.
 *
 * Looking up reads the frozen table and the operation's agreed values only: every rank comes to the same answer without
 * talking, provided that the tables are equal, which ki_select_hash() lets the group creation compare.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "select.h"
#include "../base/error.h"
#include "../base/json.h"
#include "../base/mem.h"
#include "select_rules.h"
#include <stdio.h>
#include <string.h>

struct ki_select {
    const kith_allocator *allocator;
    ki_select_rule *rules;
    size_t rule_count;
    size_t first[KITH_COLL_COUNT]; /* rules of a collective stand together, in order of looking */
    const ki_algo *forced[KITH_COLL_COUNT];
    bool is_deterministic;
};

static const char *const hosts_names[] = { "any", "one", "many" };

const char *ki_select_hosts_name(ki_select_hosts hosts)
{
    return hosts_names[hosts];
}

/* ---- texts: lists of valid names ---- */

enum { TEXT_NBYTES = 512 };

static void add_name(char *text, const char *name)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT_NBYTES - used, "%s%s", used > 0 ? ", " : "", name);
}

static const char *list_collectives(char *text)
{
    text[0] = 0;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        add_name(text, kith_coll_name((kith_coll_kind)kind));
    return text;
}

static const char *list_algorithms(char *text, kith_coll_kind kind)
{
    size_t count;
    const ki_algo *const *list = ki_algo_list(kind, &count);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        add_name(text, list[i]->name);
    return text;
}

static bool has_name(const char *text, size_t nbytes, const char *name)
{
    return strlen(name) == nbytes && memcmp(text, name, nbytes) == 0;
}

/* KITH_COLL_COUNT when there is none. */
static int find_collective(const char *name, size_t nbytes)
{
    int kind = 0;
    while (kind < KITH_COLL_COUNT && !has_name(name, nbytes, kith_coll_name((kith_coll_kind)kind)))
        kind++;
    return kind;
}

static const ki_algo *find_algorithm(kith_coll_kind kind, const char *name, size_t nbytes)
{
    size_t count;
    const ki_algo *const *list = ki_algo_list(kind, &count);
    for (size_t i = 0; i < count; i++)
        if (has_name(name, nbytes, list[i]->name))
            return list[i];
    return NULL;
}

/* ---- forcing ---- */

/* "ring": for every collective that has it. */
static kith_status force_everywhere(ki_select *select, const char *name, size_t nbytes)
{
    bool has_any = false;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        const ki_algo *algo = find_algorithm((kith_coll_kind)kind, name, nbytes);
        if (algo)
            select->forced[kind] = algo;
        has_any |= algo != NULL;
    }
    if (has_any)
        return KITH_OK;
    char text[TEXT_NBYTES] = "";
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list((kith_coll_kind)kind, &count);
        for (size_t i = 0; i < count; i++)
            if (!strstr(text, list[i]->name))
                add_name(text, list[i]->name);
    }
    return ki_fail(KITH_ERR_INVALID_ARG, "algo: no collective has an algorithm \"%.*s\"; there are %s", (int)nbytes,
                   name, text);
}

static kith_status force_one(ki_select *select, const char *pair, size_t nbytes, size_t name_nbytes)
{
    char text[TEXT_NBYTES];
    int kind = find_collective(pair, name_nbytes);
    if (kind == KITH_COLL_COUNT)
        return ki_fail(KITH_ERR_INVALID_ARG, "algo: there is no collective \"%.*s\"; valid are %s", (int)name_nbytes,
                       pair, list_collectives(text));
    const char *name = pair + name_nbytes + 1;
    size_t algo_nbytes = nbytes - name_nbytes - 1;
    select->forced[kind] = find_algorithm((kith_coll_kind)kind, name, algo_nbytes);
    if (select->forced[kind])
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "algo: %s has no algorithm \"%.*s\"; valid are %s",
                   kith_coll_name((kith_coll_kind)kind), (int)algo_nbytes, name,
                   list_algorithms(text, (kith_coll_kind)kind));
}

static kith_status force(ki_select *select, const char *text)
{
    kith_status status = KITH_OK;
    while (text && *text && status == KITH_OK) {
        size_t nbytes = strcspn(text, ","), name_nbytes = strcspn(text, "=,");
        status = name_nbytes < nbytes ? force_one(select, text, nbytes, name_nbytes)
                                      : force_everywhere(select, text, nbytes);
        text += nbytes + (text[nbytes] == ',');
    }
    return status;
}

/* ---- the table file ---- */

typedef struct table_loader {
    const char *path;
    const ki_json *rule;
    kith_status status;
} table_loader;

static void complain(table_loader *loader, const ki_json *node, const char *what, const char *valid)
{
    if (loader->status == KITH_OK)
        loader->status =
            ki_fail(KITH_ERR_INVALID_ARG, "%s:%d:%d: %s%s", loader->path, node->line, node->column, what, valid);
}

static const ki_json *string_member(table_loader *loader, const char *key, bool is_needed)
{
    const ki_json *member = ki_json_member(loader->rule, key);
    if (!member && is_needed)
        complain(loader, loader->rule, "the rule lacks ", key);
    if (member && member->type != KI_JSON_STRING) {
        complain(loader, member, "a string is expected for ", key);
        return NULL;
    }
    return member;
}

/* 65536, "64k", "2m", "1g"; 0 when absent. */
static size_t size_member(table_loader *loader, const char *key, size_t most)
{
    const ki_json *member = ki_json_member(loader->rule, key);
    if (!member)
        return 0;
    double value = member->type == KI_JSON_NUMBER ? member->number : 0;
    if (member->type == KI_JSON_STRING) {
        char unit = 0, rest = 0;
        unsigned number = 0;
        int fields = sscanf(member->text, "%9u%c%c", &number, &unit, &rest);
        double factor = fields == 1                  ? 1
                        : unit == 'k' || unit == 'K' ? 0x1p10
                        : unit == 'm' || unit == 'M' ? 0x1p20
                        : unit == 'g' || unit == 'G' ? 0x1p30
                                                     : 0;
        value = (fields == 1 || fields == 2) && member->text[0] >= '0' && member->text[0] <= '9' ? number * factor : 0;
    }
    if (!(value >= 1) || value > (double)most || value > 0x1p53 || value != (double)(size_t)value) {
        complain(loader, member, "a positive whole number (bytes also as \"64k\", \"2m\", \"1g\") is expected for ",
                 key);
        return 0;
    }
    return (size_t)value;
}

static ki_select_hosts hosts_member(table_loader *loader)
{
    const ki_json *member = string_member(loader, "hosts", false);
    if (!member)
        return KI_HOSTS_ANY;
    for (int i = 0; i < 3; i++)
        if (strcmp(member->text, hosts_names[i]) == 0)
            return (ki_select_hosts)i;
    complain(loader, member, "hosts is \"any\", \"one\" or \"many\"", "");
    return KI_HOSTS_ANY;
}

static void check_keys(table_loader *loader, const ki_json *object, const char *const *keys, size_t key_count)
{
    if (object->type != KI_JSON_OBJECT) {
        complain(loader, object, "an object is expected, this is ", ki_json_type_name(object->type));
        return;
    }
    for (const ki_json *member = object->first; member; member = member->next) {
        bool is_known = false;
        for (size_t i = 0; i < key_count; i++)
            is_known |= strcmp(member->key, keys[i]) == 0;
        if (!is_known)
            complain(loader, member, "unknown key ", member->key);
    }
}

static ki_select_rule load_rule(table_loader *loader)
{
    static const char *const keys[] = { "collective", "min_ranks", "max_ranks", "max_nbytes", "hosts", "algorithm" };
    char text[TEXT_NBYTES];
    ki_select_rule rule = { .kind = KITH_BARRIER };
    check_keys(loader, loader->rule, keys, sizeof keys / sizeof *keys);
    if (loader->status != KITH_OK)
        return rule;
    const ki_json *collective = string_member(loader, "collective", true);
    const ki_json *algorithm = string_member(loader, "algorithm", true);
    rule.min_ranks = (int)size_member(loader, "min_ranks", INT32_MAX);
    rule.max_ranks = (int)size_member(loader, "max_ranks", INT32_MAX);
    rule.max_nbytes = size_member(loader, "max_nbytes", SIZE_MAX / 2);
    rule.hosts = hosts_member(loader);
    if (!collective || !algorithm)
        return rule;
    int kind = find_collective(collective->text, collective->text_nbytes);
    if (kind == KITH_COLL_COUNT) {
        complain(loader, collective, "no such collective; valid are ", list_collectives(text));
        return rule;
    }
    rule.kind = (kith_coll_kind)kind;
    rule.algo = find_algorithm(rule.kind, algorithm->text, algorithm->text_nbytes);
    if (!rule.algo)
        complain(loader, algorithm, "the collective has no such algorithm; valid are ",
                 list_algorithms(text, rule.kind));
    return rule;
}

static const ki_json *check_root(table_loader *loader, const ki_json *root)
{
    static const char *const keys[] = { "version", "rules" };
    check_keys(loader, root, keys, 2);
    if (loader->status != KITH_OK)
        return NULL;
    const ki_json *version = ki_json_member(root, "version"), *rules = ki_json_member(root, "rules");
    if (!version || version->type != KI_JSON_NUMBER || version->number != 1)
        complain(loader, version ? version : root, "version must be 1", "");
    if (!rules || rules->type != KI_JSON_ARRAY)
        complain(loader, rules ? rules : root, "rules must be an array", "");
    return loader->status == KITH_OK ? rules->first : NULL;
}

/* ---- building ---- */

/* rules of one collective from a list, appended. */
static void append_rules(ki_select *select, const ki_select_rule *rules, size_t count, kith_coll_kind kind)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].kind == kind)
            select->rules[select->rule_count++] = rules[i];
}

/* Rules of a file replace the built-in ones of the collectives that it names. */
static kith_status build(ki_select *select, const ki_select_rule *loaded, size_t loaded_count)
{
    size_t builtin_count = sizeof builtin_rules / sizeof *builtin_rules;
    select->rules = ki_calloc(select->allocator, builtin_count + loaded_count, sizeof(ki_select_rule));
    if (!select->rules)
        return KITH_ERR_NO_MEMORY;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        select->first[kind] = select->rule_count;
        append_rules(select, loaded, loaded_count, (kith_coll_kind)kind);
        if (select->rule_count == select->first[kind])
            append_rules(select, builtin_rules, builtin_count, (kith_coll_kind)kind);
    }
    return KITH_OK;
}

static kith_status build_from_file(ki_select *select, const char *path)
{
    ki_json *root = NULL;
    kith_status status = ki_json_read(select->allocator, path, &root);
    if (status != KITH_OK)
        return ki_fail_context(status, "table of algorithms (KITH_ALGO_TABLE)");
    table_loader loader = { .path = path };
    const ki_json *first = check_root(&loader, root);
    size_t count = 0;
    for (const ki_json *rule = first; rule; rule = rule->next)
        count++;
    ki_select_rule *loaded = loader.status == KITH_OK ? ki_calloc(select->allocator, count, sizeof *loaded) : NULL;
    if (loader.status == KITH_OK && !loaded)
        loader.status = KITH_ERR_NO_MEMORY;
    size_t i = 0;
    for (loader.rule = first; loader.rule && loader.status == KITH_OK; loader.rule = loader.rule->next)
        loaded[i++] = load_rule(&loader);
    if (loader.status == KITH_OK)
        loader.status = build(select, loaded, count);
    ki_free(select->allocator, loaded);
    ki_json_free(select->allocator, root);
    return loader.status;
}

kith_status ki_select_create(const ki_select_options *options, ki_select **out)
{
    ki_select *select = ki_calloc(options->allocator, 1, sizeof *select);
    if (!select)
        return KITH_ERR_NO_MEMORY;
    select->allocator = options->allocator;
    select->is_deterministic = options->is_deterministic;
    bool has_file = options->table_path && options->table_path[0];
    kith_status status = has_file ? build_from_file(select, options->table_path) : build(select, NULL, 0);
    if (status == KITH_OK)
        status = force(select, options->force);
    if (status != KITH_OK) {
        ki_select_destroy(select);
        return status;
    }
    *out = select;
    return KITH_OK;
}

void ki_select_destroy(ki_select *select)
{
    if (!select)
        return;
    ki_free(select->allocator, select->rules);
    ki_free(select->allocator, select);
}

/* ---- looking up ---- */

static size_t saturating_mul(size_t a, size_t b)
{
    size_t product;
    return ki_mul(a, b, &product) ? product : SIZE_MAX;
}

/* counts are NULL when somebody asks about the collective without having one to run. */
static size_t sum_counts(const size_t *counts, size_t count, int size)
{
    size_t sum = 0;
    if (!counts)
        return saturating_mul(count, (size_t)size);
    for (int r = 0; r < size; r++)
        if (!ki_add(sum, counts[r], &sum))
            return SIZE_MAX;
    return sum;
}

size_t ki_select_nbytes(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    switch (coll->kind) {
    case KITH_ALL_REDUCE:
    case KITH_REDUCE:
    case KITH_BROADCAST:
        return saturating_mul(coll->count, coll->nbytes);
    case KITH_REDUCE_SCATTER:
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        return saturating_mul(sum_counts(NULL, coll->count, args->size), coll->nbytes);
    case KITH_REDUCE_SCATTER_V:
    case KITH_ALL_GATHER_V:
        return saturating_mul(sum_counts(coll->recv_counts, coll->count, args->size), coll->nbytes);
    case KITH_GATHER_V:
    case KITH_SCATTER_V:
    case KITH_ALL_TO_ALL_V:
    case KITH_BARRIER:
        break;
    }
    return 0;
}

static bool crosses_hosts(const ki_algo_args *args)
{
    for (int r = 1; args->node_of && r < args->size; r++)
        if (args->node_of[r] != args->node_of[0])
            return true;
    return false;
}

static bool is_allowed(const ki_select *select, const ki_algo *algo, const ki_algo_args *args)
{
    return ki_algo_is_possible(algo, args) && (!select->is_deterministic || ki_algo_is_deterministic(algo, args));
}

static kith_status refuse_forced(const ki_select *select, const ki_algo *forced, const ki_algo_args *args)
{
    size_t count;
    const ki_algo *const *list = ki_algo_list(forced->kind, &count);
    char text[TEXT_NBYTES] = "";
    for (size_t i = 0; i < count; i++)
        if (is_allowed(select, list[i], args))
            add_name(text, list[i]->name);
    const char *why = "is not possible with this number of ranks";
    if (ki_algo_is_possible(forced, args))
        why = "does not follow the documented order of reduction here (deterministic=off allows it)";
    else if (forced->needs_commutative && !args->reducer->base.is_commutative)
        why = "needs a commutative operator";
    return ki_fail(KITH_ERR_UNSUPPORTED, "%s: the forced algorithm %s %s; possible on these %d ranks are %s",
                   kith_coll_name(forced->kind), forced->name, why, args->size, text);
}

kith_status ki_select_find(const ki_select *select, const ki_algo_args *args, const ki_algo **algo)
{
    kith_coll_kind kind = args->coll->kind;
    const ki_algo *forced = select->forced[kind];
    if (forced) {
        if (!is_allowed(select, forced, args))
            return refuse_forced(select, forced, args);
        *algo = forced;
        return KITH_OK;
    }
    size_t nbytes = ki_select_nbytes(args), count;
    ki_select_hosts hosts = crosses_hosts(args) ? KI_HOSTS_MANY : KI_HOSTS_ONE;
    for (size_t i = select->first[kind]; i < select->rule_count && select->rules[i].kind == kind; i++) {
        const ki_select_rule *rule = &select->rules[i];
        bool fits = args->size >= rule->min_ranks && (rule->max_ranks == 0 || args->size <= rule->max_ranks) &&
                    (rule->max_nbytes == 0 || nbytes <= rule->max_nbytes) &&
                    (rule->hosts == KI_HOSTS_ANY || rule->hosts == hosts);
        if (fits && is_allowed(select, rule->algo, args)) {
            *algo = rule->algo;
            return KITH_OK;
        }
    }
    *algo = ki_algo_list(kind, &count)[0];
    return KITH_OK;
}

/* ---- telling ---- */

uint64_t ki_select_hash(const ki_select *select)
{
    uint64_t hash = KI_HASH_INIT;
    for (size_t i = 0; i < select->rule_count; i++) {
        const ki_select_rule *rule = &select->rules[i];
        uint64_t numbers[5] = { (uint64_t)rule->kind, (uint64_t)rule->min_ranks, (uint64_t)rule->max_ranks,
                                rule->max_nbytes, (uint64_t)rule->hosts };
        hash = ki_hash(hash, numbers, sizeof numbers);
        hash = ki_hash(hash, rule->algo->name, strlen(rule->algo->name) + 1);
    }
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        const char *name = select->forced[kind] ? select->forced[kind]->name : "";
        hash = ki_hash(hash, name, strlen(name) + 1);
    }
    unsigned char mode = select->is_deterministic;
    return ki_hash(hash, &mode, 1);
}

bool ki_select_rule_at(const ki_select *select, size_t index, ki_select_rule *rule)
{
    if (index >= select->rule_count)
        return false;
    *rule = select->rules[index];
    return true;
}

const char *ki_select_forced(const ki_select *select, kith_coll_kind kind)
{
    return select->forced[kind] ? select->forced[kind]->name : NULL;
}
