/* core/base/ifname.h - which local addresses KITH_IFNAME allows. Used by the two files of sock.h, and to tell
 * backends, which know interfaces by name alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_IFNAME_H
#define KI_BASE_IFNAME_H

#include <ifaddrs.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Does the rule (not empty) allow this local address of this interface? */
bool ki_ifname_allows(const char *ifname, const char *interface, const struct sockaddr *address);

/* The first local address of a family that the rule allows. False: none. */
bool ki_ifname_address(const char *ifname, int family, struct sockaddr_storage *address, socklen_t *nbytes);

/* Names of the interfaces that are up and have an address that the rule allows, "eth0,eth1". Empty: any, or none. */
void ki_ifname_names(const char *ifname, char *text, size_t nbytes);

/* Numeric text of an address, without the port. */
void ki_address_text(const struct sockaddr *address, char *text, size_t nbytes);

#endif
