/* topology/read_fabric.c - reads `nvidia-smi --query-gpu=fabric.clusterUuid,fabric.cliqueId --format=csv`: the NVLink
 * domain that one node belongs to.
 *
 * Each line is a GPU: "50000000-...-000000000001, 32766". GPUs with the same pair, on any node, are joined by NVLink.
 * N/A means that the GPUs have no NVLink to other nodes. A UUID of zeros means that they would have, and that the
 * fabric has not come up. With a header (no "noheader") the columns may stand anywhere among others; without one
 * there are two.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 32, MOST_NBYTES = 1 << 20, UUID_LENGTH = 36 };

typedef struct slice {
    const char *at;
    size_t length;
} slice;

typedef struct fabric {
    const ki_source *source;
    int uuid_column, clique_column, columns; /* columns 0: no header, two fields */
    int line;
    int gpu_count;
    slice uuid, clique; /* of the first GPU; uuid.at NULL: N/A */
} fabric;

static slice trim(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return (slice){ from, (size_t)(to - from) };
}

static int split(const char *from, const char *to, slice *fields)
{
    int count = 0;
    while (count < MOST_FIELDS) {
        const char *comma = (const char *)memchr(from, ',', (size_t)(to - from));
        fields[count++] = trim(from, comma != NULL ? comma : to);
        if (comma == NULL)
            return count;
        from = comma + 1;
    }
    return count;
}

static bool is_word(slice s, const char *word)
{
    return s.length == strlen(word) && strncasecmp(s.at, word, s.length) == 0;
}

static bool is_absent(slice s)
{
    return is_word(s, "N/A") || is_word(s, "[N/A]") || is_word(s, "[Not Supported]");
}

static bool is_uuid(slice s)
{
    if (s.length != UUID_LENGTH)
        return false;
    for (size_t i = 0; i < s.length; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? s.at[i] != '-' : !isxdigit((unsigned char)s.at[i]))
            return false;
    }
    return true;
}

static bool is_number(slice s)
{
    for (size_t i = 0; i < s.length; i++)
        if (!isdigit((unsigned char)s.at[i]))
            return false;
    return s.length > 0 && s.length <= 10;
}

static bool is_same(slice a, slice b)
{
    return a.length == b.length && (a.at == NULL) == (b.at == NULL) &&
           (a.at == NULL || strncasecmp(a.at, b.at, a.length) == 0);
}

/* ---- probe ---- */

/* The first line that says something: a header, a pair, or "N/A, N/A". */
static int probe(const ki_source *source)
{
    const char *end = source->text + source->nbytes;
    for (const char *at = source->text; at < end;) {
        const char *newline = (const char *)memchr(at, '\n', (size_t)(end - at));
        const char *to = newline != NULL ? newline : end;
        slice line = trim(at, to), fields[MOST_FIELDS];
        at = newline != NULL ? newline + 1 : end;
        if (line.length == 0 || *line.at == '#')
            continue;
        if (line.length > 4096)
            return 0;
        int count = split(line.at, line.at + line.length, fields);
        for (int i = 0; i < count; i++)
            if (is_word(fields[i], "fabric.clusterUuid"))
                return 95;
        if (count != 2)
            return 0;
        return is_uuid(fields[0]) && is_number(fields[1]) ? 90 : is_absent(fields[0]) && is_absent(fields[1]) ? 60 : 0;
    }
    return 0;
}

/* ---- reading ---- */

static kith_status refuse(const fabric *f, const char *why)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", f->source->name, f->line, why);
}

static bool read_header(fabric *f, const slice *fields, int count)
{
    int uuid = -1, clique = -1;
    for (int i = 0; i < count; i++) {
        uuid = is_word(fields[i], "fabric.clusterUuid") ? i : uuid;
        clique = is_word(fields[i], "fabric.cliqueId") ? i : clique;
    }
    if (uuid < 0 || clique < 0)
        return false;
    f->uuid_column = uuid;
    f->clique_column = clique;
    f->columns = count;
    return true;
}

static kith_status read_gpu(fabric *f, const slice *fields, int count)
{
    if (count != (f->columns > 0 ? f->columns : 2))
        return refuse(f, f->columns > 0 ? "the line has not as many fields as the header"
                                        : "the line has not two fields, fabric.clusterUuid and fabric.cliqueId");
    slice uuid = fields[f->uuid_column], clique = fields[f->clique_column];
    if (is_absent(uuid) && is_absent(clique))
        uuid = clique = (slice){ NULL, 0 };
    else if (!is_uuid(uuid) || !is_number(clique))
        return refuse(f, "fabric.clusterUuid must be a UUID and fabric.cliqueId a number, or both N/A");
    if (f->gpu_count++ == 0) {
        f->uuid = uuid;
        f->clique = clique;
        return KITH_OK;
    }
    if (!is_same(f->uuid, uuid) || !is_same(f->clique, clique))
        return refuse(f, "this GPU is in another NVLink domain than the first one; GPUs of one node must agree (is the "
                         "fabric up on all of them? one file for each node)");
    return f->gpu_count > KI_MAX_GPUS ? refuse(f, "more GPUs than a node can have") : KITH_OK;
}

static kith_status read_lines(fabric *f)
{
    const char *end = f->source->text + f->source->nbytes;
    if (f->source->nbytes > MOST_NBYTES)
        return refuse(f, "more than 1 MiB");
    for (const char *at = f->source->text; at < end;) {
        const char *newline = (const char *)memchr(at, '\n', (size_t)(end - at));
        slice fields[MOST_FIELDS], line = trim(at, newline != NULL ? newline : end);
        at = newline != NULL ? newline + 1 : end;
        f->line++;
        if (line.length == 0 || *line.at == '#')
            continue;
        int count = split(line.at, line.at + line.length, fields);
        if (f->gpu_count == 0 && f->columns == 0 && read_header(f, fields, count))
            continue;
        kith_status status = read_gpu(f, fields, count);
        if (status != KITH_OK)
            return status;
    }
    return f->gpu_count > 0 ? KITH_OK : refuse(f, "no GPU is listed");
}

static bool is_zero(slice uuid)
{
    return strspn(uuid.at, "0-") >= uuid.length;
}

static kith_status read_fabric(const ki_source *source, kith_topology *t)
{
    fabric f = { .source = source, .clique_column = 1 };
    kith_status status = read_lines(&f);
    if (status != KITH_OK)
        return status;
    if (f.uuid.at == NULL)
        return KITH_OK; /* no NVLink to other nodes */
    if (is_zero(f.uuid)) {
        ki_topology_doubt(t, -1, -1, source->name, 0, "fabric-not-up",
                          "the GPUs have no cluster UUID: the NVLink fabric has not come up (fabric manager, IMEX); no "
                          "domain over nodes is taken");
        return ki_topology_status(t);
    }
    char uuid[UUID_LENGTH + 1] = { 0 };
    for (size_t i = 0; i < UUID_LENGTH; i++)
        uuid[i] = (char)tolower((unsigned char)f.uuid.at[i]);
    ki_topology_add_domain(t, ki_topology_format(t, "%s.%.*s", uuid, (int)f.clique.length, f.clique.at), true);
    return ki_topology_status(t);
}

const ki_reader ki_reader_fabric = { "nvidia-smi fabric query", probe, read_fabric };
