/* Registers of many floats, and the functions of a gate on them: what lstm.c and the C of train share. */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
enum { LANES = 16, SUMS = 24 }; /* floats in a register; registers for sums, of 32: the rest is for weights */
#define LESSER _mm512_min_ps
#define GREATER _mm512_max_ps
#define STREAM _mm512_stream_ps
#define RUNS_HERE __builtin_cpu_supports("avx512f")
#else
enum { LANES = 8, SUMS = 12 }; /* of 16 registers */
#define LESSER _mm256_min_ps
#define GREATER _mm256_max_ps
#define STREAM _mm256_stream_ps
#define RUNS_HERE (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#endif

#define INLINE static inline __attribute__((always_inline))
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t Ints __attribute__((vector_size(4 * LANES)));

INLINE Lanes from(const float *place) { return *(const Lanes *)place; }

INLINE void put(float *place, Lanes values) { *(Lanes *)place = values; }

/* Past the cache, for what nobody looks at for long; the place is a multiple of a register. Call `all_put_away` before
   another thread looks. */
INLINE void put_away(float *place, Lanes values) { STREAM(place, values); }

INLINE void all_put_away(void) { _mm_sfence(); }

struct Ratio {
    Lanes over, under;
};

INLINE Lanes clamp(Lanes x, float most) {
    const Lanes zero = {0}, end = zero + most;
    return GREATER(-end, LESSER(end, x)); /* a NaN stays one */
}

/* tanh(x), good to a few units of the last place. The coefficients are Eigen's. */
INLINE struct Ratio squash(Lanes x) {
    x = clamp(x, 7.90531110763549805f); /* from here on it is 1 */
    const Lanes s = x * x;
    Lanes over = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
    over = s * over - 8.60467152213735e-11f;
    over = s * over + 5.12229709037114e-08f;
    over = s * over + 1.48572235717979e-05f;
    over = s * over + 6.37261928875436e-04f;
    over = s * over + 4.89352455891786e-03f;
    Lanes under = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
    under = s * under + 2.26843463243900e-03f;
    under = s * under + 4.89352518554385e-03f;
    return (struct Ratio){x * over, under};
}

/* e to the x, as good: x = n log 2 + r, and a polynomial in r. The coefficients are those of Cephes. */
INLINE Lanes exponential(Lanes x) {
    const float to_integer = 12582912.0f; /* 1.5 * 2 ** 23: what is added to it loses its fraction */
    x = clamp(x, 87.0f);
    const Lanes shifted = x * 1.44269504088896341f + to_integer, n = shifted - to_integer;
    const Lanes r = x - n * 0.693359375f - n * -2.12194440e-4f;
    Lanes y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = r * y + 8.3334519073e-3f;
    y = r * y + 4.1665795894e-2f;
    y = r * y + 1.6666665459e-1f;
    y = r * y + 5.0000001201e-1f;
    y = r * r * y + r + 1.0f;
    return y * (Lanes)(((Ints)shifted + 127) << 23); /* the last bits of `shifted` are n: this is 2 ** n */
}
