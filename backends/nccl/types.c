/* backends/nccl/types.c - dtypes and operators: what NCCL has of Kith's.
 *
 * NCCL's arithmetic is NCCL's: halves are rounded on each hop, an average of floats multiplies by 1/n first, min and
 * max do not keep NaN, and the order of combination is that of its rings and trees. What NCCL has not - 16-bit
 * integers, bits, operators of the user's, 8-bit floats before 2.24 or on devices before sm_90 - is refused by
 * query() on all ranks alike, and the core stages it through the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <string.h>

bool nccl_is_reduction(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_REDUCE_SCATTER ||
           kind == KITH_REDUCE_SCATTER_V;
}

bool nccl_dtype(kith_dtype dtype, ncclDataType_t *type)
{
    switch (dtype) {
    case KITH_INT8:
        *type = ncclInt8;
        return true;
    case KITH_UINT8:
        *type = ncclUint8;
        return true;
    case KITH_INT32:
        *type = ncclInt32;
        return true;
    case KITH_UINT32:
        *type = ncclUint32;
        return true;
    case KITH_INT64:
        *type = ncclInt64;
        return true;
    case KITH_UINT64:
        *type = ncclUint64;
        return true;
    case KITH_F16:
        *type = ncclFloat16;
        return true;
    case KITH_BF16:
        *type = ncclBfloat16;
        return true;
    case KITH_F32:
        *type = ncclFloat32;
        return true;
    case KITH_F64:
        *type = ncclFloat64;
        return true;
    case KITH_F8E4M3:
        *type = ncclFloat8e4m3;
        return true;
    case KITH_F8E5M2:
        *type = ncclFloat8e5m2;
        return true;
    default: /* 16-bit integers */
        return false;
    }
}

static bool is_fp8(kith_dtype dtype)
{
    return dtype == KITH_F8E4M3 || dtype == KITH_F8E5M2;
}

static bool can_reduce(const nccl_group *group, const kith_be_query *query)
{
    ncclDataType_t type;
    if (!nccl_dtype(query->dtype, &type))
        return false;
    if (is_fp8(query->dtype) && (group->be->nccl->version < NCCL_WITH_FP8 || group->capability < 90))
        return false;
    if (query->op < 0) /* the scalar is a number of the dtype: too coarse in 8 bits */
        return query->is_premul_sum && !is_fp8(query->dtype);
    return query->op == KITH_SUM || query->op == KITH_PROD || query->op == KITH_MIN || query->op == KITH_MAX ||
           query->op == KITH_AVG;
}

kith_status nccl_query(void *handle, const kith_be_query *query, kith_be_answer *answer)
{
    const nccl_group *group = (const nccl_group *)handle;
    bool is_reduction = nccl_is_reduction(query->kind);
    memset(answer, 0, sizeof *answer);
    if (query->kind == KITH_BARRIER) /* has no buffers, so none on a device */
        return KITH_OK;
    if (is_reduction && !can_reduce(group, query))
        return KITH_OK;
    answer->is_native = 1;
    answer->is_deterministic = !is_reduction || group->size == 1;
    answer->algorithm = "nccl";
    return KITH_OK;
}

/* ---- operators ---- */

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Nearest, ties to even; too large becomes infinite. The scalar is finite. */
static uint16_t to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: the sum with 0.5 has its last bit at 2^-24 */
        float wide;
        memcpy(&wide, &magnitude, sizeof wide);
        wide += 0.5f;
        memcpy(&magnitude, &wide, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1) - 0x38000000;
    return (uint16_t)(sign | magnitude >> 13);
}

/* The scalar as a number of the type, in the low bytes. */
static uint64_t scalar_bits(const kith_be_reducer *reducer, ncclDataType_t type)
{
    uint64_t bits = 0;
    float narrow = (float)reducer->scalar;
    if (type == ncclFloat64)
        memcpy(&bits, &reducer->scalar, sizeof reducer->scalar);
    else if (type == ncclFloat32)
        memcpy(&bits, &narrow, sizeof narrow);
    else if (type == ncclFloat16)
        bits = to_f16(narrow);
    else if (type == ncclBfloat16)
        bits = to_bf16(narrow);
    else
        bits = (uint64_t)reducer->int_scalar; /* little-endian: the low bytes are the number in any width */
    return bits;
}

static ncclResult_t premul_operator(nccl_line *line, uint64_t bits, ncclDataType_t type, ncclRedOp_t *op)
{
    const nccl_functions *nccl = line->be->nccl;
    for (int i = 0; i < line->factor_count; i++) {
        if (line->factors[i].bits == bits && line->factors[i].dtype == type) {
            *op = line->factors[i].op;
            return ncclSuccess;
        }
    }
    nccl_factor made = { .bits = bits, .dtype = type };
    ncclResult_t result = nccl->ncclRedOpCreatePreMulSum(&made.op, &bits, type, ncclScalarHostImmediate, line->comm);
    if (result != ncclSuccess)
        return result;
    nccl_factor *place = &line->factors[line->factor_next];
    if (line->factor_count == NCCL_FACTORS) /* NCCL keeps what operations under way need of it */
        nccl->ncclRedOpDestroy(place->op, line->comm);
    else
        line->factor_count++;
    line->factor_next = (line->factor_next + 1) % NCCL_FACTORS;
    *place = made;
    *op = made.op;
    return ncclSuccess;
}

ncclResult_t nccl_operator(nccl_line *line, const kith_be_coll *coll, ncclDataType_t type, ncclRedOp_t *op)
{
    switch (coll->op) {
    case KITH_SUM:
        *op = ncclSum;
        return ncclSuccess;
    case KITH_PROD:
        *op = ncclProd;
        return ncclSuccess;
    case KITH_MIN:
        *op = ncclMin;
        return ncclSuccess;
    case KITH_MAX:
        *op = ncclMax;
        return ncclSuccess;
    case KITH_AVG:
        *op = ncclAvg;
        return ncclSuccess;
    default:
        return premul_operator(line, scalar_bits(coll->reducer, type), type, op);
    }
}

void nccl_factors_free(nccl_line *line)
{
    for (int i = 0; i < line->factor_count; i++)
        line->be->nccl->ncclRedOpDestroy(line->factors[i].op, line->comm);
    line->factor_count = line->factor_next = 0;
}
