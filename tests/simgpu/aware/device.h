/* tests/simgpu/aware/device.h - memory of the simulated GPU for the stand-ins of this folder: what is on a device, and
 * copies that are done when they return.
 *
 * A stand-in reads and writes device memory in a stream of its own, ordered behind nothing but what the host has waited
 * for. So whoever gives it a buffer that a stream still works on, or lets a stream go on before it is done, is found by
 * the simulator as a race.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_AWARE_DEVICE_H
#define SIMGPU_AWARE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

bool aware_is_device(const void *ptr);
/* Either side may be device memory. Ends the process when it fails. */
void aware_copy(void *to, const void *from, size_t nbytes);
/* Writes what no message holds: a library may write into a receive's buffer from its start on. */
void aware_spoil(void *device, size_t nbytes);
/* Never NULL. */
void *aware_alloc(size_t nbytes);

#endif
