/* backends/mpi/types.c - kith's types and operators as MPI's, and what is native.
 *
 * MPI handles are link-time addresses in Open MPI and integers in MPICH; either way they are constants that a switch
 * can return.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdio.h>

static MPI_Datatype signed_type(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_INT8:
        return MPI_INT8_T;
    case KITH_INT16:
        return MPI_INT16_T;
    case KITH_INT32:
        return MPI_INT32_T;
    case KITH_INT64:
        return MPI_INT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Datatype unsigned_type(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_INT8:
    case KITH_UINT8:
        return MPI_UINT8_T;
    case KITH_INT16:
    case KITH_UINT16:
        return MPI_UINT16_T;
    case KITH_INT32:
    case KITH_UINT32:
        return MPI_UINT32_T;
    case KITH_INT64:
    case KITH_UINT64:
        return MPI_UINT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static bool is_float(kith_dtype dtype)
{
    return dtype == KITH_F32 || dtype == KITH_F64;
}

/* Open MPI's op/avx component saturates sums of 8- and 16-bit integers instead of wrapping them. */
static bool is_saturating(kith_dtype dtype, int op)
{
#ifdef OPEN_MPI
    return op == KITH_SUM && (dtype == KITH_INT8 || dtype == KITH_UINT8 || dtype == KITH_INT16 || dtype == KITH_UINT16);
#else
    (void)dtype, (void)op;
    return false;
#endif
}

MPI_Datatype mpi_type_reduce(kith_dtype dtype, int op)
{
    bool is_ordering = op == KITH_MIN || op == KITH_MAX;
    if (mpi_op(op) == MPI_OP_NULL || is_saturating(dtype, op))
        return MPI_DATATYPE_NULL;
    if (is_float(dtype)) {
        if (op != KITH_SUM && op != KITH_PROD)
            return MPI_DATATYPE_NULL;
        return dtype == KITH_F32 ? MPI_FLOAT : MPI_DOUBLE;
    }
    if (is_ordering && signed_type(dtype) != MPI_DATATYPE_NULL)
        return signed_type(dtype);
    return unsigned_type(dtype);
}

MPI_Datatype mpi_type_move(size_t nbytes)
{
    switch (nbytes) {
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    case 8:
        return MPI_UINT64_T;
    default:
        return MPI_UINT8_T;
    }
}

MPI_Op mpi_op(int op)
{
    switch (op) {
    case KITH_SUM:
        return MPI_SUM;
    case KITH_PROD:
        return MPI_PROD;
    case KITH_MIN:
        return MPI_MIN;
    case KITH_MAX:
        return MPI_MAX;
    case KITH_BAND:
        return MPI_BAND;
    case KITH_BOR:
        return MPI_BOR;
    case KITH_BXOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

static bool is_reduction(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V ||
           kind == KITH_REDUCE;
}

static bool is_local_count(kith_coll_kind kind)
{
    return kind == KITH_GATHER_V || kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V;
}

kith_status mpi_query(void *handle, const kith_be_query *query, kith_be_answer *answer)
{
    const mpi_group *group = (const mpi_group *)handle;
    bool is_native = group->be->is_native, is_reducing = is_reduction(query->kind);
    if (is_reducing)
        is_native = is_native && mpi_type_reduce(query->dtype, query->op) != MPI_DATATYPE_NULL;
    if (is_local_count(query->kind))
        is_native = is_native && MPI_VERSION >= 4;
#ifdef OPEN_MPI /* takes device memory in its blocking collectives alone */
    is_native = is_native && !query->is_device;
#endif
    answer->is_native = is_native;
    answer->is_deterministic = !is_reducing || !is_float(query->dtype); /* MPI promises no order */
    answer->algorithm = is_native ? KITH_MODULE_VARIANT : NULL;
    return KITH_OK;
}

kith_status mpi_status(const kith_be_host *host, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int class = MPI_ERR_UNKNOWN, length = 0;
    if (code == MPI_SUCCESS)
        return KITH_OK;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\n' ? ' ' : *at;
    kith_status status = class == MPI_ERR_TRUNCATE ? KITH_ERR_MISMATCH
                         : class == MPI_ERR_NO_MEM ? KITH_ERR_NO_MEMORY
                                                   : KITH_ERR_IO;
    return host->fail(status, "backend mpi: %s: %s", what, text);
}
