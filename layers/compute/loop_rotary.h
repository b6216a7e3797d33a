/* layers/compute/loop_rotary.h - the loops of rotary positions (attention.h, rotary.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Rows of angles: [cosines, sines], half of each. sum = a + b, or -(a + b); as A. */
static void FN(add_angles)(int half, const double *a, const double *b, bool is_inverse, void *sum)
{
    real *cosines = (real *)sum, *sines = cosines + half;
    const double sign = is_inverse ? -1 : 1;
    KI_VECTOR
    for (int i = 0; i < half; i++)
        FN(ki_add_angles)(a[i], a[half + i], b[i], b[half + i], sign, cosines + i, sines + i);
}

/* Elements low[i] and high[i] are a pair. */
static inline void FN(turn_pairs)(int count, const real *cosines, const real *sines, real *low, real *high)
{
    KI_VECTOR
    for (int i = 0; i < count; i++)
        FN(ki_turn)(cosines[i], sines[i], low + i, high + i);
}

/* A head that is stored in another type, a block of pairs at a time. */
static void FN(turn_stored)(kith_dtype dtype, int half, const real *angles, char *head)
{
    const size_t nbytes = kith_dtype_nbytes(dtype);
    real low[KI_BLOCK], high[KI_BLOCK];
    for (int first = 0; first < half; first += KI_BLOCK) {
        const int count = half - first < KI_BLOCK ? half - first : KI_BLOCK;
        char *low_at = head + (size_t)first * nbytes, *high_at = low_at + (size_t)half * nbytes;
        FN(convert_in)(dtype, low_at, count, low);
        FN(convert_in)(dtype, high_at, count, high);
        FN(turn_pairs)(count, angles + first, angles + half + first, low, high);
        FN(convert_out)(dtype, low, count, low_at);
        FN(convert_out)(dtype, high, count, high_at);
    }
}

/* One token: its heads lie side by side. */
static void FN(turn)(kith_dtype dtype, int64_t heads, int half, const void *angles, void *row)
{
    const size_t head_nbytes = 2 * (size_t)half * kith_dtype_nbytes(dtype);
    for (int64_t h = 0; h < heads; h++) {
        char *head = (char *)row + (size_t)h * head_nbytes;
        if (dtype == KI_REAL_DTYPE)
            FN(turn_pairs)(half, (const real *)angles, (const real *)angles + half, (real *)head, (real *)head + half);
        else
            FN(turn_stored)(dtype, half, (const real *)angles, head);
    }
}
