/* core/base/config_rows.h - the core's rows of the table of settings: the one place where a tunable is declared.
 *
 * X(name, type, default, valid values (the argument of the type), must_agree, is_process, help). Types:
 *   TEXT    anything
 *   NAME    letters, digits, _ and -
 *   BOOL    0 1 no yes off on false true
 *   INT     "min:max"
 *   AUTO    "auto", or "min:max"
 *   CHOICE  "one|of|these"; "auto|on|off" also takes what BOOL takes
 *   NBYTES  "min:max", with k, m, g
 *   ALGO    one name, or collective=name pairs with commas
 * Empty is valid where the default is empty. must_agree: kith_init() compares the value over all ranks. is_process:
 * read from the environment alone, because it serves the whole process (settings of one context cannot change it).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_CONFIG_ROWS_H
#define KI_BASE_CONFIG_ROWS_H

#define KI_INT_TEXT "0:2147483647"

#define KI_CONFIG_ROWS(X)                                                                                              \
    X("rank", INT, "", KI_INT_TEXT, 0, 0, "rank of this process, from 0 (set by kith run)")                            \
    X("size", INT, "", "1:2147483647", 0, 0, "number of ranks of the job (set by kith run)")                           \
    X("local_rank", INT, "", KI_INT_TEXT, 0, 0, "position among the ranks of this host")                               \
    X("local_size", INT, "", "1:2147483647", 0, 0, "number of ranks of this host")                                     \
    X("store", TEXT, "", "", 0, 0, "where the ranks meet: tcp://host:port, file:///path, inproc://name")               \
    X("secret", TEXT, "", "", 0, 0, "shared secret of the TCP store, at most 255 bytes")                               \
    X("hostid", TEXT, "", "", 0, 0, "identity of this host instead of the one found; equal ones share memory")         \
    X("ifname", TEXT, "", "", 0, 0, "network interfaces to use: names with commas, or addr/bits; empty: any")          \
    X("log", CHOICE, "none", "none|error|warn|info|debug|trace|data", 0, 1, "what is written to stderr or log_file")   \
    X("log_file", TEXT, "", "", 0, 1, "file for the log; warnings unless KITH_LOG is set; %h host, %p process")        \
    X("fault", TEXT, "", "", 0, 1, "failures to inject, for tests: alloc:N socket:N shm:N open:N, with @rank")         \
    X("backend_path", TEXT, "", "", 0, 1, "folders with more backend modules, separated by colons")                    \
    X("backend", NAME, "auto", "", 1, 0, "backend of the world: auto or a backend's name")                             \
    X("device", TEXT, "", "", 0, 0, "GPU of the context: cuda, cuda:N or cuda:local; empty: none")                     \
    X("timeout_ms", INT, "0", "0:9000000000000", 0, 0, "deadline of every wait in ms; 0: none")                        \
    X("connect_timeout_ms", INT, "30000", "1:9000000000000", 0, 0, "deadline of joining and of creating groups, ms")   \
    X("check", BOOL, "off", "", 1, 0, "compare every operation's arguments over the ranks first")                      \
    X("deterministic", CHOICE, "auto", "auto|on|off", 1, 0, "on: documented order only; auto: or native; off: any")    \
    X("hier", CHOICE, "auto", "auto|on|off", 1, 0, "collectives in hosts over shared memory, then between them")       \
    X("device_hier", CHOICE, "auto", "auto|on|off", 1, 0,                                                              \
      "all_reduce on GPUs: NCCL in each host, ucx or mpi between; auto: where NCCL reaches no other host")             \
    X("algo", ALGO, "", "", 1, 0, "forced algorithms: one name, or all_reduce=ring,broadcast=knomial")                 \
    X("algo_table", TEXT, "", "", 0, 0, "JSON file with rules that choose algorithms")                                 \
    X("segment_nbytes", NBYTES, "0", "0:1g", 1, 0, "segment of pipelined algorithms; 0: each one's default")           \
    X("radix", INT, "0", "0:1024", 1, 0, "radix of k-nomial algorithms, 2 or more; 0: each one's default")             \
    X("spin", AUTO, "auto", KI_INT_TEXT, 0, 0, "polls before a wait yields; auto: none with more ranks than CPUs")     \
    X("flight_records", INT, "256", "0:1048576", 0, 0, "operations that the flight record of a group keeps")           \
    X("kernels", CHOICE, "auto", "auto|generic|avx2|avx512", 0, 0, "kernels of reductions and of layers")              \
    X("blas_library", TEXT, "", "", 0, 1, "CBLAS of layers: a library's name or path; empty: the first found")         \
    X("cudart_library", TEXT, "", "", 0, 1, "CUDA runtime: a library's path; empty: libcudart.so.13, .12, ...")       \
    X("cublas_library", TEXT, "", "", 0, 1, "cuBLAS of layers: a library's path; empty: libcublas.so.13, .12, ...")   \
    X("stage_nbytes", NBYTES, "4m", "4k:1g", 1, 0, "pieces in which large device buffers pass through the host")       \
    X("stream_nbytes", NBYTES, "8m", "0:1t", 0, 0, "results of this size or more are written with streaming stores")   \
    X("dump_on_timeout", TEXT, "", "", 0, 0, "file for the flight records after a timeout; empty: none")

#endif
