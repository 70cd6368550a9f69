/* Attention for other files; see attention.c. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "rows.h"

typedef struct {
    Rows query, key, value;               /* (n, heads size), (m, heads size) twice */
    const float *query_owner, *key_owner; /* whole numbers (n), (m); NULL: all are 0 */
    int64_t n_queries, n_keys, n_heads, size;
} Attention;

/* `to`: (n, heads size); `log_sums`: (n, heads), of e^score over a query's keys. */
void attend_all(const Attention *a, float *to, float *log_sums);

/* Gradients in the places and strides of what they are of, from that of the result, `of_out`. */
void attend_all_backward(const Attention *a, Rows of_out, const float *log_sums, float *to_query,
                         float *to_key, float *to_value);

/* Rows (n, 3 heads size) of queries, keys and values attend to each other. */
Attention among(const float *projected, const float *owner, int64_t n, int64_t n_heads,
                int64_t size);

#endif
