/* The parts of a training update other than the LSTM-RNN, for AVX2 and AVX-512: the layout of a minibatch, sums of
   rows, the update of single rows (training/cpu/rows.py), and cosines. Threads share the large loops piece by
   piece. The result depends neither on which thread takes a piece nor on the number of threads. */
#include "lanes.h"

enum { ROWS = 128 };             /* the rows in a piece */
enum { AT_ONCE = 3 * SUMS / 4 }; /* registers of a row that are summed at once */

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Compute some registers of a sum of rows. */
INLINE void sum_rows(const float *matrix, int width, const int64_t *ids, int64_t count, float *out,
                     const int registers) {
    Lanes sum[AT_ONCE] = {{0}};
    for (int64_t k = 0; k < count; k++)
#pragma GCC unroll 18
        for (int r = 0; r < registers; r++)
            sum[r] += load(matrix + ids[k] * width + r * LANES);
#pragma GCC unroll 18
    for (int r = 0; r < registers; r++)
        store(out + r * LANES, sum[r]);
}

/* Sum the rows of a matrix for each bag of ids. Bag b has the ids starts[b] ... starts[b + 1] - 1. */
void sum_bags(const float *matrix, int width, const int64_t *ids, const int64_t *starts, int64_t bags, float *out,
              int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t piece_start = 0; piece_start < bags; piece_start += ROWS)
        for (int64_t bag = piece_start; bag < smaller(piece_start + ROWS, bags); bag++) {
            const int64_t *own = ids + starts[bag], count = starts[bag + 1] - starts[bag];
            float *target = out + bag * width;
            int done = 0;
            for (; done + AT_ONCE * LANES <= width; done += AT_ONCE * LANES)
                sum_rows(matrix + done, width, own, count, target + done, AT_ONCE);
            for (; done < width; done += LANES)
                sum_rows(matrix + done, width, own, count, target + done, 1);
        }
}

/* Find where each id below `id_count` is used, in order. The uses of id k are written to out[starts[k]] ...
   out[starts[k + 1] - 1]: the bag of each use if there are bags, otherwise its position. */
void find_uses(const int64_t *ids, int64_t count, const int64_t *bag_starts, int64_t bags, int64_t id_count,
               int64_t *starts, int64_t *out) {
    memset(starts, 0, 8 * (size_t)(id_count + 1));
    for (int64_t at = 0; at < count; at++)
        starts[ids[at] + 1]++;
    for (int64_t id = 1; id < id_count; id++) /* from here on, the next use of id k is written to starts[k + 1] */
        starts[id + 1] += starts[id];
    for (int64_t id = id_count; id > 0; id--)
        starts[id] = starts[id - 1];
    starts[0] = 0;
    if (bag_starts)
        for (int64_t bag = 0; bag < bags; bag++)
            for (int64_t at = bag_starts[bag]; at < bag_starts[bag + 1]; at++)
                out[starts[ids[at] + 1]++] = bag;
    else
        for (int64_t at = 0; at < count; at++)
            out[starts[ids[at] + 1]++] = at;
}

/* Prefetch a row. */
INLINE void prefetch_row(const float *row, int width) {
    for (int k = 0; k < width; k += 16) /* floats in a cache line */
        __builtin_prefetch(row + k);
}

/* Compute the look-ahead point Λ + S ΔΛ of some rows, where S is `shift`: see nesterov.Decay. */
void look_ahead(const float *matrix, const float *change, int width, const int64_t *rows, const float *shift,
                int64_t count, float *ahead, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t piece_start = 0; piece_start < count; piece_start += ROWS)
        for (int64_t at = piece_start; at < smaller(piece_start + ROWS, count); at++) {
            const int64_t row = rows[at] * width;
            if (at + 2 < count) {
                prefetch_row(matrix + rows[at + 2] * width, width);
                prefetch_row(change + rows[at + 2] * width, width);
            }
            for (int lane = 0; lane < width; lane += LANES)
                store(ahead + at * width + lane, load(matrix + row + lane) + shift[at] * load(change + row + lane));
        }
}

/* Update rows from the look-ahead point: the next Λ, and ΔΛ = P ΔΛ - ε ∇L, where P is `decay` and ε is `size`. */
void step(float *matrix, float *change, int width, const int64_t *rows, const float *decay, const float *ahead,
          const float *gradient, float size, int64_t count, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t piece_start = 0; piece_start < count; piece_start += ROWS) {
        for (int64_t at = piece_start; at < smaller(piece_start + ROWS, count); at++) {
            const int64_t row = rows[at] * width;
            if (at + 2 < count) {
                prefetch_row(matrix + rows[at + 2] * width, width);
                prefetch_row(change + rows[at + 2] * width, width);
            }
            for (int lane = 0; lane < width; lane += LANES) {
                const Lanes d = size * load(gradient + at * width + lane);
                stream_store(matrix + row + lane, load(ahead + at * width + lane) - d);
                stream_store(change + row + lane, decay[at] * load(change + row + lane) - d);
            }
        }
        stream_fence();
    }
}

/* Mark the rows that are used. */
void mark_rows(const int64_t *ids, int64_t count, int32_t *marks) {
    for (int64_t k = 0; k < count; k++)
        marks[ids[k]] = 1;
}

/* List the marked rows in order, and replace each mark by the position of its row in the list. Return their number. */
int64_t number_rows(int32_t *marks, int64_t rows, int64_t *out) {
    int64_t count_used = 0;
    for (int64_t row = 0; row < rows; row++)
        if (marks[row]) {
            out[count_used] = row;
            marks[row] = (int32_t)count_used++;
        }
    return count_used;
}

/* Replace ids by the positions of their rows. */
void find_places(const int64_t *ids, int64_t count, const int32_t *row_of, int64_t *out) {
    for (int64_t k = 0; k < count; k++)
        out[k] = row_of[ids[k]];
}

/* Lay texts out as model/packing.py does: `order`, longest first; `time_start`, longest + 2 numbers, the first row
   of each time; and all tokens, read forwards and backwards. */
void pack_texts(const int64_t *values, const int64_t *offsets, int64_t texts, int64_t longest, int64_t *order,
                int64_t *time_start, int64_t *forwards, int64_t *backwards) {
    memset(time_start, 0, 8 * (size_t)(longest + 2));
    for (int64_t text = 0; text < texts; text++)
        time_start[longest + 1 - (offsets[text + 1] - offsets[text])]++; /* the longest come first */
    for (int64_t k = 1; k <= longest + 1; k++)
        time_start[k] += time_start[k - 1];
    for (int64_t text = texts - 1; text >= 0; text--)
        order[--time_start[longest + 1 - (offsets[text + 1] - offsets[text])]] = text;
    memset(time_start, 0, 8 * (size_t)(longest + 2));
    for (int64_t text = 0; text < texts; text++)
        time_start[offsets[text + 1] - offsets[text]]++;
    for (int64_t t = longest, texts_with_token = 0; t > 0; t--) /* the number of texts with a token t - 1 */
        time_start[t] = texts_with_token += time_start[t];
    time_start[0] = 0;
    for (int64_t t = 0; t < longest; t++)
        time_start[t + 1] += time_start[t];
    for (int64_t at = 0; at < texts; at++) {
        const int64_t *own = values + offsets[order[at]], length = offsets[order[at] + 1] - offsets[order[at]];
        for (int64_t t = 0; t < length; t++) {
            forwards[time_start[t] + at] = own[t];
            backwards[time_start[t] + at] = own[length - 1 - t];
        }
    }
}

/* Number distinct values in order of first appearance. `table` has 2 ** bits pairs, at most half of them in use, and is
   initially -1. Return the number of distinct values. */
int64_t number_values(const int32_t *values, int64_t count, int32_t *table, int bits, int64_t *distinct, int64_t *ids) {
    const uint64_t last = (UINT64_C(1) << bits) - 1;
    int64_t distinct_count = 0;
    for (int64_t k = 0; k < count; k++) {
        uint64_t slot = (uint64_t)values[k] * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
        while (table[2 * slot] >= 0 && table[2 * slot] != values[k])
            slot = (slot + 1) & last;
        if (table[2 * slot] < 0) {
            distinct[distinct_count] = table[2 * slot] = values[k];
            table[2 * slot + 1] = (int32_t)distinct_count++;
        }
        ids[k] = table[2 * slot + 1];
    }
    return distinct_count;
}

/* Compute where each of some rows of a Ragged begins when they are copied one after the other, and the end. */
void find_starts(const int64_t *offsets, const int64_t *rows, int64_t count, int64_t *starts) {
    starts[0] = 0;
    for (int64_t k = 0; k < count; k++)
        starts[k + 1] = starts[k] + offsets[rows[k] + 1] - offsets[rows[k]];
}

/* Copy the values of these rows. */
void take_rows(const int32_t *values, const int64_t *offsets, const int64_t *rows, int64_t count, const int64_t *starts,
               int64_t *out) {
    for (int64_t k = 0; k < count; k++) {
        __builtin_prefetch(values + offsets[rows[k + 16 < count ? k + 16 : k]]);
        for (int64_t at = 0; at < starts[k + 1] - starts[k]; at++)
            out[starts[k] + at] = values[offsets[rows[k]] + at];
    }
}

INLINE float dot(const float *a, const float *b, int width) {
    Lanes sum = {0};
    for (int lane = 0; lane < width; lane += LANES)
        sum += load(a + lane) * load(b + lane);
    float total = 0;
    for (int lane = 0; lane < LANES; lane++)
        total += sum[lane];
    return total;
}

INLINE void add_scaled(float *target, float factor, const float *row, int width) {
    for (int lane = 0; lane < width; lane += LANES)
        store(target + lane, load(target + lane) + factor * load(row + lane));
}

/* Compute 1 / norm of each row; 1 for a row of zeros. */
INLINE void invert_norms(const float *rows, int64_t count, int width, float *inverse_norms) {
    for (int64_t row = 0; row < count; row++) {
        const float square = dot(rows + row * width, rows + row * width, width);
        inverse_norms[row] = square > 0 ? 1 / __builtin_sqrtf(square) : 1;
    }
}

/* Equation 3: compute the cosines of each query with its candidate titles. */
void cosines(const float *y_q, int64_t queries, const float *y_d, int64_t titles, int width, const int64_t *candidates,
             int64_t candidate_count, float *inv_q, float *inv_d, float *cosine) {
    invert_norms(y_q, queries, width, inv_q);
    invert_norms(y_d, titles, width, inv_d);
    for (int64_t k = 0; k < queries * candidate_count; k++) {
        const int64_t query = k / candidate_count, title = candidates[k];
        cosine[k] = dot(y_q + query * width, y_d + title * width, width) * inv_q[query] * inv_d[title];
    }
}

/* Compute the gradient of the vectors from that of their cosines; dy_q, dy_d and radial_d are initially 0. The gradient
   of y is (d - (d u) u) / |y|, where u = y / |y| and d is the gradient of u. */
void cosines_back(const float *y_q, int64_t queries, const float *y_d, int64_t titles, int width,
                  const int64_t *candidates, int64_t candidate_count, const float *inv_q, const float *inv_d,
                  const float *cosine, const float *gradient, float *radial_d, float *dy_q, float *dy_d) {
    for (int64_t query = 0; query < queries; query++) {
        float radial = 0;
        for (int64_t k = query * candidate_count; k < (query + 1) * candidate_count; k++) {
            const int64_t title = candidates[k];
            const float factor = gradient[k] * inv_q[query] * inv_d[title];
            add_scaled(dy_q + query * width, factor, y_d + title * width, width);
            add_scaled(dy_d + title * width, factor, y_q + query * width, width);
            radial += gradient[k] * cosine[k];
            radial_d[title] += gradient[k] * cosine[k];
        }
        add_scaled(dy_q + query * width, -radial * inv_q[query] * inv_q[query], y_q + query * width, width);
    }
    for (int64_t title = 0; title < titles; title++)
        add_scaled(dy_d + title * width, -radial_d[title] * inv_d[title] * inv_d[title], y_d + title * width, width);
}

/* Return the hash of the source that this was compiled from: see build.py. */
const char *gather_source(void) { return SOURCE; }
