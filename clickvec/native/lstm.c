/* The LSTM-RNN for AVX2 and AVX-512: the C version of model/fast.py. Read that file first. A test compares the two.

   A few texts, as many as fit into the registers, are read together from their first token to their last. The sums
   of all gates of a block of cells stay in registers: from the table, through the product with W_rec, to the
   activations. The result of a text does not depend on the other texts. As in fast.py, the sums of sigmoid gates
   are halved, and state and output are doubled: C = 2c, Y = 2y. */
#include "lanes.h"

enum { TEXTS = SUMS / 3 }; /* the maximum number of texts that are read together */
enum { LAST, MEAN, MAX }; /* the order of config.POOLINGS */

struct Job {
    const float *table; /* the row of token s for gate g is at table + g * gate + s * stride */
    int64_t gate, stride;
    const float *weights; /* (blocks of cells, cells, gates, LANES) */
    int cells, pooling, backwards;
    const int32_t *tokens; /* text k has the tokens offsets[k] ... offsets[k + 1] - 1 */
    const int64_t *offsets, *order; /* order: the texts, longest first */
    int64_t count;
    float *out; /* (texts, cells), initially 0 */
};

/* Return 1 / σ of a gate whose sum is halved. 1 + tanh(x / 2) would lose all digits for a gate that is almost
   closed. */
INLINE Lanes one_over_gate(Lanes half) { return 1.0f + exponential(-2.0f * half); }

/* Load `count` floats, at most a whole register; the other lanes are 0. */
INLINE Lanes load_up_to(const float *address, int count) {
    Lanes lanes = {0};
    if (count >= LANES)
        return *(const Lanes *)address;
    memcpy(&lanes, address, 4 * (size_t)count);
    return lanes;
}

/* Compute C and Y of one block of cells for one token. The gates are y_g, i, f (optional) and o. Divisions are slow, so
   they are combined. */
INLINE void update_cells(const Lanes *sum, const int gates, Lanes *C, Lanes *Y) {
    const struct Ratio input = tanh_ratio(sum[0]);
    Lanes cell = *C;
    if (gates == 4)
        cell /= one_over_gate(sum[2]);
    cell += 2.0f * input.numerator / (input.denominator * one_over_gate(sum[1]));
    *C = cell;
    const struct Ratio output = tanh_ratio(0.5f * cell);
    *Y = 2.0f * output.numerator / (output.denominator * one_over_gate(sum[gates - 1]));
}

/* Add Y of token t to the embedding of a text. */
INLINE void pool(int pooling, float *pooled, const float *Y, int cells, int64_t t) {
    if (t == 0 || pooling == LAST)
        memcpy(pooled, Y, 4 * (size_t)cells);
    else if (pooling == MEAN)
        for (int k = 0; k < cells; k++)
            pooled[k] += (Y[k] - pooled[k]) / (float)(t + 1);
    else
        for (int k = 0; k < cells; k++)
            pooled[k] = Y[k] <= pooled[k] ? pooled[k] : Y[k]; /* keeps a NaN in Y */
}

/* Read the texts order[first] ... order[first + texts - 1]. `gates` and `texts` are constants, so that all loops
   unroll. */
INLINE void read_together(const struct Job *job, int64_t first, const int gates, const int texts, float *scratch) {
    const int cells = job->cells, blocks = (cells + LANES - 1) / LANES, width = blocks * LANES;
    float *Y = scratch, *next_Y = Y + texts * width, *C = next_Y + texts * width;
    int64_t start[TEXTS], length[TEXTS];
    float *pooled[TEXTS];
    for (int m = 0; m < texts; m++) {
        const int64_t text = job->order[first + m < job->count ? first + m : first];
        start[m] = job->offsets[text];
        length[m] = first + m < job->count ? job->offsets[text + 1] - start[m] : 0;
        pooled[m] = job->out + text * cells;
    }
    memset(C, 0, 4 * (size_t)(texts * width));
    for (int64_t t = 0; t < length[0]; t++) {
        const float *table_row[TEXTS];
        for (int m = 0; m < texts; m++) { /* a text that has ended continues with any row; its result is not used */
            const int64_t at = start[m] + (job->backwards ? length[m] - 1 - t : t);
            table_row[m] = job->table + (t < length[m] ? job->tokens[at] * job->stride : 0);
        }
        for (int block = 0; block < blocks; block++) {
            const int cell = block * LANES;
            const Lanes *weights = (const Lanes *)(job->weights + (int64_t)cell * cells * gates);
            Lanes sum[TEXTS][4];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                for (int g = 0; g < gates; g++)
                    sum[m][g] = load_up_to(table_row[m] + g * job->gate + cell, cells - cell);
            for (int k = 0; t > 0 && k < cells; k++)
#pragma GCC unroll 8
                for (int m = 0; m < texts; m++)
#pragma GCC unroll 4
                    for (int g = 0; g < gates; g++)
                        sum[m][g] += Y[m * width + k] * weights[k * gates + g];
#pragma GCC unroll 8
            for (int m = 0; m < texts; m++)
                update_cells(sum[m], gates, (Lanes *)(C + m * width + cell), (Lanes *)(next_Y + m * width + cell));
        }
        float *const previous_Y = Y;
        Y = next_Y;
        next_Y = previous_Y;
        for (int m = 0; m < texts; m++)
            if (t < length[m])
                pool(job->pooling, pooled[m], Y + m * width, cells, t);
    }
}

/* Compute (sum of rows + bias) * scale for `blocks` registers, beginning with cell `cell`. `blocks` is a constant. */
INLINE void sum_rows(const float *matrix, int cells, int cell, const int blocks, const int32_t *ids, int64_t count,
                     const float *bias, float scale, float *out) {
    Lanes sum[4] = {{0}};
    const int remaining = cells - cell;
    for (int64_t k = 0; k < count; k++)
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++)
            sum[b] += load_up_to(matrix + (int64_t)ids[k] * cells + cell + b * LANES, remaining - b * LANES);
#pragma GCC unroll 4
    for (int b = 0; b < blocks; b++) {
        const Lanes table_row = (sum[b] + load_up_to(bias + cell + b * LANES, remaining - b * LANES)) * scale;
        const int width = remaining - b * LANES < LANES ? remaining - b * LANES : LANES;
        memcpy(out + cell + b * LANES, &table_row, 4 * (size_t)width);
    }
}

/* Write the table rows of tokens for one gate. Token s has the trigrams offsets[s] ... offsets[s + 1] - 1. */
void lstm_rows(const float *matrix, const float *bias, float scale, int cells, const int32_t *trigrams,
               const int64_t *offsets, int64_t tokens, float *out, int64_t stride) {
    for (int64_t s = 0; s < tokens; s++) {
        const int32_t *ids = trigrams + offsets[s];
        const int64_t count = offsets[s + 1] - offsets[s];
        int cell = 0;
        for (; cell + 4 * LANES <= cells; cell += 4 * LANES)
            sum_rows(matrix, cells, cell, 4, ids, count, bias, scale, out + s * stride);
        for (; cell < cells; cell += LANES)
            sum_rows(matrix, cells, cell, 1, ids, count, bias, scale, out + s * stride);
    }
}

/* Return the hash of the source that this was compiled from: see build.py. */
const char *lstm_source(void) { return SOURCE; }

int lstm_lanes(void) { return LANES; }

int lstm_runs_here(void) {
    __builtin_cpu_init();
    return RUNS_HERE ? 1 : 0;
}

/* Write the doubled embeddings of texts to `out`. Return 1 if memory runs out, otherwise 0. */
int lstm_read(const float *table, int64_t gate, int64_t stride, const float *weights, int cells, int gates, int pooling,
              int backwards, const int32_t *tokens, const int64_t *offsets, const int64_t *order, int64_t count,
              float *out) {
    const struct Job job = {table,  gate,    stride, weights, cells, pooling, backwards,
                            tokens, offsets, order,  count,   out};
    float *scratch = malloc(4 * 3 * (size_t)TEXTS * (size_t)(cells + LANES));
    if (!scratch)
        return 1;
    if (count == 1 && gates == 3) /* a single query */
        read_together(&job, 0, 3, 1, scratch);
    else if (count == 1)
        read_together(&job, 0, 4, 1, scratch);
    else if (gates == 3)
        for (int64_t first = 0; first < count; first += SUMS / 3)
            read_together(&job, first, 3, SUMS / 3, scratch);
    else
        for (int64_t first = 0; first < count; first += SUMS / 4)
            read_together(&job, first, 4, SUMS / 4, scratch);
    free(scratch);
    return 0;
}
