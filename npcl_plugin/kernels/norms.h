/* Normalisations of rows, one for each of T tasks. */
#ifndef NORMS_H
#define NORMS_H

#include "vectors.h"

#include <math.h>

#define EPSILON 1e-5f

static inline float mean_of(const float *numbers, int64_t size) {
    vector total = {0};
    int64_t j = 0;
    for (; j + LANES <= size; j += LANES)
        total += load(numbers + j);
    for (; j < size; j++)
        total[0] += numbers[j];
    return sum_of(total) / size;
}

static inline float mean_product(const float *a, const float *b, int64_t size) {
    vector total = {0};
    int64_t j = 0;
    for (; j + LANES <= size; j += LANES)
        total += load(a + j) * load(b + j);
    for (; j < size; j++)
        total[0] += a[j] * b[j];
    return sum_of(total) / size;
}

/* A row less its mean, by its standard deviation, of which one over it is returned. */
static inline float normalise(const float *row, int64_t size, float *normal) {
    float mean = mean_of(row, size);
    for (int64_t j = 0; j < size; j++)
        normal[j] = row[j] - mean;
    float inverse = 1 / sqrtf(mean_product(normal, normal, size) + EPSILON);
    for (int64_t j = 0; j < size; j++)
        normal[j] *= inverse;
    return inverse;
}

/* From slopes of normal scale + shift, (size), those of the row; adds those of scale and shift. */
static inline void normalise_backward(const float *slope, const float *normal, float inverse,
                                      const float *scale, int64_t size, float *of_row,
                                      float *of_scale, float *of_shift) {
    for (int64_t j = 0; j < size; j++) {
        of_scale[j] += slope[j] * normal[j];
        of_shift[j] += slope[j];
        of_row[j] = slope[j] * scale[j];
    }
    float mean = mean_of(of_row, size), along = mean_product(of_row, normal, size);
    for (int64_t j = 0; j < size; j++)
        of_row[j] = inverse * (of_row[j] - mean - normal[j] * along);
}

#endif
