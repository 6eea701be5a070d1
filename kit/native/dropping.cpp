// Dropout: each number becomes zero, or is scaled up, by a chance in 65,536ths.
//
// Random words by SFC64 (Doty-Humphrey 2010), eight side by side. A block of numbers has its own sequence, made of the seed
// and of the block's place: so threads share the work as they like, and the way back makes the same choices again.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "lanes.h"
#include "tensors.h"

namespace {

constexpr int WORDS = 8, PIECES = 4 * WORDS;  // words of 64 bits, and their pieces of 16
constexpr int64_t BLOCK = 4096;  // numbers of one sequence
constexpr int UNHEARD = 18;  // first words, in which a simple seed still shows

typedef uint64_t Words __attribute__((vector_size(WORDS * 8)));
typedef int16_t Pieces __attribute__((vector_size(PIECES * 2)));
typedef int16_t Some __attribute__((vector_size(LANES * 2), aligned(2)));

class Random {
 public:
  Random(uint64_t seed, uint64_t block) : a_(Words{} + seed), b_(Words{} + block), counter_(Words{} + 1) {
    for (int word = 0; word < WORDS; ++word) c_[word] = word;
    for (int n = 0; n < UNHEARD; ++n) next();
  }

  Words next() {
    const Words given = a_ + b_ + counter_;
    counter_ += 1;
    a_ = b_ ^ (b_ >> 11);
    b_ = c_ + (c_ << 3);
    c_ = ((c_ << 24) | (c_ >> 40)) + given;
    return given;
  }

 private:
  Words a_, b_, c_, counter_;
};

void drop_block(const float* from, float* to, int64_t count, Random random, int16_t least, float scale) {
  for (int64_t at = 0; at < count; at += PIECES) {
    const Words words = random.next();
    Pieces kept;
    std::memcpy(&kept, &words, sizeof kept);
    kept = kept >= least;
    if (at + PIECES > count) {
      for (int64_t n = at; n < count; ++n) to[n] = kept[n - at] ? from[n] * scale : 0.0f;
      return;
    }
    for (int piece = 0; piece < PIECES; piece += LANES) {
      Some some;
      std::memcpy(&some, reinterpret_cast<const char*>(&kept) + 2 * piece, sizeof some);
      const Whole chosen = __builtin_convertvector(some, Whole);
      store(to + at + piece, chosen ? load(from + at + piece) * scale : Lanes{});
    }
  }
}

// x without gaps; `dropped` of 65,536 numbers become zero.
Tensor drop(Tensor x, int64_t seed, int64_t dropped) {
  STD_TORCH_CHECK(x.scalar_type() == torch::headeronly::ScalarType::Float && x.is_contiguous() && dropped >= 0 &&
                      dropped < 65536,
                  "wanted: float32 without gaps, and a chance below one");
  Tensor y = torch::stable::empty_like(x);
  const float* from = numbers_of(x);
  float* to = numbers_of(y);
  const int64_t count = x.numel(), blocks = (count + BLOCK - 1) / BLOCK;
  const int16_t least = static_cast<int16_t>(dropped - 32768);
  const float scale = static_cast<float>(65536.0 / (65536 - dropped));
  torch::stable::parallel_for(0, blocks, 2, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block)
      drop_block(from + block * BLOCK, to + block * BLOCK, std::min(BLOCK, count - block * BLOCK),
                 Random(static_cast<uint64_t>(seed), static_cast<uint64_t>(block)), least, scale);
  });
  return y;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) { library.def("drop(Tensor x, int seed, int dropped) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("drop", TORCH_BOX(&drop)); }
