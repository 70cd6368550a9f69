/* A block of attention: y = norm(x + out(attend(project(x)))), forwards and backwards.

Every row belongs to one of T tasks, which have layers of their own, and meets the rows of its
owner. Rows are taken together by task for the layers, by owner for the attention; where there is
one task only, the layers are those of torch, whose weights are stored the other way round. */
#include "attention.h"

#include <math.h>

#define EPSILON 1e-5f

/* T linear layers: weights (T, n_in, n_out), or (n_out, n_in) if there is one for all. */
typedef struct {
    const float *weight, *bias;
    int64_t n_in, n_out;
    int turned;
} Layers;

typedef struct {
    const float *rows, *task, *owner; /* (n, size), (n), (n); no task: one layer for all */
    Layers project, out;
    const float *scale, *shift; /* (T, size) */
    int64_t n, n_tasks, n_heads, size;
} Block;

/* What the way back needs. */
typedef struct {
    float *projected, *log_sums, *mixed, *normal, *inverse_sd;
} Trace;

typedef struct {
    float *rows, *project, *project_bias, *out, *out_bias, *scale, *shift;
} Slopes;

static Order order_of(const Block *b, vector *memory) {
    int64_t *numbers = (int64_t *)memory;
    Order order = {numbers, numbers + b->n_tasks + 1};
    sort(b->task, b->n, b->n_tasks, order);
    return order;
}

static int64_t vectors_of_order(const Block *b) {
    return groups((b->n_tasks + 1 + b->n) * sizeof(int64_t), sizeof(vector));
}

/* Rows (n, size) of `from` -> (n, width) of `to` by the layer of each row's task. */
static void apply(const Layers *layers, Order order, int64_t n_tasks, const float *from, float *to,
                  vector *memory) {
    int64_t in = groups(layers->n_in, LANES), out = groups(layers->n_out, LANES);
    vector *weight = memory, *bias = weight + layers->n_in * out;
    vector *rows = bias + out, *found = rows + TOGETHER * in;
    for (int64_t task = 0; task < n_tasks; task++) {
        int64_t n = order.first[task + 1] - order.first[task];
        const int64_t *which = order.rows + order.first[task];
        if (!n)
            continue;
        pack_matrix(layers->weight + task * layers->n_in * layers->n_out, layers->turned,
                    layers->n_in, layers->n_out, weight);
        pack_matrix(layers->bias + task * layers->n_out, 0, 1, layers->n_out, bias);
        for (int64_t i = 0; i < n; i += TOGETHER) {
            int64_t count = n - i < TOGETHER ? n - i : TOGETHER;
            pack((Rows){from, layers->n_in}, 0, which + i, count, layers->n_in, in, rows);
            mix(rows, in, weight, layers->n_in, out, found);
            for (int64_t c = 0; c < out; c++)
                for (int t = 0; t < TOGETHER; t++)
                    found[t * out + c] += bias[c];
            unpack(found, 0, which + i, count, layers->n_out, out, to, layers->n_out);
        }
    }
}

/* From slopes (n, width) of the result those of weights and biases; adds those of the rows. */
static void apply_backward(const Layers *layers, Order order, int64_t n_tasks, const float *from,
                           const float *slopes, float *of_rows, float *of_weight, float *of_bias,
                           vector *memory) {
    int64_t n_in = layers->n_in, n_out = layers->n_out;
    int64_t in = groups(n_in, LANES), out = groups(n_out, LANES);
    vector *weight = memory, *weight_slope = weight + n_out * in;
    vector *rows = weight_slope + n_in * out, *slope = rows + TOGETHER * in;
    vector *found = slope + TOGETHER * out, *bias_slope = found + TOGETHER * in;
    for (int64_t task = 0; task < n_tasks; task++) {
        int64_t n = order.first[task + 1] - order.first[task];
        const int64_t *which = order.rows + order.first[task];
        float *to_weight = of_weight + task * n_in * n_out, *to_bias = of_bias + task * n_out;
        if (!n) {
            memset(to_weight, 0, n_in * n_out * sizeof(float));
            memset(to_bias, 0, n_out * sizeof(float));
            continue;
        }
        pack_matrix(layers->weight + task * n_in * n_out, !layers->turned, n_out, n_in, weight);
        memset(weight_slope, 0, n_in * out * sizeof(vector));
        memset(bias_slope, 0, out * sizeof(vector));
        for (int64_t i = 0; i < n; i += TOGETHER) {
            int64_t count = n - i < TOGETHER ? n - i : TOGETHER;
            pack((Rows){from, n_in}, 0, which + i, count, n_in, in, rows);
            complete(rows, count, in);
            pack((Rows){slopes, n_out}, 0, which + i, count, n_out, out, slope);
            complete(slope, count, out);
            spread(rows, in, slope, n_in, out, weight_slope);
            for (int64_t c = 0; c < out; c++)
                for (int t = 0; t < TOGETHER; t++)
                    bias_slope[c] += slope[t * out + c];
            mix(slope, out, weight, n_out, in, found);
            for (int64_t t = 0; t < count; t++) {
                float *to = of_rows + which[i + t] * n_in;
                const float *more = (const float *)(found + t * in);
                for (int64_t j = 0; j < n_in; j++)
                    to[j] += more[j];
            }
        }
        unpack_matrix(weight_slope, layers->turned, n_in, n_out, to_weight);
        unpack_matrix(bias_slope, 0, 1, n_out, to_bias);
    }
}

static int64_t vectors_of_layers(const Layers *layers) {
    int64_t in = groups(layers->n_in, LANES), out = groups(layers->n_out, LANES);
    return layers->n_in * out + layers->n_out * in + (2 * TOGETHER + 1) * (in + out);
}

static inline vector load(const float *numbers) {
    vector found;
    memcpy(&found, numbers, sizeof found);
    return found;
}

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

/* y = normal(x + out) scale + shift, of each row's task; `to` has what `out` gave. */
static void normalise(const Block *b, Trace *trace, float *to) {
    for (int64_t i = 0; i < b->n; i++) {
        const float *x = b->rows + i * b->size;
        const float *scale = b->scale + owner_of(b->task, i) * b->size;
        const float *shift = b->shift + owner_of(b->task, i) * b->size;
        float *normal = trace->normal + i * b->size, *y = to + i * b->size;
        for (int64_t j = 0; j < b->size; j++)
            normal[j] = x[j] + y[j];
        float mean = mean_of(normal, b->size);
        for (int64_t j = 0; j < b->size; j++)
            normal[j] -= mean;
        float inverse = 1 / sqrtf(mean_product(normal, normal, b->size) + EPSILON);
        trace->inverse_sd[i] = inverse;
        for (int64_t j = 0; j < b->size; j++) {
            normal[j] *= inverse;
            y[j] = normal[j] * scale[j] + shift[j];
        }
    }
}

/* From the slopes of y those of scale and shift, and those of x + out, which `to` takes. */
static void normalise_backward(const Block *b, const Trace *trace, const float *slopes,
                               const Slopes *to) {
    memset(to->scale, 0, b->n_tasks * b->size * sizeof(float));
    memset(to->shift, 0, b->n_tasks * b->size * sizeof(float));
    for (int64_t i = 0; i < b->n; i++) {
        int64_t task = owner_of(b->task, i) * b->size;
        const float *slope = slopes + i * b->size, *normal = trace->normal + i * b->size;
        const float *scale = b->scale + task;
        float *of_scale = to->scale + task, *of_shift = to->shift + task;
        float *of_sum = to->rows + i * b->size;
        for (int64_t j = 0; j < b->size; j++) {
            of_scale[j] += slope[j] * normal[j];
            of_shift[j] += slope[j];
            of_sum[j] = slope[j] * scale[j];
        }
        float mean = mean_of(of_sum, b->size), along = mean_product(of_sum, normal, b->size);
        for (int64_t j = 0; j < b->size; j++)
            of_sum[j] = trace->inverse_sd[i] * (of_sum[j] - mean - normal[j] * along);
    }
}

static Block block(const float *rows, const float *task, const float *owner, const float *project,
                   const float *project_bias, const float *out, const float *out_bias,
                   const float *scale, const float *shift, int64_t n, int64_t n_tasks,
                   int64_t n_heads, int64_t size) {
    return (Block){rows, task, owner, {project, project_bias, size, 3 * size, !task},
                   {out, out_bias, size, size, !task}, scale, shift, n, n_tasks, n_heads, size};
}

void block_forward(const float *rows, const float *task, const float *owner, const float *project,
                   const float *project_bias, const float *out, const float *out_bias,
                   const float *scale, const float *shift, int64_t n, int64_t n_tasks,
                   int64_t n_heads, int64_t size, float *to, float *projected, float *log_sums,
                   float *mixed, float *normal, float *inverse_sd) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    Block b = block(rows, task, owner, project, project_bias, out, out_bias, scale, shift, n,
                    n_tasks, n_heads, size);
    int64_t for_order = vectors_of_order(&b);
    vector *memory = borrow(&kept, &length, for_order + vectors_of_layers(&b.project));
    Order order = order_of(&b, memory);
    Trace trace = {projected, log_sums, mixed, normal, inverse_sd};
    apply(&b.project, order, n_tasks, rows, projected, memory + for_order);
    Attention attention = among(projected, owner, n, n_heads, size / n_heads);
    attend_all(&attention, mixed, log_sums);
    apply(&b.out, order, n_tasks, mixed, to, memory + for_order);
    normalise(&b, &trace, to);
}

void block_backward(const float *slopes, const float *rows, const float *task, const float *owner,
                    const float *project, const float *project_bias, const float *out,
                    const float *out_bias, const float *scale, const float *shift, int64_t n,
                    int64_t n_tasks, int64_t n_heads, int64_t size, float *projected,
                    float *log_sums, float *mixed, float *normal, float *inverse_sd,
                    float *to_rows, float *to_project, float *to_project_bias, float *to_out,
                    float *to_out_bias, float *to_scale, float *to_shift) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    Block b = block(rows, task, owner, project, project_bias, out, out_bias, scale, shift, n,
                    n_tasks, n_heads, size);
    Trace trace = {projected, log_sums, mixed, normal, inverse_sd};
    Slopes to = {to_rows, to_project, to_project_bias, to_out, to_out_bias, to_scale, to_shift};
    int64_t for_order = vectors_of_order(&b), for_layers = vectors_of_layers(&b.project);
    int64_t for_rows = groups(n * size, LANES);
    vector *memory = borrow(&kept, &length, for_order + for_layers + 4 * for_rows);
    Order order = order_of(&b, memory);
    float *of_mixed = (float *)(memory + for_order + for_layers);
    float *of_projected = of_mixed + for_rows * LANES;
    normalise_backward(&b, &trace, slopes, &to);
    memset(of_mixed, 0, n * size * sizeof(float));
    apply_backward(&b.out, order, n_tasks, mixed, to_rows, of_mixed, to_out, to_out_bias,
                   memory + for_order);
    Attention attention = among(projected, owner, n, n_heads, size / n_heads);
    attend_all_backward(&attention, (Rows){of_mixed, size}, log_sums, of_projected,
                        of_projected + size, of_projected + 2 * size);
    apply_backward(&b.project, order, n_tasks, rows, of_projected, to_rows, to_project,
                   to_project_bias, memory + for_order);
}
