/* layers/compute/host_parts.h - calls that a rank's threads share: each part is the same call on parts of matrices.
 *
 * A call is cut by rows where rows are independent, by columns where sums run over rows, so that every number is
 * computed by one thread in the order in which one thread alone would. Element by element, matrices with few rows are
 * cut by columns, at multiples of KI_BLOCK. What is small stays whole (KI_POOL_PART).
 *
 * Included by host.c alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Each thread has several, so that one whose core does something else leaves them to others. */
enum { PARTS_PER_THREAD = 4 };

/* What a loop over an element costs, in copies of it. */
enum { COPIED = 1, SUMMED = 2, COMPUTED = 6 };

typedef struct cut {
    int64_t whole, each; /* rows or columns; of a part */
    bool is_columns;
} cut;

/* The range of one part. */
typedef struct span {
    int64_t first, count;
    bool is_columns;
} span;

typedef struct part_call {
    ki_compute *self;
    const ki_compute_ops *loops;
    cut cut;
} part_call;

/* `whole` rows (columns) with `others` elements each into multiples of `unit`. */
static cut cut_of(const ki_compute *self, int64_t whole, int64_t others, int cost, int64_t unit)
{
    const int64_t most = (int64_t)ki_pool_threads(self->pool) * PARTS_PER_THREAD;
    const double worth = (double)whole * (double)others * cost / KI_POOL_PART;
    const int64_t parts = self->pool == NULL || worth < 2 ? 1 : worth < (double)most ? (int64_t)worth : most;
    const int64_t each = (whole + parts - 1) / parts;
    return (cut){ .whole = whole, .each = parts == 1 ? whole : (each + unit - 1) / unit * unit };
}

static cut by_rows(const ki_compute *self, ki_mat m, int cost)
{
    return cut_of(self, m.rows, m.cols, cost, 1);
}

/* Parts are a few cache lines wide at least. */
static cut by_columns(const ki_compute *self, ki_mat m, int cost)
{
    cut made = cut_of(self, m.cols, m.rows, cost, 64);
    made.is_columns = true;
    return made;
}

static cut by_elements(const ki_compute *self, ki_mat m, int cost)
{
    if (m.rows >= (int64_t)ki_pool_threads(self->pool) * PARTS_PER_THREAD || m.cols <= KI_BLOCK)
        return by_rows(self, m, cost);
    cut made = cut_of(self, m.cols, m.rows, cost, KI_BLOCK);
    made.is_columns = true;
    return made;
}

/* Rows of a batch stay together: a row's coordinates in a mask are counted from the first row (compute.h). */
static cut by_batches(const ki_compute *self, ki_mat m, const ki_dropout *dropout)
{
    return cut_of(self, m.rows, m.cols, dropout->probability > 0 ? COMPUTED : COPIED,
                  dropout->probability > 0 ? dropout->batch : 1);
}

static int64_t parts_of(const cut *how)
{
    return how->each > 0 ? (how->whole + how->each - 1) / how->each : 0;
}

static span span_of(const part_call *call, int64_t part)
{
    const cut *how = &call->cut;
    const int64_t first = part * how->each, rest = how->whole - first;
    return (span){ .first = first, .count = rest < how->each ? rest : how->each, .is_columns = how->is_columns };
}

static ki_mat columns_of(ki_mat m, span s)
{
    if (m.data != NULL)
        m.data = (char *)m.data + (size_t)s.first * kith_dtype_nbytes(m.dtype);
    m.cols = s.count;
    return m;
}

static ki_mat rows_of(ki_mat m, span s)
{
    if (m.data != NULL)
        m.data = (char *)m.data + (size_t)(s.first * m.stride) * kith_dtype_nbytes(m.dtype);
    m.rows = s.count;
    return m;
}

/* The span of a matrix, and of one row that all rows of it meet. */
static ki_mat of(ki_mat m, span s)
{
    return s.is_columns ? columns_of(m, s) : rows_of(m, s);
}

static ki_mat across(ki_mat row, span s)
{
    return s.is_columns ? columns_of(row, s) : row;
}

static ki_dropout later(const ki_dropout *dropout, span s)
{
    ki_dropout there = *dropout;
    if (dropout->probability > 0)
        there.first_position += (uint32_t)(s.first / dropout->batch);
    return there;
}

/* PARTS(function, dtype that decides, cut, (parameters), members for them, (arguments), arguments of a part: c is the
 * call, s the span). The loops fail at nothing. */
#define PARTS(function, decides, how, parameters, members, arguments, ...)                                             \
    typedef struct function##_call {                                                                                   \
        part_call head;                                                                                                \
        members                                                                                                        \
    } function##_call;                                                                                                 \
    static void function##_part(const void *call, int64_t part, int worker)                                            \
    {                                                                                                                  \
        const function##_call *c = (const function##_call *)call;                                                      \
        const span s = span_of(&c->head, part);                                                                        \
        (void)worker;                                                                                                  \
        (void)c->head.loops->function(c->head.self, __VA_ARGS__);                                                      \
    }                                                                                                                  \
    static kith_status host_##function parameters                                                                      \
    {                                                                                                                  \
        const ki_compute_ops *loops = loops_of(self, decides);                                                         \
        if (loops == NULL)                                                                                             \
            return refuse(#function, decides);                                                                         \
        const function##_call call = { { self, loops, how }, MEMBERS arguments };                                      \
        ki_pool_run(self->pool, parts_of(&call.head.cut), function##_part, &call);                                     \
        return KITH_OK;                                                                                                \
    }
#define MEMBERS(...) __VA_ARGS__

/* clang-format off */

/* ---- element by element ---- */

PARTS(fill, y.dtype, by_elements(self, y, COPIED), (ki_compute * self, ki_mat y, double value),
      ki_mat y; double value;, (y, value),
      of(c->y, s), c->value)
PARTS(copy, wider(x.dtype, y.dtype), by_elements(self, y, COPIED), (ki_compute * self, ki_mat x, ki_mat y),
      ki_mat x; ki_mat y;, (x, y),
      of(c->x, s), of(c->y, s))
PARTS(add, y.dtype, by_elements(self, y, COPIED), (ki_compute * self, double alpha, ki_mat x, ki_mat y),
      double alpha; ki_mat x; ki_mat y;, (alpha, x, y),
      c->alpha, of(c->x, s), of(c->y, s))
PARTS(scale, y.dtype, by_elements(self, y, COPIED), (ki_compute * self, double alpha, ki_mat y),
      double alpha; ki_mat y;, (alpha, y),
      c->alpha, of(c->y, s))
PARTS(bias_add, y.dtype, by_elements(self, y, COPIED), (ki_compute * self, ki_mat bias, ki_mat y),
      ki_mat bias; ki_mat y;, (bias, y),
      across(c->bias, s), of(c->y, s))
PARTS(bias_grad, grad.dtype, by_columns(self, dy, SUMMED), (ki_compute * self, ki_mat dy, ki_mat grad),
      ki_mat dy; ki_mat grad;, (dy, grad),
      of(c->dy, s), of(c->grad, s))
PARTS(activation, x.dtype, by_elements(self, y, COMPUTED),
      (ki_compute * self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y),
      ki_activation kind; ki_mat x; ki_mat bias; ki_mat y;, (kind, x, bias, y),
      c->kind, of(c->x, s), across(c->bias, s), of(c->y, s))
PARTS(activation_grad, x.dtype, by_elements(self, dx, COMPUTED),
      (ki_compute * self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy, ki_mat dx),
      ki_activation kind; ki_mat x; ki_mat bias; ki_mat dy; ki_mat dx;, (kind, x, bias, dy, dx),
      c->kind, of(c->x, s), across(c->bias, s), of(c->dy, s), of(c->dx, s))
PARTS(gated, gate.dtype, by_elements(self, y, COMPUTED),
      (ki_compute * self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y),
      ki_activation kind; ki_mat gate; ki_mat up; ki_mat y;, (kind, gate, up, y),
      c->kind, of(c->gate, s), of(c->up, s), of(c->y, s))
PARTS(gated_grad, gate.dtype, by_elements(self, dy, COMPUTED),
      (ki_compute * self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate, ki_mat dup),
      ki_activation kind; ki_mat gate; ki_mat up; ki_mat dy; ki_mat dgate; ki_mat dup;,
      (kind, gate, up, dy, dgate, dup),
      c->kind, of(c->gate, s), of(c->up, s), of(c->dy, s), of(c->dgate, s), of(c->dup, s))
PARTS(dropout_add, y.dtype, by_batches(self, y, dropout),
      (ki_compute * self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual, ki_mat y),
      const ki_dropout *dropout; ki_mat x; ki_mat bias; ki_mat residual; ki_mat y;, (dropout, x, bias, residual, y),
      (ki_dropout[]){ later(c->dropout, s) }, of(c->x, s), c->bias, of(c->residual, s), of(c->y, s))
PARTS(dropout_grad, dx.dtype, by_batches(self, dx, dropout),
      (ki_compute * self, const ki_dropout *dropout, ki_mat dy, ki_mat dx),
      const ki_dropout *dropout; ki_mat dy; ki_mat dx;, (dropout, dy, dx),
      (ki_dropout[]){ later(c->dropout, s) }, of(c->dy, s), of(c->dx, s))

/* ---- row by row ---- */

PARTS(layer_norm, x.dtype, by_rows(self, x, COMPUTED),
      (ki_compute * self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y, ki_mat mean, ki_mat rstd),
      double epsilon; ki_mat x; ki_mat weight; ki_mat bias; ki_mat y; ki_mat mean; ki_mat rstd;,
      (epsilon, x, weight, bias, y, mean, rstd),
      c->epsilon, of(c->x, s), c->weight, c->bias, of(c->y, s), of(c->mean, s), of(c->rstd, s))
PARTS(rms_norm, x.dtype, by_rows(self, x, COMPUTED),
      (ki_compute * self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd),
      double epsilon; ki_mat x; ki_mat weight; ki_mat y; ki_mat rstd;, (epsilon, x, weight, y, rstd),
      c->epsilon, of(c->x, s), c->weight, of(c->y, s), of(c->rstd, s))
PARTS(gather_rows, y.dtype, by_rows(self, y, COPIED),
      (ki_compute * self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y),
      const int32_t *ids; int64_t first; ki_mat table; ki_mat y;, (ids, first, table, y),
      c->ids + s.first, c->first, c->table, of(c->y, s))
PARTS(row_max, max.dtype, by_rows(self, x, COPIED), (ki_compute * self, ki_mat x, ki_mat max),
      ki_mat x; ki_mat max;, (x, max),
      of(c->x, s), of(c->max, s))
PARTS(loss_sums, sums.dtype, by_rows(self, logits, COMPUTED),
      (ki_compute * self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max, ki_mat sums),
      ki_mat logits; const int32_t *targets; int64_t first; ki_mat max; ki_mat sums;,
      (logits, targets, first, max, sums),
      of(c->logits, s), c->targets + s.first, c->first, of(c->max, s), of(c->sums, s))
PARTS(loss_grad, sums.dtype, by_rows(self, logits, COMPUTED),
      (ki_compute * self, ki_mat logits, const int32_t *targets, int64_t first, int32_t ignored, double smoothing,
       int64_t vocabulary, double scale, ki_mat max, ki_mat sums, ki_mat dlogits),
      ki_mat logits; const int32_t *targets; int64_t first; int32_t ignored; double smoothing; int64_t vocabulary;
      double scale; ki_mat max; ki_mat sums; ki_mat dlogits;,
      (logits, targets, first, ignored, smoothing, vocabulary, scale, max, sums, dlogits),
      of(c->logits, s), c->targets + s.first, c->first, c->ignored, c->smoothing, c->vocabulary, c->scale,
      of(c->max, s), of(c->sums, s), of(c->dlogits, s))
PARTS(softmax, y.dtype, by_rows(self, y, COMPUTED), (ki_compute * self, ki_mat x, ki_mat y),
      ki_mat x; ki_mat y;, (x, y),
      of(c->x, s), of(c->y, s))
PARTS(softmax_grad, y.dtype, by_rows(self, y, SUMMED), (ki_compute * self, ki_mat y, ki_mat dy, ki_mat dx),
      ki_mat y; ki_mat dy; ki_mat dx;, (y, dy, dx),
      of(c->y, s), of(c->dy, s), of(c->dx, s))
PARTS(pick_rows, y.dtype, by_rows(self, y, COPIED),
      (ki_compute * self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y),
      const int32_t *rows; ki_mat weights; ki_mat x; ki_mat y;, (rows, weights, x, y),
      c->rows != NULL ? c->rows + s.first : NULL, of(c->weights, s), c->rows != NULL ? c->x : of(c->x, s), of(c->y, s))
PARTS(row_dots, dots.dtype, by_rows(self, a, SUMMED), (ki_compute * self, ki_mat a, ki_mat b, ki_mat dots),
      ki_mat a; ki_mat b; ki_mat dots;, (a, b, dots),
      of(c->a, s), of(c->b, s), of(c->dots, s))

/* ---- rows that meet in rows of the result, in ascending order ---- */

PARTS(scatter_rows, grad.dtype, by_columns(self, dy, COPIED),
      (ki_compute * self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad),
      const int32_t *ids; int64_t first; ki_mat dy; ki_mat grad;, (ids, first, dy, grad),
      c->ids, c->first, of(c->dy, s), of(c->grad, s))
PARTS(add_rows, y.dtype, by_columns(self, x, COPIED),
      (ki_compute * self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y),
      const int32_t *rows; ki_mat weights; ki_mat x; ki_mat y;, (rows, weights, x, y),
      c->rows, c->weights, of(c->x, s), of(c->y, s))

/* ---- parameters ---- */

PARTS(normal, in_f64(y.dtype), by_elements(self, y, 20 * COMPUTED),
      (ki_compute * self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col, int64_t global_cols,
       double deviation, ki_mat y),
      uint64_t seed; uint32_t site; int64_t first_row; int64_t first_col; int64_t global_cols; double deviation;
      ki_mat y;,
      (seed, site, first_row, first_col, global_cols, deviation, y),
      c->seed, c->site, c->first_row + (s.is_columns ? 0 : s.first), c->first_col + (s.is_columns ? s.first : 0),
      c->global_cols, c->deviation, of(c->y, s))
PARTS(adamw, weight.dtype, by_elements(self, weight, COMPUTED),
      (ki_compute * self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight, ki_mat stored),
      const ki_adamw *how; ki_mat grad; ki_mat m; ki_mat v; ki_mat weight; ki_mat stored;,
      (how, grad, m, v, weight, stored),
      c->how, of(c->grad, s), of(c->m, s), of(c->v, s), of(c->weight, s), of(c->stored, s))
PARTS(sgd, weight.dtype, by_elements(self, weight, SUMMED),
      (ki_compute * self, double learning_rate, double momentum, double decay, double grad_scale, ki_mat grad,
       ki_mat m, ki_mat weight, ki_mat stored),
      double learning_rate; double momentum; double decay; double grad_scale; ki_mat grad; ki_mat m; ki_mat weight;
      ki_mat stored;,
      (learning_rate, momentum, decay, grad_scale, grad, m, weight, stored),
      c->learning_rate, c->momentum, c->decay, c->grad_scale, of(c->grad, s), of(c->m, s), of(c->weight, s),
      of(c->stored, s))

/* clang-format on */

/* Blocks of rows, each block's sum by itself; then the rows', and all, in the order of the loop over the whole. */
typedef struct squares_call {
    part_call head; /* of blocks */
    ki_mat x;
    int64_t row_blocks;
    double *sums; /* [rows * row_blocks] */
} squares_call;

static void squares_part(const void *call, int64_t part, int worker)
{
    const squares_call *c = (const squares_call *)call;
    const span s = span_of(&c->head, part);
    (void)worker;
    for (int64_t block = s.first; block < s.first + s.count; block++) {
        const int64_t row = block / c->row_blocks, col = block % c->row_blocks * KI_BLOCK, rest = c->x.cols - col;
        const ki_mat one_row = rows_of(c->x, (span){ .first = row, .count = 1 });
        const span columns = { .first = col, .count = rest < KI_BLOCK ? rest : KI_BLOCK };
        (void)c->head.loops->sum_squares(c->head.self, columns_of(one_row, columns), &c->sums[block]);
    }
}

static kith_status host_sum_squares(ki_compute *self, ki_mat x, double *sum)
{
    const ki_compute_ops *loops = loops_of(self, in_f64(x.dtype));
    if (loops == NULL)
        return refuse("sum_squares", x.dtype);
    const int64_t row_blocks = (x.cols + KI_BLOCK - 1) / KI_BLOCK;
    squares_call call = {
        { self, loops, cut_of(self, x.rows * row_blocks, KI_BLOCK, SUMMED, 1) }, x, row_blocks, NULL
    };
    const int64_t parts = parts_of(&call.head.cut);
    if (parts <= 1)
        return loops->sum_squares(self, x, sum);
    void *scratch;
    kith_status status = ki_compute_scratch(self, (size_t)(x.rows * row_blocks) * sizeof(double), &scratch);
    if (status != KITH_OK)
        return status;
    call.sums = (double *)scratch;
    ki_pool_run(self->pool, parts, squares_part, &call);
    double all = 0;
    for (int64_t row = 0; row < x.rows; row++) {
        double of_row = 0;
        for (int64_t block = 0; block < row_blocks; block++)
            of_row += call.sums[row * row_blocks + block];
        all += of_row;
    }
    *sum = all;
    return KITH_OK;
}
