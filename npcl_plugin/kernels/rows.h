/* Rows of matrices, TOGETHER of them at a time. */
#ifndef ROWS_H
#define ROWS_H

#include "vectors.h"

#include <stdlib.h>

#define TOGETHER (LANES == 16 ? 8 : 4)
#define ABREAST 2 /* vectors; there are registers for TOGETHER times as many */

/* A part of a matrix: its first number, and how many there are from a row to the next. */
typedef struct {
    const float *start;
    int64_t stride;
} Rows;

/* Rows 0..count-1 in the order of their owners; those of owner o begin at first[o]. */
typedef struct {
    int64_t *first, *rows;
} Order;

static inline int64_t groups(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

static inline int64_t owner_of(const float *owner, int64_t row) {
    return owner ? (int64_t)owner[row] : 0;
}

static inline int64_t count_owners(const float *owner, int64_t count, int64_t most) {
    for (int64_t i = 0; i < count; i++)
        most = owner_of(owner, i) >= most ? owner_of(owner, i) + 1 : most;
    return most;
}

/* Counting sort; `first` has room for one owner more. */
static inline void sort(const float *owner, int64_t count, int64_t n_owners, Order order) {
    memset(order.first, 0, (n_owners + 1) * sizeof *order.first);
    for (int64_t i = 0; i < count; i++)
        order.first[owner_of(owner, i) + 1]++;
    for (int64_t o = 0; o < n_owners; o++)
        order.first[o + 1] += order.first[o];
    for (int64_t i = 0; i < count; i++)
        order.rows[order.first[owner_of(owner, i)]++] = i;
    memmove(order.first + 1, order.first, n_owners * sizeof *order.first);
    order.first[0] = 0;
}

/* Memory for `count` vectors, which the next call may use again. */
static inline vector *borrow(vector **memory, int64_t *length, int64_t count) {
    if (count > *length) {
        free(*memory);
        *length = 2 * count;
        *memory = aligned_alloc(sizeof(vector), *length * sizeof(vector));
    }
    return *memory;
}

/* One head's part of some rows, side by side: (count, chunks), filled up with zeros. */
static inline void pack(Rows from, int64_t head, const int64_t *rows, int64_t count, int64_t size,
                 int64_t chunks, vector *to) {
    for (int64_t i = 0; i < count; i++) {
        float *place = (float *)(to + i * chunks);
        copy(place, from.start + rows[i] * from.stride + head * size, size);
        for (int64_t j = size; j < chunks * LANES; j++)
            place[j] = 0;
    }
}

/* Rows side by side to one head's part of the rows that they belong to. */
static inline void unpack(const vector *from, int64_t head, const int64_t *rows, int64_t count,
                   int64_t size, int64_t chunks, float *to, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        copy(to + rows[i] * stride + head * size, (const float *)(from + i * chunks), size);
}

/* As many rows of zeros as are missing to a multiple of TOGETHER. */
static inline void complete(vector *rows, int64_t count, int64_t chunks) {
    int64_t missing = groups(count, TOGETHER) * TOGETHER - count;
    memset(rows + count * chunks, 0, missing * chunks * sizeof(vector));
}

/* Rows (count, chunks) -> columns (size, blocks), filled up with zeros. */
static inline void transpose(const vector *from, int64_t count, int64_t size, int64_t chunks,
                      int64_t blocks, vector *to) {
    const float *rows = (const float *)from;
    for (int64_t s = 0; s < size; s++) {
        float *column = (float *)(to + s * blocks);
        for (int64_t i = 0; i < count; i++)
            column[i] = rows[i * chunks * LANES + s];
        memset(column + count, 0, (blocks * LANES - count) * sizeof(float));
    }
}

/* The next three work on `some` vectors beside each other; the compiler knows how many. */
#define INLINE static inline __attribute__((always_inline)) void

INLINE multiply_some(const float *numbers, int64_t stride, const vector *columns, int64_t size,
                     int64_t blocks, float scale, const int some, vector *to) {
    vector sums[TOGETHER][ABREAST] = {{{0}}};
    for (int64_t s = 0; s < size; s++)
        for (int k = 0; k < some; k++)
            for (int t = 0; t < TOGETHER; t++)
                sums[t][k] += numbers[t * stride + s] * columns[s * blocks + k];
    for (int k = 0; k < some; k++)
        for (int t = 0; t < TOGETHER; t++)
            to[t * blocks + k] = sums[t][k] * scale;
}

INLINE mix_some(const float *numbers, int64_t stride, const vector *rows, int64_t count,
                int64_t chunks, const int some, vector *to) {
    vector sums[TOGETHER][ABREAST] = {{{0}}};
    for (int64_t j = 0; j < count; j++)
        for (int k = 0; k < some; k++)
            for (int t = 0; t < TOGETHER; t++)
                sums[t][k] += numbers[t * stride + j] * rows[j * chunks + k];
    for (int k = 0; k < some; k++)
        for (int t = 0; t < TOGETHER; t++)
            to[t * chunks + k] = sums[t][k];
}

INLINE spread_some(const float *numbers, int64_t stride, const vector *from, int64_t count,
                   int64_t chunks, const int some, vector *rows) {
    vector parts[TOGETHER][ABREAST]; /* a copy, which no other name can change */
    for (int k = 0; k < some; k++)
        for (int t = 0; t < TOGETHER; t++)
            parts[t][k] = from[t * chunks + k];
    for (int64_t j = 0; j < count; j++)
        for (int k = 0; k < some; k++) {
            vector total = rows[j * chunks + k];
            for (int t = 0; t < TOGETHER; t++)
                total += numbers[t * stride + j] * parts[t][k];
            rows[j * chunks + k] = total;
        }
}

/* Products of rows (TOGETHER, chunks) with columns (size, blocks): (TOGETHER, blocks). */
static inline void multiply(const vector *rows, int64_t chunks, const vector *columns,
                            int64_t size, int64_t blocks, float scale, vector *to) {
    const float *numbers = (const float *)rows;
    int64_t b = 0;
    for (; b + ABREAST <= blocks; b += ABREAST)
        multiply_some(numbers, chunks * LANES, columns + b, size, blocks, scale, ABREAST, to + b);
    for (; b < blocks; b++)
        multiply_some(numbers, chunks * LANES, columns + b, size, blocks, scale, 1, to + b);
}

/* Sums of rows (count, chunks) by weights (TOGETHER, blocks): (TOGETHER, chunks). */
static inline void mix(const vector *weights, int64_t blocks, const vector *rows, int64_t count,
                       int64_t chunks, vector *to) {
    const float *numbers = (const float *)weights;
    int64_t c = 0;
    for (; c + ABREAST <= chunks; c += ABREAST)
        mix_some(numbers, blocks * LANES, rows + c, count, chunks, ABREAST, to + c);
    for (; c < chunks; c++)
        mix_some(numbers, blocks * LANES, rows + c, count, chunks, 1, to + c);
}

/* Adds to rows (count, chunks), by weights (TOGETHER, blocks), what is in (TOGETHER, chunks). */
static inline void spread(const vector *weights, int64_t blocks, const vector *from,
                          int64_t count, int64_t chunks, vector *rows) {
    const float *numbers = (const float *)weights;
    int64_t c = 0;
    for (; c + ABREAST <= chunks; c += ABREAST)
        spread_some(numbers, blocks * LANES, from + c, count, chunks, ABREAST, rows + c);
    for (; c < chunks; c++)
        spread_some(numbers, blocks * LANES, from + c, count, chunks, 1, rows + c);
}

#endif
