/* The norm of many tensors together. */
#include "tensors.h"
#include "vectors.h"

#include <math.h>

#define ABREAST 4

static double squares(const float *numbers, int64_t count) {
    vector sums[ABREAST] = {{0}};
    int64_t i = 0;
    for (; i + ABREAST * LANES <= count; i += ABREAST * LANES)
        for (int k = 0; k < ABREAST; k++) {
            vector part = load(numbers + i + k * LANES);
            sums[k] += part * part;
        }
    double total = 0;
    for (int k = 0; k < ABREAST; k++)
        total += sum_of(sums[k]);
    for (; i < count; i++)
        total += numbers[i] * numbers[i];
    return total;
}

void norm_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    List tensors = (List)(uintptr_t)take_number(&call);
    size_t count;
    expect(torch_list_size(tensors, &count));
    double total = 0;
    for (size_t i = 0; i < count; i++) {
        Value tensor;
        expect(torch_list_get_item(tensors, i, &tensor));
        total += squares(floats_of((Tensor)tensor), count_of((Tensor)tensor));
        expect(aoti_torch_delete_tensor_object((Tensor)tensor));
    }
    expect(torch_delete_list(tensors));
    *make(&call, 0, NULL) = (float)sqrt(total);
    finish(&call);
}
