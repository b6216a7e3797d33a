/* examples/example.h - what the examples share: stopping with the library's explanation.
 *
 * A trainer has its own way to stop; the pattern to copy is "look at the status, then read kith_error_detail()".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_EXAMPLE_H
#define KITH_EXAMPLE_H

#include <kith/kith.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the process when status is not KITH_OK. The launcher then ends the other ranks. */
static inline void must(kith_status status, const char *what)
{
    if (status == KITH_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
    exit(EXIT_FAILURE);
}

#endif
