/* core/base/ifname.c - which local addresses KITH_IFNAME allows, and what to tell when it allows none.
 *
 * The rule is one of: interface names separated by commas; one network "192.0.2.0/24" or "fd00::/64"; one address. A
 * network is compared bit by bit on the family it is written in, never by name.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ifname.h"
#include "config_value.h"
#include "error.h"
#include "sock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void ki_address_text(const struct sockaddr *address, char *text, size_t nbytes)
{
    socklen_t n = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo(address, n, text, (socklen_t)nbytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text, nbytes, "?");
}

static const unsigned char *address_bytes(const struct sockaddr *address, size_t *nbytes)
{
    if (address->sa_family == AF_INET) {
        *nbytes = 4;
        return (const unsigned char *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    }
    *nbytes = 16;
    return (const unsigned char *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

/* "addr" or "addr/bits"; false when it is neither. */
static bool parse_network(const char *text, int *family, unsigned char bytes[16], int *bits)
{
    char address[INET6_ADDRSTRLEN];
    size_t n = strcspn(text, "/");
    int64_t value;
    if (n == 0 || n >= sizeof address)
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    *family = strchr(address, ':') ? AF_INET6 : AF_INET;
    int most = *family == AF_INET ? 32 : 128;
    if (inet_pton(*family, address, bytes) != 1)
        return false;
    *bits = most;
    if (!text[n])
        return true;
    if (!ki_parse_int(text + n + 1, &value) || value < 0 || value > most)
        return false;
    *bits = (int)value;
    return true;
}

static bool is_in_network(const struct sockaddr *address, const unsigned char *network, int bits)
{
    size_t nbytes;
    const unsigned char *bytes = address_bytes(address, &nbytes);
    int whole = bits / 8, rest = bits % 8;
    if (memcmp(bytes, network, (size_t)whole) != 0)
        return false;
    return rest == 0 || ((bytes[whole] ^ network[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

static bool is_in_list(const char *list, const char *name)
{
    size_t name_nbytes = strlen(name);
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        if (n == name_nbytes && strncmp(p, name, n) == 0)
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

bool ki_ifname_allows(const char *ifname, const char *interface, const struct sockaddr *address)
{
    int family, bits;
    unsigned char network[16];
    if (!ifname || !*ifname)
        return true;
    if (parse_network(ifname, &family, network, &bits))
        return family == address->sa_family && is_in_network(address, network, bits);
    return is_in_list(ifname, interface);
}

static bool is_usable(const struct ifaddrs *i)
{
    return i->ifa_addr && (i->ifa_flags & IFF_UP) &&
           (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
}

static bool is_link_local(const struct sockaddr *address)
{
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr);
}

bool ki_ifname_address(const char *ifname, int family, struct sockaddr_storage *address, socklen_t *nbytes)
{
    struct ifaddrs *all = NULL;
    const struct ifaddrs *best = NULL;
    int best_score = 0;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!is_usable(i) || (family != AF_UNSPEC && i->ifa_addr->sa_family != family) ||
            !ki_ifname_allows(ifname, i->ifa_name, i->ifa_addr))
            continue;
        int score = 1 + (is_link_local(i->ifa_addr) ? 0 : 2) + ((i->ifa_flags & IFF_LOOPBACK) ? 0 : 4) +
                    (i->ifa_addr->sa_family == AF_INET);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    if (best) {
        *nbytes = best->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memset(address, 0, sizeof *address);
        memcpy(address, best->ifa_addr, *nbytes);
    }
    freeifaddrs(all);
    return best != NULL;
}

void ki_sock_interfaces(const char *ifname, char *text, size_t nbytes)
{
    struct ifaddrs *all = NULL;
    size_t used = 0;
    snprintf(text, nbytes, "none");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && used < nbytes; i = i->ifa_next) {
        char address[KI_SOCK_TEXT_NBYTES];
        if (!is_usable(i) || !ki_ifname_allows(ifname, i->ifa_name, i->ifa_addr))
            continue;
        ki_address_text(i->ifa_addr, address, sizeof address);
        int n = snprintf(text + used, nbytes - used, "%s%s %s", used ? ", " : "", i->ifa_name, address);
        used += n > 0 ? (size_t)n : 0;
    }
    freeifaddrs(all);
}

void ki_ifname_names(const char *ifname, char *text, size_t nbytes)
{
    struct ifaddrs *all = NULL;
    size_t used = 0;
    *text = '\0';
    if (!ifname || !*ifname || getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        bool is_wanted = is_usable(i) && ki_ifname_allows(ifname, i->ifa_name, i->ifa_addr);
        if (!is_wanted || (used > 0 && is_in_list(text, i->ifa_name)) || used + strlen(i->ifa_name) + 2 > nbytes)
            continue;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s", used ? "," : "", i->ifa_name);
    }
    freeifaddrs(all);
}

kith_status ki_sock_ifname_check(const char *ifname)
{
    int family, bits;
    unsigned char network[16];
    struct sockaddr_storage address;
    socklen_t nbytes;
    char all[512], name[IF_NAMESIZE];
    if (!ifname || !*ifname)
        return KITH_OK;
    ki_sock_interfaces(NULL, all, sizeof all);
    if (parse_network(ifname, &family, network, &bits)) {
        if (ki_ifname_address(ifname, AF_UNSPEC, &address, &nbytes))
            return KITH_OK;
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "KITH_IFNAME=%s: no interface has an address in that network; interfaces here: %s", ifname, all);
    }
    for (const char *p = ifname;; p++) {
        size_t n = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        if (n == 0 || n >= sizeof name || if_nametoindex(name) == 0)
            return ki_fail(
                KITH_ERR_INVALID_ARG,
                "KITH_IFNAME=%s: there is no interface \"%.*s\"; valid: names separated by commas, or address/bits; "
                "interfaces here: %s",
                ifname, (int)n, p, all);
        p += n;
        if (!*p)
            break;
    }
    if (!ki_ifname_address(ifname, AF_UNSPEC, &address, &nbytes))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "KITH_IFNAME=%s: none of these interfaces is up with an address; interfaces here: %s", ifname,
                       all);
    return KITH_OK;
}

kith_status ki_sock_own_address(const char *ifname, char *text, size_t nbytes)
{
    struct sockaddr_storage address;
    socklen_t address_nbytes;
    kith_status s = ki_sock_ifname_check(ifname);
    if (s != KITH_OK)
        return s;
    if (!ki_ifname_address(ifname, AF_UNSPEC, &address, &address_nbytes))
        return ki_fail(KITH_ERR_NO_RESOURCE, "no network interface is up with an address");
    ki_address_text((const struct sockaddr *)&address, text, nbytes);
    return KITH_OK;
}
