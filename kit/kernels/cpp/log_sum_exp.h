// Log-sum-exp of a row of logits, with block maxima for top-k.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.h"

constexpr int BLOCK = 64;  // logits that top-k skips together if their maximum is too low
constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// Log-sum-exp of a row, and the maximum of each of its blocks.
inline double log_sum_exp(const float* row, int64_t size, float* block_max) {
  float most = NEG_INF;
  for (int64_t start = 0, block = 0; start < size; start += BLOCK, ++block) {
    const int64_t end = std::min(size, start + BLOCK);
    float greatest = NEG_INF;
    if (end - start == BLOCK) {
      Vec values = load(row + start);
      for (int64_t at = start + SIMD_WIDTH; at < end; at += SIMD_WIDTH) values = max(load(row + at), values);
      greatest = horizontal_max(values);
    } else {
      for (int64_t at = start; at < end; ++at) greatest = std::max(greatest, row[at]);
    }
    block_max[block] = greatest;
    most = std::max(most, greatest);
  }
  if (most == NEG_INF) return 0;
  double sum = 0;
  int64_t at = 0;
  for (; at + BLOCK <= size; at += BLOCK) {
    Vec values = {};
    for (int64_t lane = at; lane < at + BLOCK; lane += SIMD_WIDTH) values += exp_nonpositive(load(row + lane) - most);
    sum += horizontal_sum(values);
  }
  for (; at < size; ++at) sum += std::exp(row[at] - most);
  return most + std::log(sum);
}

inline bool is_suppressed(const int64_t* suppressed, int64_t count, int64_t token) {
  bool found = false;
  for (int64_t n = 0; n < count; ++n) found |= suppressed[n] == token;
  return found;
}
