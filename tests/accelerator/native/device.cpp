// What torch's core asks of a device: its streams and events.
#include "device.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "streams.h"

namespace fake {
namespace {

struct Event {
  MomentPtr last;
};

Event& event_at(void* event) { return *static_cast<Event*>(event); }

c10::Stream stream_of(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, DEVICE, id); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  // ---- the device
  c10::DeviceType type() const override { return TYPE; }
  c10::Device exchangeDevice(c10::Device) const override { return DEVICE; }
  c10::Device getDevice() const override { return DEVICE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    counts.synchronised++;
    drain_all();
  }

  // ---- its streams
  c10::Stream getStream(c10::Device) const override { return stream_of(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(new_stream()); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream_of(pooled_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(std::exchange(current_stream, stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override { return is_idle(stream.id()); }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream.id()); }
  bool isStreamCapturing(const c10::Stream&) const override { return capturing; }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  // ---- its events
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event) *event = new Event;
    counts.recorded++;
    event_at(*event).last = put_moment(stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) put_wait(stream.id(), event_at(event).last);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  bool queryEvent(void* event) const override {
    counts.queried++;
    return !event || event_at(event).last->has_passed();
  }
  void synchronizeEvent(void* event) const override {
    counts.synchronised++;
    if (event) event_at(event).last->wait();
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    Moment &begin = *event_at(from).last, &end = *event_at(to).last;
    TORCH_CHECK(begin.has_passed() && end.has_passed(), "not all events have passed");
    return std::chrono::duration<double, std::milli>(end.wait() - begin.wait()).count();
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize(storage, bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace fake
