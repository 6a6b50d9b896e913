/* The products of one query with the vectors of titles, for AVX2 and AVX-512: all of a block, or those at some
   positions. A product reads each vector once, so memory is the limit; int8 vectors need no copy in float32. */
#include "lanes.h"

enum { AHEAD = 8 };  /* how many positions ahead to prefetch */
enum { LINE = 64 };  /* bytes in a cache line */

const char *products_source(void) { return SOURCE; }

int products_runs_here(void) { return RUNS_HERE; }

INLINE Lanes load_bytes(const int8_t *address) {
#ifdef __AVX512F__
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)address)));
#else
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)address)));
#endif
}

INLINE float total(Lanes values) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps(values);
#else
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
#endif
}

/* Define a function that multiplies `count` vectors of one number format with a query. If `positions` is not null, these
   are the rows to read; otherwise the first ones. */
#define PRODUCTS(NAME, NUMBER, LOAD)                                                                              \
    void NAME(const NUMBER *vectors, const int64_t *positions, int64_t count, int64_t width, const float *query,  \
              float *out) {                                                                                       \
        for (int64_t at = 0; at < count; at++) {                                                                  \
            const NUMBER *row = vectors + (positions ? positions[at] : at) * width;                               \
            if (positions && at + AHEAD < count) {                                                                \
                const char *next = (const char *)(vectors + positions[at + AHEAD] * width);                       \
                for (int64_t byte = 0; byte < width * (int64_t)sizeof(NUMBER); byte += LINE)                      \
                    __builtin_prefetch(next + byte);                                                              \
            }                                                                                                     \
            Lanes one = {0}, two = {0};                                                                           \
            int64_t done = 0;                                                                                     \
            for (; done + 2 * LANES <= width; done += 2 * LANES) {                                                \
                one += LOAD(row + done) * load(query + done);                                                     \
                two += LOAD(row + done + LANES) * load(query + done + LANES);                                     \
            }                                                                                                     \
            for (; done + LANES <= width; done += LANES)                                                          \
                one += LOAD(row + done) * load(query + done);                                                     \
            float sum = total(one + two);                                                                         \
            for (; done < width; done++)                                                                          \
                sum += (float)row[done] * query[done];                                                            \
            out[at] = sum;                                                                                        \
        }                                                                                                         \
    }

PRODUCTS(products_float32, float, load)
PRODUCTS(products_int8, int8_t, load_bytes)
