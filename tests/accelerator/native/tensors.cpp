// Operators on tensors of the device. They compute at once, on the host, and take no time on
// the device; what takes time there are copies, and what is queued on purpose.
#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "device.h"
#include "streams.h"

namespace fake {

Copies copies;

at::Tensor on_host(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

namespace {

const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

// ---- making tensors

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory(), KEYS, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory(), KEYS,
                                           c10::dtype_or_default(type));
}

const at::Tensor& resize_tensor(const at::Tensor& tensor, c10::IntArrayRef size,
                                std::optional<at::MemoryFormat>) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const size_t bytes = (impl->storage_offset() + impl->numel()) * impl->itemsize();
  if (impl->unsafe_storage().nbytes() < bytes) resize(impl->unsafe_storage(), bytes);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(size, stride, offset);
  return tensor;
}

using SetWhole = at::Tensor& (*)(at::Tensor&, at::Storage);

void record_stream(at::Tensor&, at::Stream) {}  // nothing is computed later than it is called

// ---- operators without an implementation of their own

thread_local int computing = 0;  // copies in an operator are none that a device would make

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const auto& result : op.schema().returns()) {
    const bool is_tensor = result.type()->isSubtypeOf(*c10::TensorType::get()) ||
                           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
    if (!is_tensor) synchronize(current_stream);  // the host learns a value
  }
  computing++;
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    computing--;
    throw;
  }
  computing--;
}

// ---- copies

void take_time(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (computing || from.device() == to.device()) return;
  if (from.is_cpu()) put_sleep(current_stream, Kind::copy, "", copies.ms);
  if (!non_blocking && (to.is_cpu() || copies.blocking)) synchronize(current_stream);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  take_time(from, to, non_blocking);
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  return copy_from(from, to.resize_(from.sizes()), false);
}

at::Scalar value_of(const at::Tensor& tensor) {
  synchronize(current_stream);
  return at::native::_local_scalar_dense_cpu(on_host(tensor));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_tensor);
  m.impl("set_.source_Storage", static_cast<SetWhole>(&at::native::set_));
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("record_stream", &record_stream);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &value_of);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
}

}  // namespace
}  // namespace fake
