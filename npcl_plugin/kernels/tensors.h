/* A function in C as an operator of torch: how it gets its arguments and gives its results.

The functions of torch that are declared here belong to its stable interface for C, version 2.13. */
#ifndef TENSORS_H
#define TENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TORCH_VERSION ((2ULL << 56) | (13ULL << 48))
#define MOST_ARGUMENTS 20
#define MOST_RESULTS 8

typedef struct AtenTensorOpaque *Tensor;
typedef struct StableListOpaque *List;
typedef struct TorchLibraryOpaque *Library;
typedef uint64_t Value; /* a number, a tensor, or where a tensor is that may be missing */
typedef void Operator(Value *values, uint64_t n_arguments, uint64_t n_results);

int32_t aoti_torch_get_data_ptr(Tensor, void **);
int32_t aoti_torch_get_dtype(Tensor, int32_t *);
int32_t aoti_torch_get_dim(Tensor, int64_t *);
int32_t aoti_torch_get_numel(Tensor, int64_t *);
int32_t aoti_torch_get_sizes(Tensor, int64_t **);
int32_t aoti_torch_is_contiguous(Tensor, bool *);
int32_t aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t,
                                 int32_t, Tensor *);
int32_t aoti_torch_delete_tensor_object(Tensor);
void aoti_torch_check(bool, const char *function, const char *file, uint32_t line, const char *said);
int32_t aoti_torch_dtype_float32(void);
int32_t aoti_torch_dtype_int64(void);
int32_t aoti_torch_device_type_cpu(void);
int32_t aoti_torch_library_init_impl(const char *, const char *, const char *, uint32_t, Library *);
int32_t torch_library_impl(Library, const char *, Operator *, uint64_t);
int32_t torch_delete_stable_ivalue(Value *);
int32_t torch_list_size(List, size_t *);
int32_t torch_list_get_item(List, size_t, Value *);
int32_t torch_delete_list(List);

/* Arguments are taken in their order, results made in theirs. */
typedef struct {
    Value *values;
    int n_taken, n_tensors, n_results;
    Tensor tensors[MOST_ARGUMENTS], results[MOST_RESULTS];
} Call;

/* Else there is a RuntimeError in Python, and the C functions that are under way end here. */
static inline void require(bool right, const char *sentence) {
    if (!right)
        aoti_torch_check(false, __func__, __FILE__, __LINE__, sentence);
}

static inline void expect(int32_t failed) {
    require(!failed, "A function in C could not get what it needs from torch.");
}

/* Numbers that are used as places have to be 0 to `limit` - 1. */
static inline void require_place(int64_t number, int64_t limit, const char *name) {
    char sentence[128];
    if (number < 0 || number >= limit) {
        snprintf(sentence, sizeof sentence, "Expected each %s to be 0 to %lld, but got %lld.", name,
                 (long long)limit - 1, (long long)number);
        require(false, sentence);
    }
}

/* Those of an array, which may be missing. */
static inline void require_places(const int64_t *numbers, int64_t count, int64_t limit,
                                  const char *name) {
    for (int64_t i = 0; numbers && i < count; i++)
        require_place(numbers[i], limit, name);
}

static inline Call called(Value *values) {
    return (Call){.values = values};
}

static inline int64_t take_number(Call *call) {
    return (int64_t)call->values[call->n_taken++];
}

static inline int take_truth(Call *call) {
    return (uint8_t)call->values[call->n_taken++];
}

static inline Tensor take(Call *call) {
    return call->tensors[call->n_tensors++] = (Tensor)call->values[call->n_taken++];
}

/* NULL if it is missing. */
static inline Tensor take_optional(Call *call) {
    Value *place = (Value *)call->values[call->n_taken++];
    if (!place)
        return NULL;
    Tensor found = (Tensor)*place;
    expect(torch_delete_stable_ivalue(place));
    return call->tensors[call->n_tensors++] = found;
}

/* The first number of a tensor, NULL if it is missing. Callers in Python see to it that the numbers
   are side by side and of this kind; else a result would be wrong, and nobody knew. */
static inline void *numbers_of(Tensor tensor, int32_t kind) {
    void *found = NULL;
    int32_t its_kind;
    bool side_by_side;
    if (!tensor)
        return NULL;
    expect(aoti_torch_get_dtype(tensor, &its_kind));
    expect(aoti_torch_is_contiguous(tensor, &side_by_side));
    require(its_kind == kind && side_by_side,
            "A function in C was given a tensor that it cannot read: it has to be contiguous, of "
            "float32 or, where it counts tasks or classes, int64.");
    expect(aoti_torch_get_data_ptr(tensor, &found));
    return found;
}

static inline float *floats_of(Tensor tensor) {
    return numbers_of(tensor, aoti_torch_dtype_float32());
}

static inline const int64_t *integers_of(Tensor tensor) {
    return numbers_of(tensor, aoti_torch_dtype_int64());
}

static inline const float *take_floats(Call *call) {
    return floats_of(take(call));
}

static inline const float *take_optional_floats(Call *call) {
    return floats_of(take_optional(call));
}

static inline const int64_t *sizes_of(Tensor tensor) {
    int64_t *found;
    expect(aoti_torch_get_sizes(tensor, &found));
    return found;
}

static inline int64_t count_of(Tensor tensor) {
    int64_t found;
    expect(aoti_torch_get_numel(tensor, &found));
    return found;
}

static inline int64_t dimensions_of(Tensor tensor) {
    int64_t found;
    expect(aoti_torch_get_dim(tensor, &found));
    return found;
}

/* A new tensor without numbers yet, rows side by side. */
static inline float *make(Call *call, int64_t n_dimensions, const int64_t *sizes) {
    int64_t strides[8], stride = 1;
    for (int64_t i = n_dimensions - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= sizes[i];
    }
    Tensor *found = call->results + call->n_results++;
    expect(aoti_torch_empty_strided(n_dimensions, sizes, strides, aoti_torch_dtype_float32(),
                                    aoti_torch_device_type_cpu(), 0, found));
    return floats_of(*found);
}

static inline float *make_like(Call *call, Tensor tensor) {
    return make(call, dimensions_of(tensor), sizes_of(tensor));
}

/* Arguments belong to the operator, results to who called it. */
static inline void finish(Call *call) {
    for (int i = 0; i < call->n_tensors; i++)
        expect(aoti_torch_delete_tensor_object(call->tensors[i]));
    for (int i = 0; i < call->n_results; i++)
        call->values[i] = (Value)call->results[i];
}

#endif
