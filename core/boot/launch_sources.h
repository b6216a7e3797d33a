/* core/boot/launch_sources.h - the environments of launchers, as a table. Used by launch.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_LAUNCH_SOURCES_H
#define KI_BOOT_LAUNCH_SOURCES_H

#include "launch.h"

typedef struct ki_launch_source {
    const char *name;                    /* "torchrun environment" */
    const char *rank, *size;             /* variables; through the table of settings when they begin with KITH_ */
    const char *local_rank, *local_size; /* NULL: the launcher has none */
    const char *also;                    /* must be set as well; NULL: nothing */
    bool needs_both;            /* one of rank and size without the other is an error rather than somebody else's */
    const char *module_variant; /* of the MPI behind it; NULL: no MPI */
} ki_launch_source;

/* In the order of kith/context.h. */
enum { KI_SOURCE_KITH, KI_SOURCE_TORCHRUN, KI_SOURCE_OPEN_MPI, KI_SOURCE_PMI, KI_SOURCE_SLURM, KI_SOURCE_COUNT };
extern const ki_launch_source ki_launch_sources[KI_SOURCE_COUNT];

/* Value of a variable, NULL when it is unset or empty. */
const char *ki_launch_variable(const ki_config *config, const char *name);

/* Takes rank and size (and local ones) from a source. *is_there: false when the source does not apply. */
kith_status ki_launch_read(const ki_config *config, const ki_launch_source *source, ki_launch *launch, bool *is_there);

/* Did the launcher put all ranks on this host? */
bool ki_launch_is_one_host(int source, const ki_launch *launch);

/* Text that is the same on all ranks of the job on this host and on no other job's; false when there is none. */
bool ki_launch_job_id(int source, char *text, size_t nbytes);

#endif
