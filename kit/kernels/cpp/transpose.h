// Matrix transposes in registers.

#pragma once

#include "simd.h"

// Transposes a tile of up to SIMD_WIDTH rows and SIMD_WIDTH columns; missing rows are zero.
inline void transpose_tile(const float* from, int64_t from_row, int64_t rows, float* to, int64_t to_row) {
  IntVec low, high;  // interleave (unpack-low / unpack-high) permutation indices
  for (int lane = 0; lane < SIMD_WIDTH; ++lane) {
    low[lane] = lane / 2 + lane % 2 * SIMD_WIDTH;
    high[lane] = low[lane] + SIMD_WIDTH / 2;
  }
  Vec row[SIMD_WIDTH], next[SIMD_WIDTH];
  for (int r = 0; r < SIMD_WIDTH; ++r) row[r] = r < rows ? load(from + r * from_row) : Vec{};
  // Interleaves row r with row r + SIMD_WIDTH / 2: after log2(SIMD_WIDTH) rounds, rows are columns.
  for (int bit = 1; bit < SIMD_WIDTH; bit *= 2) {
    for (int r = 0; r < SIMD_WIDTH / 2; ++r) {
      next[2 * r] = permute(row[r], row[r + SIMD_WIDTH / 2], low);
      next[2 * r + 1] = permute(row[r], row[r + SIMD_WIDTH / 2], high);
    }
    for (int r = 0; r < SIMD_WIDTH; ++r) row[r] = next[r];
  }
  for (int n = 0; n < SIMD_WIDTH; ++n) store(to + n * to_row, row[n]);
}

// Transposes up to SIMD_WIDTH rows and columns; writes nothing else.
inline void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  if (rows == SIMD_WIDTH && columns == SIMD_WIDTH) return transpose_tile(from, from_row, SIMD_WIDTH, to, to_row);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < columns; ++n) to[n * to_row + r] = from[r * from_row + n];
}
