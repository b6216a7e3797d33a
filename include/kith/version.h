/* kith/version.h - version of the header and of the library.
 *
 * The library follows semantic versioning from 1.0 on; until then a change of the minor number may break
 * source compatibility and is listed in the change log. The shared library's soname carries KITH_VERSION_MAJOR.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_VERSION_H
#define KITH_VERSION_H

#define KITH_VERSION_MAJOR 0
#define KITH_VERSION_MINOR 1
#define KITH_VERSION_PATCH 0
#define KITH_VERSION_STRING "0.1.0"

/* Every function that the library exports carries this. */
#if defined(KITH_BUILD) && defined(__GNUC__)
#define KITH_API __attribute__((visibility("default")))
#else
#define KITH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library that is loaded, "major.minor.patch". Static storage. May differ from KITH_VERSION_STRING,
 * which is that of the headers the caller was compiled with. */
KITH_API const char *kith_version(void);

#ifdef __cplusplus
}
#endif
#endif
