/* core/registry.h - which backends there are.
 *
 * shm is built in. Modules are shared objects named libkith_<name>.so or libkith_<name>_<variant>.so in the folders of
 * KITH_BACKEND_PATH and in the library's own module folder, found relative to libkith. A module is opened when somebody
 * asks for its name, once per process, and stays; a table with missing optional functions is completed with stubs
 * that return KITH_ERR_UNSUPPORTED, so callers never test for NULL, except where backend.h lets them choose
 * (coll_start, coll_run, idle, progress, launch, mem_...). libkith_cuda.so is the module of devices (core/device) and
 * no backend.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REGISTRY_H
#define KI_REGISTRY_H

#include <kith/backend.h>
#include <stdbool.h>

/* The usable backend of that name: of several variants the first whose available() agrees. KITH_ERR_INVALID_ARG for a
 * name that nobody has (the detail lists the names there are), KITH_ERR_UNSUPPORTED with the reasons when none can be
 * used here. */
kith_status ki_registry_find(const char *name, const kith_backend **backend);

/* True when there is a usable one; says and logs nothing. */
bool ki_registry_can(const char *name);
/* The same; where there is none, why. */
bool ki_registry_tell(const char *name, char *why, size_t nbytes);

/* True when a module file (or the built-in) of that name exists; opens nothing. */
bool ki_registry_has(const char *name);

/* The full path of a file that is looked for where modules are, in the same order; for modules that are no backends. */
bool ki_registry_locate(const char *file, char *path, size_t nbytes);

/* Calls visit for every backend file: opened and asked for availability when backend is not NULL, else reason says
 * why it could not be opened. For `kith info`. */
typedef void (*ki_registry_visit)(void *arg, const char *name, const char *path, const kith_backend *backend,
                                  kith_status status, const char *reason);
void ki_registry_each(ki_registry_visit visit, void *arg);

/* Names of all files' backends, once each, ", "-separated: for texts. */
void ki_registry_names(char *text, size_t nbytes);

#endif
