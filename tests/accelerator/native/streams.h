// Streams: queues of items, each served in order by a thread of its own.
//
// Time on the device is computed: an item begins where the one before it ended or, if it was
// queued later, when it was queued. Threads sleep until its end, so that nothing is seen
// before its time, but that they wake up late delays no other item and adds up to nothing.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Length = Clock::duration;
using StreamId = int64_t;
constexpr StreamId NO_STREAM = -1;

inline Length milliseconds(double ms) {
  return std::chrono::duration_cast<Length>(std::chrono::duration<double, std::milli>(ms));
}

// A point in a stream, which the device passes at some time.
class Moment {
 public:
  explicit Moment(StreamId stream) : stream(stream) {}
  void pass(Time at);
  bool has_passed();
  Time wait();  // the calling thread's; returns when it was passed

  const StreamId stream;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool passed_ = false;
  Time at_;
};
using MomentPtr = std::shared_ptr<Moment>;

enum class Kind { kernel, copy, collective, wait, mark, event };

// What a stream does: `run` is told when it begins and returns when it ends.
struct Item {
  Kind kind;
  std::string label;
  std::function<Time(Time)> run;
  StreamId awaited = NO_STREAM;
  Time queued{};
};

// What a stream has done.
struct Entry {
  StreamId stream;
  Kind kind;
  std::string label;
  StreamId awaited;
  Time queued, begin, end;
};

StreamId new_stream();
StreamId pooled_stream();
void put(StreamId stream, Item item);
void put_sleep(StreamId stream, Kind kind, std::string label, double ms);
MomentPtr put_moment(StreamId stream);
void put_wait(StreamId stream, const MomentPtr& moment);
bool is_idle(StreamId stream);
void drain(StreamId stream);
void drain_all();

std::vector<Entry> logged();
void clear_log();

// What was asked of the device.
struct Counts {
  std::atomic<int64_t> recorded{0}, queried{0}, synchronised{0}, collectives{0};
};
extern Counts counts;

// Whether what is queued is said to become part of a graph.
extern std::atomic<bool> capturing;

// The calling thread's current stream.
extern thread_local StreamId current_stream;

// Waits for a stream as a program on the host does, and is counted.
void synchronize(StreamId stream);

}  // namespace fake
