/* backends/ucx/library.h - UCX, opened when it is needed.
 *
 * The module does not link to UCX: loading libucs installs handlers for SIGSEGV and its kin and makes it write to the
 * terminal, and opening a backend module must have no side effects. ucx_library() opens libucp at the first call,
 * with those handlers switched off, and fills the table below. It stays open until the process ends.
 *
 * If this module was the first to bring UCX into the process, UCX's log lines go to the context's log (level debug)
 * instead of the terminal, unless the user has set UCX_LOG_LEVEL. If something else uses UCX already (an MPI),
 * nothing is changed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_UCX_LIBRARY_H
#define KI_UCX_LIBRARY_H

#include <kith/backend.h>
#include <stdbool.h>
#include <ucp/api/ucp.h>

#define UCX_FUNCTIONS(X)                                                                                               \
    X(ucp_get_version_string)                                                                                          \
    X(ucp_get_version)                                                                                                 \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_release)                                                                                              \
    X(ucp_init_version)                                                                                                \
    X(ucp_context_query)                                                                                               \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_release_address)                                                                                      \
    X(ucp_worker_set_am_recv_handler)                                                                                  \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_worker_get_efd)                                                                                              \
    X(ucp_worker_arm)                                                                                                  \
    X(ucp_worker_flush_nbx)                                                                                            \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_am_send_nbx)                                                                                                 \
    X(ucp_am_recv_data_nbx)                                                                                            \
    X(ucp_request_check_status)                                                                                        \
    X(ucp_request_free)                                                                                                \
    X(ucs_status_string)

typedef struct ucx_functions {
#define UCX_MEMBER(name) __typeof__(&name) name;
    UCX_FUNCTIONS(UCX_MEMBER)
#undef UCX_MEMBER
} ucx_functions;

/* The table, or NULL with one line in reason. Thread-safe. */
const ucx_functions *ucx_library(char *reason, size_t reason_nbytes);

/* UCX reads the configuration of its transports from the environment alone. Between prefer(true) and prefer(false) the
 * variables that we want otherwise than UCX has them are set, unless the user has set them; other callers wait
 * meanwhile. */
void ucx_library_prefer(bool is_on);

/* Where UCX's log lines go from now on; NULL: nowhere. */
void ucx_library_log_to(const kith_be_host *host);
/* The same, if they go to this host. */
void ucx_library_log_end(const kith_be_host *host);

#endif
