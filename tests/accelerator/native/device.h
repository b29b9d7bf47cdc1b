// The device, of which there is one, and its memory.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

namespace fake {

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
const c10::Device DEVICE(TYPE, 0);

c10::Allocator& memory();
void resize(const c10::Storage& storage, size_t bytes);
void set_total_memory(size_t bytes);
size_t total_memory();
void set_allocation_retries(int64_t retries);

c10::Allocator& pinned_memory();
bool is_pinned(const void* data);

}  // namespace fake
