/* Linear layers, one for each of T tasks, for rows that stand together by task. */
#ifndef LINEAR_H
#define LINEAR_H

#include "products.h"

/* Weights (T, n_in, n_out), or (n_out, n_in) if there is one layer for all, as torch has it. */
typedef struct {
    const float *weight, *bias; /* no bias: NULL */
    int64_t n_in, n_out;
    int turned;
} Layers;

/* Neighbouring rows of one task. */
typedef struct {
    int64_t task, first, count;
} Group;

/* What `linear` and `linear_backward` use. */
int64_t vectors_of_layers(const Layers *layers, int64_t n_rows);

/* Rows (n, n_in) -> (n, n_out). */
void linear(const Layers *layers, const Group *some, int64_t n_groups, const float *rows,
            float *to, vector *memory);

/* From slopes (n, n_out) those of rows, and of the weights and biases of all T tasks. */
void linear_backward(const Layers *layers, const Group *some, int64_t n_groups, int64_t n_tasks,
                     const float *rows, const float *slopes, float *of_rows, float *of_weight,
                     float *of_bias, vector *memory);

#endif
