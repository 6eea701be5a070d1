// Rows to columns.

#pragma once

#include "lanes.h"

// LANES numbers of up to LANES rows, turned; missing rows are zero.
inline void turn_whole(const float* from, int64_t from_row, int64_t rows, float* to, int64_t to_row) {
  Whole low, high;  // of two rows, what stands in even places of the halves, and what stands in odd ones
  for (int lane = 0; lane < LANES; ++lane) {
    low[lane] = lane / 2 + lane % 2 * LANES;
    high[lane] = low[lane] + LANES / 2;
  }
  Lanes row[LANES], next[LANES];
  for (int r = 0; r < LANES; ++r) row[r] = r < rows ? load(from + r * from_row) : Lanes{};
  // Row r beside row r + LANES / 2, number by number: after as many times as a place has bits, rows are columns.
  for (int bit = 1; bit < LANES; bit *= 2) {
    for (int r = 0; r < LANES / 2; ++r) {
      next[2 * r] = picked(row[r], row[r + LANES / 2], low);
      next[2 * r + 1] = picked(row[r], row[r + LANES / 2], high);
    }
    for (int r = 0; r < LANES; ++r) row[r] = next[r];
  }
  for (int n = 0; n < LANES; ++n) store(to + n * to_row, row[n]);
}

// Up to LANES rows of as many numbers, turned; nothing else is written.
inline void turn(const float* from, int64_t from_row, int64_t rows, int64_t numbers, float* to, int64_t to_row) {
  if (rows == LANES && numbers == LANES) return turn_whole(from, from_row, LANES, to, to_row);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < numbers; ++n) to[n * to_row + r] = from[r * from_row + n];
}
