/* What an update does beside its LSTM-RNN, for processors with AVX2 or AVX-512: the layout of a minibatch, sums of rows,
   the rows of `Lazy` in rows.py, and cosines. What is large is shared by threads, piece by piece; what comes out depends
   neither on who takes a piece nor on how many threads there are. */
#include "lanes.h"

enum { ROWS = 128 };             /* that a thread takes at once */
enum { AT_ONCE = 3 * SUMS / 4 }; /* registers of a row that are summed at once */

INLINE int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

/* Some registers of a sum of rows. */
INLINE void sum_rows(const float *matrix, int wide, const int64_t *ids, int64_t count, float *out, const int registers) {
    Lanes sum[AT_ONCE] = {{0}};
    for (int64_t k = 0; k < count; k++)
#pragma GCC unroll 18
        for (int r = 0; r < registers; r++)
            sum[r] += from(matrix + ids[k] * wide + r * LANES);
#pragma GCC unroll 18
    for (int r = 0; r < registers; r++)
        put(out + r * LANES, sum[r]);
}

/* The sum of rows of a matrix for each bag: bag b has the ids from starts[b] to starts[b + 1]. */
void sum_bags(const float *matrix, int wide, const int64_t *ids, const int64_t *starts, int64_t bags, float *out,
              int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t begun = 0; begun < bags; begun += ROWS)
        for (int64_t bag = begun; bag < least(begun + ROWS, bags); bag++) {
            const int64_t *mine = ids + starts[bag], count = starts[bag + 1] - starts[bag];
            float *to = out + bag * wide;
            int done = 0;
            for (; done + AT_ONCE * LANES <= wide; done += AT_ONCE * LANES)
                sum_rows(matrix + done, wide, mine, count, to + done, AT_ONCE);
            for (; done < wide; done += LANES)
                sum_rows(matrix + done, wide, mine, count, to + done, 1);
        }
}

/* Where each of `kinds` ids is used, in order: uses of id k go to `found` from starts[k] to starts[k + 1]. What is
   written of a use is its bag where `bags` are given, and its place where not. */
void find_uses(const int64_t *ids, int64_t count, const int64_t *bag_starts, int64_t bags, int64_t kinds,
               int64_t *starts, int64_t *found) {
    memset(starts, 0, 8 * (size_t)(kinds + 1));
    for (int64_t place = 0; place < count; place++)
        starts[ids[place] + 1]++;
    for (int64_t kind = 1; kind < kinds; kind++) /* from here to the end starts[k + 1] is where the next use of k goes */
        starts[kind + 1] += starts[kind];
    for (int64_t kind = kinds; kind > 0; kind--)
        starts[kind] = starts[kind - 1];
    starts[0] = 0;
    if (bag_starts)
        for (int64_t bag = 0; bag < bags; bag++)
            for (int64_t place = bag_starts[bag]; place < bag_starts[bag + 1]; place++)
                found[starts[ids[place] + 1]++] = bag;
    else
        for (int64_t place = 0; place < count; place++)
            found[starts[ids[place] + 1]++] = place;
}

/* Ask for a row before it is needed. */
INLINE void fetch(const float *row, int wide) {
    for (int k = 0; k < wide; k += 16) /* a line of the cache */
        __builtin_prefetch(row + k);
}

/* The rows of Λ at Λ + S ΔΛ, where S is `moved`: see nesterov.Decay. */
void look_ahead(const float *matrix, const float *change, int wide, const int64_t *rows, const float *moved,
                int64_t count, float *near, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t begun = 0; begun < count; begun += ROWS)
        for (int64_t place = begun; place < least(begun + ROWS, count); place++) {
            const int64_t row = rows[place] * wide;
            if (place + 2 < count) {
                fetch(matrix + rows[place + 2] * wide, wide);
                fetch(change + rows[place + 2] * wide, wide);
            }
            for (int lane = 0; lane < wide; lane += LANES)
                put(near + place * wide + lane, from(matrix + row + lane) + moved[place] * from(change + row + lane));
        }
}

/* From there to the next Λ, and ΔΛ = P ΔΛ - ε ∇L, where P is `decayed`. */
void step(float *matrix, float *change, int wide, const int64_t *rows, const float *decayed, const float *near,
          const float *gradient, float size, int64_t count, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t begun = 0; begun < count; begun += ROWS) {
        for (int64_t place = begun; place < least(begun + ROWS, count); place++) {
            const int64_t row = rows[place] * wide;
            if (place + 2 < count) {
                fetch(matrix + rows[place + 2] * wide, wide);
                fetch(change + rows[place + 2] * wide, wide);
            }
            for (int lane = 0; lane < wide; lane += LANES) {
                const Lanes d = size * from(gradient + place * wide + lane);
                put_away(matrix + row + lane, from(near + place * wide + lane) - d);
                put_away(change + row + lane, decayed[place] * from(change + row + lane) - d);
            }
        }
        all_put_away();
    }
}

/* Mark the rows that are used. */
void mark_rows(const int64_t *ids, int64_t count, int32_t *marks) {
    for (int64_t k = 0; k < count; k++)
        marks[ids[k]] = 1;
}

/* The rows that are marked, in order; each mark comes to be the place of its row. Gives how many. */
int64_t number_rows(int32_t *marks, int64_t rows, int64_t *found) {
    int64_t used = 0;
    for (int64_t row = 0; row < rows; row++)
        if (marks[row]) {
            found[used] = row;
            marks[row] = (int32_t)used++;
        }
    return used;
}

/* Look the places up. */
void find_places(const int64_t *ids, int64_t count, const int32_t *places, int64_t *found) {
    for (int64_t k = 0; k < count; k++)
        found[k] = places[ids[k]];
}

/* Texts as text.pack lays them out: `order`, longest first; `begin`, where each token begins, of longest + 2 numbers; and
   the values of all tokens, read forwards and backwards. */
void pack_texts(const int64_t *values, const int64_t *offsets, int64_t texts, int64_t longest, int64_t *order,
                int64_t *begin, int64_t *there, int64_t *back) {
    memset(begin, 0, 8 * (size_t)(longest + 2));
    for (int64_t text = 0; text < texts; text++)
        begin[longest + 1 - (offsets[text + 1] - offsets[text])]++; /* the longest are counted first */
    for (int64_t k = 1; k <= longest + 1; k++)
        begin[k] += begin[k - 1];
    for (int64_t text = texts - 1; text >= 0; text--)
        order[--begin[longest + 1 - (offsets[text + 1] - offsets[text])]] = text;
    memset(begin, 0, 8 * (size_t)(longest + 2));
    for (int64_t text = 0; text < texts; text++)
        begin[offsets[text + 1] - offsets[text]]++;
    for (int64_t t = longest, having = 0; t > 0; t--) /* how many texts have a token t - 1 */
        begin[t] = having += begin[t];
    begin[0] = 0;
    for (int64_t t = 0; t < longest; t++)
        begin[t + 1] += begin[t];
    for (int64_t place = 0; place < texts; place++) {
        const int64_t *mine = values + offsets[order[place]], length = offsets[order[place] + 1] - offsets[order[place]];
        for (int64_t t = 0; t < length; t++) {
            there[begin[t] + place] = mine[t];
            back[begin[t] + place] = mine[length - 1 - t];
        }
    }
}

/* Number values as they come up. `table`, of 2 to the `bits` pairs of which half stay free, is -1 at first. Gives how many
   are distinct. */
int64_t number_values(const int32_t *values, int64_t count, int32_t *table, int bits, int64_t *distinct, int64_t *numbers) {
    const uint64_t last = (UINT64_C(1) << bits) - 1;
    int64_t known = 0;
    for (int64_t k = 0; k < count; k++) {
        uint64_t slot = (uint64_t)values[k] * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
        while (table[2 * slot] >= 0 && table[2 * slot] != values[k])
            slot = (slot + 1) & last;
        if (table[2 * slot] < 0) {
            distinct[known] = table[2 * slot] = values[k];
            table[2 * slot + 1] = (int32_t)known++;
        }
        numbers[k] = table[2 * slot + 1];
    }
    return known;
}

/* Where each of some rows of a text.Ragged begins when they stand one after the other, and the end. */
void find_starts(const int64_t *offsets, const int64_t *rows, int64_t count, int64_t *starts) {
    starts[0] = 0;
    for (int64_t k = 0; k < count; k++)
        starts[k + 1] = starts[k] + offsets[rows[k] + 1] - offsets[rows[k]];
}

/* Their values. */
void take_rows(const int32_t *values, const int64_t *offsets, const int64_t *rows, int64_t count, const int64_t *starts,
               int64_t *out) {
    for (int64_t k = 0; k < count; k++) {
        __builtin_prefetch(values + offsets[rows[k + 16 < count ? k + 16 : k]]);
        for (int64_t place = 0; place < starts[k + 1] - starts[k]; place++)
            out[starts[k] + place] = values[offsets[rows[k]] + place];
    }
}

INLINE float dot(const float *one, const float *other, int wide) {
    Lanes sum = {0};
    for (int lane = 0; lane < wide; lane += LANES)
        sum += from(one + lane) * from(other + lane);
    float whole = 0;
    for (int lane = 0; lane < LANES; lane++)
        whole += sum[lane];
    return whole;
}

INLINE void add_times(float *to, float factor, const float *row, int wide) {
    for (int lane = 0; lane < wide; lane += LANES)
        put(to + lane, from(to + lane) + factor * from(row + lane));
}

/* 1 over the length of each row, or 1 of a row of zeros. */
INLINE void one_over_lengths(const float *rows, int64_t count, int wide, float *over) {
    for (int64_t row = 0; row < count; row++) {
        const float square = dot(rows + row * wide, rows + row * wide, wide);
        over[row] = square > 0 ? 1 / __builtin_sqrtf(square) : 1;
    }
}

/* Equation 3: the cosines of each query with the titles that are its candidates. */
void cosines(const float *y_q, int64_t queries, const float *y_d, int64_t titles, int wide, const int64_t *candidates,
             int64_t each, float *over_q, float *over_d, float *found) {
    one_over_lengths(y_q, queries, wide, over_q);
    one_over_lengths(y_d, titles, wide, over_d);
    for (int64_t k = 0; k < queries * each; k++) {
        const int64_t query = k / each, title = candidates[k];
        found[k] = dot(y_q + query * wide, y_d + title * wide, wide) * over_q[query] * over_d[title];
    }
}

/* The gradient of the vectors from that of their cosines; dy_q, dy_d and along_d, of the titles, are zero at first.
   That of y is (d - (d u) u) / |y|, where u = y / |y| and d is the gradient of u. */
void cosines_back(const float *y_q, int64_t queries, const float *y_d, int64_t titles, int wide,
                  const int64_t *candidates, int64_t each, const float *over_q, const float *over_d, const float *found,
                  const float *gradient, float *along_d, float *dy_q, float *dy_d) {
    for (int64_t query = 0; query < queries; query++) {
        float along = 0;
        for (int64_t k = query * each; k < (query + 1) * each; k++) {
            const int64_t title = candidates[k];
            const float factor = gradient[k] * over_q[query] * over_d[title];
            add_times(dy_q + query * wide, factor, y_d + title * wide, wide);
            add_times(dy_d + title * wide, factor, y_q + query * wide, wide);
            along += gradient[k] * found[k];
            along_d[title] += gradient[k] * found[k];
        }
        add_times(dy_q + query * wide, -along * over_q[query] * over_q[query], y_q + query * wide, wide);
    }
    for (int64_t title = 0; title < titles; title++)
        add_times(dy_d + title * wide, -along_d[title] * over_d[title] * over_d[title], y_d + title * wide, wide);
}

const char *gather_source(void) { return SOURCE; } /* what this was compiled from: see hatch_build.py */
