/* A decoder with one hidden layer: logits = W relu(target + draw) + bias.

A lane of a vector is a target, so that what is summed up over classes or hidden units stays in
its lane. In training the cross-entropy and all of its gradients come from one pass: as the result
is a number, they are known forwards but for a factor. */
#include "rows.h"
#include "tensors.h"

#define CLASSES 5 /* that are computed together */

typedef struct {
    const float *weight, *bias; /* (n_classes, width), (n_classes) */
    int64_t width, n_classes;
} Layer;

/* Targets (n, width) -> (tiles, width), a target in a lane; filled up with zeros. */
static void into_lanes(const float *targets, int64_t n, int64_t width, vector *to) {
    memset(to, 0, groups(n, LANES) * width * sizeof(vector));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            ((float *)(to + i / LANES * width + j))[i % LANES] = targets[i * width + j];
}

static void out_of_lanes(const vector *from, int64_t n, int64_t width, float *targets) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            targets[i * width + j] = ((const float *)(from + i / LANES * width + j))[i % LANES];
}

/* What is no number stays none. */
static inline vector positive(vector x) {
    return choose(x < 0, all(0), x);
}

static inline __attribute__((always_inline)) void
logits_of(const Layer *layer, const vector *hidden, int64_t first, const int count,
          vector *logits) {
    vector sums[CLASSES];
    for (int c = 0; c < count; c++)
        sums[c] = all(layer->bias[first + c]);
    for (int64_t j = 0; j < layer->width; j++)
        for (int c = 0; c < count; c++)
            sums[c] += layer->weight[(first + c) * layer->width + j] * hidden[j];
    for (int c = 0; c < count; c++)
        logits[first + c] = sums[c];
}

/* Hidden units (width) -> logits (n_classes). */
static inline void decode(const Layer *layer, const vector *hidden, vector *logits) {
    int64_t c = 0;
    for (; c + CLASSES <= layer->n_classes; c += CLASSES)
        logits_of(layer, hidden, c, CLASSES, logits);
    for (; c < layer->n_classes; c++)
        logits_of(layer, hidden, c, 1, logits);
}

/* Logits less their largest, which is returned. */
static inline vector lower(vector *logits, int64_t n_classes) {
    vector most = logits[0];
    for (int64_t c = 1; c < n_classes; c++)
        most = larger(most, logits[c]);
    for (int64_t c = 0; c < n_classes; c++)
        logits[c] -= most;
    return most;
}

/* targets (n, width), draws (each, n_columns, width), of which target b has the column
   cell[b] + n_cells (b mod turns), where n_columns = turns n_cells; share (n) of the targets in the loss, NULL: equal ones. */
static void decoder_loss(const float *targets, const float *draws, const int64_t *cell,
                  const float *weight, const float *bias, const int64_t *labels,
                  const float *share, int64_t n, int64_t each, int64_t n_columns, int64_t n_cells,
                  int64_t width, int64_t n_classes, float *loss, float *of_targets,
                  float *of_draws, float *of_weight, float *of_bias) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    const Layer layer = {weight, bias, width, n_classes};
    int64_t n_tiles = groups(n, LANES), n_weights = n_classes * width;
    vector *memory = borrow(&kept, &length, 2 * n_tiles * width + n_weights + 2 * n_classes
                                                + 2 * width);
    vector *target = memory, *target_slope = target + n_tiles * width;
    vector *weight_slope = target_slope + n_tiles * width, *bias_slope = weight_slope + n_weights;
    vector *hidden = bias_slope + n_classes, *slope = hidden + width, *logits = slope + width;
    into_lanes(targets, n, width, target);
    memset(target_slope, 0, n_tiles * width * sizeof(vector));
    memset(weight_slope, 0, n_weights * sizeof(vector));
    memset(bias_slope, 0, n_classes * sizeof(vector));
    memset(of_draws, 0, each * n_columns * width * sizeof(float));
    int64_t turns = n_columns / n_cells;
    vector total = {0};
    for (int64_t tile = 0; tile < n_tiles; tile++) {
        int64_t column[LANES];
        integers label = {0};
        vector part = {0};
        int64_t count = n - tile * LANES < LANES ? n - tile * LANES : LANES;
        for (int64_t lane = 0; lane < LANES; lane++) {
            int64_t b = tile * LANES + (lane < count ? lane : 0);
            column[lane] = (cell[b] + n_cells * (b % turns)) * width;
            label[lane] = (int32_t)labels[b];
            part[lane] = lane < count ? (share ? share[b] : 1.0f / n) / each : 0;
        }
        for (int64_t s = 0; s < each; s++) {
            const float *own = draws + s * n_columns * width;
            for (int64_t lane = 0; lane < LANES; lane++)
                for (int64_t j = 0; j < width; j++)
                    ((float *)(hidden + j))[lane] = own[column[lane] + j];
            for (int64_t j = 0; j < width; j++)
                hidden[j] = positive(hidden[j] + target[tile * width + j]);
            decode(&layer, hidden, logits);
            lower(logits, n_classes);
            vector sum = {0}, right = {0};
            for (int64_t c = 0; c < n_classes; c++) {
                right = choose(label == (int32_t)c, logits[c], right);
                logits[c] = exponential(logits[c]);
                sum += logits[c];
            }
            total += part * (logarithm(sum) - right);
            vector factor = part / sum;
            for (int64_t c = 0; c < n_classes; c++) {
                logits[c] = logits[c] * factor - choose(label == (int32_t)c, part, all(0));
                bias_slope[c] += logits[c];
            }
            for (int64_t j = 0; j < width; j++) {
                vector found = {0}, unit = hidden[j];
                for (int64_t c = 0; c < n_classes; c++) {
                    found += weight[c * width + j] * logits[c];
                    weight_slope[c * width + j] += unit * logits[c];
                }
                slope[j] = choose(unit > 0, found, all(0));
                target_slope[tile * width + j] += slope[j];
            }
            float *to = of_draws + s * n_columns * width;
            for (int64_t lane = 0; lane < count; lane++)
                for (int64_t j = 0; j < width; j++)
                    to[column[lane] + j] += ((const float *)(slope + j))[lane];
        }
    }
    out_of_lanes(target_slope, n, width, of_targets);
    for (int64_t i = 0; i < n_weights; i++)
        of_weight[i] = sum_of(weight_slope[i]);
    for (int64_t c = 0; c < n_classes; c++)
        of_bias[c] = sum_of(bias_slope[c]);
    *loss = sum_of(total);
}

/* draws (n_heads, each, width). The mean probabilities over the draws of the head whose mean
   entropy is least, or over all heads: (n, n_classes). */
static void decoder_answers(const float *targets, const float *draws, const float *weight,
                     const float *bias, int64_t n, int64_t n_heads, int64_t each, int64_t width,
                     int64_t n_classes, int64_t all_heads, float *to) {
    static _Thread_local vector *kept;
    static _Thread_local int64_t length;
    const Layer layer = {weight, bias, width, n_classes};
    int64_t n_tiles = groups(n, LANES);
    vector *memory = borrow(&kept, &length, n_tiles * (width + n_classes) + width + 2 * n_classes);
    vector *target = memory, *answers = target + n_tiles * width;
    vector *hidden = answers + n_tiles * n_classes, *logits = hidden + width;
    vector *probs = logits + n_classes;
    into_lanes(targets, n, width, target);
    memset(answers, 0, n_tiles * n_classes * sizeof(vector));
    for (int64_t tile = 0; tile < n_tiles; tile++) {
        vector *answer = answers + tile * n_classes, least = all(1e30f);
        for (int64_t head = 0; head < n_heads; head++) {
            vector entropy = {0};
            memset(probs, 0, n_classes * sizeof(vector));
            for (int64_t s = 0; s < each; s++) {
                const float *draw = draws + (head * each + s) * width;
                for (int64_t j = 0; j < width; j++)
                    hidden[j] = positive(target[tile * width + j] + draw[j]);
                decode(&layer, hidden, logits);
                lower(logits, n_classes);
                vector sum = {0}, mean = {0};
                for (int64_t c = 0; c < n_classes; c++) {
                    vector power = exponential(logits[c]);
                    sum += power;
                    mean += power * logits[c];
                    logits[c] = power;
                }
                vector factor = 1 / sum;
                entropy += logarithm(sum) - mean * factor;
                for (int64_t c = 0; c < n_classes; c++)
                    probs[c] += logits[c] * factor;
            }
            integers better = ~(entropy >= least) & (least == least); /* no number stays none */
            least = choose(better, entropy, least);
            for (int64_t c = 0; c < n_classes; c++)
                answer[c] = all_heads ? answer[c] + probs[c] / (float)n_heads
                                      : choose(better, probs[c], answer[c]);
        }
        for (int64_t c = 0; c < n_classes; c++)
            answer[c] /= (float)each;
    }
    out_of_lanes(answers, n, n_classes, to);
}

void decoder_loss_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Tensor targets = take(&call), draws = take(&call);
    const int64_t *cell = integers_of(take(&call));
    Tensor weight = take(&call), bias = take(&call);
    const int64_t *labels = integers_of(take(&call));
    const float *share = take_optional_floats(&call);
    int64_t n_cells = take_number(&call);
    const int64_t *sizes = sizes_of(draws);
    int64_t n = sizes_of(targets)[0], n_classes = sizes_of(weight)[0];
    require_places(cell, n, n_cells, "cell");
    require_places(labels, n, n_classes, "label");
    float *loss = make(&call, 0, NULL), *of_targets = make_like(&call, targets);
    float *of_draws = make_like(&call, draws), *of_weight = make_like(&call, weight);
    decoder_loss(floats_of(targets), floats_of(draws), cell, floats_of(weight),
                 floats_of(bias), labels, share, n, sizes[0], sizes[1], n_cells, sizes[2],
                 n_classes, loss, of_targets, of_draws, of_weight, make_like(&call, bias));
    finish(&call);
}

void decoder_answers_operator(Value *values, uint64_t n_arguments, uint64_t n_results) {
    Call call = called(values);
    Tensor targets = take(&call), draws = take(&call), weight = take(&call);
    const float *bias = take_floats(&call);
    int all_heads = take_truth(&call);
    const int64_t *sizes = sizes_of(draws);
    int64_t n = sizes_of(targets)[0], n_classes = sizes_of(weight)[0];
    decoder_answers(floats_of(targets), floats_of(draws), floats_of(weight), bias, n, sizes[0],
                    sizes[1], sizes[2], n_classes, all_heads,
                    make(&call, 2, (int64_t[]){n, n_classes}));
    finish(&call);
}
