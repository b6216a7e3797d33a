/* core/boot/launch.c - rank, size and store, by the rules of kith/context.h.
 *
 * Rank and size come from the first source that is there. The store is a question of its own: a launcher's one-host
 * file is used also when rank and size were given explicitly, if the launcher agrees with them.
 *
 * torchrun: its agent itself serves at MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True says so), and the workers are
 * meant to be its clients. Kith does not speak that protocol and takes the next port.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include "../base/config_value.h"
#include "../base/error.h"
#include "../base/log.h"
#include "launch_sources.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- rank and size ---- */

static kith_status from_options(const kith_init_options *options, ki_launch *launch)
{
    if (options->rank < 0 || options->rank >= options->size)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_init: options.rank is %d, valid are 0 to %d (options.size is %d)",
                       options->rank, options->size - 1, options->size);
    launch->rank = options->rank;
    launch->size = options->size;
    snprintf(launch->source, sizeof launch->source, "kith_init options");
    return KITH_OK;
}

static bool ask_modules(const kith_backend *const *modules, size_t module_count, int may_init, const char *variant,
                        const kith_backend **module, int *rank, int *size)
{
    for (size_t i = 0; i < module_count; i++) {
        const kith_backend *m = modules[i];
        bool is_wanted = !variant || !m->variant || strcmp(m->variant, variant) == 0;
        if (m->launch && is_wanted && m->launch(may_init, rank, size) == KITH_OK) {
            *module = m;
            return true;
        }
    }
    return false;
}

static kith_status find_ranks(const kith_init_options *options, const ki_config *config,
                              const kith_backend *const *modules, size_t module_count, ki_launch *launch)
{
    bool is_there = false;
    if (options && options->size < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_init: options.size is %d, valid are 0 (find it) or more",
                       options->size);
    if (options && options->size > 0)
        return from_options(options, launch);
    for (int i = 0; i < KI_SOURCE_COUNT; i++) {
        kith_status s = ki_launch_read(config, &ki_launch_sources[i], launch, &is_there);
        if (s != KITH_OK || is_there)
            return s;
    }
    const kith_backend *module;
    if (ask_modules(modules, module_count, 0, NULL, &module, &launch->rank, &launch->size)) {
        snprintf(launch->source, sizeof launch->source, "initialised MPI");
        return KITH_OK;
    }
    launch->rank = 0;
    launch->size = 1;
    snprintf(launch->source, sizeof launch->source, "no launcher");
    return KITH_OK;
}

static kith_status find_local(const kith_init_options *options, const ki_config *config, ki_launch *launch)
{
    if (options && options->local_size != 0) {
        if (options->local_size < 0 || options->local_size > launch->size || options->local_rank < 0 ||
            options->local_rank >= options->local_size)
            return ki_fail(KITH_ERR_INVALID_ARG,
                           "kith_init: options.local_rank %d of options.local_size %d does not fit a job of %d",
                           options->local_rank, options->local_size, launch->size);
        launch->local_rank = options->local_rank;
        launch->local_size = options->local_size;
        return KITH_OK;
    }
    int64_t rank = ki_config_int(config, "local_rank"), size = ki_config_int(config, "local_size");
    if (size > launch->size || rank >= (size > 0 ? size : launch->size))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "KITH_LOCAL_RANK=%lld of KITH_LOCAL_SIZE=%lld does not fit a job of %d ranks (-1: unset)",
                       (long long)rank, (long long)size, launch->size);
    if (rank >= 0)
        launch->local_rank = (int)rank;
    if (size > 0)
        launch->local_size = (int)size;
    return KITH_OK;
}

/* ---- store ---- */

static kith_status use_url(const char *url, const char *origin, ki_launch *launch)
{
    if (strlen(url) >= sizeof launch->store)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: the store's URL has %zu bytes, at most %zu are allowed", origin,
                       strlen(url), sizeof launch->store - 1);
    snprintf(launch->store, sizeof launch->store, "%s", url);
    return KITH_OK;
}

/* *is_there: both variables are set. */
static kith_status use_master(ki_launch *launch, bool *is_there)
{
    const char *address = getenv("MASTER_ADDR"), *port_text = getenv("MASTER_PORT"),
               *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    bool has_address = address && *address, has_port = port_text && *port_text;
    int64_t port;
    *is_there = has_address && has_port;
    if (has_address != has_port)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s=%s is set but %s is not; both are needed to find rank 0",
                       launch->source, has_address ? "MASTER_ADDR" : "MASTER_PORT", has_address ? address : port_text,
                       has_address ? "MASTER_PORT" : "MASTER_ADDR");
    if (!*is_there)
        return KITH_OK;
    if (!ki_parse_int(port_text, &port) || port < 1 || port > 65535)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: MASTER_PORT=\"%s\" is not a port from 1 to 65535", launch->source,
                       port_text);
    if (agent && strcasecmp(agent, "true") == 0)
        port += port < 65535 ? 1 : -1;
    bool is_v6 = strchr(address, ':') && address[0] != '[';
    char url[600];
    if (strlen(address) > 400)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: MASTER_ADDR is longer than 400 bytes", launch->source);
    snprintf(url, sizeof url, "tcp://%s%s%s:%d", is_v6 ? "[" : "", address, is_v6 ? "]" : "", (int)port);
    return use_url(url, "MASTER_ADDR", launch);
}

static bool use_module(const kith_backend *const *modules, size_t module_count, int may_init, const char *variant,
                       ki_launch *launch)
{
    const kith_backend *module;
    int rank, size;
    if (!ask_modules(modules, module_count, may_init, variant, &module, &rank, &size))
        return false;
    if (rank != launch->rank || size != launch->size || !module->launch_broadcast) {
        ki_log(KITH_LOG_DEBUG, "MPI says rank %d of %d, %s says %d of %d: MPI is not asked for the store", rank, size,
               launch->source, launch->rank, launch->size);
        return false;
    }
    launch->module = module;
    launch->needs_broadcast = true;
    return true;
}

/* The launcher that started this process as the rank we are: KI_SOURCE_OPEN_MPI .. KI_SOURCE_SLURM, -1: none. */
static int find_launcher(const ki_config *config, const ki_launch *launch)
{
    for (int i = KI_SOURCE_OPEN_MPI; i < KI_SOURCE_COUNT; i++) {
        const char *rank = ki_launch_variable(config, ki_launch_sources[i].rank);
        const char *size = ki_launch_variable(config, ki_launch_sources[i].size);
        const char *also = ki_launch_sources[i].also;
        int64_t r, n;
        if (rank && size && (!also || ki_launch_variable(config, also)) && ki_parse_int(rank, &r) &&
            ki_parse_int(size, &n) && r == launch->rank && n == launch->size)
            return i;
    }
    return -1;
}

static kith_status use_job_file(const char *job_id, ki_launch *launch)
{
    const char *folder = getenv("TMPDIR");
    char url[800];
    if (!folder || folder[0] != '/')
        folder = "/tmp";
    int n = snprintf(url, sizeof url, "tcp://127.0.0.1:0?file=%s/kith-%ld-%s", folder, (long)geteuid(), job_id);
    if (n < 0 || (size_t)n >= sizeof launch->store || strchr(folder, '&'))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "TMPDIR=%s cannot hold the file in which the ranks meet (too long, or a & in it)", folder);
    return use_url(url, "TMPDIR", launch);
}

static kith_status no_store(const ki_launch *launch, int launcher)
{
    return ki_fail(
        KITH_ERR_INVALID_ARG,
        "rank %d of %d (%s): no store is known where the ranks can meet%s; set KITH_STORE=tcp://HOST:PORT on all ranks "
        "(HOST: where rank 0 runs), or MASTER_ADDR and MASTER_PORT, or options.store",
        launch->rank, launch->size, launch->source, launcher < 0 ? "" : ", and the job spans hosts");
}

static kith_status find_store(const kith_init_options *options, const ki_config *config,
                              const kith_backend *const *modules, size_t module_count, ki_launch *launch)
{
    static atomic_uint alone_count;
    const char *given = options && options->store && *options->store ? options->store : NULL;
    bool is_there;
    char job_id[160];
    if (given)
        return use_url(given, "options.store", launch);
    given = ki_launch_variable(config, "KITH_STORE");
    if (given)
        return use_url(given, "KITH_STORE", launch);
    kith_status s = use_master(launch, &is_there);
    if (s != KITH_OK || is_there)
        return s;
    if (use_module(modules, module_count, 0, NULL, launch))
        return KITH_OK;
    int launcher = find_launcher(config, launch);
    if (launcher >= 0 && launch->size > 1 && ki_launch_is_one_host(launcher, launch) &&
        ki_launch_job_id(launcher, job_id, sizeof job_id))
        return use_job_file(job_id, launch);
    if (launch->size == 1) {
        snprintf(launch->store, sizeof launch->store, "inproc://alone-%ld-%u", (long)getpid(),
                 atomic_fetch_add(&alone_count, 1));
        return KITH_OK;
    }
    if (launcher >= 0 && use_module(modules, module_count, 1, ki_launch_sources[launcher].module_variant, launch))
        return KITH_OK;
    return no_store(launch, launcher);
}

kith_status ki_launch_detect(const kith_init_options *options, const ki_config *config,
                             const kith_backend *const *modules, size_t module_count, ki_launch *launch)
{
    ki_launch found = { .local_rank = -1 };
    kith_status s = find_ranks(options, config, modules, module_count, &found);
    if (s == KITH_OK)
        s = find_local(options, config, &found);
    if (s == KITH_OK)
        s = find_store(options, config, modules, module_count, &found);
    if (s != KITH_OK)
        return s;
    *launch = found;
    ki_log(KITH_LOG_DEBUG, "launch: rank %d of %d (%s), store %s", found.rank, found.size, found.source,
           found.needs_broadcast ? "told by MPI" : found.store);
    return KITH_OK;
}
