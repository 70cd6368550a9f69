/* y = relu(normal(x) scale + shift), forwards and backwards. */
#include "norms.h"
#include "rows.h"

/* rows (n_groups, width, size) of the tasks (n_groups), NULL: all of the same. What the way back
   needs may be NULL. */
void rectified_norm(const float *rows, const int64_t *tasks, const float *scale,
                    const float *shift, int64_t n_groups, int64_t width, int64_t size, float *to,
                    float *normal, float *inverse_sd) {
    for (int64_t i = 0; i < n_groups * width; i++) {
        int64_t task = tasks ? tasks[i / width] * size : 0;
        float *y = to + i * size, *own = normal ? normal + i * size : y;
        float inverse = normalise(rows + i * size, size, own);
        if (inverse_sd)
            inverse_sd[i] = inverse;
        for (int64_t j = 0; j < size; j++) {
            float value = own[j] * scale[task + j] + shift[task + j];
            y[j] = value < 0 ? 0 : value; /* what is no number stays none */
        }
    }
}

void rectified_norm_backward(const float *slopes, const float *y, const int64_t *tasks,
                             const float *scale, const float *normal, const float *inverse_sd,
                             int64_t n_groups, int64_t width, int64_t size, int64_t n_tasks,
                             float *of_rows, float *of_scale, float *of_shift) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    float *slope = (float *)borrow(&kept, &length, groups(size, LANES));
    memset(of_scale, 0, n_tasks * size * sizeof(float));
    memset(of_shift, 0, n_tasks * size * sizeof(float));
    for (int64_t i = 0; i < n_groups * width; i++) {
        int64_t task = tasks ? tasks[i / width] * size : 0;
        for (int64_t j = 0; j < size; j++)
            slope[j] = y[i * size + j] <= 0 ? 0 : slopes[i * size + j];
        normalise_backward(slope, normal + i * size, inverse_sd[i], scale + task, size,
                           of_rows + i * size, of_scale + task, of_shift + task);
    }
}
