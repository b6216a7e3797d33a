/* tests/schedules/toy_model.c - see toy.h: the mathematics, and one step of it without a pipeline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "toy.h"

#include <kith/pipeline.h>
#include <math.h>
#include <string.h>

int toy_rows(int number)
{
    return 1 + number % ROWS_MOST;
}

static double fraction(int a, int b)
{
    return 0.7 * sin(12.9898 * (a + 1) + 78.233 * (b + 1));
}

void toy_input(const toy_options *o, int number, double *x)
{
    for (int i = 0; i < toy_rows(number) * HIDDEN; i++)
        x[i] = o->is_identity ? number : o->is_exact ? (number + 2 * i) % 5 - 2 : fraction(number, i);
}

void toy_target(const toy_options *o, int number, double *t)
{
    for (int i = 0; i < toy_rows(number) * HIDDEN; i++)
        t[i] = o->is_identity ? number : o->is_exact ? (3 * number + i) % 7 - 3 : fraction(i, number);
}

void toy_parameters(const toy_options *o, double *parameters)
{
    for (int i = 0; i < PARAMETERS; i++) {
        int within = i % LAYER_PARAMETERS;
        bool is_diagonal = within < HIDDEN * HIDDEN && within / HIDDEN == within % HIDDEN;
        parameters[i] = o->is_identity ? is_diagonal : o->is_exact ? (i * 5 + i / 4) % 3 - 1 : fraction(i, 7 * i);
    }
}

void toy_layer_forward(const toy_options *o, const double *layer, int rows, const double *x, double *y)
{
    const double *bias = layer + HIDDEN * HIDDEN;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < HIDDEN; i++) {
            double sum = bias[i];
            for (int j = 0; j < HIDDEN; j++)
                sum += layer[i * HIDDEN + j] * x[r * HIDDEN + j];
            y[r * HIDDEN + i] = o->is_exact || o->is_identity ? sum : tanh(sum);
        }
}

void toy_layer_before(const toy_options *o, int rows, const double *y, const double *dy, double *dz)
{
    for (int i = 0; i < rows * HIDDEN; i++)
        dz[i] = o->is_exact || o->is_identity ? dy[i] : dy[i] * (1 - y[i] * y[i]);
}

void toy_layer_input_grad(const double *layer, int rows, const double *dz, double *dx)
{
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < HIDDEN; j++) {
            double sum = 0;
            for (int i = 0; i < HIDDEN; i++)
                sum += layer[i * HIDDEN + j] * dz[r * HIDDEN + i];
            dx[r * HIDDEN + j] = sum;
        }
}

void toy_layer_add_grad(int rows, const double *x, const double *dz, double *grad)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < HIDDEN; i++) {
            for (int j = 0; j < HIDDEN; j++)
                grad[i * HIDDEN + j] += dz[r * HIDDEN + i] * x[r * HIDDEN + j];
            grad[HIDDEN * HIDDEN + i] += dz[r * HIDDEN + i];
        }
}

double toy_loss(int rows, const double *y, const double *target, double *dy)
{
    double loss = 0;
    for (int i = 0; i < rows * HIDDEN; i++) {
        double error = y[i] - target[i];
        loss += 0.5 * error * error;
        if (dy != NULL)
            dy[i] = error;
    }
    return loss;
}

void toy_learn(double *parameters, const double *grads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        parameters[i] -= 0.0625 * grads[i];
}

/* ---- the reference ---- */

static double one_microbatch(const toy_options *o, const double *parameters, int number, double *grads)
{
    double x[LAYERS + 1][WIDE], target[WIDE], dy[WIDE], dz[WIDE];
    int rows = toy_rows(number);
    memset(grads, 0, PARAMETERS * sizeof *grads);
    toy_input(o, number, x[0]);
    toy_target(o, number, target);
    for (int l = 0; l < LAYERS; l++)
        toy_layer_forward(o, parameters + l * LAYER_PARAMETERS, rows, x[l], x[l + 1]);
    double loss = toy_loss(rows, x[LAYERS], target, dy);
    for (int l = LAYERS - 1; l >= 0; l--) {
        toy_layer_before(o, rows, x[l + 1], dy, dz);
        toy_layer_add_grad(rows, x[l], dz, grads + l * LAYER_PARAMETERS);
        toy_layer_input_grad(parameters + l * LAYER_PARAMETERS, rows, dz, dy);
    }
    return loss;
}

void toy_reference(const toy_options *o, const double *parameters, double *grads, double *losses)
{
    double replica[PARAMETERS], microbatch[PARAMETERS];
    memset(grads, 0, PARAMETERS * sizeof *grads);
    for (int d = 0; d < o->replicas; d++) {
        memset(replica, 0, sizeof replica);
        for (int k = 0; k < o->microbatches; k++) {
            int number = d * o->microbatches + k;
            losses[number] = one_microbatch(o, parameters, number, microbatch);
            for (int i = 0; i < PARAMETERS; i++)
                replica[i] += microbatch[i];
        }
        for (int i = 0; i < PARAMETERS; i++)
            grads[i] = d == 0 ? replica[i] : grads[i] + replica[i];
    }
}
