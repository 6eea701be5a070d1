// Several steps of a search that takes the likeliest token, without a way back to Python between them.
//
// Shapes: S steps at most, N numbers that a step is given, V choices.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "choosing.h"

using torch::stable::Tensor;

// Of Python, which has the process that this is loaded into; a compiled step gives its lock away and takes it back.
extern "C" int PyGILState_Ensure(void);
extern "C" void PyGILState_Release(int);

namespace {

// What a compiled step is: takes the tensors that it is given, and leaves what it made.
using Entry = void (*)(AtenTensorHandle* given, AtenTensorHandle* made);

struct Lock {
  int state = PyGILState_Ensure();
  ~Lock() { PyGILState_Release(state); }
};

// A whole number as a tensor of no or two dimensions.
AtenTensorHandle number(int64_t value, int64_t dimensions) {
  const int64_t ones[] = {1, 1};
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dimensions, ones, ones, aoti_torch_dtype_int64(),
                                                  aoti_torch_device_type_cpu(), 0, &made));
  void* data;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(made, &data));
  *static_cast<int64_t*>(data) = value;
  return made;
}

bool lie_alike(const Tensor& one, const Tensor& other) {
  bool alike = one.dim() == other.dim();
  for (int64_t n = 0; alike && n < one.dim(); ++n)
    alike = one.size(n) == other.size(n) && one.stride(n) == other.stride(n);
  return alike;
}

struct Chosen {
  double log;
  int64_t token;
};

// The likeliest token of a row that is not banned; of equal ones the earlier.
Chosen likeliest_of(const float* row, int64_t size, const Tensor& never, std::vector<float>& most) {
  const int64_t* banned = static_cast<const int64_t*>(never.data_ptr());
  const int64_t bans = never.size(0);
  const double normal = normalizer(row, size, most.data());
  float best = NOTHING;
  int64_t token = 0;
  if (std::isnan(normal)) {  // not overlooked: the first that may be taken, with what is not a number
    while (token + 1 < size && is_banned(banned, bans, token)) ++token;
    return {normal, token};
  }
  for (int64_t block = 0; block * BLOCK < size; ++block) {
    if (!(most[block] > best)) continue;
    for (int64_t at = block * BLOCK; at < std::min(size, (block + 1) * BLOCK); ++at)
      if (row[at] > best && !is_banned(banned, bans, at)) {
        best = row[at];
        token = at;
      }
  }
  return {best - normal, token};
}

// entry: the address of a step; given: its tensors, those that it is given anew at every step in any form; ids: which
// of them the token is that is read; places: which of them numbers are; numbers [S, N]: what those are at each step;
// back: which of them become what the step has made, or -1; scores: which of what it has made the scores are. A step is
// the last one where the end token is chosen, or no token can be, or a tensor lies otherwise than before.
// Log-probabilities and tokens that were chosen, as many as steps were taken, and what the last one has made.
std::tuple<Tensor, Tensor, std::vector<Tensor>> stretch(
    int64_t entry, std::vector<Tensor> given, int64_t ids, int64_t token, std::vector<int64_t> places, Tensor numbers,
    std::vector<int64_t> back, int64_t scores, Tensor never, int64_t end) {
  const auto run = reinterpret_cast<Entry>(entry);
  const int64_t steps = numbers.size(0), count = numbers.size(1);
  STD_TORCH_CHECK(numbers.is_contiguous() && count == static_cast<int64_t>(places.size()) && steps > 0,
                  "numbers of ", count, " places are given for ", places.size());
  const int64_t* number_of = static_cast<const int64_t*>(numbers.data_ptr());
  std::vector<Chosen> chosen;
  std::vector<Tensor> made;
  std::vector<float> most;
  std::vector<AtenTensorHandle> in(given.size()), out(back.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t n = 0; n < given.size(); ++n) in[n] = nullptr;
    for (int64_t n = 0; n < count; ++n) in[places[n]] = number(number_of[step * count + n], 0);
    in[ids] = number(token, 2);
    for (size_t n = 0; n < given.size(); ++n)
      if (!in[n]) TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(given[n].get(), &in[n]));
    {
      const Lock lock;
      std::fill(out.begin(), out.end(), nullptr);
      run(in.data(), out.data());
    }
    made.clear();
    for (size_t n = 0; n < out.size(); ++n) {
      STD_TORCH_CHECK(out[n], "a compiled step failed");
      // One tensor at two places is one handle.
      const size_t first = std::find(out.begin(), out.begin() + n, out[n]) - out.begin();
      first < n ? made.push_back(made[first]) : made.push_back(Tensor(out[n]));
    }
    bool alike = true;
    for (size_t n = 0; n < back.size(); ++n)
      if (back[n] >= 0) {
        alike &= lie_alike(given[back[n]], made[n]);
        given[back[n]] = made[n];
      }
    const Tensor row = torch::stable::contiguous(made[scores]);
    const int64_t size = row.size(row.dim() - 1);
    STD_TORCH_CHECK(row.numel() == size && row.scalar_type() == torch::headeronly::ScalarType::Float,
                    "wanted: the scores of one token");
    most.resize((size + BLOCK - 1) / BLOCK);
    chosen.push_back(likeliest_of(static_cast<const float*>(row.data_ptr()), size, never, most));
    token = chosen.back().token;
    if (token == end || chosen.back().log == NOTHING || !alike) break;
  }
  const int64_t sizes[] = {static_cast<int64_t>(chosen.size())}, strides[] = {1};
  AtenTensorHandle logs, tokens;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, aoti_torch_dtype_float64(),
                                                  aoti_torch_device_type_cpu(), 0, &logs));
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, aoti_torch_dtype_int64(),
                                                  aoti_torch_device_type_cpu(), 0, &tokens));
  Tensor log_of(logs), token_of(tokens);
  for (size_t n = 0; n < chosen.size(); ++n) {
    static_cast<double*>(log_of.data_ptr())[n] = chosen[n].log;
    static_cast<int64_t*>(token_of.data_ptr())[n] = chosen[n].token;
  }
  return {log_of, token_of, made};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def(
      "stretch(int entry, Tensor[] given, int ids, int token, int[] places, Tensor numbers, int[] back, int scores, "
      "Tensor never, int end) -> (Tensor, Tensor, Tensor[])");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("stretch", TORCH_BOX(&stretch)); }
