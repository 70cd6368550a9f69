/* Products of matrices, a tile of the result at a time, whose sums stay in registers. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "rows.h"

#define TALL 6
#define WIDE (LANES == 16 ? 4 : 2) /* vectors; there are registers for TALL times as many */
#define PANEL (WIDE * LANES)

typedef float loose_quarter __attribute__((vector_size(16), aligned(4)));

/* A matrix in memory: its first number, and how far it is to the next row and column. */
typedef struct {
    const float *start;
    int64_t row, column;
} Matrix;

/* Room for (size, n) as panels. */
static inline int64_t vectors_of_panels(int64_t size, int64_t n) {
    return groups(n, LANES) * size;
}

#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t four __attribute__((vector_size(16)));
#define PICK(a, b, ...) __builtin_shuffle(a, b, (four){__VA_ARGS__})
#endif

/* Four rows of four numbers become columns. */
static inline void turn_four(const float *from, int64_t row, float *to, int64_t to_row) {
    quarter rows[4];
    for (int i = 0; i < 4; i++)
        rows[i] = (quarter)*(const loose_quarter *)(from + i * row);
    quarter a = PICK(rows[0], rows[1], 0, 4, 1, 5), b = PICK(rows[2], rows[3], 0, 4, 1, 5);
    quarter c = PICK(rows[0], rows[1], 2, 6, 3, 7), d = PICK(rows[2], rows[3], 2, 6, 3, 7);
    *(loose_quarter *)to = (loose_quarter)PICK(a, b, 0, 1, 4, 5);
    *(loose_quarter *)(to + to_row) = (loose_quarter)PICK(a, b, 2, 3, 6, 7);
    *(loose_quarter *)(to + 2 * to_row) = (loose_quarter)PICK(c, d, 0, 1, 4, 5);
    *(loose_quarter *)(to + 3 * to_row) = (loose_quarter)PICK(c, d, 2, 3, 6, 7);
}

/* Columns of b, `count` of them, side by side: (size, width), filled up with zeros. */
static inline void into_panel(Matrix b, int64_t size, int64_t count, int64_t width, float *to) {
    int64_t fours = b.column == 1 || b.row != 1 ? 0 : count / 4 * 4, deep = size / 4 * 4;
    for (int64_t first = 0; first < deep; first += 32) /* so many rows stay in the cache */
        for (int64_t j = 0; j < fours; j += 4)
            for (int64_t s = first; s < deep && s < first + 32; s += 4)
                turn_four(b.start + s + j * b.column, b.column, to + s * width + j, width);
    for (int64_t s = 0; s < size; s++) {
        const float *row = b.start + s * b.row;
        int64_t j = s < deep ? fours : 0;
        if (b.column == 1)
            copy(to + s * width, row, count);
        else
            for (; j < count; j++)
                to[s * width + j] = row[j * b.column];
        for (j = count; j < width; j++)
            to[s * width + j] = 0;
    }
}

/* At most TALL rows of a (count, size) times columns of b that lie side by side. */
static inline void products_of_rows(Matrix a, int64_t count, int64_t size, Matrix b, int64_t n,
                                    float *to, int64_t to_row, int add) {
    const float *rows[TALL];
    for (int t = 0; t < TALL; t++)
        rows[t] = a.start + (t < count ? t : 0) * a.row;
    for (int64_t j = 0; j < n; j++) {
        const float *column = b.start + j * b.column;
        vector sums[TALL] = {{0}};
        int64_t s = 0;
        for (; s + LANES <= size; s += LANES)
            for (int t = 0; t < TALL; t++)
                sums[t] += load(rows[t] + s) * load(column + s);
        for (int t = 0; t < TALL && t < count; t++) {
            float total = add ? to[t * to_row + j] : 0;
            for (int64_t rest = s; rest < size; rest++)
                total += rows[t][rest] * column[rest];
            to[t * to_row + j] = total + sum_of(sums[t]);
        }
    }
}

/* At most TALL rows of a (count, size) times a panel. The compiler knows `wide`; a row that is
   missing is computed as the first, and nobody keeps it; nor columns from `n` on. */
static inline __attribute__((always_inline)) void
tile(Matrix a, int64_t count, int64_t size, const float *panel, int64_t panel_row,
     const int64_t wide, int64_t n, float *to, int64_t to_row, int add) {
    vector sums[TALL][WIDE];
    const float *rows[TALL];
    for (int t = 0; t < TALL; t++) {
        rows[t] = a.start + (t < count ? t : 0) * a.row;
        for (int k = 0; k < wide; k++)
            sums[t][k] = (vector){0};
    }
    for (int64_t s = 0; s < size; s++) {
        vector parts[WIDE];
        for (int k = 0; k < wide; k++)
            parts[k] = load(panel + s * panel_row + k * LANES);
        for (int t = 0; t < TALL; t++)
            for (int k = 0; k < wide; k++)
                sums[t][k] += rows[t][s * a.column] * parts[k];
    }
    for (int t = 0; t < TALL && t < count; t++)
        for (int k = 0; k < wide; k++) {
            float *place = to + t * to_row + k * LANES;
            if ((k + 1) * LANES <= n)
                *(loose *)place = (loose)(add ? load(place) + sums[t][k] : sums[t][k]);
            else
                for (int64_t j = k * LANES; j < n; j++)
                    place[j - k * LANES] = add ? place[j - k * LANES] + sums[t][k][j - k * LANES]
                                               : sums[t][k][j - k * LANES];
        }
}

/* All rows of a (m, size) times a panel of n columns. */
static inline __attribute__((always_inline)) void
rows_by_panel(Matrix a, int64_t m, int64_t size, const float *panel, int64_t panel_row,
              const int64_t wide, int64_t n, float *to, int64_t to_row, int add) {
    for (int64_t i = 0; i < m; i += TALL)
        tile((Matrix){a.start + i * a.row, a.row, a.column}, m - i, size, panel, panel_row, wide, n,
             to + i * to_row, to_row, add);
}

/* a (m, size) b (size, n) -> (m, n), or added to what is there. Uses `vectors_of_panels`. */
static inline void product(Matrix a, int64_t m, int64_t size, Matrix b, int64_t n, float *to,
                           int add, vector *memory) {
    if (m <= 2 * TALL && a.column == 1 && b.row == 1) { /* a panel would serve too few rows */
        for (int64_t i = 0; i < m; i += TALL)
            products_of_rows((Matrix){a.start + i * a.row, a.row, 1}, m - i, size, b, n,
                             to + i * n, n, add);
        return;
    }
    for (int64_t j = 0; j < n; j += PANEL) {
        int64_t count = n - j < PANEL ? n - j : PANEL, wide = groups(count, LANES);
        Matrix part = {b.start + j * b.column, b.row, b.column};
        const float *panel = part.start;
        int64_t panel_row = b.row;
        if (m > TALL || b.column != 1 || count != PANEL) { /* else it is read once, where it is */
            into_panel(part, size, count, wide * LANES, (float *)memory);
            panel = (const float *)memory, panel_row = wide * LANES;
        }
        if (wide == WIDE)
            rows_by_panel(a, m, size, panel, panel_row, WIDE, count, to + j, n, add);
        else if (wide == 2)
            rows_by_panel(a, m, size, panel, panel_row, 2, count, to + j, n, add);
        else if (wide == 1)
            rows_by_panel(a, m, size, panel, panel_row, 1, count, to + j, n, add);
        else
            rows_by_panel(a, m, size, panel, panel_row, 3 < WIDE ? 3 : WIDE, count, to + j, n,
                          add);
    }
}

#endif
