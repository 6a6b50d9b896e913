/* The products of one query with the vectors of titles, for AVX2 and AVX-512: all of a block, or those at some
   positions. A product reads each vector once, so memory is the limit; int8 vectors need no copy in float32.

   Products are sums of float32, in an order that depends on the processor. Scores are sums of float64, always in the same
   order, which is that of NumPy for up to 128 numbers. */
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

/* Read a row that will be needed soon into the cache. */
INLINE void fetch_ahead(const void *vectors, const int64_t *positions, int64_t at, int64_t count, int64_t bytes) {
    if (!positions || at + AHEAD >= count)
        return;
    const char *next = (const char *)vectors + positions[at + AHEAD] * bytes;
    for (int64_t byte = 0; byte < bytes; byte += LINE)
        __builtin_prefetch(next + byte);
}

/* Define a function that multiplies `count` vectors of one number format with a query. If `positions` is not null, these
   are the rows to read; otherwise the first ones. */
#define PRODUCTS(NAME, NUMBER, LOAD)                                                                              \
    void NAME(const NUMBER *vectors, const int64_t *positions, int64_t count, int64_t width, const float *query,  \
              float *out) {                                                                                       \
        for (int64_t at = 0; at < count; at++) {                                                                  \
            const NUMBER *row = vectors + (positions ? positions[at] : at) * width;                               \
            fetch_ahead(vectors, positions, at, count, width * (int64_t)sizeof(NUMBER));                          \
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

/* Four numbers of a vector as float64. */
INLINE __m256d four_floats(const float *address) { return _mm256_cvtps_pd(_mm_loadu_ps(address)); }

INLINE __m256d four_bytes(const int8_t *address) {
    int32_t bytes;
    __builtin_memcpy(&bytes, address, sizeof bytes);
    return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes)));
}

/* Define a function that scores vectors of one number format: the sum of float64 products, times the scale of the vector
   if there are scales, as float32. `positions` are as above. There are eight partial sums, and a product of two float32
   is exact, so that fused multiplication changes nothing. */
#define SCORES(NAME, NUMBER, LOAD)                                                                                \
    void NAME(const NUMBER *vectors, const int64_t *positions, int64_t count, int64_t width, const double *query, \
              const float *scales, float *out) {                                                                  \
        for (int64_t at = 0; at < count; at++) {                                                                  \
            int64_t position = positions ? positions[at] : at;                                                    \
            const NUMBER *row = vectors + position * width;                                                       \
            fetch_ahead(vectors, positions, at, count, width * (int64_t)sizeof(NUMBER));                          \
            __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();                                        \
            int64_t done = 0;                                                                                     \
            for (; done + 8 <= width; done += 8) {                                                                \
                low = _mm256_fmadd_pd(LOAD(row + done), _mm256_loadu_pd(query + done), low);                      \
                high = _mm256_fmadd_pd(LOAD(row + done + 4), _mm256_loadu_pd(query + done + 4), high);            \
            }                                                                                                     \
            __m256d pairs = _mm256_hadd_pd(low, high); /* 0+1, 4+5, 2+3, 6+7 */                                   \
            __m128d halves = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));          \
            double sum = _mm_cvtsd_f64(halves) + _mm_cvtsd_f64(_mm_unpackhi_pd(halves, halves));                  \
            for (; done < width; done++)                                                                          \
                sum += (double)row[done] * query[done];                                                           \
            out[at] = (float)(scales ? sum * (double)scales[position] : sum);                                     \
        }                                                                                                         \
    }

SCORES(scores_float32, float, four_floats)
SCORES(scores_int8, int8_t, four_bytes)
