/* The LSTM-RNN and its gradient for AVX2 and AVX-512: the C version of `read_texts` in training/towers.py. Read that
   function first. A test compares the two.

   A few texts, as many as fit into the registers, are read together, forwards and then backwards through time. The
   sums of all gates of a block of cells stay in registers: from the table, through the product with W_rec, to the
   activations. The gradient needs the activations of the gates and tanh(c) of each token; everything else stays in
   the cache. Each thread takes one piece of the texts after the other. The result depends neither on which thread
   takes a piece nor on the number of threads. Arrays over all tokens are time-major, as in model/packing.py: the
   tokens at time t are rows time_start[t] ... time_start[t + 1] - 1, one for each text that is long enough, longest
   text first; row k belongs to the text order[k]. */
#include "lanes.h"
#include <omp.h>

enum { TEXTS = SUMS / 3 }; /* the maximum number of texts that are read together */

struct Net {
    int gates, cells; /* a row holds y_g, i, f (optional) and o one after the other */
    const int64_t *time_start;
    int64_t tokens; /* of the longest text */
    const int64_t *order;
};

/* One row per token: the activations of the gates, later overwritten by the gradient of their sums; tanh(c); and c if
   there is a forget gate. */
struct Trace {
    float *gates, *squashed, *cell;
};

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

INLINE Lanes tanh_of(Lanes x) {
    const struct Ratio ratio = tanh_ratio(x);
    return ratio.numerator / ratio.denominator;
}

INLINE Lanes sigmoid(Lanes x) { return 1.0f / (1.0f + exponential(-x)); }

/* Return how many of `texts` texts, beginning with row `first`, have a token t. */
INLINE int texts_at(const struct Net *net, int64_t t, int64_t first, int texts) {
    const int64_t remaining = t < net->tokens ? net->time_start[t + 1] - net->time_start[t] - first : 0;
    return remaining < 0 ? 0 : (int)smaller(remaining, texts);
}

/* Apply equation 2 to one register of cells of one text, beginning with cell `lane`. Write c, y and a row of the
   trace. */
INLINE void apply_gates(const Lanes *sum, const struct Trace *trace, int64_t row, int cells, int lane, const int gates,
                        float *c, float *y) {
    float *activation = trace->gates + row * gates * cells + lane;
    const Lanes y_g = tanh_of(sum[0]), i = sigmoid(sum[1]), o = sigmoid(sum[gates - 1]);
    Lanes cell = load(c + lane);
    if (gates == 4) {
        const Lanes f = sigmoid(sum[2]);
        stream_store(activation + 2 * cells, f);
        cell *= f;
    }
    cell += i * y_g;
    const Lanes tanh_c = tanh_of(cell);
    store(c + lane, cell);
    store(y + lane, o * tanh_c);
    stream_store(activation, y_g);
    stream_store(activation + cells, i);
    stream_store(activation + (gates - 1) * cells, o);
    stream_store(trace->squashed + row * cells + lane, tanh_c);
    if (gates == 4)
        stream_store(trace->cell + row * cells + lane, cell);
}

/* Read `texts` texts together. `gates` and `texts` are constants, so that all sums stay in registers. The results
   of a text that has ended are not used. */
INLINE void read_together(const struct Net *net, const float *table, int64_t stride, const int64_t *tokens,
                          const float *bias, const float *weights, const struct Trace *trace, float *vectors,
                          float *scratch, int64_t first, const int gates, const int texts) {
    const int cells = net->cells;
    float *y = scratch, *next_y = y + texts * cells, *c = next_y + texts * cells;
    memset(c, 0, 4 * (size_t)(texts * cells));
    for (int64_t t = 0, n; (n = texts_at(net, t, first, texts)) > 0; t++) {
        const int64_t first_row = net->time_start[t] + first;
        const float *row[TEXTS];
        for (int m = 0; m < texts; m++)
            row[m] = table + tokens[first_row + smaller(m, n - 1)] * stride;
        for (int lane = 0; lane < cells; lane += LANES) {
            const float *weight = weights + (int64_t)lane * gates * cells;
            Lanes sum[TEXTS][4];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                for (int g = 0; g < gates; g++)
                    sum[m][g] = load(row[m] + g * cells + lane) + load(bias + g * cells + lane);
            for (int k = 0; t > 0 && k < cells; k++)
#pragma GCC unroll 8
                for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                    for (int g = 0; g < gates; g++)
                        sum[m][g] += y[m * cells + k] * load(weight + (k * gates + g) * LANES);
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
                if (m < n)
                    apply_gates(sum[m], trace, first_row + m, cells, lane, gates, c + m * cells, next_y + m * cells);
        }
        float *const previous = y;
        y = next_y;
        next_y = previous;
        for (int64_t m = texts_at(net, t + 1, first, texts); m < n; m++) /* these texts end here */
            memcpy(vectors + net->order[first + m] * cells, y + m * cells, 4 * (size_t)cells);
    }
}

/* Write the embeddings of texts to `vectors`; texts without tokens are skipped. A row of the table has `stride`
   floats; `weights` is (registers of cells, cells, gates, LANES); `scratch` has 3 * TEXTS * cells floats for each
   thread. The arrays of the trace must be aligned to a register, as torch's memory is. */
void read_texts(int gates, int cells, const int64_t *time_start, int64_t tokens, const int64_t *order,
                const float *table, int64_t stride, const int64_t *ids, const float *bias, const float *weights,
                float *activations, float *squashed, float *cell, float *vectors, int64_t piece_size, float *scratch,
                int threads) {
    const struct Net net = {gates, cells, time_start, tokens, order};
    const struct Trace trace = {activations, squashed, cell};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t piece_start = 0; piece_start < time_start[1]; piece_start += piece_size) {
        float *own_scratch = scratch + (int64_t)omp_get_thread_num() * 3 * TEXTS * cells;
        for (int64_t first = piece_start; first < smaller(piece_start + piece_size, time_start[1]);)
            if (gates == 3) {
                read_together(&net, table, stride, ids, bias, weights, &trace, vectors, own_scratch, first, 3,
                              SUMS / 3);
                first += SUMS / 3;
            } else {
                read_together(&net, table, stride, ids, bias, weights, &trace, vectors, own_scratch, first, 4,
                              SUMS / 4);
                first += SUMS / 4;
            }
        stream_fence();
    }
}

/* Compute the gradient of the sums of one token from those of y and c. It overwrites the activations, after y has
   been recomputed from them, and is added to the gradient of the bias. `dc` becomes the gradient of c of the
   previous token. */
INLINE void back_token(const struct Trace *trace, int64_t row, int64_t previous, int cells, const int gates,
                       int is_first, const float *dy, float *dc, float *y, float *d_bias) {
    float *activation = trace->gates + row * gates * cells;
    for (int lane = 0; lane < cells; lane += LANES) {
        const Lanes y_g = load(activation + lane), i = load(activation + cells + lane);
        const Lanes o = load(activation + (gates - 1) * cells + lane), d = load(dy + lane);
        const Lanes tanh_c = load(trace->squashed + row * cells + lane);
        Lanes c = load(dc + lane) + d * o * (1.0f - tanh_c * tanh_c);
        store(y + lane, o * tanh_c);
        Lanes d_sum[4] = {c * i * (1.0f - y_g * y_g), c * y_g * i * (1.0f - i)};
        d_sum[gates - 1] = d * tanh_c * o * (1.0f - o);
        if (gates == 4) { /* the first token has no previous state */
            const Lanes f = load(activation + 2 * cells + lane), zero = {0};
            const Lanes c_before = is_first ? zero : load(trace->cell + previous * cells + lane);
            d_sum[2] = c * c_before * f * (1.0f - f);
            c *= f;
        }
        store(dc + lane, c);
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++) {
            store(activation + g * cells + lane, d_sum[g]);
            store(d_bias + g * cells + lane, load(d_bias + g * cells + lane) + d_sum[g]);
        }
    }
}

/* Compute some registers of dy = d_sums W_rec for `texts` texts. */
INLINE void times_weights(const float *const *d_sums, const float *recurrent, int rows, int cells, float *dy,
                          const int texts, const int registers) {
    Lanes sum[TEXTS][3] = {{{0}}};
    for (int k = 0; k < rows; k++)
#pragma GCC unroll 8
        for (int m = 0; m < texts; m++)
#pragma GCC unroll 3
            for (int r = 0; r < registers; r++)
                sum[m][r] += d_sums[m][k] * load(recurrent + (int64_t)k * cells + r * LANES);
#pragma GCC unroll 8
    for (int m = 0; m < texts; m++)
#pragma GCC unroll 3
        for (int r = 0; r < registers; r++)
            store(dy + m * cells + r * LANES, sum[m][r]);
}

/* Add to some registers of four rows of the gradient of W_rec: the gradient of the sums of each token times y of the
   previous one. `y` has `texts` rows for each time. */
INLINE void add_products(const struct Net *net, const float *d_sums, const float *y, int64_t first, int texts,
                         float *d_recurrent, const int registers) {
    const int cells = net->cells, width = net->gates * cells;
    Lanes sum[4][SUMS / 4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
        for (int r = 0; r < registers; r++)
            sum[j][r] = load(d_recurrent + j * cells + r * LANES);
    for (int64_t t = 1, n; (n = texts_at(net, t, first, texts)) > 0; t++) {
        const float *d = d_sums + (net->time_start[t] + first) * width, *previous = y + (t - 1) * texts * cells;
        for (int64_t m = 0; m < n; m++, d += width, previous += cells)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
                for (int r = 0; r < registers; r++)
                    sum[j][r] += d[j] * load(previous + r * LANES);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
        for (int r = 0; r < registers; r++)
            store(d_recurrent + j * cells + r * LANES, sum[j][r]);
}

/* Compute the gradients of `texts` texts, back through time. */
INLINE void back_together(const struct Net *net, const struct Trace *trace, const float *gradient,
                          const float *recurrent, float *d_recurrent, float *d_bias, float *scratch, int64_t first,
                          const int gates, const int texts) {
    const int cells = net->cells, width = gates * cells;
    float *dy = scratch, *dc = dy + texts * cells, *y = dc + texts * cells;
    int64_t length = 0;
    while (texts_at(net, length, first, texts))
        length++;
    for (int64_t t = length - 1; t >= 0; t--) {
        const int64_t first_row = net->time_start[t] + first, previous = t ? net->time_start[t - 1] + first : 0;
        const int n = texts_at(net, t, first, texts);
        for (int m = texts_at(net, t + 1, first, texts); m < n; m++) { /* these texts end here */
            memcpy(dy + m * cells, gradient + net->order[first + m] * cells, 4 * (size_t)cells);
            memset(dc + m * cells, 0, 4 * (size_t)cells);
        }
        const float *row[TEXTS];
        for (int m = 0; m < n; m++)
            back_token(trace, first_row + m, previous + m, cells, gates, t == 0, dy + m * cells, dc + m * cells,
                     y + (t * texts + m) * cells, d_bias);
        for (int m = 0; m < texts; m++)
            row[m] = trace->gates + (first_row + smaller(m, n - 1)) * width;
        for (int lane = 0; t > 0 && lane < cells;)
            if (lane + 3 * LANES <= cells) {
                times_weights(row, recurrent + lane, width, cells, dy + lane, texts, 3);
                lane += 3 * LANES;
            } else {
                times_weights(row, recurrent + lane, width, cells, dy + lane, texts, 1);
                lane += LANES;
            }
    }
    for (int j = 0; j < width; j += 4) {
        float *rows = d_recurrent + (int64_t)j * cells;
        for (int lane = 0; lane < cells;)
            if (lane + SUMS / 4 * LANES <= cells) {
                add_products(net, trace->gates + j, y + lane, first, texts, rows + lane, SUMS / 4);
                lane += SUMS / 4 * LANES;
            } else {
                add_products(net, trace->gates + j, y + lane, first, texts, rows + lane, 1);
                lane += LANES;
            }
    }
}

/* Write the gradient of the sums of all tokens to `activations`, and the gradients of W_rec and the bias to
   `parts`: one part of (cells + 1) * gates * cells floats for each piece, with the bias at the end. `scratch` has
   (2 + tokens) * TEXTS * cells floats for each thread. */
void back_texts(int gates, int cells, const int64_t *time_start, int64_t tokens, const int64_t *order,
                float *activations, float *squashed, float *cell, const float *gradient, const float *recurrent,
                float *parts, int64_t piece_size, float *scratch, int threads) {
    const struct Net net = {gates, cells, time_start, tokens, order};
    const struct Trace trace = {activations, squashed, cell};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t piece_start = 0; piece_start < time_start[1]; piece_start += piece_size) {
        float *own_scratch = scratch + (int64_t)omp_get_thread_num() * (2 + tokens) * TEXTS * cells;
        const int64_t size = (int64_t)gates * cells * (cells + 1);
        float *own_part = parts + piece_start / piece_size * size, *bias = own_part + size - gates * cells;
        memset(own_part, 0, 4 * (size_t)size);
        for (int64_t first = piece_start; first < smaller(piece_start + piece_size, time_start[1]);)
            if (gates == 3) {
                back_together(&net, &trace, gradient, recurrent, own_part, bias, own_scratch, first, 3, SUMS / 3);
                first += SUMS / 3;
            } else {
                back_together(&net, &trace, gradient, recurrent, own_part, bias, own_scratch, first, 4, SUMS / 4);
                first += SUMS / 4;
            }
    }
}

/* Return the hash of the source that this was compiled from: see build.py. */
const char *recurrence_source(void) { return SOURCE; }

int recurrence_lanes(void) { return LANES; }

int recurrence_sums(void) { return SUMS; }

int recurrence_runs_here(void) {
    __builtin_cpu_init();
    return RUNS_HERE ? 1 : 0;
}
