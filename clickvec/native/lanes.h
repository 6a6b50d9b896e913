/* SIMD vectors of floats, and tanh and exp on them: shared by lstm.c, recurrence.c and gather.c. */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
enum { LANES = 16, SUMS = 24 }; /* floats in a register; of 32 registers, 24 hold sums and the others weights */
#define VECTOR_MIN _mm512_min_ps
#define VECTOR_MAX _mm512_max_ps
#define VECTOR_STREAM _mm512_stream_ps
#define RUNS_HERE __builtin_cpu_supports("avx512f")
#else
enum { LANES = 8, SUMS = 12 }; /* 12 of 16 registers hold sums */
#define VECTOR_MIN _mm256_min_ps
#define VECTOR_MAX _mm256_max_ps
#define VECTOR_STREAM _mm256_stream_ps
#define RUNS_HERE (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#endif

#define INLINE static inline __attribute__((always_inline))
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t Ints __attribute__((vector_size(4 * LANES)));

INLINE Lanes load(const float *address) { return *(const Lanes *)address; }

INLINE void store(float *address, Lanes values) { *(Lanes *)address = values; }

/* A streaming store, which bypasses the cache, for data that is not needed soon. The address must be aligned to a
   register. Call `stream_fence` before another thread reads the data. */
INLINE void stream_store(float *address, Lanes values) { VECTOR_STREAM(address, values); }

INLINE void stream_fence(void) { _mm_sfence(); }

struct Ratio {
    Lanes numerator, denominator;
};

INLINE Lanes clamp(Lanes x, float limit) {
    const Lanes zero = {0}, bound = zero + limit;
    return VECTOR_MAX(-bound, VECTOR_MIN(bound, x)); /* NaN stays NaN */
}

/* Return tanh(x) as a ratio, exact to a few units in the last place. The coefficients are those of Eigen. */
INLINE struct Ratio tanh_ratio(Lanes x) {
    x = clamp(x, 7.90531110763549805f); /* beyond this, tanh(x) is 1 in float32 */
    const Lanes square = x * x;
    Lanes numerator = square * -2.76076847742355e-16f + 2.00018790482477e-13f;
    numerator = square * numerator - 8.60467152213735e-11f;
    numerator = square * numerator + 5.12229709037114e-08f;
    numerator = square * numerator + 1.48572235717979e-05f;
    numerator = square * numerator + 6.37261928875436e-04f;
    numerator = square * numerator + 4.89352455891786e-03f;
    Lanes denominator = square * 1.19825839466702e-06f + 1.18534705686654e-04f;
    denominator = square * denominator + 2.26843463243900e-03f;
    denominator = square * denominator + 4.89352518554385e-03f;
    return (struct Ratio){x * numerator, denominator};
}

/* Return exp(x) with the same precision: x = n log 2 + r, and a polynomial in r. The coefficients are those of
   Cephes. */
INLINE Lanes exponential(Lanes x) {
    const float to_integer = 12582912.0f; /* 1.5 * 2 ** 23: adding it rounds to an integer */
    x = clamp(x, 87.0f);
    const Lanes shifted = x * 1.44269504088896341f + to_integer, n = shifted - to_integer;
    const Lanes r = x - n * 0.693359375f - n * -2.12194440e-4f;
    Lanes y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = r * y + 8.3334519073e-3f;
    y = r * y + 4.1665795894e-2f;
    y = r * y + 1.6666665459e-1f;
    y = r * y + 5.0000001201e-1f;
    y = r * r * y + r + 1.0f;
    return y * (Lanes)(((Ints)shifted + 127) << 23); /* the low bits of `shifted` are n, so this is 2 ** n */
}
