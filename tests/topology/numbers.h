/* tests/topology/numbers.h - a machine whose GPUs get other numbers has a placement that costs the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TEST_NUMBERS_H
#define TEST_NUMBERS_H

#include <kith/topology.h>

/* Places several layouts on a machine under several numberings, over the cost of the whole step. make: the same machine
 * each time. Returns how many layouts failed, each told with its costs; -1: the machine is none for this: it has
 * several nodes, fewer than two GPUs, or more than 16. */
typedef kith_topology *make_machine(const void *arg);
int numbers_check(const char *name, make_machine *make, const void *arg, int seed_count);

/* The same for all files of a folder that are such machines; counts these. */
int numbers_check_folder(const char *folder, const char *ending, int seed_count, int *machine_count);

#endif
