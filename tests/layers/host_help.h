/* tests/layers/host_help.h - the host's table for the tests of one program: opened before them, closed after.
 *
 * Without a CBLAS there is no such table: the program then ends as skipped, with the reason.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TESTS_HOST_HELP_H
#define KI_TESTS_HOST_HELP_H

#include "layers/compute/compute.h"

#include <kith/status.h>
#include <stdio.h>
#include <stdlib.h>

static ki_compute *compute;

static int open_host(void **state)
{
    (void)state;
    if (ki_compute_open_host(1, &compute) == KITH_OK)
        return 0;
    printf("skipped: %s\n", kith_error_detail());
    exit(77);
}

static int close_host(void **state)
{
    (void)state;
    ki_compute_close(compute);
    return 0;
}

#endif
