/* core/boot/launch_sources.c - reading the environments of launchers (see launch_sources.h).
 *
 * Numbers are read exactly: a rank "3 " or "0x3" is a broken launcher and not rank 3.
 *
 * Hydra (MPICH's mpiexec) gives its ranks no job id. What all ranks of a host share is the proxy that started them: it
 * made the socket pair of PMI_FD, and SO_PEERCRED of a socket pair tells who made it, also when a shell stands between.
 * With the proxy's start time the id is unique on the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch_sources.h"
#include "../base/config_value.h"
#include "../base/error.h"
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const ki_launch_source ki_launch_sources[KI_SOURCE_COUNT] = {
    { "KITH_RANK and KITH_SIZE", "KITH_RANK", "KITH_SIZE", "KITH_LOCAL_RANK", "KITH_LOCAL_SIZE", NULL, true, NULL },
    { "torchrun environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, true, NULL },
    { "Open MPI environment", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, true, "openmpi" },
    { "PMI environment", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, true, "mpich" },
    { "Slurm environment", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID", false, NULL },
};

const char *ki_launch_variable(const ki_config *config, const char *name)
{
    char row[32];
    const char *value;
    if (strncmp(name, "KITH_", 5) == 0) {
        snprintf(row, sizeof row, "%s", name + 5);
        for (char *p = row; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        value = ki_config_get(config, row);
    } else {
        value = getenv(name);
    }
    return value && *value ? value : NULL;
}

static kith_status read_number(const char *source, const char *name, const char *text, int least, int *number)
{
    int64_t value;
    if (!ki_parse_int(text, &value) || value < least || value > INT_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=\"%s\" is not a number from %d to %d", source, name, text, least,
                       INT_MAX);
    *number = (int)value;
    return KITH_OK;
}

static kith_status read_local(const ki_config *config, const ki_launch_source *source, ki_launch *launch)
{
    const char *rank = source->local_rank ? ki_launch_variable(config, source->local_rank) : NULL;
    const char *size = source->local_size ? ki_launch_variable(config, source->local_size) : NULL;
    kith_status s = KITH_OK;
    if (size)
        s = read_number(source->name, source->local_size, size, 1, &launch->local_size);
    if (s == KITH_OK && rank)
        s = read_number(source->name, source->local_rank, rank, 0, &launch->local_rank);
    if (s != KITH_OK)
        return s;
    if (size && launch->local_size > launch->size)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=%d is more than %s=%d", source->name, source->local_size,
                       launch->local_size, source->size, launch->size);
    int most = size ? launch->local_size : launch->size;
    if (rank && launch->local_rank >= most)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=%d is not below %s=%d", source->name, source->local_rank,
                       launch->local_rank, size ? source->local_size : source->size, most);
    return KITH_OK;
}

kith_status ki_launch_read(const ki_config *config, const ki_launch_source *source, ki_launch *launch, bool *is_there)
{
    const char *rank = ki_launch_variable(config, source->rank), *size = ki_launch_variable(config, source->size);
    *is_there = rank && size && (!source->also || ki_launch_variable(config, source->also));
    if (source->needs_both && !rank != !size)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=%s is set but %s is not; both are needed", source->name,
                       rank ? source->rank : source->size, rank ? rank : size, rank ? source->size : source->rank);
    if (!*is_there)
        return KITH_OK;
    kith_status s = read_number(source->name, source->size, size, 1, &launch->size);
    if (s == KITH_OK)
        s = read_number(source->name, source->rank, rank, 0, &launch->rank);
    if (s != KITH_OK)
        return s;
    if (launch->rank >= launch->size)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=%d is not below %s=%d", source->name, source->rank, launch->rank,
                       source->size, launch->size);
    snprintf(launch->source, sizeof launch->source, "%s", source->name);
    return read_local(config, source, launch);
}

static bool is_number(const char *variable, int number)
{
    const char *text = getenv(variable);
    int64_t value;
    return text && ki_parse_int(text, &value) && value == number;
}

bool ki_launch_is_one_host(int source, const ki_launch *launch)
{
    if (source == KI_SOURCE_OPEN_MPI)
        return is_number("OMPI_COMM_WORLD_LOCAL_SIZE", launch->size);
    bool is_slurm_one =
        is_number("SLURM_STEP_NUM_NODES", 1) || (!getenv("SLURM_STEP_NUM_NODES") && is_number("SLURM_NNODES", 1));
    if (source == KI_SOURCE_PMI)
        return is_number("MPI_LOCALNRANKS", launch->size) || (!getenv("MPI_LOCALNRANKS") && is_slurm_one);
    return source == KI_SOURCE_SLURM && is_slurm_one;
}

/* ---- job ids ---- */

static void clean(char *text)
{
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '-' && *text != '.')
            *text = '_';
    }
}

/* Field 22 of /proc/<pid>/stat: start time in ticks since boot. The second field may hold spaces and parentheses. */
static unsigned long long start_time(long pid)
{
    char path[64], text[1024];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p)
        ticks = strtoull(p + 1, NULL, 10);
    return ticks;
}

static void hydra_id(char *text, size_t nbytes)
{
    const char *fd_text = getenv("PMI_FD");
    struct ucred maker = { 0, 0, 0 };
    socklen_t maker_nbytes = sizeof maker;
    int64_t fd;
    long pid = getppid();
    if (fd_text && ki_parse_int(fd_text, &fd) && fd >= 0 && fd <= INT_MAX &&
        getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &maker, &maker_nbytes) == 0 && maker.pid > 0)
        pid = maker.pid;
    snprintf(text, nbytes, "pmi-%ld-%llu", pid, start_time(pid));
}

bool ki_launch_job_id(int source, char *text, size_t nbytes)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    const char *ompi = getenv("OMPI_MCA_ess_base_jobid"), *pmix = getenv("PMIX_NAMESPACE");
    text[0] = '\0';
    if (source == KI_SOURCE_OPEN_MPI && (ompi || pmix))
        snprintf(text, nbytes, "ompi-%s", ompi ? ompi : pmix);
    else if ((source == KI_SOURCE_SLURM || source == KI_SOURCE_PMI) && job && step)
        snprintf(text, nbytes, "slurm-%s-%s", job, step);
    else if (source == KI_SOURCE_PMI)
        hydra_id(text, nbytes);
    clean(text);
    return text[0] != '\0';
}
