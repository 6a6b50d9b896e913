/* The LSTM-RNN of fast.py once more, for processors with AVX2 or AVX-512; read that file first. A test binds the two.

   A few texts, as many as the registers hold, are read side by side from their first token to their last. The sums of all
   gates of a block of cells stay in registers: from the table, through the product with W_rec, into the activations.
   What a text gives does not depend on the texts beside it. As in fast.py, the sums of sigmoids come halved, and state and
   output are doubled: C = 2c, Y = 2y. */
#include "lanes.h"

enum { TEXTS = SUMS / 3 }; /* the most that are read side by side */
enum { LAST, MEAN, MAX };  /* poolings, in the order of config.POOLINGS */

struct Call {
    const float *table;          /* row s of gate g is at table + g * gate + s * stride */
    int64_t gate, stride;
    const float *weights;        /* (blocks of cells, cells, gates, LANES) */
    int cells, pooling, backwards;
    const int32_t *tokens;       /* text k has the tokens from offsets[k] to offsets[k + 1] */
    const int64_t *offsets, *order; /* order: the texts, longest first */
    int64_t count;
    float *out;                  /* (texts, cells), zero */
};

/* 1 / σ of a gate whose sum is halved: of a gate that is all but closed, 1 + tanh(x / 2) would keep no digits. */
INLINE Lanes one_over_gate(Lanes half) { return 1.0f + exponential(-2.0f * half); }

INLINE Lanes load(const float *from, int count) {
    Lanes found = {0};
    if (count >= LANES)
        return *(const Lanes *)from;
    memcpy(&found, from, 4 * (size_t)count);
    return found;
}

/* One token of one block of cells: the new C and Y. The gates are y_g, i, f (or not) and o; divisions are dear. */
INLINE void update(const Lanes *sum, const int gates, Lanes *C, Lanes *Y) {
    const struct Ratio input = squash(sum[0]);
    Lanes cell = *C;
    if (gates == 4)
        cell /= one_over_gate(sum[2]);
    cell += 2.0f * input.over / (input.under * one_over_gate(sum[1]));
    *C = cell;
    const struct Ratio output = squash(0.5f * cell);
    *Y = 2.0f * output.over / (output.under * one_over_gate(sum[gates - 1]));
}

/* Take Y of token t into what embeds a text. */
INLINE void pool(int pooling, float *pooled, const float *Y, int cells, int64_t t) {
    if (t == 0 || pooling == LAST)
        memcpy(pooled, Y, 4 * (size_t)cells);
    else if (pooling == MEAN)
        for (int k = 0; k < cells; k++)
            pooled[k] += (Y[k] - pooled[k]) / (float)(t + 1);
    else
        for (int k = 0; k < cells; k++)
            pooled[k] = Y[k] <= pooled[k] ? pooled[k] : Y[k]; /* a NaN of Y is kept */
}

/* Read `texts` texts from place `first` of the order on; `gates` and `texts` are constants, so all loops unroll. */
INLINE void read_some(const struct Call *a, int64_t first, const int gates, const int texts, float *room) {
    const int cells = a->cells, blocks = (cells + LANES - 1) / LANES, wide = blocks * LANES;
    float *Y = room, *fresh = Y + texts * wide, *C = fresh + texts * wide;
    int64_t start[TEXTS], length[TEXTS];
    float *pooled[TEXTS];
    for (int m = 0; m < texts; m++) {
        const int64_t text = a->order[first + m < a->count ? first + m : first];
        start[m] = a->offsets[text];
        length[m] = first + m < a->count ? a->offsets[text + 1] - start[m] : 0;
        pooled[m] = a->out + text * cells;
    }
    memset(C, 0, 4 * (size_t)(texts * wide));
    for (int64_t t = 0; t < length[0]; t++) {
        const float *row[TEXTS];
        for (int m = 0; m < texts; m++) { /* a text that has ended goes on with any row, and nobody looks */
            const int64_t at = start[m] + (a->backwards ? length[m] - 1 - t : t);
            row[m] = a->table + (t < length[m] ? a->tokens[at] * a->stride : 0);
        }
        for (int block = 0; block < blocks; block++) {
            const int begin = block * LANES;
            const Lanes *weights = (const Lanes *)(a->weights + (int64_t)begin * cells * gates);
            Lanes sum[TEXTS][4];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                for (int g = 0; g < gates; g++)
                    sum[m][g] = load(row[m] + g * a->gate + begin, cells - begin);
            for (int k = 0; t > 0 && k < cells; k++)
#pragma GCC unroll 8
                for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                    for (int g = 0; g < gates; g++)
                        sum[m][g] += Y[m * wide + k] * weights[k * gates + g];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
                update(sum[m], gates, (Lanes *)(C + m * wide + begin), (Lanes *)(fresh + m * wide + begin));
        }
        float *const before = Y;
        Y = fresh;
        fresh = before;
        for (int m = 0; m < texts; m++)
            if (t < length[m])
                pool(a->pooling, pooled[m], Y + m * wide, cells, t);
    }
}

/* (sum of rows + bias) * scale for `blocks` registers from cell `begin` on; `blocks` is a constant. */
INLINE void sum_rows(const float *matrix, int cells, int begin, const int blocks, const int32_t *ids, int64_t count,
                     const float *bias, float scale, float *out) {
    Lanes sum[4] = {{0}};
    const int left = cells - begin;
    for (int64_t k = 0; k < count; k++)
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++)
            sum[b] += load(matrix + (int64_t)ids[k] * cells + begin + b * LANES, left - b * LANES);
#pragma GCC unroll 4
    for (int b = 0; b < blocks; b++) {
        const Lanes row = (sum[b] + load(bias + begin + b * LANES, left - b * LANES)) * scale;
        const int wide = left - b * LANES < LANES ? left - b * LANES : LANES;
        memcpy(out + begin + b * LANES, &row, 4 * (size_t)wide);
    }
}

/* The rows of tokens for the table, one gate of them: token s has the trigrams from offsets[s] to offsets[s + 1]. */
void lstm_rows(const float *matrix, const float *bias, float scale, int cells, const int32_t *trigrams,
               const int64_t *offsets, int64_t tokens, float *out, int64_t stride) {
    for (int64_t s = 0; s < tokens; s++) {
        const int32_t *ids = trigrams + offsets[s];
        const int64_t count = offsets[s + 1] - offsets[s];
        int begin = 0;
        for (; begin + 4 * LANES <= cells; begin += 4 * LANES)
            sum_rows(matrix, cells, begin, 4, ids, count, bias, scale, out + s * stride);
        for (; begin < cells; begin += LANES)
            sum_rows(matrix, cells, begin, 1, ids, count, bias, scale, out + s * stride);
    }
}

const char *lstm_source(void) { return SOURCE; } /* what this was compiled from: see hatch_build.py */

int lstm_lanes(void) { return LANES; }

int lstm_runs_here(void) {
    __builtin_cpu_init();
    return RUNS_HERE ? 1 : 0;
}

/* The doubled embeddings of texts into `out`; 0, or 1 where there is no memory. */
int lstm_read(const float *table, int64_t gate, int64_t stride, const float *weights, int cells, int gates, int pooling,
              int backwards, const int32_t *tokens, const int64_t *offsets, const int64_t *order, int64_t count,
              float *out) {
    const struct Call call = {table, gate, stride, weights, cells, pooling, backwards, tokens, offsets, order, count, out};
    float *room = malloc(4 * 3 * (size_t)TEXTS * (size_t)(cells + LANES));
    if (!room)
        return 1;
    if (count == 1 && gates == 3) /* a query that someone waits for */
        read_some(&call, 0, 3, 1, room);
    else if (count == 1)
        read_some(&call, 0, 4, 1, room);
    else if (gates == 3)
        for (int64_t first = 0; first < count; first += SUMS / 3)
            read_some(&call, first, 3, SUMS / 3, room);
    else
        for (int64_t first = 0; first < count; first += SUMS / 4)
            read_some(&call, first, 4, SUMS / 4, room);
    free(room);
    return 0;
}
