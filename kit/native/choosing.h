// How likely the choices of a row of scores are.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "lanes.h"

constexpr int BLOCK = 64;  // choices that are passed over together where their greatest is not great enough
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

// The greatest of each block of a row, and the logarithm of the sum of all exponentials.
inline double normalizer(const float* row, int64_t size, float* most_of_block) {
  float most = NOTHING;
  for (int64_t start = 0, block = 0; start < size; start += BLOCK, ++block) {
    const int64_t end = std::min(size, start + BLOCK);
    float greatest = NOTHING;
    if (end - start == BLOCK) {
      Lanes lanes = load(row + start);
      for (int64_t at = start + LANES; at < end; at += LANES) lanes = greater(load(row + at), lanes);
      greatest = most_of(lanes);
    } else {
      for (int64_t at = start; at < end; ++at) greatest = std::max(greatest, row[at]);
    }
    most_of_block[block] = greatest;
    most = std::max(most, greatest);
  }
  if (most == NOTHING) return 0;
  double sum = 0;
  int64_t at = 0;
  for (; at + BLOCK <= size; at += BLOCK) {
    Lanes lanes = {};
    for (int64_t lane = at; lane < at + BLOCK; lane += LANES) lanes += exponential(load(row + lane) - most);
    sum += sum_of(lanes);
  }
  for (; at < size; ++at) sum += std::exp(row[at] - most);
  return most + std::log(sum);
}

inline bool is_banned(const int64_t* banned, int64_t bans, int64_t token) {
  bool found = false;
  for (int64_t n = 0; n < bans; ++n) found |= banned[n] == token;
  return found;
}
