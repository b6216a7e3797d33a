/* kith/status.h - what every function returns, and the text that says why.
 *
 * A function returns KITH_OK or a negative status. Output arguments are written on KITH_OK only. The first function
 * that knows what went wrong stores one sentence for the calling thread (what, where, which values are valid); read it
 * with kith_error_detail() before the next call into the library on that thread:
 *
 *     kith_status s = kith_all_reduce(group, x, x, n, KITH_F32, KITH_SUM);
 *     if (s != KITH_OK) fprintf(stderr, "%s: %s\n", kith_status_name(s), kith_error_detail());
 *
 * The numbers never change and are never reused. New ones are added at the end, so a switch needs a default.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_STATUS_H
#define KITH_STATUS_H

#include <kith/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, number, name, sentence) */
#define KITH_STATUS_TABLE(X)                                                                                           \
    X(KITH_OK, 0, "ok", "success")                                                                                     \
    X(KITH_ERR_INVALID_ARG, -1, "invalid argument", "an argument or a setting is outside what is allowed")             \
    X(KITH_ERR_UNSUPPORTED, -2, "unsupported", "this build, backend or machine cannot do it")                          \
    X(KITH_ERR_NO_MEMORY, -3, "no memory", "an allocation failed")                                                     \
    X(KITH_ERR_NO_RESOURCE, -4, "no resource", "the system refused a file, socket, shared memory or thread")           \
    X(KITH_ERR_TIMEOUT, -5, "timeout", "the deadline passed before the operation completed")                           \
    X(KITH_ERR_ABORTED, -6, "aborted", "the group, or a long piece of work, was aborted")                              \
    X(KITH_ERR_MISMATCH, -7, "mismatch", "ranks called different operations or were configured differently")           \
    X(KITH_ERR_TRUNCATED, -8, "truncated", "a message is longer than the buffer that receives it")                     \
    X(KITH_ERR_PEER_FAILED, -9, "peer failed", "another rank of the group died or reported an error")                  \
    X(KITH_ERR_UNREACHABLE, -10, "unreachable", "no connection to a peer or to the store could be made")               \
    X(KITH_ERR_IO, -11, "input/output", "reading or writing a file or a socket failed")                                \
    X(KITH_ERR_INTERNAL, -12, "internal", "a bug in the library or in a backend")                                      \
    X(KITH_ERR_BUSY, -13, "busy", "the object is still in use")

typedef enum kith_status {
#define KITH_STATUS_ENUM(symbol, number, name, sentence) symbol = number,
    KITH_STATUS_TABLE(KITH_STATUS_ENUM)
#undef KITH_STATUS_ENUM
} kith_status;

/* Short name ("timeout"), never NULL: an unknown number gives "unknown status". Static storage. */
KITH_API const char *kith_status_name(kith_status status);

/* One sentence for the status alone. Never NULL, static storage. */
KITH_API const char *kith_status_sentence(kith_status status);

/* The detail of the last failure on the calling thread, "" when there was none. It names the operation, group, sequence
 * number and peer where there are any. The text is the thread's own and stays until the next failing call on it. */
KITH_API const char *kith_error_detail(void);

/* Log levels: error (cannot go on), warn (odd, going on), info (once a run), debug (per object), trace (per operation),
 * data (per message). */
typedef enum kith_log_level {
    KITH_LOG_NONE = 0,
    KITH_LOG_ERROR = 1,
    KITH_LOG_WARN = 2,
    KITH_LOG_INFO = 3,
    KITH_LOG_DEBUG = 4,
    KITH_LOG_TRACE = 5,
    KITH_LOG_DATA = 6
} kith_log_level;

/* Receives one line, without a newline. May be called from any thread, never concurrently with itself; must not call
 * into the library. */
typedef void (*kith_log_fn)(void *arg, kith_log_level level, const char *line);

/* Sets the process-wide sink for log lines; fn NULL restores the default: silent, unless the environment has
 * KITH_LOG=error|warn|info|debug|trace|data, which writes to stderr (or to the file KITH_LOG_FILE; %h host, %p
 * process; without KITH_LOG it gets warnings). The library never writes anywhere else. Thread-safe. */
KITH_API void kith_log_set(kith_log_fn fn, void *arg, kith_log_level level);

#ifdef __cplusplus
}
#endif
#endif
