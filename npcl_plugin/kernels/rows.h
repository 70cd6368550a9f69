/* Rows of matrices, TOGETHER of them at a time. */
#ifndef ROWS_H
#define ROWS_H

#include "vectors.h"

#include <stdlib.h>

#define TOGETHER 4

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
        memcpy(place, from.start + rows[i] * from.stride + head * size, size * sizeof(float));
        memset(place + size, 0, (chunks * LANES - size) * sizeof(float));
    }
}

/* Rows side by side to one head's part of the rows that they belong to. */
static inline void unpack(const vector *from, int64_t head, const int64_t *rows, int64_t count,
                   int64_t size, int64_t chunks, float *to, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        memcpy(to + rows[i] * stride + head * size, from + i * chunks, size * sizeof(float));
}

/* Numbers (n, m) -> (n, chunks), or (m, n) -> the same if they are turned, filled up with 0. */
static inline void pack_matrix(const float *from, int turned, int64_t n, int64_t m, vector *to) {
    int64_t chunks = groups(m, LANES);
    for (int64_t i = 0; i < n; i++) {
        float *row = (float *)(to + i * chunks);
        if (turned)
            for (int64_t j = 0; j < m; j++)
                row[j] = from[j * n + i];
        else
            memcpy(row, from + i * m, m * sizeof(float));
        memset(row + m, 0, (chunks * LANES - m) * sizeof(float));
    }
}

static inline void unpack_matrix(const vector *from, int turned, int64_t n, int64_t m, float *to) {
    int64_t chunks = groups(m, LANES);
    for (int64_t i = 0; i < n; i++) {
        const float *row = (const float *)(from + i * chunks);
        if (turned)
            for (int64_t j = 0; j < m; j++)
                to[j * n + i] = row[j];
        else
            memcpy(to + i * m, row, m * sizeof(float));
    }
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

/* Products of rows (TOGETHER, chunks) with columns (size, blocks): (TOGETHER, blocks). */
static inline void multiply(const vector *rows, int64_t chunks, const vector *columns,
                            int64_t size, int64_t blocks, float scale, vector *to) {
    const float *numbers = (const float *)rows;
    for (int64_t b = 0; b < blocks; b++) {
        vector sums[TOGETHER] = {{0}};
        for (int64_t s = 0; s < size; s++)
            for (int t = 0; t < TOGETHER; t++)
                sums[t] += numbers[t * chunks * LANES + s] * columns[s * blocks + b];
        for (int t = 0; t < TOGETHER; t++)
            to[t * blocks + b] = sums[t] * scale;
    }
}

/* Sums of rows (count, chunks) by weights (TOGETHER, blocks): (TOGETHER, chunks). */
static inline void mix(const vector *weights, int64_t blocks, const vector *rows, int64_t count,
                       int64_t chunks, vector *to) {
    const float *numbers = (const float *)weights;
    for (int64_t c = 0; c < chunks; c++) {
        vector sums[TOGETHER] = {{0}};
        for (int64_t j = 0; j < count; j++)
            for (int t = 0; t < TOGETHER; t++)
                sums[t] += numbers[t * blocks * LANES + j] * rows[j * chunks + c];
        for (int t = 0; t < TOGETHER; t++)
            to[t * chunks + c] = sums[t];
    }
}

/* Adds to rows (count, chunks), by weights (TOGETHER, blocks), what is in (TOGETHER, chunks). */
static inline void spread(const vector *weights, int64_t blocks, const vector *from,
                          int64_t count, int64_t chunks, vector *rows) {
    const float *numbers = (const float *)weights;
    for (int64_t c = 0; c < chunks; c++) {
        vector parts[TOGETHER]; /* a copy, which no other name can change */
        for (int t = 0; t < TOGETHER; t++)
            parts[t] = from[t * chunks + c];
        for (int64_t j = 0; j < count; j++) {
            vector total = rows[j * chunks + c];
            for (int t = 0; t < TOGETHER; t++)
                total += numbers[t * blocks * LANES + j] * parts[t];
            rows[j * chunks + c] = total;
        }
    }
}

#endif
