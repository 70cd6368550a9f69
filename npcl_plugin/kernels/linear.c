/* Linear layers, one for each of T tasks; see linear.h. */
#include "linear.h"

int64_t vectors_of_layers(const Layers *layers, int64_t n_rows) {
    int64_t longest = layers->n_in > layers->n_out ? layers->n_in : layers->n_out;
    longest = n_rows > longest ? n_rows : longest;
    return groups(layers->n_in * layers->n_out, LANES) + longest + TALL;
}

void linear(const Layers *layers, const Group *some, int64_t n_groups, const float *rows,
            float *to, vector *memory) {
    int64_t n_in = layers->n_in, n_out = layers->n_out;
    vector *rest = memory + groups(n_in * n_out, LANES);
    for (int64_t g = 0; g < n_groups; g++) {
        const float *weight = layers->weight + some[g].task * n_in * n_out;
        float *found = to + some[g].first * n_out;
        if (layers->turned) {
            turn(weight, n_out, n_in, (float *)memory);
            weight = (float *)memory;
        }
        for (int64_t i = 0; layers->bias && i < some[g].count; i++)
            memcpy(found + i * n_out, layers->bias + some[g].task * n_out, n_out * sizeof(float));
        product((Matrix){rows + some[g].first * n_in, n_in, 1}, some[g].count, n_in, weight,
                n_out, found, layers->bias != NULL, rest);
    }
}

void linear_backward(const Layers *layers, const Group *some, int64_t n_groups, int64_t n_tasks,
                     const float *rows, const float *slopes, float *of_rows, float *of_weight,
                     float *of_bias, vector *memory) {
    int64_t n_in = layers->n_in, n_out = layers->n_out;
    vector *rest = memory + groups(n_in * n_out, LANES);
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
            if (!layers->turned && !add) {
                turn(weight, n_in, n_out, (float *)memory);
                weight = (float *)memory;
            }
            product((Matrix){y, n_out, 1}, count, n_out, weight, n_in,
                    of_rows + some[g].first * n_in, 0, rest);
            if (layers->turned)
                product((Matrix){y, 1, n_out}, n_out, count, x, n_in, to_weight, add, rest);
            else
                product((Matrix){x, 1, n_in}, n_in, count, y, n_out, to_weight, add, rest);
            for (int64_t i = 0; of_bias && i < count; i++)
                for (int64_t j = 0; j < n_out; j++)
                    of_bias[task * n_out + j] += y[i * n_out + j];
            add = 1;
        }
        if (!add)
            memset(to_weight, 0, n_in * n_out * sizeof(float));
    }
}

/* Groups of `width` rows each, of the tasks (n_groups); one group of one task if these are NULL. */
static void equal_groups(const int64_t *tasks, int64_t n_groups, int64_t width, Group *to) {
    for (int64_t g = 0; g < n_groups; g++)
        to[g] = (Group){tasks ? tasks[g] : 0, g * width, width};
}

static Layers layers_of(const int64_t *tasks, const float *weight, const float *bias, int64_t n_in,
                        int64_t n_out) {
    return (Layers){weight, bias, n_in, n_out, !tasks};
}

/* rows (n_groups, width, n_in) of the tasks (n_groups) -> (n_groups, width, n_out). */
void linear_of_groups(const float *rows, const int64_t *tasks, const float *weight,
                      const float *bias, int64_t n_groups, int64_t width, int64_t n_in,
                      int64_t n_out, float *to) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    Layers layers = layers_of(tasks, weight, bias, n_in, n_out);
    int64_t for_groups = groups(n_groups * sizeof(Group), sizeof(vector));
    vector *memory = borrow(&kept, &length, for_groups + vectors_of_layers(&layers, width));
    equal_groups(tasks, n_groups, width, (Group *)memory);
    linear(&layers, (Group *)memory, n_groups, rows, to, memory + for_groups);
}

void linear_of_groups_backward(const float *slopes, const float *rows, const int64_t *tasks,
                               const float *weight, int64_t n_groups, int64_t width, int64_t n_in,
                               int64_t n_out, int64_t n_tasks, float *of_rows, float *of_weight,
                               float *of_bias) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    Layers layers = layers_of(tasks, weight, NULL, n_in, n_out);
    int64_t for_groups = groups(n_groups * sizeof(Group), sizeof(vector));
    vector *memory = borrow(&kept, &length, for_groups + vectors_of_layers(&layers, width));
    equal_groups(tasks, n_groups, width, (Group *)memory);
    linear_backward(&layers, (Group *)memory, n_groups, n_tasks, rows, slopes, of_rows, of_weight,
                    of_bias, memory + for_groups);
}
