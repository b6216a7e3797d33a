/* core/dtype.c - sizes and names of element types, from the table in kith/dtype.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include <kith/dtype.h>
#include <string.h>

static const struct {
    const char *name;
    size_t nbytes;
} dtypes[KITH_DTYPE_COUNT] = {
#define ROW(symbol, number, text, bytes) [number] = { text, bytes },
    KITH_DTYPE_TABLE(ROW)
#undef ROW
};

static int is_dtype(kith_dtype dtype)
{
    return (unsigned)dtype < KITH_DTYPE_COUNT;
}

size_t kith_dtype_nbytes(kith_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].nbytes : 0;
}

const char *kith_dtype_name(kith_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "unknown dtype";
}

kith_status kith_dtype_parse(const char *name, kith_dtype *dtype)
{
    if (dtype == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_dtype_parse: dtype is NULL");
    for (int i = 0; name != NULL && i < KITH_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *dtype = (kith_dtype)i;
            return KITH_OK;
        }
    }
#define LISTED(symbol, number, text, bytes) " " text
    return ki_fail(KITH_ERR_INVALID_ARG, "dtype \"%s\" is unknown; valid names:" KITH_DTYPE_TABLE(LISTED),
                   name != NULL ? name : "(null)");
#undef LISTED
}
