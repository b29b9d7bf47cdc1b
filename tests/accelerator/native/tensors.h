// Tensors of the device, whose data are the host's.
#pragma once
#include <ATen/core/Tensor.h>

namespace fake {

// How copies between host and device behave.
struct Copies {
  double ms = 0;  // that one from host to device takes
  bool blocking = false;  // whether the host waits for those that are not non_blocking
};
extern Copies copies;

// The same data as a tensor on the CPU: what is done to it takes no time on the device.
at::Tensor on_host(const at::Tensor& tensor);

}  // namespace fake
