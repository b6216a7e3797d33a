/* tests/fuzz/must.h - what holds for whatever was accepted; else the fuzzer has found something.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_FUZZ_MUST_H
#define KITH_TESTS_FUZZ_MUST_H

#include <kith/status.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "not so: %s (%s)\n", #condition, kith_error_detail());                                     \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
