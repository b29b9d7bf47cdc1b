#include "streams.h"

#include <algorithm>
#include <deque>
#include <thread>

namespace fake {

Counts counts;
std::atomic<bool> capturing{false};
thread_local StreamId current_stream = 0;

// ---- moments

void Moment::pass(Time at) {
  std::lock_guard lock(mutex_);
  at_ = at;
  passed_ = true;
  changed_.notify_all();
}

bool Moment::has_passed() {
  std::lock_guard lock(mutex_);
  return passed_;
}

Time Moment::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return passed_; });
  return at_;
}

namespace {

// ---- the log

std::mutex log_mutex;
std::vector<Entry>& entries() {
  static auto* entries = new std::vector<Entry>;  // outlives the threads
  return *entries;
}

void log(StreamId stream, const Item& item, Time begin, Time end) {
  std::lock_guard lock(log_mutex);
  entries().push_back({stream, item.kind, item.label, item.awaited, item.queued, begin, end});
}

// ---- a stream and its thread

class Stream {
 public:
  explicit Stream(StreamId id) : id_(id) {
    std::thread([this] { serve(); }).detach();
  }

  void put(Item item) {
    std::lock_guard lock(mutex_);
    item.queued = Clock::now();
    items_.push_back(std::move(item));
    changed_.notify_all();
  }

  bool is_idle() {
    std::lock_guard lock(mutex_);
    return items_.empty() && !busy_;
  }

  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return items_.empty() && !busy_; });
  }

 private:
  void serve() {
    Time at{};  // the end of the last item
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !items_.empty(); });
      const Item item = std::move(items_.front());
      items_.pop_front();
      busy_ = true;
      lock.unlock();
      at = serve(item, std::max(at, item.queued));
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  Time serve(const Item& item, Time begin) {
    const Time end = item.run(begin);
    std::this_thread::sleep_until(end);
    if (item.kind != Kind::event) log(id_, item, begin, end);
    return end;
  }

  const StreamId id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false;
};

// ---- all streams

std::mutex streams_mutex;

std::deque<Stream*>& streams() {  // the default stream is the first; none is ever removed
  static auto* streams = new std::deque<Stream*>{new Stream(0)};
  return *streams;
}

Stream& find(StreamId id) {
  std::lock_guard lock(streams_mutex);
  return *streams().at(id);
}

}  // namespace

StreamId new_stream() {
  std::lock_guard lock(streams_mutex);
  const StreamId id = streams().size();
  streams().push_back(new Stream(id));
  return id;
}

StreamId pooled_stream() {
  constexpr int size = 4;
  static std::vector<StreamId> pool;
  static std::mutex mutex;
  static int next = 0;
  std::lock_guard lock(mutex);
  if (pool.size() < size) {
    pool.push_back(new_stream());
    return pool.back();
  }
  return pool[next++ % size];
}

void put(StreamId stream, Item item) { find(stream).put(std::move(item)); }

void put_sleep(StreamId stream, Kind kind, std::string label, double ms) {
  const Length length = milliseconds(ms);
  put(stream, {kind, std::move(label), [length](Time begin) { return begin + length; }});
}

MomentPtr put_moment(StreamId stream) {
  auto moment = std::make_shared<Moment>(stream);
  put(stream, {Kind::event, "", [moment](Time begin) {
    moment->pass(begin);
    return begin;
  }});
  return moment;
}

void put_wait(StreamId stream, const MomentPtr& moment) {
  auto run = [moment](Time begin) { return std::max(begin, moment->wait()); };
  put(stream, {Kind::wait, "", run, moment->stream});
}

bool is_idle(StreamId stream) { return find(stream).is_idle(); }

void drain(StreamId stream) { find(stream).drain(); }

void drain_all() {
  std::vector<Stream*> all;
  {
    std::lock_guard lock(streams_mutex);
    all.assign(streams().begin(), streams().end());
  }
  for (Stream* stream : all) stream->drain();
}

void synchronize(StreamId stream) {
  counts.synchronised++;
  drain(stream);
}

std::vector<Entry> logged() {
  std::lock_guard lock(log_mutex);
  return entries();
}

void clear_log() {
  std::lock_guard lock(log_mutex);
  entries().clear();
}

}  // namespace fake
