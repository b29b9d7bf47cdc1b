// Memory of the device, which is the host's, counted as CUDA's caching allocator counts.
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "device.h"

namespace fake {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t BLOCK = 512, SEGMENT = 2 << 20, LARGEST_SMALL = 1 << 20;
constexpr auto ALL = static_cast<size_t>(StatType::AGGREGATE);

size_t rounded(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

size_t pool_of(size_t size) {
  const auto pool = size <= LARGEST_SMALL ? StatType::SMALL_POOL : StatType::LARGE_POOL;
  return static_cast<size_t>(pool);
}

void increase(StatArray& stat, size_t pool, size_t amount) {
  stat[ALL].increase(amount);
  stat[pool].increase(amount);
}

void decrease(StatArray& stat, size_t pool, size_t amount) {
  stat[ALL].decrease(amount);
  stat[pool].decrease(amount);
}

class Memory final : public c10::DeviceAllocator {
 public:
  size_t total = size_t{16} << 30;

  c10::DataPtr allocate(size_t size) override {
    void* data = size ? c10::GetCPUAllocator()->raw_allocate(size) : nullptr;
    if (data) count(data, size);
    return {data, data, &release, DEVICE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }

  bool initialized() override { return true; }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  void emptyCache(c10::MempoolId_t) override {
    std::lock_guard lock(mutex_);
    for (size_t pool : {pool_of(0), pool_of(LARGEST_SMALL + 1)}) {
      const size_t used = rounded(stats_.allocated_bytes[pool].current, SEGMENT);
      decrease(stats_.reserved_bytes, pool, stats_.reserved_bytes[pool].current - used);
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex) override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void resetAccumulatedStats(c10::DeviceIndex) override {
    for_each([](auto& stat) { stat.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex) override {
    for_each([](auto& stat) { stat.reset_peak(); });
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    std::lock_guard lock(mutex_);
    return {total - stats_.reserved_bytes[ALL].current, total};
  }

  void set_retries(int64_t retries) {
    std::lock_guard lock(mutex_);
    stats_.num_alloc_retries = retries;
  }

 private:
  void count(void* data, size_t requested) {
    std::lock_guard lock(mutex_);
    const size_t size = rounded(requested, BLOCK), pool = pool_of(size);
    if (stats_.allocated_bytes[ALL].current + size > total) fail(data, size);
    sizes_[data] = requested;
    increase(stats_.requested_bytes, pool, requested);
    increase(stats_.allocated_bytes, pool, size);
    increase(stats_.active_bytes, pool, size);
    increase(stats_.allocation, pool, 1);
    increase(stats_.active, pool, 1);
    const int64_t reserved = stats_.reserved_bytes[pool].current;
    const int64_t needed = rounded(stats_.allocated_bytes[pool].current, SEGMENT);
    if (needed > reserved) increase(stats_.reserved_bytes, pool, needed - reserved);
  }

  void fail(void* data, size_t size) {
    c10::GetCPUAllocator()->raw_deallocate(data);
    stats_.num_alloc_retries++;
    stats_.num_ooms++;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "fake out of memory: tried to allocate ", size);
  }

  void uncount(void* data) {
    std::lock_guard lock(mutex_);
    const size_t requested = sizes_.at(data), size = rounded(requested, BLOCK);
    const size_t pool = pool_of(size);
    sizes_.erase(data);
    decrease(stats_.requested_bytes, pool, requested);
    decrease(stats_.allocated_bytes, pool, size);
    decrease(stats_.active_bytes, pool, size);
    decrease(stats_.allocation, pool, 1);
    decrease(stats_.active, pool, 1);
  }

  static void release(void* data);

  template <class Change>
  void for_each(Change change) {
    std::lock_guard lock(mutex_);
    for (auto* array : {&stats_.requested_bytes, &stats_.allocated_bytes, &stats_.active_bytes,
                        &stats_.allocation, &stats_.active, &stats_.reserved_bytes})
      for (auto& stat : *array) change(stat);
  }

  std::mutex mutex_;
  DeviceStats stats_;
  std::unordered_map<void*, size_t> sizes_;
};

Memory& device_memory() {
  static auto* memory = new Memory;  // tensors may outlive everything else
  return *memory;
}

void Memory::release(void* data) {
  if (!data) return;
  device_memory().uncount(data);
  c10::GetCPUAllocator()->raw_deallocate(data);
}

const bool registered = [] {
  c10::SetAllocator(TYPE, &device_memory());
  return true;
}();

// ---- page-locked memory of the host

class Pinned final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    void* data = c10::GetCPUAllocator()->raw_allocate(size);
    std::lock_guard lock(mutex_);
    known_.insert(data);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
  bool holds(const void* data) {
    std::lock_guard lock(mutex_);
    return known_.count(data) > 0;
  }

 private:
  static void release(void* data);
  std::mutex mutex_;
  std::unordered_set<const void*> known_;
};

Pinned& pinned() {
  static auto* pinned = new Pinned;
  return *pinned;
}

void Pinned::release(void* data) {
  {
    std::lock_guard lock(pinned().mutex_);
    pinned().known_.erase(data);
  }
  c10::GetCPUAllocator()->raw_deallocate(data);
}

}  // namespace

c10::Allocator& memory() { return device_memory(); }

void resize(const c10::Storage& storage, size_t bytes) {
  auto data = memory().allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept) std::memcpy(data.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

void set_total_memory(size_t bytes) { device_memory().total = bytes; }
size_t total_memory() { return device_memory().total; }
void set_allocation_retries(int64_t retries) { device_memory().set_retries(retries); }

c10::Allocator& pinned_memory() { return pinned(); }
bool is_pinned(const void* data) { return pinned().holds(data); }

}  // namespace fake
