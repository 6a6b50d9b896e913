/* `Recurrence` of recurrence.py once more, for processors with AVX2 or AVX-512; read that first. A test binds the two.

   A few texts, as many as the registers hold, are read side by side from their first token to their last, and back: the
   sums of all gates of some cells stay in registers, from the table through the product with W_rec into the activations.
   What is kept of a token for the way back is what the gates gave and tanh(c); all the rest stays in the cache.
   Threads take one `piece` of the texts after the other, a multiple of those that are read side by side; what comes out
   depends neither on who takes it nor on how many threads there are. Arrays of all tokens are time-major, as in text.Packed: token t is rows begin[t] to begin[t + 1], one
   for each text that has such a token, longest text first; order[k] is the text that has place k. */
#include "lanes.h"
#include <omp.h>

enum { TEXTS = SUMS / 3 }; /* the most that are read side by side */

struct Net {
    int gates, cells; /* y_g, i, f (or not) and o lie side by side in a row */
    const int64_t *begin;
    int64_t tokens; /* of the longest text */
    const int64_t *order;
};

struct Trace { /* a row for each token: what the gates gave, which makes room for the gradient of their sums; tanh(c); and
                  c where there is a forget gate */
    float *gates, *squashed, *cell;
};

INLINE int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

INLINE Lanes tanh_of(Lanes x) {
    const struct Ratio found = squash(x);
    return found.over / found.under;
}

INLINE Lanes sigmoid(Lanes x) { return 1.0f / (1.0f + exponential(-x)); }

/* How many of `texts` texts from `first` on have a token t. */
INLINE int alive(const struct Net *net, int64_t t, int64_t first, int texts) {
    const int64_t left = t < net->tokens ? net->begin[t + 1] - net->begin[t] - first : 0;
    return left < 0 ? 0 : (int)least(left, texts);
}

/* Equation 2 for one register of cells of one text, from `lane` on: c and y, and `row` of the trace. */
INLINE void squash_sums(const Lanes *sum, const struct Trace *trace, int64_t row, int cells, int lane, const int gates,
                        float *c, float *y) {
    float *activation = trace->gates + row * gates * cells + lane;
    const Lanes y_g = tanh_of(sum[0]), i = sigmoid(sum[1]), o = sigmoid(sum[gates - 1]);
    Lanes cell = from(c + lane);
    if (gates == 4) {
        const Lanes f = sigmoid(sum[2]);
        put_away(activation + 2 * cells, f);
        cell *= f;
    }
    cell += i * y_g;
    const Lanes tanh_c = tanh_of(cell);
    put(c + lane, cell);
    put(y + lane, o * tanh_c);
    put_away(activation, y_g);
    put_away(activation + cells, i);
    put_away(activation + (gates - 1) * cells, o);
    put_away(trace->squashed + row * cells + lane, tanh_c);
    if (gates == 4)
        put_away(trace->cell + row * cells + lane, cell);
}

/* Read `texts` texts side by side; `gates` and `texts` are constants, so that all sums stay in registers. The place of a
   text that has ended computes something, and nobody looks. */
INLINE void read_some(const struct Net *net, const float *table, int64_t stride, const int64_t *tokens, const float *bias,
                      const float *weights, const struct Trace *trace, float *vectors, float *room, int64_t first,
                      const int gates, const int texts) {
    const int cells = net->cells;
    float *y = room, *fresh = y + texts * cells, *c = fresh + texts * cells;
    memset(c, 0, 4 * (size_t)(texts * cells));
    for (int64_t t = 0, n; (n = alive(net, t, first, texts)) > 0; t++) {
        const int64_t now = net->begin[t] + first;
        const float *row[TEXTS];
        for (int m = 0; m < texts; m++)
            row[m] = table + tokens[now + least(m, n - 1)] * stride;
        for (int lane = 0; lane < cells; lane += LANES) {
            const float *weight = weights + (int64_t)lane * gates * cells;
            Lanes sum[TEXTS][4];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                for (int g = 0; g < gates; g++)
                    sum[m][g] = from(row[m] + g * cells + lane) + from(bias + g * cells + lane);
            for (int k = 0; t > 0 && k < cells; k++)
#pragma GCC unroll 8
                for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                    for (int g = 0; g < gates; g++)
                        sum[m][g] += y[m * cells + k] * from(weight + (k * gates + g) * LANES);
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
                if (m < n)
                    squash_sums(sum[m], trace, now + m, cells, lane, gates, c + m * cells, fresh + m * cells);
        }
        float *const before = y;
        y = fresh;
        fresh = before;
        for (int64_t m = alive(net, t + 1, first, texts); m < n; m++) /* it ends here */
            memcpy(vectors + net->order[first + m] * cells, y + m * cells, 4 * (size_t)cells);
    }
}

/* The embeddings of texts into `vectors`; those without a token are left alone. The table has `stride` floats a row;
   `weights` are (registers of cells, cells, gates, LANES); `room` has 3 * TEXTS * cells floats for each thread. What is
   kept of the tokens begins at a multiple of a register, as torch's memory does. */
void read_texts(int gates, int cells, const int64_t *begin, int64_t tokens, const int64_t *order, const float *table,
                int64_t stride, const int64_t *ids, const float *bias, const float *weights, float *activations,
                float *squashed, float *cell, float *vectors, int64_t piece, float *room, int threads) {
    const struct Net net = {gates, cells, begin, tokens, order};
    const struct Trace trace = {activations, squashed, cell};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t begun = 0; begun < begin[1]; begun += piece) {
        float *mine = room + (int64_t)omp_get_thread_num() * 3 * TEXTS * cells;
        for (int64_t first = begun; first < least(begun + piece, begin[1]);)
            if (gates == 3) {
                read_some(&net, table, stride, ids, bias, weights, &trace, vectors, mine, first, 3, SUMS / 3);
                first += SUMS / 3;
            } else {
                read_some(&net, table, stride, ids, bias, weights, &trace, vectors, mine, first, 4, SUMS / 4);
                first += SUMS / 4;
            }
        all_put_away();
    }
}

/* The gradient of the sums of one text at one token, from those of y and c; it takes the place of what the gates gave, of
   which y comes last, and is added to that of the bias. The gradient of c goes on to the token before. */
INLINE void back_one(const struct Trace *trace, int64_t row, int64_t before, int cells, const int gates, int is_first,
                     const float *dy, float *dc, float *y, float *d_bias) {
    float *activation = trace->gates + row * gates * cells;
    for (int lane = 0; lane < cells; lane += LANES) {
        const Lanes y_g = from(activation + lane), i = from(activation + cells + lane);
        const Lanes o = from(activation + (gates - 1) * cells + lane), d = from(dy + lane);
        const Lanes tanh_c = from(trace->squashed + row * cells + lane);
        Lanes c = from(dc + lane) + d * o * (1.0f - tanh_c * tanh_c);
        put(y + lane, o * tanh_c);
        Lanes d_sum[4] = {c * i * (1.0f - y_g * y_g), c * y_g * i * (1.0f - i)};
        d_sum[gates - 1] = d * tanh_c * o * (1.0f - o);
        if (gates == 4) { /* there is nothing to forget before the first word */
            const Lanes f = from(activation + 2 * cells + lane), none = {0};
            const Lanes c_before = is_first ? none : from(trace->cell + before * cells + lane);
            d_sum[2] = c * c_before * f * (1.0f - f);
            c *= f;
        }
        put(dc + lane, c);
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++) {
            put(activation + g * cells + lane, d_sum[g]);
            put(d_bias + g * cells + lane, from(d_bias + g * cells + lane) + d_sum[g]);
        }
    }
}

/* Some registers of dy = d_sums W_rec, of `texts` texts side by side. */
INLINE void times_weights(const float *const *d_sums, const float *recurrent, int rows, int cells, float *dy,
                          const int texts, const int registers) {
    Lanes sum[TEXTS][3] = {{{0}}};
    for (int k = 0; k < rows; k++)
#pragma GCC unroll 8
        for (int m = 0; m < texts; m++)
#pragma GCC unroll 3
            for (int r = 0; r < registers; r++)
                sum[m][r] += d_sums[m][k] * from(recurrent + (int64_t)k * cells + r * LANES);
#pragma GCC unroll 8
    for (int m = 0; m < texts; m++)
#pragma GCC unroll 3
        for (int r = 0; r < registers; r++)
            put(dy + m * cells + r * LANES, sum[m][r]);
}

/* Add to some registers of four rows of the gradient of W_rec: the products of the sums of a token and y before it. `y` has
   `texts` rows for each token. */
INLINE void add_products(const struct Net *net, const float *d_sums, const float *y, int64_t first, int texts,
                         float *d_recurrent, const int registers) {
    const int cells = net->cells, wide = net->gates * cells;
    Lanes sum[4][SUMS / 4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
        for (int r = 0; r < registers; r++)
            sum[j][r] = from(d_recurrent + j * cells + r * LANES);
    for (int64_t t = 1, n; (n = alive(net, t, first, texts)) > 0; t++) {
        const float *d = d_sums + (net->begin[t] + first) * wide, *before = y + (t - 1) * texts * cells;
        for (int64_t m = 0; m < n; m++, d += wide, before += cells)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
                for (int r = 0; r < registers; r++)
                    sum[j][r] += d[j] * from(before + r * LANES);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 6
        for (int r = 0; r < registers; r++)
            put(d_recurrent + j * cells + r * LANES, sum[j][r]);
}

/* Back through time with `texts` texts side by side. */
INLINE void back_some(const struct Net *net, const struct Trace *trace, const float *gradient, const float *recurrent,
                      float *d_recurrent, float *d_bias, float *room, int64_t first, const int gates, const int texts) {
    const int cells = net->cells, wide = gates * cells;
    float *dy = room, *dc = dy + texts * cells, *y = dc + texts * cells;
    int64_t length = 0;
    while (alive(net, length, first, texts))
        length++;
    for (int64_t t = length - 1; t >= 0; t--) {
        const int64_t now = net->begin[t] + first, before = t ? net->begin[t - 1] + first : 0;
        const int n = alive(net, t, first, texts);
        for (int m = alive(net, t + 1, first, texts); m < n; m++) { /* it ends here */
            memcpy(dy + m * cells, gradient + net->order[first + m] * cells, 4 * (size_t)cells);
            memset(dc + m * cells, 0, 4 * (size_t)cells);
        }
        const float *row[TEXTS];
        for (int m = 0; m < n; m++)
            back_one(trace, now + m, before + m, cells, gates, t == 0, dy + m * cells, dc + m * cells,
                     y + (t * texts + m) * cells, d_bias);
        for (int m = 0; m < texts; m++)
            row[m] = trace->gates + (now + least(m, n - 1)) * wide;
        for (int lane = 0; t > 0 && lane < cells;)
            if (lane + 3 * LANES <= cells) {
                times_weights(row, recurrent + lane, wide, cells, dy + lane, texts, 3);
                lane += 3 * LANES;
            } else {
                times_weights(row, recurrent + lane, wide, cells, dy + lane, texts, 1);
                lane += LANES;
            }
    }
    for (int j = 0; j < wide; j += 4) {
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

/* The gradient of the sums of all tokens into `activations`, and those of W_rec and the bias in parts, one for each
   piece: of (cells + 1) * gates * cells floats, the bias at the end. `room` has (2 + tokens) * TEXTS * cells floats for
   each thread. */
void back_texts(int gates, int cells, const int64_t *begin, int64_t tokens, const int64_t *order, float *activations,
                float *squashed, float *cell, const float *gradient, const float *recurrent, float *parts,
                int64_t piece, float *room, int threads) {
    const struct Net net = {gates, cells, begin, tokens, order};
    const struct Trace trace = {activations, squashed, cell};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t begun = 0; begun < begin[1]; begun += piece) {
        float *mine = room + (int64_t)omp_get_thread_num() * (2 + tokens) * TEXTS * cells;
        const int64_t size = (int64_t)gates * cells * (cells + 1);
        float *part = parts + begun / piece * size, *bias = part + size - gates * cells;
        memset(part, 0, 4 * (size_t)size);
        for (int64_t first = begun; first < least(begun + piece, begin[1]);)
            if (gates == 3) {
                back_some(&net, &trace, gradient, recurrent, part, bias, mine, first, 3, SUMS / 3);
                first += SUMS / 3;
            } else {
                back_some(&net, &trace, gradient, recurrent, part, bias, mine, first, 4, SUMS / 4);
                first += SUMS / 4;
            }
    }
}

const char *recurrence_source(void) { return SOURCE; } /* what this was compiled from: see hatch_build.py */

int recurrence_lanes(void) { return LANES; }

int recurrence_sums(void) { return SUMS; }

int recurrence_runs_here(void) {
    __builtin_cpu_init();
    return RUNS_HERE ? 1 : 0;
}
