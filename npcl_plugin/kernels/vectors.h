/* Several numbers at a time, by the vectors of GCC and Clang, which know every machine's own. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>
#include <string.h>

/* Longer vectors than the machine's are taken apart by the compiler, which costs a lot. */
#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4 * LANES)));

/* Vectors that may begin at any number. */
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));

static inline vector load(const float *numbers) {
    return (vector)*(const loose *)numbers;
}

/* As memcpy, but there are few numbers and it is called often. */
static inline void copy(float *to, const float *from, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(loose *)(to + i) = *(const loose *)(from + i);
    for (; i < count; i++)
        to[i] = from[i];
}

static inline vector all(float value) {
    return value - (vector){0};
}

static inline vector choose(integers condition, vector yes, vector no) {
    return (vector)((condition & (integers)yes) | (~condition & (integers)no));
}

static inline vector larger(vector a, vector b) {
    return choose(a > b, a, b);
}

/* Four numbers are in every machine's vectors; taking these together needs no loop over lanes. */
typedef float quarter __attribute__((vector_size(16)));

static inline float largest_of(vector a) {
    quarter parts[LANES / 4];
    memcpy(parts, &a, sizeof a);
    quarter most = parts[0];
    for (int part = 1; part < LANES / 4; part++) {
        __typeof__(most > most) more = parts[part] > most;
        most = (quarter)((more & (__typeof__(more))parts[part]) | (~more & (__typeof__(more))most));
    }
    float left = most[0] > most[1] ? most[0] : most[1];
    float right = most[2] > most[3] ? most[2] : most[3];
    return left > right ? left : right;
}

static inline float sum_of(vector a) {
    quarter parts[LANES / 4];
    memcpy(parts, &a, sizeof a);
    quarter total = parts[0];
    for (int part = 1; part < LANES / 4; part++)
        total += parts[part];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

/* e^x for x <= 0: 2^n e^r with |r| <= ln(2) / 2 and a polynomial for e^r. */
static inline vector exponential(vector x) {
    x = choose(x < -87.0f, all(-87.0f), x); /* what is no number stays none */
    const vector shift = all(12582912.0f); /* 1.5 2^23: adding it rounds to a whole number */
    vector shifted = x * 1.44269504f + shift, n = shifted - shift;
    vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vector p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vector)(((integers)shifted + 127) << 23); /* n is in its lowest bits */
}

/* ln x for x >= 1: the exponent, and the series of atanh for a mantissa near 1. */
static inline vector logarithm(vector x) {
    integers bits = (integers)x;
    integers exponent = (bits - 0x3f3504f3) >> 23; /* mantissas from sqrt(1/2) to sqrt(2) */
    vector mantissa = (vector)(bits - (exponent << 23));
    vector t = (mantissa - 1.0f) / (mantissa + 1.0f), square = t * t;
    vector p = square * (1.0f / 11) + 1.0f / 9;
    p = p * square + 1.0f / 7;
    p = p * square + 1.0f / 5;
    p = p * square + 1.0f / 3;
    p = p * square + 1.0f;
    return 2 * t * p + __builtin_convertvector(exponent, vector) * 0.693147181f;
}

#endif
