/* Products of matrices, a tile of the result at a time, whose sums stay in registers. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "rows.h"

#define TALL 6
#define WIDE (LANES == 16 ? 4 : 2) /* vectors; there are registers for TALL times as many */

/* Vectors that may begin at any number. */
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));

/* A matrix in memory: its first number, and how far it is to the next row and column. */
typedef struct {
    const float *start;
    int64_t row, column;
} Matrix;

/* At most TALL rows of a (count, size) times `wide` vectors of the rows of b. The compiler knows
   `wide`; a row that is missing is computed as the first, and nobody keeps it. */
static inline __attribute__((always_inline)) void
tile(Matrix a, int64_t count, int64_t size, const float *b, int64_t b_row, const int wide,
     float *to, int64_t to_row, int add) {
    vector sums[TALL][WIDE];
    const float *rows[TALL];
    for (int t = 0; t < TALL; t++) {
        rows[t] = a.start + (t < count ? t : 0) * a.row;
        for (int k = 0; k < wide; k++)
            sums[t][k] = add && t < count ? (vector)*(loose *)(to + t * to_row + k * LANES)
                                          : (vector){0};
    }
    for (int64_t s = 0; s < size; s++) {
        vector parts[WIDE];
        for (int k = 0; k < wide; k++)
            parts[k] = (vector)*(const loose *)(b + s * b_row + k * LANES);
        for (int t = 0; t < TALL; t++)
            for (int k = 0; k < wide; k++)
                sums[t][k] += rows[t][s * a.column] * parts[k];
    }
    for (int t = 0; t < TALL && t < count; t++)
        for (int k = 0; k < wide; k++)
            *(loose *)(to + t * to_row + k * LANES) = (loose)sums[t][k];
}

static inline __attribute__((always_inline)) void
columns(Matrix a, int64_t m, int64_t size, const float *b, int64_t n, const int wide, float *to,
        int add) {
    for (int64_t i = 0; i < m; i += TALL)
        tile((Matrix){a.start + i * a.row, a.row, a.column}, m - i, size, b, n, wide, to + i * n,
             n, add);
}

/* a (m, size) b (size, n) -> (m, n), or added to what is there. Uses size + TALL vectors. */
static inline void product(Matrix a, int64_t m, int64_t size, const float *b, int64_t n,
                           float *to, int add, vector *memory) {
    int64_t j = 0;
    for (; j + WIDE * LANES <= n; j += WIDE * LANES)
        columns(a, m, size, b + j, n, WIDE, to + j, add);
    for (; j + 2 * LANES <= n; j += 2 * LANES)
        columns(a, m, size, b + j, n, 2, to + j, add);
    for (; j + LANES <= n; j += LANES)
        columns(a, m, size, b + j, n, 1, to + j, add);
    if (j == n)
        return;
    vector *last = memory, *found = last + size; /* the last columns, filled up with zeros */
    memset(last, 0, size * sizeof(vector));
    for (int64_t s = 0; s < size; s++)
        memcpy(last + s, b + s * n + j, (n - j) * sizeof(float));
    for (int64_t i = 0; i < m; i += TALL) {
        tile((Matrix){a.start + i * a.row, a.row, a.column}, m - i, size, (float *)last, LANES, 1,
             (float *)found, LANES, 0);
        for (int64_t t = 0; t < TALL && i + t < m; t++)
            for (int64_t k = j; k < n; k++) {
                float *place = to + (i + t) * n + k, value = found[t][k - j];
                *place = add ? *place + value : value;
            }
    }
}

/* (n, m) -> (m, n). */
static inline void turn(const float *from, int64_t n, int64_t m, float *to) {
    for (int64_t first = 0; first < n; first += LANES) /* a few rows stay in the cache */
        for (int64_t j = 0; j < m; j++)
            for (int64_t i = first; i < n && i < first + LANES; i++)
                to[j * n + i] = from[i * m + j];
}

#endif
