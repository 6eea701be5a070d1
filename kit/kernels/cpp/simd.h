// SIMD vectors of float32 and int32, by the vector extensions that GCC and clang share.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int SIMD_WIDTH = 16, REGISTERS = 32;
#else
constexpr int SIMD_WIDTH = 8, REGISTERS = 16;
#endif

typedef float Vec __attribute__((vector_size(SIMD_WIDTH * 4), aligned(4)));
typedef int32_t IntVec __attribute__((vector_size(SIMD_WIDTH * 4), aligned(4)));

inline Vec load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline void store(float* to, Vec x) { *reinterpret_cast<Vec*>(to) = x; }
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

// Permutes the elements of two vectors by indices into both; clang compiles the loop to one instruction too.
inline Vec permute(Vec one, Vec other, IntVec indices) {
#if defined(__clang__)
  Vec found;
  for (int lane = 0; lane < SIMD_WIDTH; ++lane)
    found[lane] = indices[lane] < SIMD_WIDTH ? one[indices[lane]] : other[indices[lane] - SIMD_WIDTH];
  return found;
#else
  return __builtin_shuffle(one, other, indices);
#endif
}

inline float horizontal_sum(Vec x) {
  typedef float Four __attribute__((vector_size(16), aligned(4)));
  Four part[SIMD_WIDTH / 4];
  std::memcpy(part, &x, sizeof x);
  Four four = part[0] + part[1];
  for (int p = 2; p < SIMD_WIDTH / 4; p += 2) four += part[p] + part[p + 1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

inline float horizontal_max(Vec x) {
  float most = x[0];
  for (int lane = 1; lane < SIMD_WIDTH; ++lane) most = x[lane] > most ? x[lane] : most;
  return most;
}

// exp(x) for x <= 0, to 2 ulp: Cody-Waite range reduction, a polynomial, and a power of two.
inline Vec exp_nonpositive(Vec x) {
  x = x < -87.0f ? Vec{} - 87.0f : x;
  Vec shifted = x * 1.44269504f + 12582912.0f;  // rounds to an integer, held in the lowest bits
  Vec whole = shifted - 12582912.0f;
  Vec rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec sum = Vec{} + 1.9875691500e-4f;
  sum = sum * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  sum = sum * rest * rest + rest + 1.0f;
  IntVec bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000 + 127) << 23;
  Vec power;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}
