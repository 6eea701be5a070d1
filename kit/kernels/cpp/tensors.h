// Allocation and data pointers of float32 CPU tensors.

#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>

using torch::stable::Tensor;

inline Tensor empty_strided(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      sizes.size(), sizes.begin(), strides.begin(), aoti_torch_dtype_float32(), aoti_torch_device_type_cpu(), 0,
      &made));
  return Tensor(made);
}

inline float* float_data(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }
