/* A block of attention: y = norm(x + out(attend(project(x)))), forwards and backwards.

Every row belongs to one of T tasks, which have layers of their own, and meets the rows of its
owner. Rows are taken together by task for the layers, by owner for the attention; where there is
one task only, the layers are those of torch, whose weights are stored the other way round. */
#include "attention.h"
#include "linear.h"
#include "norms.h"
#include "tensors.h"

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

/* The rows sorted by task. */
typedef struct {
    Order order;
    Group *tasks;
} Sorted;

static int64_t vectors_of_order(const Block *b) {
    return groups((2 * b->n_tasks + 1 + b->n) * sizeof(int64_t) + b->n_tasks * sizeof(Group),
                  sizeof(vector));
}

static Sorted sort_rows(const Block *b, vector *memory) {
    Group *tasks = (Group *)memory;
    int64_t *numbers = (int64_t *)(tasks + b->n_tasks);
    Order order = {numbers, numbers + b->n_tasks + 1};
    sort(b->task, b->n, b->n_tasks, order);
    for (int64_t task = 0; task < b->n_tasks; task++)
        tasks[task] = (Group){task, order.first[task], order.first[task + 1] - order.first[task]};
    return (Sorted){order, tasks};
}

static void gather(const float *from, const int64_t *rows, int64_t n, int64_t width, float *to) {
    for (int64_t i = 0; i < n; i++)
        copy(to + i * width, from + rows[i] * width, width);
}

/* Rows (n, size) of `from` -> (n, width) of `to` by the layer of each row's task. */
static void apply(const Block *b, const Layers *layers, Sorted sorted, const float *from,
                  float *to, vector *memory) {
    if (!b->task) { /* they stand in their order already */
        linear(layers, sorted.tasks, 1, from, to, memory);
        return;
    }
    float *rows = (float *)memory, *found = rows + groups(b->n * layers->n_in, LANES) * LANES;
    vector *rest = (vector *)found + groups(b->n * layers->n_out, LANES);
    gather(from, sorted.order.rows, b->n, layers->n_in, rows);
    linear(layers, sorted.tasks, b->n_tasks, rows, found, rest);
    for (int64_t i = 0; i < b->n; i++)
        copy(to + sorted.order.rows[i] * layers->n_out, found + i * layers->n_out, layers->n_out);
}

/* From slopes (n, width) of the result those of weights and biases; adds those of the rows. */
static void apply_backward(const Block *b, const Layers *layers, Sorted sorted, const float *from,
                           const float *slopes, float *of_rows, float *of_weight, float *of_bias,
                           vector *memory) {
    int64_t n_in = layers->n_in, for_rows = groups(b->n * n_in, LANES);
    float *rows = (float *)memory, *found = (float *)(memory + for_rows);
    float *sorted_slopes = (float *)(memory + 2 * for_rows);
    vector *rest = memory + 2 * for_rows + groups(b->n * layers->n_out, LANES);
    if (!b->task) {
        linear_backward(layers, sorted.tasks, 1, 1, from, slopes, found, of_weight, of_bias, rest);
        for (int64_t i = 0; i < b->n * n_in; i++)
            of_rows[i] += found[i];
        return;
    }
    gather(from, sorted.order.rows, b->n, n_in, rows);
    gather(slopes, sorted.order.rows, b->n, layers->n_out, sorted_slopes);
    linear_backward(layers, sorted.tasks, b->n_tasks, b->n_tasks, rows, sorted_slopes, found,
                    of_weight, of_bias, rest);
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t j = 0; j < n_in; j++)
            of_rows[sorted.order.rows[i] * n_in + j] += found[i * n_in + j];
}

/* For either of its two layers, forwards or backwards. */
static int64_t vectors_of_applying(const Block *b) {
    return vectors_of_layers(&b->project, b->n) + 2 * groups(b->n * b->size, LANES)
           + groups(3 * b->n * b->size, LANES);
}

/* y = normal(x + out) scale + shift, of each row's task; `to` has what `out` gave. */
static void add_and_normalise(const Block *b, Trace *trace, float *to) {
    for (int64_t i = 0; i < b->n; i++) {
        const float *x = b->rows + i * b->size;
        const float *scale = b->scale + owner_of(b->task, i) * b->size;
        const float *shift = b->shift + owner_of(b->task, i) * b->size;
        float *normal = trace->normal + i * b->size, *y = to + i * b->size;
        for (int64_t j = 0; j < b->size; j++)
            y[j] += x[j];
        trace->inverse_sd[i] = normalise(y, b->size, normal);
        for (int64_t j = 0; j < b->size; j++)
            y[j] = normal[j] * scale[j] + shift[j];
    }
}

/* From the slopes of y those of scale and shift, and those of x + out, which `to` takes. */
static void add_and_normalise_backward(const Block *b, const Trace *trace, const float *slopes,
                                       const Slopes *to) {
    memset(to->scale, 0, b->n_tasks * b->size * sizeof(float));
    memset(to->shift, 0, b->n_tasks * b->size * sizeof(float));
    for (int64_t i = 0; i < b->n; i++) {
        int64_t task = owner_of(b->task, i) * b->size, row = i * b->size;
        normalise_backward(slopes + row, trace->normal + row, trace->inverse_sd[i],
                           b->scale + task, b->size, to->rows + row, to->scale + task,
                           to->shift + task);
    }
}

/* A block and the tensors that its gradients are like. */
typedef struct {
    Block block;
    Tensor parts[7];
} Taken;

static Taken take_block(Call *call) {
    Taken taken;
    Tensor *parts = taken.parts;
    parts[0] = take(call);
    const float *task = take_optional_floats(call), *owner = take_optional_floats(call);
    for (int i = 1; i < 7; i++)
        parts[i] = take(call);
    int64_t n = sizes_of(parts[0])[0], size = sizes_of(parts[0])[1];
    int64_t n_tasks = task ? sizes_of(parts[1])[0] : 1;
    for (int64_t i = 0; task && i < n; i++)
        require_place((int64_t)task[i], n_tasks, "task");
    taken.block = (Block){
        floats_of(parts[0]), task, owner,
        {floats_of(parts[1]), floats_of(parts[2]), size, 3 * size, !task},
        {floats_of(parts[3]), floats_of(parts[4]), size, size, !task},
        floats_of(parts[5]), floats_of(parts[6]), n, n_tasks, take_number(call), size};
    return taken;
}

static void forward(const Block *b, float *to, Trace *trace) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    int64_t for_order = vectors_of_order(b);
    vector *memory = borrow(&kept, &length, for_order + vectors_of_applying(b));
    Sorted sorted = sort_rows(b, memory);
    apply(b, &b->project, sorted, b->rows, trace->projected, memory + for_order);
    Attention attention = among(trace->projected, b->owner, b->n, b->n_heads,
                                b->size / b->n_heads);
    attend_all(&attention, trace->mixed, trace->log_sums);
    apply(b, &b->out, sorted, trace->mixed, to, memory + for_order);
    add_and_normalise(b, trace, to);
}

static void backward(const Block *b, const float *slopes, const Trace *trace, const Slopes *to) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    int64_t n = b->n, size = b->size;
    int64_t for_order = vectors_of_order(b), for_layers = vectors_of_applying(b);
    int64_t for_rows = groups(n * size, LANES);
    vector *memory = borrow(&kept, &length, for_order + for_layers + 4 * for_rows);
    Sorted sorted = sort_rows(b, memory);
    float *of_mixed = (float *)(memory + for_order + for_layers);
    float *of_projected = of_mixed + for_rows * LANES;
    add_and_normalise_backward(b, trace, slopes, to);
    memset(of_mixed, 0, n * size * sizeof(float));
    apply_backward(b, &b->out, sorted, trace->mixed, to->rows, of_mixed, to->out, to->out_bias,
                   memory + for_order);
    Attention attention = among(trace->projected, b->owner, n, b->n_heads, size / b->n_heads);
    attend_all_backward(&attention, (Rows){of_mixed, size}, trace->log_sums, of_projected,
                        of_projected + size, of_projected + 2 * size);
    apply_backward(b, &b->project, sorted, b->rows, of_projected, to->rows, to->project,
                   to->project_bias, memory + for_order);
}

void block_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Taken taken = take_block(&call);
    int64_t n = taken.block.n, size = taken.block.size;
    float *to = make_like(&call, taken.parts[0]);
    Trace trace;
    trace.projected = make(&call, 2, (int64_t[]){n, 3 * size});
    trace.log_sums = make(&call, 2, (int64_t[]){n, taken.block.n_heads});
    trace.mixed = make_like(&call, taken.parts[0]);
    trace.normal = make_like(&call, taken.parts[0]);
    trace.inverse_sd = make(&call, 1, &n);
    forward(&taken.block, to, &trace);
    finish(&call);
}

void block_backward_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    const float *slopes = take_floats(&call);
    Taken taken = take_block(&call);
    float *traced[5], *to[7];
    for (int i = 0; i < 5; i++)
        traced[i] = floats_of(take(&call));
    for (int i = 0; i < 7; i++)
        to[i] = make_like(&call, taken.parts[i]);
    Trace trace = {traced[0], traced[1], traced[2], traced[3], traced[4]};
    Slopes found = {to[0], to[1], to[2], to[3], to[4], to[5], to[6]};
    backward(&taken.block, slopes, &trace, &found);
    finish(&call);
}
