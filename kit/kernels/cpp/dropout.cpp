// Dropout with a probability in 65,536ths.
//
// Random words by SFC64 (Doty-Humphrey 2010), eight generators per SIMD vector. Each block of elements has its own stream,
// seeded by the seed and the block's index: so the result does not depend on threads, and backward draws the same mask.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "simd.h"
#include "tensors.h"

namespace {

constexpr int WORDS = 8, PIECES = 4 * WORDS;  // words of 64 bits, and 16-bit pieces of them
constexpr int64_t BLOCK = 4096;  // elements of one random stream
constexpr int WARMUP_ROUNDS = 18;  // discarded: the first words still show a simple seed

typedef uint64_t Words __attribute__((vector_size(WORDS * 8)));
typedef int16_t Pieces __attribute__((vector_size(PIECES * 2)));
typedef int16_t SomePieces __attribute__((vector_size(SIMD_WIDTH * 2), aligned(2)));

class Random {
 public:
  Random(uint64_t seed, uint64_t block) : a_(Words{} + seed), b_(Words{} + block), counter_(Words{} + 1) {
    for (int word = 0; word < WORDS; ++word) c_[word] = word;
    for (int n = 0; n < WARMUP_ROUNDS; ++n) next();
  }

  Words next() {
    const Words out = a_ + b_ + counter_;
    counter_ += 1;
    a_ = b_ ^ (b_ >> 11);
    b_ = c_ + (c_ << 3);
    c_ = ((c_ << 24) | (c_ >> 40)) + out;
    return out;
  }

 private:
  Words a_, b_, c_, counter_;
};

void dropout_block(const float* from, float* to, int64_t count, Random random, int16_t threshold, float scale) {
  for (int64_t at = 0; at < count; at += PIECES) {
    const Words words = random.next();
    Pieces kept;
    std::memcpy(&kept, &words, sizeof kept);
    kept = kept >= threshold;
    if (at + PIECES > count) {
      for (int64_t n = at; n < count; ++n) to[n] = kept[n - at] ? from[n] * scale : 0.0f;
      return;
    }
    for (int piece = 0; piece < PIECES; piece += SIMD_WIDTH) {
      SomePieces some;
      std::memcpy(&some, reinterpret_cast<const char*>(&kept) + 2 * piece, sizeof some);
      const IntVec mask = __builtin_convertvector(some, IntVec);
      store(to + at + piece, mask ? load(from + at + piece) * scale : Vec{});
    }
  }
}

// x: contiguous; threshold: the probability in 65,536ths.
Tensor dropout(Tensor x, int64_t seed, int64_t threshold) {
  STD_TORCH_CHECK(x.scalar_type() == torch::headeronly::ScalarType::Float && x.is_contiguous() && threshold >= 0 &&
                      threshold < 65536,
                  "wanted: contiguous float32, and a probability below one");
  Tensor y = torch::stable::empty_like(x);
  const float* from = float_data(x);
  float* to = float_data(y);
  const int64_t count = x.numel(), blocks = (count + BLOCK - 1) / BLOCK;
  const int16_t least_kept = static_cast<int16_t>(threshold - 32768);
  const float scale = static_cast<float>(65536.0 / (65536 - threshold));
  torch::stable::parallel_for(0, blocks, 2, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block)
      dropout_block(from + block * BLOCK, to + block * BLOCK, std::min(BLOCK, count - block * BLOCK),
                    Random(static_cast<uint64_t>(seed), static_cast<uint64_t>(block)), least_kept, scale);
  });
  return y;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("dropout(Tensor x, int seed, int threshold) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("dropout", TORCH_BOX(&dropout)); }
