/* tests/layers/case_main.h - a program of cases, each a function that runs on every rank of a world of n.
 *
 *     layer_cases --case linear -n 4 [--threads] [--backend shm] [--timeout 60]
 *     mpirun -n 4 layer_cases --case linear -n 4 --environment
 *     layer_cases --list
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_CASE_MAIN_H
#define TESTS_CASE_MAIN_H

#include "conformance/harness.h"

typedef struct named_case {
    const char *name;
    rank_function run;
} named_case;

/* What main() of such a program returns. */
int case_main(int argc, char **argv, const char *program, const named_case *cases, size_t count);

#endif
