/* Linear layers, one for each of T tasks; see linear.h. */
#include "linear.h"
#include "tensors.h"

int64_t vectors_of_layers(const Layers *layers, int64_t n_rows) {
    int64_t longest = layers->n_in > layers->n_out ? layers->n_in : layers->n_out;
    longest = n_rows > longest ? n_rows : longest;
    return vectors_of_panels(longest, PANEL); /* one at a time */
}

void linear(const Layers *layers, const Group *some, int64_t n_groups, const float *rows,
            float *to, vector *memory) {
    int64_t n_in = layers->n_in, n_out = layers->n_out;
    for (int64_t g = 0; g < n_groups; g++) {
        const float *weight = layers->weight + some[g].task * n_in * n_out;
        float *found = to + some[g].first * n_out;
        for (int64_t i = 0; layers->bias && i < some[g].count; i++)
            copy(found + i * n_out, layers->bias + some[g].task * n_out, n_out);
        product((Matrix){rows + some[g].first * n_in, n_in, 1}, some[g].count, n_in,
                layers->turned ? (Matrix){weight, 1, n_in} : (Matrix){weight, n_out, 1}, n_out,
                found, layers->bias != NULL, memory);
    }
}

void linear_backward(const Layers *layers, const Group *some, int64_t n_groups, int64_t n_tasks,
                     const float *rows, const float *slopes, float *of_rows, float *of_weight,
                     float *of_bias, vector *memory) {
    int64_t n_in = layers->n_in, n_out = layers->n_out;
    if (of_bias)
        memset(of_bias, 0, n_tasks * n_out * sizeof(float));
    for (int64_t task = 0; task < n_tasks; task++) {
        const float *weight = layers->weight + task * n_in * n_out;
        float *to_weight = of_weight + task * n_in * n_out;
        int add = 0;
        for (int64_t g = 0; g < n_groups; g++) {
            int64_t count = some[g].count;
            if (some[g].task != task || !count)
                continue;
            const float *x = rows + some[g].first * n_in, *y = slopes + some[g].first * n_out;
            product((Matrix){y, n_out, 1}, count, n_out,
                    layers->turned ? (Matrix){weight, n_in, 1} : (Matrix){weight, 1, n_out}, n_in,
                    of_rows + some[g].first * n_in, 0, memory);
            if (layers->turned)
                product((Matrix){y, 1, n_out}, n_out, count, (Matrix){x, n_in, 1}, n_in,
                        to_weight, add, memory);
            else
                product((Matrix){x, 1, n_in}, n_in, count, (Matrix){y, n_out, 1}, n_out,
                        to_weight, add, memory);
            for (int64_t i = 0; of_bias && i < count; i++)
                for (int64_t j = 0; j < n_out; j++)
                    of_bias[task * n_out + j] += y[i * n_out + j];
            add = 1;
        }
        if (!add)
            memset(to_weight, 0, n_in * n_out * sizeof(float));
    }
}

/* Layers, and groups of `width` rows each; without tasks there is one layer and one group. */
typedef struct {
    Layers layers;
    const int64_t *tasks;
    int64_t n_groups, width, n_tasks;
    Tensor rows, weight;
} Taken;

static Taken take_layers(Call *call) {
    Taken taken;
    taken.rows = take(call);
    taken.tasks = integers_of(take_optional(call));
    taken.weight = take(call);
    const int64_t *sizes = sizes_of(taken.rows), *weights = sizes_of(taken.weight);
    int64_t n_in = sizes[dimensions_of(taken.rows) - 1];
    require(weights[1] == n_in, "The rows are not as wide as the weights of their layer.");
    taken.n_groups = taken.tasks ? sizes[0] : 1;
    taken.width = taken.tasks ? sizes[1] : count_of(taken.rows) / n_in;
    taken.n_tasks = taken.tasks ? weights[0] : 1;
    require_places(taken.tasks, taken.n_groups, taken.n_tasks, "task");
    taken.layers = (Layers){floats_of(taken.weight), NULL, n_in, weights[taken.tasks ? 2 : 0],
                            !taken.tasks};
    return taken;
}

/* The groups, and behind them memory for the products. */
static Group *groups_of(const Taken *taken, vector **rest) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    int64_t for_groups = groups(taken->n_groups * sizeof(Group), sizeof(vector));
    Group *found = (Group *)borrow(
        &kept, &length, for_groups + vectors_of_layers(&taken->layers, taken->width));
    for (int64_t g = 0; g < taken->n_groups; g++)
        found[g] = (Group){taken->tasks ? taken->tasks[g] : 0, g * taken->width, taken->width};
    *rest = (vector *)found + for_groups;
    return found;
}

void linear_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Taken taken = take_layers(&call);
    taken.layers.bias = take_optional_floats(&call);
    int64_t n_dimensions = dimensions_of(taken.rows), sizes[8];
    memcpy(sizes, sizes_of(taken.rows), n_dimensions * sizeof *sizes);
    sizes[n_dimensions - 1] = taken.layers.n_out;
    vector *rest;
    const Group *some = groups_of(&taken, &rest);
    linear(&taken.layers, some, taken.n_groups, floats_of(taken.rows),
           make(&call, n_dimensions, sizes), rest);
    finish(&call);
}

void linear_backward_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    const float *slopes = take_floats(&call);
    Taken taken = take_layers(&call);
    int biased = take_truth(&call);
    float *of_rows = make_like(&call, taken.rows), *of_weight = make_like(&call, taken.weight);
    float *of_bias = make(&call, taken.tasks ? 2 : 1, taken.tasks
        ? (int64_t[]){taken.n_tasks, biased ? taken.layers.n_out : 0}
        : (int64_t[]){biased ? taken.layers.n_out : 0});
    vector *rest;
    const Group *some = groups_of(&taken, &rest);
    linear_backward(&taken.layers, some, taken.n_groups, taken.n_tasks, floats_of(taken.rows),
                    slopes, of_rows, of_weight, biased ? of_bias : NULL, rest);
    finish(&call);
}
