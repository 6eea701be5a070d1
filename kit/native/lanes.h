// Numbers that a processor works on side by side, in the words that GCC and clang share.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#else
constexpr int LANES = 8, REGISTERS = 16;
#endif

typedef float Lanes __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t Whole __attribute__((vector_size(LANES * 4), aligned(4)));

inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
inline void store(float* to, Lanes x) { *reinterpret_cast<Lanes*>(to) = x; }
inline Lanes greater(Lanes a, Lanes b) { return a > b ? a : b; }

// Numbers of two vectors by their places in both; GCC has a word for that, and clang makes one instruction of it too.
inline Lanes picked(Lanes one, Lanes other, Whole places) {
#if defined(__clang__)
  Lanes found;
  for (int lane = 0; lane < LANES; ++lane)
    found[lane] = places[lane] < LANES ? one[places[lane]] : other[places[lane] - LANES];
  return found;
#else
  return __builtin_shuffle(one, other, places);
#endif
}

inline float sum_of(Lanes x) {
  typedef float Four __attribute__((vector_size(16), aligned(4)));
  Four part[LANES / 4];
  std::memcpy(part, &x, sizeof x);
  Four four = part[0] + part[1];
  for (int p = 2; p < LANES / 4; p += 2) four += part[p] + part[p + 1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

inline float most_of(Lanes x) {
  float most = x[0];
  for (int lane = 1; lane < LANES; ++lane) most = x[lane] > most ? x[lane] : most;
  return most;
}

// e^x for x <= 0, to two units in the last place: Cody and Waite's reduction, a polynomial, and a power of two.
inline Lanes exponential(Lanes x) {
  x = x < -87.0f ? Lanes{} - 87.0f : x;
  Lanes shifted = x * 1.44269504f + 12582912.0f;  // rounds to a whole number, which stands in the lowest bits
  Lanes whole = shifted - 12582912.0f;
  Lanes rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Lanes sum = Lanes{} + 1.9875691500e-4f;
  sum = sum * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  sum = sum * rest * rest + rest + 1.0f;
  Whole bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000 + 127) << 23;
  Lanes power;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}
