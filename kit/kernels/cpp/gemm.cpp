// Single-precision GEMM for training: a few hundred rows and more, operands of any strides.
//
// After Goto and van de Geijn (2008). A block of B, packed into panels of NR = 64 columns, stays in a core's L2 cache; up
// to MR = 6 rows of A stay in L1; an MR x NR tile of sums stays in registers.
//
// Shapes: M rows and N columns of the product, K summed dimension.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <tuple>

#include "simd.h"
#include "tensors.h"
#include "transpose.h"

namespace {

constexpr int MR = 6;  // rows of a register tile
constexpr int VECTORS = REGISTERS / 8;  // SIMD vectors per row of a register tile
constexpr int NR = VECTORS * SIMD_WIDTH;  // columns of a register tile and of a packed panel
constexpr int TILES_PER_STRIP = 8;  // of MR rows, packed at a time
constexpr int STRIP = TILES_PER_STRIP * MR;
constexpr int MR_STRIDE = 8;  // MR packed elements are padded to so many: one instruction copies them
constexpr int64_t CACHE_LINE = 16;  // floats
constexpr int64_t PACKING_COST = 16;  // multiplications in the time that packing one element takes
constexpr int64_t HUGE_PAGE = 1 << 21;

// Blocking of B (KC x NC): 512 KB, or 768 KB if A is packed too, once for all columns.
struct Blocking {
  int64_t kc, nc;
};
constexpr Blocking UNPACKED_A{512, 256}, PACKED_A{384, 512};

// Thread-local GEMM workspace, kept between calls, in huge pages if the system has such.
class ScratchBuffer {
 public:
  float* reserve(int64_t floats) {
    const int64_t wanted = (floats * 4 + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (wanted > size_) {
      std::free(start_);
      start_ = std::aligned_alloc(HUGE_PAGE, wanted);
      size_ = start_ ? wanted : 0;
      if (!start_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
      madvise(start_, wanted, MADV_HUGEPAGE);
#endif
    }
    return static_cast<float*>(start_);
  }
  ~ScratchBuffer() { std::free(start_); }

 private:
  void* start_ = nullptr;
  int64_t size_ = 0;
};

struct Matrix {
  const float* data;
  int64_t row, column;  // strides

  Matrix(const float* data, int64_t row, int64_t column) : data(data), row(row), column(column) {}
  explicit Matrix(const Tensor& x)
      : data(static_cast<const float*>(x.data_ptr())), row(x.stride(0)), column(x.stride(1)) {}
  const float* at(int64_t r, int64_t c) const { return data + r * row + c * column; }
};

// Packs up to STRIP rows of a column-major matrix as [tiles, K, MR_STRIDE], and sums the rows over K.
void pack_rows(const Matrix& a, int64_t first, int64_t rows, int64_t k_first, int64_t depth, float* to, float* sums) {
  float sum[STRIP] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = a.at(first, k_first + k);
    float* line = to + k * MR_STRIDE;
    if (rows == STRIP) {
      // All but the last tile are copied with a few elements of the next one.
      for (int g = 0; g < TILES_PER_STRIP - 1; ++g) std::memcpy(line + g * depth * MR_STRIDE, from + g * MR, MR_STRIDE * sizeof(float));
      std::memcpy(line + (TILES_PER_STRIP - 1) * depth * MR_STRIDE, from + STRIP - MR, MR * sizeof(float));
      if (sums)
        for (int r = 0; r < STRIP; ++r) sum[r] += from[r];
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        line[r / MR * depth * MR_STRIDE + r % MR] = from[r];
        sum[r] += from[r];
      }
    }
  }
  if (sums)
    for (int64_t r = 0; r < rows; ++r) sums[r] = (k_first ? sums[r] : 0.0f) + sum[r];
}

// Packs columns [first, first + columns) of K rows of a matrix as one panel [K, NR], padded with zeros.
void pack_panel(const Matrix& b, int64_t k_first, int64_t depth, int64_t first, int64_t columns, float* to) {
  if (columns < NR) std::memset(to, 0, depth * NR * sizeof(float));
  if (b.column == 1 && columns == NR) {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = b.at(k_first + k, first);
      for (int v = 0; v < VECTORS; ++v) store(to + k * NR + v * SIMD_WIDTH, load(from + v * SIMD_WIDTH));
    }
  } else if (b.column == 1) {
    for (int64_t k = 0; k < depth; ++k) std::memcpy(to + k * NR, b.at(k_first + k, first), columns * sizeof(float));
  } else {
    for (int64_t k = 0; k < depth; k += SIMD_WIDTH)
      for (int64_t c = 0; c < columns; c += SIMD_WIDTH) {
        const int64_t count = std::min<int64_t>(SIMD_WIDTH, columns - c), height = std::min<int64_t>(SIMD_WIDTH, depth - k);
        transpose(b.at(k_first + k, first + c), b.column, count, height, to + k * NR + c, NR);
      }
  }
}

// Micro-kernel: ROWS rows of A, row-major or packed, times a panel: [ROWS, NR], added to y or to a bias.
template <int ROWS, bool A_IS_PACKED>
inline void multiply_panel(const float* a, int64_t a_row, const float* panel, int64_t depth, float* y, int64_t y_row,
                           bool accumulate, const float* bias) {
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) __builtin_prefetch(y + r * y_row + v * SIMD_WIDTH, 1);
  Vec sum[ROWS][VECTORS] = {};
  for (int64_t k = 0; k < depth; ++k, panel += NR) {
    Vec column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(panel + v * SIMD_WIDTH);
    for (int r = 0; r < ROWS; ++r) {
      const float value = A_IS_PACKED ? a[k * MR_STRIDE + r] : a[r * a_row + k];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += value * column[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      float* to = y + r * y_row + v * SIMD_WIDTH;
      const Vec before = accumulate ? load(to) : bias ? load(bias + v * SIMD_WIDTH) : Vec{};
      store(to, before + sum[r][v]);
    }
}

template <int ROWS, bool A_IS_PACKED>
void multiply_rows(int64_t rows, const float* a, int64_t a_row, const float* panel, int64_t depth, float* y,
                   int64_t y_row, bool accumulate, const float* bias) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_rows<ROWS - 1, A_IS_PACKED>(rows, a, a_row, panel, depth, y, y_row, accumulate, bias);
    multiply_panel<ROWS, A_IS_PACKED>(a, a_row, panel, depth, y, y_row, accumulate, bias);
  }
}

struct Gemm {
  Matrix a, b;
  const float* bias;
  float *y, *sums;  // sums: of the rows of a, or null
  int64_t rows, sum, columns;

  // Computes rows [r_first, r_last) and columns [c_first, c_last) of the product.
  template <bool A_IS_PACKED>
  void compute(int64_t r_first, int64_t r_last, int64_t c_first, int64_t c_last) const {
    constexpr Blocking block = A_IS_PACKED ? PACKED_A : UNPACKED_A;
    thread_local ScratchBuffer scratch;
    float* panels = scratch.reserve(block.nc * block.kc + TILES_PER_STRIP * MR_STRIDE * block.kc);
    float* strip = panels + block.nc * block.kc;
    const int64_t steps = (sum + block.kc - 1) / block.kc;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t k_first = sum * step / steps, depth = sum * (step + 1) / steps - k_first;
      for (int64_t first = c_first; first < c_last; first += block.nc) {
        const int64_t last = std::min(c_last, first + block.nc);
        for (int64_t c = first; c < last; c += NR)
          pack_panel(b, k_first, depth, c, std::min<int64_t>(NR, last - c), panels + (c - first) * depth);
        for (int64_t r = r_first; r < r_last; r += MR) {
          const int64_t count = std::min<int64_t>(MR, r_last - r), tile = (r - r_first) / MR % TILES_PER_STRIP;
          const float* from = A_IS_PACKED ? strip + tile * MR_STRIDE * depth : a.at(r, k_first);
          if (A_IS_PACKED && tile == 0) {
            float* to = first || !sums ? nullptr : sums + r;
            pack_rows(a, r, std::min<int64_t>(STRIP, r_last - r), k_first, depth, strip, to);
          }
          if (A_IS_PACKED)
            prefetch(r - tile * MR + STRIP, r_last, k_first + depth * tile / TILES_PER_STRIP,
                     k_first + depth * (tile + 1) / TILES_PER_STRIP);
          for (int64_t c = first; c < last; c += NR) {
            const float* panel = panels + (c - first) * depth;
            if (c + NR <= last)
              multiply_rows<MR, A_IS_PACKED>(count, from, a.row, panel, depth, y + r * columns + c, columns, step,
                                          bias ? bias + c : nullptr);
            else
              compute_edge<A_IS_PACKED>(r, count, c, last - c, from, panel, depth, step);
          }
        }
      }
    }
  }

  // The last columns, which are fewer than a panel has.
  template <bool A_IS_PACKED>
  void compute_edge(int64_t r, int64_t count, int64_t c, int64_t width, const float* from, const float* panel,
                    int64_t depth, bool accumulate) const {
    float tile[MR * NR], padded_bias[NR];
    float* to = y + r * columns + c;
    if (bias) std::memcpy(padded_bias, bias + c, width * sizeof(float));
    for (int64_t n = 0; accumulate && n < count; ++n)
      std::memcpy(tile + n * NR, to + n * columns, width * sizeof(float));
    multiply_rows<MR, A_IS_PACKED>(count, from, a.row, panel, depth, tile, NR, accumulate, bias ? padded_bias : nullptr);
    for (int64_t n = 0; n < count; ++n) std::memcpy(to + n * columns, tile + n * NR, width * sizeof(float));
  }

  // Prefetches some of the next strip during the computation of this one: hardware prefetchers miss its large strides.
  void prefetch(int64_t first, int64_t last, int64_t k_first, int64_t k_last) const {
    for (int64_t k = k_first; k < k_last; ++k)
      for (int64_t r = first; r < std::min(last, first + STRIP); r += CACHE_LINE) __builtin_prefetch(a.at(r, k), 0, 2);
  }

  // Splits rows and columns among threads so that little is packed twice, and computes all parts.
  void compute_all() const {
    const int64_t threads = torch::stable::get_num_threads(), panels = (columns + NR - 1) / NR;
    const bool pack_a = sums || a.column != 1;
    int64_t row_parts = threads, least = INT64_MAX;
    for (int64_t parts = 1; parts <= threads; ++parts) {
      if (threads % parts) continue;
      const int64_t most_rows = (rows + parts - 1) / parts, others = threads / parts,
                    most_columns = (panels + others - 1) / others * NR;
      const int64_t cost = most_rows * most_columns + PACKING_COST * (most_columns + (pack_a ? most_rows : 0));
      if (cost < least) least = cost, row_parts = parts;
    }
    const int64_t column_parts = threads / row_parts;
    torch::stable::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t r = part % row_parts, c = part / row_parts;
        const int64_t r_first = rows * r / row_parts, r_last = rows * (r + 1) / row_parts,
                      c_first = panels * c / column_parts * NR,
                      c_last = std::min(columns, panels * (c + 1) / column_parts * NR);
        pack_a ? compute<true>(r_first, r_last, c_first, c_last) : compute<false>(r_first, r_last, c_first, c_last);
      }
    });
  }
};

void expect(const Tensor& x, int64_t dimensions) {
  STD_TORCH_CHECK(x.dim() == dimensions && x.scalar_type() == torch::headeronly::ScalarType::Float,
                  "wanted: float32 in ", dimensions, " dimensions");
  bool unit_stride = false;
  for (int64_t n = 0; n < dimensions; ++n) unit_stride |= x.stride(n) == 1 || x.size(n) == 1;
  STD_TORCH_CHECK(unit_stride, "wanted: a dimension of unit stride");
}

void expect_operands(const Tensor& a, const Tensor& b, int64_t summed) {
  expect(a, 2);
  expect(b, 2);
  STD_TORCH_CHECK(a.size(summed) == b.size(0) && b.size(0) > 0, "no product: ", a.size(summed), " and ", b.size(0),
                  " elements to sum");
}

// a [M, K] @ b [K, N] + bias [N]: [M, N]; each operand row-major or column-major.
Tensor gemm(Tensor a, Tensor b, std::optional<Tensor> bias) {
  expect_operands(a, b, 1);
  if (bias) expect(*bias, 1);
  STD_TORCH_CHECK(!bias || bias->size(0) == b.size(1), "a bias of another size than ", b.size(1));
  Tensor y = empty_strided({a.size(0), b.size(1)}, {b.size(1), 1});
  const float* bias_data = bias ? float_data(*bias) : nullptr;
  Gemm{Matrix(a), Matrix(b), bias_data, float_data(y), nullptr, a.size(0), a.size(1), b.size(1)}.compute_all();
  return y;
}

// a.T @ b for a [K, M], row-major, and b [K, N]: [M, N]; and the sum of a over K: [M].
std::tuple<Tensor, Tensor> gemm_tn(Tensor a, Tensor b) {
  expect_operands(a, b, 0);
  STD_TORCH_CHECK(a.stride(1) == 1 || a.size(1) == 1, "wanted: a row-major left operand");
  Tensor y = empty_strided({a.size(1), b.size(1)}, {b.size(1), 1}), sums = empty_strided({a.size(1)}, {1});
  const Matrix transposed{float_data(a), 1, a.stride(0)};
  Gemm{transposed, Matrix(b), nullptr, float_data(y), float_data(sums), a.size(1), a.size(0), b.size(1)}.compute_all();
  return {y, sums};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("gemm(Tensor a, Tensor b, Tensor? bias) -> Tensor");
  library.def("gemm_tn(Tensor a, Tensor b) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("gemm", TORCH_BOX(&gemm));
  library.impl("gemm_tn", TORCH_BOX(&gemm_tn));
}
