/* topology/read_ibnet.c - what `ibnetdiscover` prints: each switch, router and channel adapter with its linked ports.
 *
 *     Switch  65 "S-2c..."            # "MF0;leaf-01:MQM9701/U1" enhanced port 0 lid 73 lmc 0
 *     [1]     "H-e0..."[1](e0...)     # "gpu001 mlx5_0" lid 647 4xNDR
 *     Ca      1 "H-e0..."             # "gpu001 mlx5_0"
 *     [1](e0...)  "S-2c..."[1]        # lid 647 lmc 0 "MF0;leaf-01:MQM9701/U1" lid 73 4xNDR
 *
 * Every link stands there twice, once from each end, so damage shows: a device without a section, or two ends that
 * disagree, are refused with the line.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ibnet.h"

#include "grow.h"
#include "lines.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { MOST_PORTS = 255 };

/* ---- rates ---- */

double ki_ib_rate_gbps(const kith_topology *t, const char *text, size_t length)
{
    /* Effective GB/s of four lanes: the table's, and for rates that the table lacks data rate times the usual share. */
    static const struct {
        const char *word, *key;
        double four_lanes;
    } rates[] = { { "SDR", NULL, 1 },   { "DDR", NULL, 2 },  { "QDR", NULL, 4 },
                  { "FDR10", NULL, 5 }, { "FDR", "fdr", 0 }, { "EDR", "edr", 0 },
                  { "HDR", "hdr", 0 },  { "NDR", "ndr", 0 }, { "XDR", "xdr", 0 } };
    size_t i = 0;
    int lanes = 0;
    while (i < length && i < 2 && isdigit((unsigned char)text[i]))
        lanes = lanes * 10 + (text[i++] - '0');
    if (lanes < 1 || lanes > 12 || i == length || text[i] != 'x')
        return 0;
    text += i + 1;
    length -= i + 1;
    for (i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (strlen(rates[i].word) == length && strncasecmp(rates[i].word, text, length) == 0) {
            double four = rates[i].key != NULL ? ki_constant_gbps(t, rates[i].key)
                                               : rates[i].four_lanes * ki_constant_gbps(t, "net-efficiency");
            return four * lanes / 4;
        }
    return 0;
}

/* ---- pieces of a line ---- */

typedef struct cursor {
    const char *c, *end;
} cursor;

static void skip_blanks(cursor *at)
{
    while (at->c < at->end && (*at->c == ' ' || *at->c == '\t'))
        at->c++;
}

static bool take(cursor *at, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(at->end - at->c) < length || memcmp(at->c, word, length) != 0)
        return false;
    at->c += length;
    return true;
}

static bool take_number(cursor *at, int *number)
{
    *number = 0;
    const char *from = at->c;
    for (; at->c < at->end && isdigit((unsigned char)*at->c) && at->c - from < 6; at->c++)
        *number = *number * 10 + (*at->c - '0');
    return at->c > from;
}

/* "[12]", with "[ext 3]" behind it on ports of chassis. */
static bool take_port(cursor *at, int *number)
{
    int unused;
    if (!take(at, "[") || !take_number(at, number) || !take(at, "]"))
        return false;
    return !take(at, "[ext ") || (take_number(at, &unused) && take(at, "]"));
}

/* "(2c5e...)", which may be missing. */
static bool take_guid(cursor *at)
{
    if (!take(at, "("))
        return true;
    while (at->c < at->end && isxdigit((unsigned char)*at->c))
        at->c++;
    return take(at, ")");
}

/* "\"S-2c5e...\"" */
static bool take_id(cursor *at, ki_ib_text *id)
{
    if (!take(at, "\""))
        return false;
    id->chars = at->c;
    if (at->end - at->c < 3 || strchr("SHR", *at->c) == NULL || at->c[1] != '-')
        return false;
    at->c += 2;
    while (at->c < at->end && isxdigit((unsigned char)*at->c))
        at->c++;
    id->length = (size_t)(at->c - id->chars);
    return id->length > 2 && take(at, "\"");
}

/* The text in quotes behind '#'. Descriptions are free text and may have quotes inside: the last one ends it. */
static bool take_description(cursor *at, ki_ib_text *text)
{
    const char *open = (const char *)memchr(at->c, '"', (size_t)(at->end - at->c));
    const char *close = open != NULL ? (const char *)memrchr(open + 1, '"', (size_t)(at->end - open - 1)) : NULL;
    if (close == NULL)
        return false;
    *text = (ki_ib_text){ open + 1, (size_t)(close - open - 1) };
    at->c = close + 1;
    return true;
}

static ki_ib_text last_word(const cursor *at)
{
    const char *from = at->end;
    while (from > at->c && from[-1] != ' ' && from[-1] != '\t')
        from--;
    return (ki_ib_text){ from, (size_t)(at->end - from) };
}

/* ---- failures ---- */

static kith_status no_memory(const ki_ib_fabric *f)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the fabric", f->file);
}

static kith_status refuse(const ki_ib_fabric *f, int line, const char *why)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", f->file, line, why);
}

/* ---- channel adapters ---- */

static ki_ib_text next_word(const char **c, const char *end)
{
    while (*c < end && isspace((unsigned char)**c))
        ++*c;
    const char *from = *c;
    while (*c < end && !isspace((unsigned char)**c))
        ++*c;
    return (ki_ib_text){ from, (size_t)(*c - from) };
}

static bool is_text(ki_ib_text text, const char *word)
{
    return strlen(word) == text.length && memcmp(text.chars, word, text.length) == 0;
}

/* rdma-ndd writes "host device"; a driver that nobody told its host writes the card's name, "MT4129 ConnectX7 ...".
 * localhost is the name of all hosts and so of none. */
static void read_ca_description(ki_ib_device *ca)
{
    const char *c = ca->description.chars, *end = c + ca->description.length;
    ki_ib_text host = next_word(&c, end), name = next_word(&c, end), more = next_word(&c, end);
    ca->is_aggregation = memmem(ca->description.chars, ca->description.length, "Aggregation Node", 16) != NULL;
    bool is_card = host.length > 2 && memcmp(host.chars, "MT", 2) == 0 && isdigit((unsigned char)host.chars[2]);
    if (more.length > 0 || host.length == 0 || is_card || is_text(host, "localhost") ||
        is_text(host, "localhost.localdomain") || is_text(host, "(none)") ||
        (name.length > 0 && !isdigit((unsigned char)name.chars[name.length - 1])))
        return;
    ca->host = host;
    ca->ca = name.length > 0 ? name : ca->id;
}

/* ---- lines ---- */

static kith_status read_device(ki_ib_fabric *f, cursor at, int line, ki_ib_kind kind)
{
    int ports;
    ki_ib_device device = {
        .kind = kind, .line = line, .first_port = f->port_count, .level = -1, .group = -1, .leaf = -1
    };
    skip_blanks(&at);
    if (!take_number(&at, &ports))
        return refuse(f, line, "the number of ports is missing");
    skip_blanks(&at);
    if (!take_id(&at, &device.id) || device.id.chars[0] != "HSR"[kind])
        return refuse(f, line, "the GUID in quotes is damaged");
    if (!take_description(&at, &device.description))
        return refuse(f, line, "the description in quotes is missing or cut off");
    if (ki_name_map_get(&f->ids, device.id.chars, device.id.length) >= 0)
        return refuse(f, line, "a GUID has two sections");
    if (f->device_count >= KI_MAX_NODES)
        return refuse(f, line, "more than 1048576 devices");
    if (kind == KI_IB_CA)
        read_ca_description(&device);
    if (!ki_grow((void **)&f->devices, f->device_count, &f->device_room, sizeof device) ||
        !ki_name_map_put(&f->ids, device.id.chars, device.id.length, f->device_count))
        return no_memory(f);
    f->devices[f->device_count++] = device;
    return KITH_OK;
}

static kith_status read_port(ki_ib_fabric *f, cursor at, int line)
{
    ki_ib_port port = { .line = line, .peer = -1 };
    if (f->device_count == 0)
        return refuse(f, line, "a port stands before any switch or channel adapter");
    bool is_fine = take_port(&at, &port.number) && take_guid(&at);
    skip_blanks(&at);
    is_fine = is_fine && take_id(&at, &port.peer_id) && take_port(&at, &port.peer_number) && take_guid(&at);
    skip_blanks(&at);
    if (!is_fine || !take(&at, "#") || !take_description(&at, &port.peer_description))
        return refuse(f, line, "the line of a port is damaged or cut off");
    ki_ib_device *device = &f->devices[f->device_count - 1];
    if (port.number < 1 || port.number > MOST_PORTS || port.peer_number < 1 || port.peer_number > MOST_PORTS)
        return refuse(f, line, "the number of a port is not between 1 and 255");
    if (device->port_count > 0 && f->ports[f->port_count - 1].number >= port.number)
        return refuse(f, line, "the numbers of the ports do not rise");
    ki_ib_text rate = last_word(&at);
    port.gbps = ki_ib_rate_gbps(f->t, rate.chars, rate.length);
    if (port.gbps <= 0 && f->rate_line == 0)
        f->rate_line = line;
    if (!ki_grow((void **)&f->ports, f->port_count, &f->port_room, sizeof port))
        return no_memory(f);
    f->ports[f->port_count++] = port;
    device->port_count++;
    return KITH_OK;
}

/* "vendid=0x2c9" and its like, and the headings that `ibnetdiscover -g` puts between. */
static bool is_other(cursor at)
{
    if (take(&at, "Chassis") || take(&at, "Non-Chassis"))
        return true;
    while (at.c < at.end && islower((unsigned char)*at.c))
        at.c++;
    return take(&at, "=0x");
}

static kith_status read_line(ki_ib_fabric *f, const char *line, size_t length, int number)
{
    cursor at = { line, line + length };
    if (length == 0 || line[0] == '#')
        return KITH_OK;
    if (line[0] == '[')
        return read_port(f, at, number);
    if (take(&at, "Switch"))
        return read_device(f, at, number, KI_IB_SWITCH);
    if (take(&at, "Ca"))
        return read_device(f, at, number, KI_IB_CA);
    if (take(&at, "Rt"))
        return read_device(f, at, number, KI_IB_ROUTER);
    return is_other(at) ? KITH_OK : refuse(f, number, "this is no line of ibnetdiscover");
}

/* ---- the whole ---- */

static const ki_ib_port *find_port(const ki_ib_fabric *f, const ki_ib_device *device, int number)
{
    int low = device->first_port, high = device->first_port + device->port_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (f->ports[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < device->first_port + device->port_count && f->ports[low].number == number ? &f->ports[low] : NULL;
}

static kith_status resolve_peers(ki_ib_fabric *f)
{
    for (int p = 0; p < f->port_count; p++) {
        ki_ib_port *port = &f->ports[p];
        port->peer = ki_name_map_get(&f->ids, port->peer_id.chars, port->peer_id.length);
        if (port->peer < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "%s:%d: the port leads to %.*s, which has no section of its own; is the file cut off?",
                                 f->file, port->line, (int)port->peer_id.length, port->peer_id.chars);
    }
    return KITH_OK;
}

static bool is_same(ki_ib_text a, ki_ib_text b)
{
    return a.length == b.length && memcmp(a.chars, b.chars, a.length) == 0;
}

/* What one end of a link says about the other must be what that says of itself. */
static kith_status check_link(const ki_ib_fabric *f, int d, const ki_ib_port *port)
{
    const ki_ib_device *peer = &f->devices[port->peer];
    const ki_ib_port *back = find_port(f, peer, port->peer_number);
    const char *what = NULL;
    if (back == NULL || back->peer != d || back->peer_number != port->number)
        what = "does not lead back";
    else if (back->gbps < port->gbps || back->gbps > port->gbps)
        what = "tells another rate";
    else if (!is_same(peer->description, port->peer_description))
        what = "has another description in its own section";
    if (what == NULL)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: the port leads to port %d of %.*s, which %s (line %d)", f->file,
                         port->line, port->peer_number, (int)port->peer_id.length, port->peer_id.chars, what,
                         back != NULL ? back->line : peer->line);
}

static kith_status check_both_ends(const ki_ib_fabric *f)
{
    kith_status status = KITH_OK;
    for (int d = 0; d < f->device_count; d++)
        for (int p = 0; status == KITH_OK && p < f->devices[d].port_count; p++)
            status = check_link(f, d, &f->ports[f->devices[d].first_port + p]);
    return status;
}

static kith_status read_lines(ki_ib_fabric *f, const ki_source *source)
{
    kith_status status = KITH_OK;
    if (memchr(source->text, '\0', source->nbytes) != NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has a zero byte inside", f->file);
    for (ki_lines lines = ki_lines_of(source); status == KITH_OK && ki_lines_next(&lines);) {
        const char *line = lines.line;
        size_t length = lines.length;
        ki_trim(&line, &length);
        status = read_line(f, line, length, lines.number);
    }
    return status;
}

static kith_status read_ibnet(const ki_source *source, kith_topology *t)
{
    ki_ib_fabric f = { .t = t, .file = source->name };
    kith_status status = read_lines(&f, source);
    if (status == KITH_OK)
        status = resolve_peers(&f);
    if (status == KITH_OK)
        status = check_both_ends(&f);
    if (status == KITH_OK)
        status = ki_ib_add_switches(&f);
    if (status == KITH_OK)
        status = ki_ib_add_nodes(&f);
    if (status == KITH_OK && f.rate_line > 0)
        ki_topology_doubt(t, -1, -1, f.file, f.rate_line, "link-rate",
                          "the rate of a link is not known (known: SDR to XDR, as in 4xNDR); its bandwidth is unknown");
    ki_name_map_fini(&f.ids);
    free(f.devices);
    free(f.ports);
    return status;
}

static int probe(const ki_source *source)
{
    ki_source beginning = { source->name, source->text, source->nbytes < 65536 ? source->nbytes : 65536 };
    for (ki_lines lines = ki_lines_of(&beginning); ki_lines_next(&lines);) {
        cursor at = { lines.line, lines.line + lines.length };
        ki_ib_text id;
        int unused;
        if (!take(&at, "Switch") && !take(&at, "Ca"))
            continue;
        skip_blanks(&at);
        if (!take_number(&at, &unused))
            continue;
        skip_blanks(&at);
        if (take_id(&at, &id))
            return 95;
    }
    return 0;
}

const ki_reader ki_reader_ibnet = { "ibnetdiscover", probe, read_ibnet };
