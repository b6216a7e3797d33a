/* tests/simgpu/simgpu.h - what the parts of the simulated GPU ask from its runtime, libsimcudart.so.
 *
 * A program sees the CUDA runtime, cuBLAS and NCCL. Behind them stands one engine, which lives in libsimcudart.so:
 * streams as queues, memory with bounds, and a detector of races. libsimcublas.so, libsimnccl.so and libsimkernels.so
 * link to it and use the functions below.
 *
 * An operation is a function that a stream's own thread runs in its turn. It reaches memory of the device by asking
 * for it: sim_access() checks that the range lies inside one live allocation of the right device, notes the access for
 * the race detector, and gives the address where the simulated memory really lies. What the program holds are addresses
 * that fault.
 *
 *     static void add_run(void *arg)
 *     {
 *         add_args *a = arg;                       // malloc'ed by the caller of sim_stream_submit, freed after run
 *         float *y = sim_access(a->y, a->count * sizeof(float), SIM_READ | SIM_WRITE);
 *         ...
 *     }
 *     sim_stream_submit(stream, "add", add_run, a);
 *
 * Races. Every operation has a vector clock: what was before it when it was put into its stream, by the order of the
 * stream, by events, by the default stream, and by what the host had waited for. Two accesses to one byte, of which one
 * writes and neither is before the other, are a race, whichever ran first.
 *
 * Failures are sentences on stderr, "simgpu: ...", and abort(). With KITH_SIMGPU_KEEP_GOING=1 they only count, for the
 * simulator's own tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_H
#define SIMGPU_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_API __attribute__((visibility("default")))

/* ---- failures ---- */

/* One sentence without "simgpu:" and without a line's end. Aborts, unless KITH_SIMGPU_KEEP_GOING=1. */
SIM_API void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
SIM_API unsigned long sim_failures(void);
/* The last sentence, "" before the first. For tests: valid until the next failure. */
SIM_API const char *sim_last_failure(void);

/* KITH_SIMGPU_FAULT="malloc:3,launch:10": true at the N-th call with this name, once. `what` is one of the names in
 * README.md, or one of your own; "nccl_async:RANK:N" is asked for as sim_fault("nccl_async:2"). */
SIM_API int sim_fault(const char *what);

/* ---- devices ---- */

SIM_API int sim_device_count(void);
SIM_API int sim_current_device(void); /* of the calling thread */
/* Whether the process has a context on it. */
SIM_API int sim_context_is_made(int device);
/* Uuid and bus id as cudaDeviceProp has them; the same in every process that has this many devices. */
SIM_API void sim_device_uuid(int device, unsigned char uuid[16]);

/* ---- streams ---- */

/* Puts an operation at the end of the stream (NULL: the current device's default stream, with its legacy meaning).
 * `what` names it in sentences and must live for ever (a literal or sim_intern()). arg is freed with free() after run,
 * also on failure. Returns 0, or a cudaError_t after sim_fail() for a stream that was destroyed or never made. */
SIM_API int sim_stream_submit(cudaStream_t stream, const char *what, void (*run)(void *arg), void *arg);
/* The device of a stream; -1 after sim_fail() when it was destroyed or never made. */
SIM_API int sim_stream_device(cudaStream_t stream);
/* A copy of text that lives for ever, the same pointer for the same text. */
SIM_API const char *sim_intern(const char *text);

/* Inside run: waits until is_done(arg) returns non-zero, without holding anything of the engine: other streams go on.
 * For operations that wait for other processes. is_done is asked again and again, at most every millisecond. Returns 0;
 * or 1 when the process is exiting, in which case run should return. */
SIM_API int sim_wait_until(int (*is_done)(void *arg), void *arg);

/* Inside run: the operation failed on the device (a kernel's illegal access, an asynchronous error): later calls of the
 * device return this cudaError_t, as after a real one. */
SIM_API void sim_device_broken(int device, int cuda_error);

/* Two orders between operations beside streams and events, for those that meet inside another library: a token notes
 * what is done when the running operation is (release), the other operation takes it up (acquire). Both inside run.
 * Ranks of one process that meet in a collective are ordered so. */
typedef struct sim_token sim_token;
SIM_API sim_token *sim_release(void);
SIM_API void sim_acquire(const sim_token *token);
SIM_API void sim_token_free(sim_token *token);

/* ---- memory, inside run ---- */

enum { SIM_READ = 1, SIM_WRITE = 2 };

/* nbytes at device_ptr for the running operation. NULL when nbytes is 0, and after sim_fail(). Pinned memory and
 * managed memory of the simulated runtime are fine too; other host memory is not. */
SIM_API void *sim_access(const void *device_ptr, size_t nbytes, int mode);
/* rows pieces of row_nbytes whose starts lie pitch bytes apart (pitch >= row_nbytes); returns where the first lies. */
SIM_API void *sim_access_2d(const void *device_ptr, size_t row_nbytes, size_t pitch, size_t rows, int mode);

/* What a pointer belongs to, at any time: 1 device memory, 2 pinned memory, 0 neither; *device: which, *from and
 * *nbytes: its whole allocation. Each may be NULL. Freed memory is neither. */
SIM_API int sim_memory_of(const void *ptr, int *device, void **from, size_t *nbytes);

/* ---- handles ---- */

/* Handles of a library that must be released before the process ends ("a cuBLAS handle"). sim_handle_is_live() says
 * whether this pointer is one; removing one that is not is sim_fail() and returns 1. */
SIM_API void sim_handle_add(const char *kind, const void *handle);
SIM_API int sim_handle_remove(const char *kind, const void *handle);
SIM_API int sim_handle_is_live(const char *kind, const void *handle);

#ifdef __cplusplus
}
#endif
#endif
