/* core/op_names.c - the built-in operators by name, and on which element types they are defined.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include <kith/op.h>
#include <string.h>

kith_status kith_op_parse(const char *name, kith_op *op)
{
    static const char *const names[KITH_OP_BUILTIN_COUNT] = {
#define ROW(symbol, number, text) [number] = text,
        KITH_OP_TABLE(ROW)
#undef ROW
    };
    if (op == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_op_parse: op is NULL");
    for (int i = 0; name != NULL && i < KITH_OP_BUILTIN_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *op = i;
            return KITH_OK;
        }
    }
#define LISTED(symbol, number, text) " " text
    return ki_fail(KITH_ERR_INVALID_ARG, "operator \"%s\" is unknown; valid names:" KITH_OP_TABLE(LISTED),
                   name != NULL ? name : "(null)");
#undef LISTED
}

int kith_op_is_defined(kith_op op, kith_dtype dtype)
{
    if (op < 0 || op >= KITH_OP_BUILTIN_COUNT || kith_dtype_nbytes(dtype) == 0)
        return 0;
    int needs_integer = op == KITH_BAND || op == KITH_BOR || op == KITH_BXOR;
    return !needs_integer || dtype < KITH_F16;
}
