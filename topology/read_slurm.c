/* topology/read_slurm.c - Slurm's topology.conf: trees of switches and blocks.
 *
 *     SwitchName=spine Switches=leaf[1-2]
 *     SwitchName=leaf1 Nodes=gpu[001-016] LinkSpeed=1     # LinkSpeed has no unit: checked, not used
 *     BlockName=rack1 Nodes=gpu[001-018]
 *     BlockSizes=18,36
 *
 * The lexical rules are Slurm's own: keywords ignore case, '#' begins a comment unless a backslash stands before it, a
 * backslash at the end joins lines, values may be quoted. Comments are never data, although some tools write the real
 * names of switches there. Include is refused: the file that is meant may not be at hand.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "blocks.h"
#include "core/text.h"
#include "lines.h"
#include "switch_tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_KEYS = 8 };

/* One "Key=value" of a line. */
typedef struct pair {
    const char *key, *value;
    size_t key_length, value_length;
} pair;

typedef struct slurm_reader {
    const char *file;
    int line; /* where the logical line begins */
    ki_node_book book;
    ki_switch_tree tree;
    ki_blocks blocks;
    int base_count;       /* smallest of BlockSizes; 0: not given */
    int block_sizes_line; /* 0: not yet */
} slurm_reader;

static bool is_key(const char *text, size_t length, const char *key)
{
    return strlen(key) == length && strncasecmp(text, key, length) == 0;
}

/* ---- lexical rules ---- */

static size_t without_comment(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] == '#' && (i == 0 || line[i - 1] != '\\'))
            return i;
    return length;
}

/* Does the line end with an odd number of backslashes? They may have blanks behind them. */
static bool goes_on(const char *line, size_t *length)
{
    size_t end = *length;
    while (end > 0 && isspace((unsigned char)line[end - 1]))
        end--;
    size_t slashes = 0;
    while (slashes < end && line[end - 1 - slashes] == '\\')
        slashes++;
    if (slashes % 2 == 1)
        *length = end - 1;
    return slashes % 2 == 1;
}

/* The next line with its continuations in out; false at the end. */
static bool next_logical_line(ki_lines *lines, ki_text *out, int *line)
{
    out->length = 0;
    if (!ki_lines_next(lines))
        return false;
    *line = lines->number;
    for (;;) {
        size_t length = without_comment(lines->line, lines->length);
        bool is_joined = goes_on(lines->line, &length);
        ki_text_add(out, "%.*s", (int)length, lines->line);
        if (!is_joined || !ki_lines_next(lines))
            return true;
    }
}

/* Reads "Key = value" at *text, or "Key = \"value\"". NULL: fine; else what is wrong. */
static const char *read_pair(const char **text, pair *p)
{
    const char *c = *text;
    p->key = c;
    while (isalnum((unsigned char)*c) || *c == '_' || *c == '.')
        c++;
    p->key_length = (size_t)(c - p->key);
    while (isspace((unsigned char)*c))
        c++;
    if (p->key_length == 0 || *c != '=')
        return "expected Key=value";
    c++;
    while (isspace((unsigned char)*c))
        c++;
    bool is_quoted = *c == '"';
    p->value = c += is_quoted;
    while (*c != '\0' && (is_quoted ? *c != '"' : !isspace((unsigned char)*c)))
        c++;
    p->value_length = (size_t)(c - p->value);
    if (is_quoted && *c++ != '"')
        return "a quote is not closed";
    if (p->value_length == 0)
        return "a value is empty";
    if (*c != '\0' && !isspace((unsigned char)*c))
        return "something stands right behind a quote";
    while (isspace((unsigned char)*c))
        c++;
    *text = c;
    return NULL;
}

static int read_pairs(const slurm_reader *r, const char *text, pair *pairs, kith_status *status)
{
    int count = 0;
    while (isspace((unsigned char)*text))
        text++;
    if (strncasecmp(text, "include", 7) == 0 && isspace((unsigned char)text[7])) {
        *status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: Include is not followed; name that file as well", r->file,
                                r->line);
        return 0;
    }
    while (*text != '\0') {
        const char *why = count == MOST_KEYS ? "too many keys" : read_pair(&text, &pairs[count]);
        if (why != NULL) {
            *status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s at '%.40s'", r->file, r->line, why, text);
            return 0;
        }
        count++;
    }
    return count;
}

/* ---- meaning ---- */

/* The value of a key behind the first; *status is set when it is there twice. */
static const pair *find_pair(const slurm_reader *r, const pair *pairs, int count, const char *key, kith_status *status)
{
    const pair *found = NULL;
    for (int i = 1; i < count; i++) {
        if (!is_key(pairs[i].key, pairs[i].key_length, key))
            continue;
        if (found != NULL)
            *status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s is there twice", r->file, r->line, key);
        found = &pairs[i];
    }
    return found;
}

static kith_status check_keys(const slurm_reader *r, const pair *pairs, int count, const char *const *valid,
                              const char *text)
{
    for (int i = 1; i < count; i++) {
        int k = 0;
        while (valid[k] != NULL && !is_key(pairs[i].key, pairs[i].key_length, valid[k]))
            k++;
        if (valid[k] == NULL)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: unknown key '%.*s' behind %.*s; valid: %s", r->file,
                                 r->line, (int)pairs[i].key_length, pairs[i].key, (int)pairs[0].key_length,
                                 pairs[0].key, text);
    }
    return KITH_OK;
}

/* Decimal numbers of 1 to 9 digits with commas between. NULL: fine. */
static const char *read_numbers(const pair *p, long *smallest)
{
    *smallest = 0;
    for (size_t i = 0, digits = 0; i <= p->value_length; i++) {
        if (i < p->value_length && isdigit((unsigned char)p->value[i]) && ++digits <= 9)
            continue;
        if (digits == 0 || digits > 9 || (i < p->value_length && p->value[i] != ','))
            return "expected whole numbers with commas between";
        long number = strtol(p->value + i - digits, NULL, 10);
        if (number == 0)
            return "a number is 0";
        *smallest = *smallest == 0 || number < *smallest ? number : *smallest;
        digits = 0;
    }
    return NULL;
}

static kith_status check_numbers(const slurm_reader *r, const pair *p, long *smallest)
{
    const char *why = read_numbers(p, smallest);
    return why == NULL ? KITH_OK
                       : ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %.*s: %s", r->file, r->line, (int)p->key_length,
                                       p->key, why);
}

static kith_status read_switch(slurm_reader *r, const pair *pairs, int count)
{
    static const char *const valid[] = { "Switches", "Nodes", "LinkSpeed", NULL };
    kith_status status = check_keys(r, pairs, count, valid, "Switches, Nodes, LinkSpeed");
    const pair *switches = find_pair(r, pairs, count, "Switches", &status);
    const pair *nodes = find_pair(r, pairs, count, "Nodes", &status);
    const pair *speed = find_pair(r, pairs, count, "LinkSpeed", &status);
    int number = -1;
    long unused;
    if (status == KITH_OK && speed != NULL)
        status = check_numbers(r, speed, &unused);
    if (status == KITH_OK)
        status = ki_switch_tree_declare(&r->tree, pairs[0].value, pairs[0].value_length, r->line, &number);
    if (status == KITH_OK && switches != NULL)
        status = ki_switch_tree_add_children(&r->tree, number, switches->value, switches->value_length, r->line);
    if (status == KITH_OK && nodes != NULL)
        status = ki_switch_tree_add_nodes(&r->tree, number, nodes->value, nodes->value_length, r->line);
    return status;
}

static kith_status read_block(slurm_reader *r, const pair *pairs, int count)
{
    static const char *const valid[] = { "Nodes", NULL };
    kith_status status = check_keys(r, pairs, count, valid, "Nodes");
    const pair *nodes = find_pair(r, pairs, count, "Nodes", &status);
    int domain = -1;
    if (status == KITH_OK)
        status = ki_blocks_declare(&r->blocks, pairs[0].value, pairs[0].value_length, r->line, &domain);
    if (status == KITH_OK && nodes == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: block %.*s has no Nodes", r->file, r->line,
                             (int)pairs[0].value_length, pairs[0].value);
    return status != KITH_OK ? status
                             : ki_blocks_add_nodes(&r->blocks, domain, nodes->value, nodes->value_length, r->line);
}

static kith_status read_block_sizes(slurm_reader *r, const pair *pairs, int count)
{
    static const char *const valid[] = { NULL };
    long smallest = 0;
    if (r->block_sizes_line > 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: BlockSizes is there twice, first in line %d", r->file,
                             r->line, r->block_sizes_line);
    kith_status status = check_keys(r, pairs, count, valid, "nothing");
    if (status == KITH_OK)
        status = check_numbers(r, &pairs[0], &smallest);
    r->base_count = (int)smallest;
    r->block_sizes_line = r->line;
    return status;
}

static kith_status read_line(slurm_reader *r, const char *text)
{
    pair pairs[MOST_KEYS];
    kith_status status = KITH_OK;
    int count = read_pairs(r, text, pairs, &status);
    if (status != KITH_OK || count == 0)
        return status;
    if (is_key(pairs[0].key, pairs[0].key_length, "SwitchName"))
        return read_switch(r, pairs, count);
    if (is_key(pairs[0].key, pairs[0].key_length, "BlockName"))
        return read_block(r, pairs, count);
    if (is_key(pairs[0].key, pairs[0].key_length, "BlockSizes"))
        return read_block_sizes(r, pairs, count);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "%s:%d: a line begins with '%.*s'; valid: SwitchName, BlockName, BlockSizes", r->file, r->line,
                         (int)pairs[0].key_length, pairs[0].key);
}

static kith_status read_lines(slurm_reader *r, const ki_source *source)
{
    ki_lines lines = ki_lines_of(source);
    ki_text text = { 0 };
    kith_status status = KITH_OK;
    if (memchr(source->text, '\0', source->nbytes) != NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has a zero byte inside", r->file);
    while (status == KITH_OK && next_logical_line(&lines, &text, &r->line)) {
        if (text.is_failed)
            status = ki_fail(KITH_ERR_NO_MEMORY, "%s:%d: no memory for the line", r->file, r->line);
        else if (text.length > 0)
            status = read_line(r, text.chars);
    }
    ki_text_fini(&text);
    return status;
}

static kith_status read_slurm(const ki_source *source, kith_topology *t)
{
    slurm_reader r = { .file = source->name };
    kith_status status = ki_node_book_open(&r.book, t);
    ki_switch_tree_open(&r.tree, t, r.file, &r.book);
    ki_blocks_open(&r.blocks, t, r.file, &r.book);
    if (status == KITH_OK)
        status = read_lines(&r, source);
    if (status == KITH_OK)
        status = ki_switch_tree_build(&r.tree);
    if (status == KITH_OK)
        ki_blocks_finish(&r.blocks, r.base_count);
    ki_blocks_close(&r.blocks);
    ki_switch_tree_close(&r.tree);
    ki_node_book_close(&r.book);
    return status;
}

/* The first line that says something decides. */
static int probe(const ki_source *source)
{
    static const char *const keys[] = { "SwitchName", "BlockName", "BlockSizes" };
    ki_source beginning = { source->name, source->text, source->nbytes < 65536 ? source->nbytes : 65536 };
    for (ki_lines lines = ki_lines_of(&beginning); ki_lines_next(&lines);) {
        const char *line = lines.line;
        size_t length = without_comment(line, lines.length);
        ki_trim(&line, &length);
        for (int i = 0; i < 3; i++) {
            size_t n = strlen(keys[i]);
            if (length > n && strncasecmp(line, keys[i], n) == 0 && strchr("= \t", line[n]) != NULL)
                return 90;
        }
        if (length > 0)
            return 0;
    }
    return 0;
}

const ki_reader ki_reader_slurm = { "Slurm topology.conf", probe, read_slurm };
