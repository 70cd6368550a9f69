/* Multi-head attention in which a query meets the keys of its own owner only.

Rows are taken together by owner, so that pairs that must not meet cost nothing: there is no mask,
no padding and no matrix of all scores. Four queries are worked on at a time, whose scores stay in
the nearest cache. */
#include "attention.h"
#include "tensors.h"

#include <math.h>

#define NEVER -1e30f

/* What is needed besides the result, in one piece of memory that the next call uses again. */
typedef struct {
    int64_t n_owners;
    Order queries, keys;
    vector *free; /* the rest */
} Workspace;

static Workspace prepare(const Attention *a, int64_t n_vectors) {
    int64_t n_owners = count_owners(a->query_owner, a->n_queries, 1);
    n_owners = count_owners(a->key_owner, a->n_keys, n_owners);
    int64_t n_numbers = 2 * (n_owners + 1) + a->n_queries + a->n_keys;
    int64_t for_numbers = groups(n_numbers * sizeof(int64_t), sizeof(vector));
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    vector *memory = borrow(&kept, &length, for_numbers + n_vectors);
    int64_t *numbers = (int64_t *)memory;
    Order queries = {numbers, numbers + 2 * (n_owners + 1)};
    Order keys = {numbers + n_owners + 1, queries.rows + a->n_queries};
    sort(a->query_owner, a->n_queries, n_owners, queries);
    sort(a->key_owner, a->n_keys, n_owners, keys);
    return (Workspace){n_owners, queries, keys, memory + for_numbers};
}

/* The queries and keys of one owner; scores of a query are blocks of LANES keys. */
typedef struct {
    const int64_t *queries, *keys;
    int64_t n, m, blocks;
} Part;

static Part part_of(const Workspace *work, int64_t owner) {
    int64_t query = work->queries.first[owner], key = work->keys.first[owner];
    int64_t m = work->keys.first[owner + 1] - key;
    return (Part){work->queries.rows + query, work->keys.rows + key,
                  work->queries.first[owner + 1] - query, m, groups(m, LANES)};
}

/* To be added to the scores of the last block of `count` keys: there may be fewer than LANES. */
static vector beyond(int64_t count) {
    float numbers[LANES];
    for (int lane = 0; lane < LANES; lane++)
        numbers[lane] = (count - 1) / LANES * LANES + lane < count ? 0 : NEVER;
    vector found;
    memcpy(&found, numbers, sizeof found);
    return found;
}

/* Scores (blocks) become e^(score - largest); returns the sum and the largest. */
static inline float exponentiate(vector *scores, int64_t blocks, float *largest) {
    vector most = scores[0], total = {0};
    for (int64_t b = 1; b < blocks; b++)
        most = larger(most, scores[b]);
    *largest = largest_of(most);
    for (int64_t b = 0; b < blocks; b++) {
        scores[b] = exponential(scores[b] - *largest);
        total += scores[b];
    }
    return sum_of(total);
}

void attend_all(const Attention *a, float *to, float *log_sums) {
    int64_t size = a->size, chunks = groups(size, LANES), most = groups(a->n_keys, LANES);
    int64_t of_keys = a->n_keys * chunks, of_queries = (a->n_queries + TOGETHER) * chunks;
    Workspace work = prepare(a, size * most + 2 * of_keys + 2 * of_queries + TOGETHER * most);
    vector *key_columns = work.free, *key = key_columns + size * most, *value = key + of_keys;
    vector *query = value + of_keys, *out = query + of_queries, *scores = out + of_queries;
    float scale = 1 / sqrtf(size);
    for (int64_t o = 0; o < work.n_owners; o++) {
        Part of = part_of(&work, o);
        vector last = beyond(of.m);
        require(of.m || !of.n, "A query has no key of its own owner.");
        for (int64_t head = 0; of.n && head < a->n_heads; head++) {
            pack(a->key, head, of.keys, of.m, size, chunks, key);
            transpose(key, of.m, size, chunks, of.blocks, key_columns);
            pack(a->value, head, of.keys, of.m, size, chunks, value);
            pack(a->query, head, of.queries, of.n, size, chunks, query);
            complete(query, of.n, chunks);
            for (int64_t i = 0; i < of.n; i += TOGETHER) {
                float sums[TOGETHER], largest[TOGETHER];
                multiply(query + i * chunks, chunks, key_columns, size, of.blocks, scale, scores);
                for (int t = 0; t < TOGETHER; t++) {
                    scores[(t + 1) * of.blocks - 1] += last;
                    sums[t] = exponentiate(scores + t * of.blocks, of.blocks, largest + t);
                }
                mix(scores, of.blocks, value, of.m, chunks, out + i * chunks);
                for (int t = 0; t < TOGETHER; t++)
                    for (int64_t c = 0; c < chunks; c++)
                        out[(i + t) * chunks + c] /= sums[t];
                for (int64_t t = 0; t < TOGETHER && i + t < of.n; t++)
                    log_sums[of.queries[i + t] * a->n_heads + head] = largest[t] + logf(sums[t]);
            }
            unpack(out, head, of.queries, of.n, size, chunks, to, a->n_heads * size);
        }
    }
}

void attend_all_backward(const Attention *a, Rows of_out, const float *log_sums, float *to_query,
                         float *to_key, float *to_value) {
    int64_t size = a->size, chunks = groups(size, LANES), most = groups(a->n_keys, LANES);
    int64_t of_keys = a->n_keys * chunks, of_queries = (a->n_queries + TOGETHER) * chunks;
    Workspace work = prepare(a, 2 * size * most + 4 * of_keys + 3 * of_queries
                                    + 2 * TOGETHER * most);
    vector *key_columns = work.free, *value_columns = key_columns + size * most;
    vector *key = value_columns + size * most, *value = key + of_keys;
    vector *key_slope = value + of_keys, *value_slope = key_slope + of_keys;
    vector *query = value_slope + of_keys, *slope = query + of_queries;
    vector *query_slope = slope + of_queries;
    vector *shares = query_slope + of_queries, *score_slope = shares + TOGETHER * most;
    float scale = 1 / sqrtf(size);
    for (int64_t o = 0; o < work.n_owners; o++) {
        Part of = part_of(&work, o);
        for (int64_t head = 0; head < a->n_heads; head++) {
            pack(a->key, head, of.keys, of.m, size, chunks, key);
            transpose(key, of.m, size, chunks, of.blocks, key_columns);
            pack(a->value, head, of.keys, of.m, size, chunks, value);
            transpose(value, of.m, size, chunks, of.blocks, value_columns);
            pack(a->query, head, of.queries, of.n, size, chunks, query);
            complete(query, of.n, chunks);
            pack(of_out, head, of.queries, of.n, size, chunks, slope);
            complete(slope, of.n, chunks);
            memset(key_slope, 0, of.m * chunks * sizeof(vector));
            memset(value_slope, 0, of.m * chunks * sizeof(vector));
            for (int64_t i = 0; i < of.n; i += TOGETHER) {
                multiply(query + i * chunks, chunks, key_columns, size, of.blocks, scale, shares);
                multiply(slope + i * chunks, chunks, value_columns, size, of.blocks, 1,
                         score_slope);
                for (int t = 0; t < TOGETHER; t++) {
                    vector *share = shares + t * of.blocks, *each = score_slope + t * of.blocks;
                    vector products = {0};
                    float log_sum = 0;
                    if (i + t < of.n)
                        log_sum = log_sums[of.queries[i + t] * a->n_heads + head];
                    for (int64_t b = 0; b < of.blocks; b++) {
                        share[b] = exponential(share[b] - log_sum);
                        products += share[b] * each[b];
                    }
                    float mean = sum_of(products); /* beyond the last key `each` is 0 */
                    for (int64_t b = 0; b < of.blocks; b++)
                        each[b] = share[b] * (each[b] - mean) * scale;
                }
                mix(score_slope, of.blocks, key, of.m, chunks, query_slope + i * chunks);
                spread(score_slope, of.blocks, query + i * chunks, of.m, chunks, key_slope);
                spread(shares, of.blocks, slope + i * chunks, of.m, chunks, value_slope);
            }
            unpack(query_slope, head, of.queries, of.n, size, chunks, to_query, a->query.stride);
            unpack(key_slope, head, of.keys, of.m, size, chunks, to_key, a->key.stride);
            unpack(value_slope, head, of.keys, of.m, size, chunks, to_value, a->value.stride);
        }
    }
}

Attention among(const float *projected, const float *owner, int64_t n, int64_t n_heads,
                int64_t size) {
    int64_t width = n_heads * size, stride = 3 * width;
    return (Attention){{projected, stride}, {projected + width, stride},
                       {projected + 2 * width, stride}, owner, owner, n, n, n_heads, size};
}

/* Queries (n, heads size) that attend to keys and values (m, heads size). */
typedef struct {
    Attention attention;
    Tensor query, key, value;
} Taken;

static Taken take_attention(Call *call) {
    Tensor query = take(call), key = take(call), value = take(call);
    const float *query_owner = take_optional_floats(call);
    const float *key_owner = take_optional_floats(call);
    int64_t n_heads = take_number(call), width = sizes_of(query)[1];
    require(sizes_of(key)[1] == width && sizes_of(value)[1] == width
                && sizes_of(key)[0] == sizes_of(value)[0],
            "Queries, keys and values do not fit each other.");
    require(n_heads > 0 && width % n_heads == 0, "The heads do not divide the width.");
    Attention attention = {{floats_of(query), width}, {floats_of(key), width},
                           {floats_of(value), width}, query_owner, key_owner, sizes_of(query)[0],
                           sizes_of(key)[0], n_heads, width / n_heads};
    return (Taken){attention, query, key, value};
}

void attend_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Taken taken = take_attention(&call);
    const Attention *a = &taken.attention;
    float *to = make_like(&call, taken.query);
    attend_all(a, to, make(&call, 2, (int64_t[]){a->n_queries, a->n_heads}));
    finish(&call);
}

void attend_backward_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    const float *of_out = take_floats(&call);
    Taken taken = take_attention(&call);
    const float *log_sums = take_floats(&call);
    float *to_query = make_like(&call, taken.query), *to_key = make_like(&call, taken.key);
    attend_all_backward(&taken.attention, (Rows){of_out, taken.attention.query.stride}, log_sums,
                        to_query, to_key, make_like(&call, taken.value));
    finish(&call);
}
