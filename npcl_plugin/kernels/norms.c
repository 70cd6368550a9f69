/* y = relu(normal(x) scale + shift), forwards and backwards. */
#include "norms.h"
#include "rows.h"
#include "tensors.h"

/* Rows of n_groups tasks, `width` of each; no tasks: all rows are of the same. */
typedef struct {
    const float *rows, *scale, *shift;
    const int64_t *tasks;
    int64_t n, width, size;
    Tensor tensor, scales;
} Taken;

static Taken take_rows(Call *call) {
    Taken taken;
    taken.tensor = take(call);
    taken.tasks = integers_of(take_optional(call));
    taken.scales = take(call);
    const int64_t *sizes = sizes_of(taken.tensor);
    taken.rows = floats_of(taken.tensor);
    taken.scale = floats_of(taken.scales);
    taken.size = sizes[dimensions_of(taken.tensor) - 1];
    taken.n = count_of(taken.tensor) / taken.size;
    taken.width = taken.tasks ? sizes[1] : taken.n;
    require_places(taken.tasks, sizes[0], sizes_of(taken.scales)[0], "task");
    return taken;
}

/* Where a row's scale and shift begin. */
static inline int64_t place_of(const Taken *taken, int64_t row) {
    return taken->tasks ? taken->tasks[row / taken->width] * taken->size : 0;
}

/* What the way back needs may be NULL. */
static void rectified_norm(const Taken *taken, float *to, float *normal, float *inverse_sd) {
    int64_t size = taken->size;
    for (int64_t i = 0; i < taken->n; i++) {
        const float *scale = taken->scale + place_of(taken, i);
        const float *shift = taken->shift + place_of(taken, i);
        float *y = to + i * size, *own = normal ? normal + i * size : y;
        float inverse = normalise(taken->rows + i * size, size, own);
        if (inverse_sd)
            inverse_sd[i] = inverse;
        for (int64_t j = 0; j < size; j++) {
            float value = own[j] * scale[j] + shift[j];
            y[j] = value < 0 ? 0 : value; /* what is no number stays none */
        }
    }
}

void rectified_norm_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Taken taken = take_rows(&call);
    taken.shift = take_floats(&call);
    float *to = make_like(&call, taken.tensor), *normal = make_like(&call, taken.tensor);
    rectified_norm(&taken, to, normal,
                   make(&call, dimensions_of(taken.tensor) - 1, sizes_of(taken.tensor)));
    finish(&call);
}

/* Nobody will go back. */
void only_rectified_norm_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Taken taken = take_rows(&call);
    taken.shift = take_floats(&call);
    rectified_norm(&taken, make_like(&call, taken.tensor), NULL, NULL);
    finish(&call);
}

void rectified_norm_backward_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    Call call = called(values);
    const float *slopes = take_floats(&call);
    Taken taken = take_rows(&call); /* what the way there gave */
    const float *normal = take_floats(&call), *inverse_sd = take_floats(&call);
    int64_t size = taken.size, n_scales = count_of(taken.scales);
    float *of_rows = make_like(&call, taken.tensor);
    float *of_scale = make_like(&call, taken.scales), *of_shift = make_like(&call, taken.scales);
    float *slope = (float *)borrow(&kept, &length, groups(size, LANES));
    memset(of_scale, 0, n_scales * sizeof(float));
    memset(of_shift, 0, n_scales * sizeof(float));
    for (int64_t i = 0; i < taken.n; i++) {
        int64_t place = place_of(&taken, i), row = i * size;
        for (int64_t j = 0; j < size; j++)
            slope[j] = taken.rows[row + j] <= 0 ? 0 : slopes[row + j];
        normalise_backward(slope, normal + row, inverse_sd[i], taken.scale + place, size,
                           of_rows + row, of_scale + place, of_shift + place);
    }
    finish(&call);
}
