#include "meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace fake {
namespace {

constexpr int64_t ROUNDS = 4096;  // no rank is ever that many collectives ahead
constexpr auto LOOK = std::chrono::microseconds(200);

void* map_shared(const std::string& file, size_t bytes) {
  const int handle = open(file.c_str(), O_RDWR | O_CREAT, 0600);
  if (handle < 0 || ftruncate(handle, bytes)) throw std::runtime_error("cannot share " + file);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
  close(handle);
  if (data == MAP_FAILED) throw std::runtime_error("cannot map " + file);
  return data;
}

}  // namespace

Meeting::Meeting(const std::string& file, int rank, int size, double deadline_seconds)
    : file_(file), rank_(rank), size_(size), patience_(milliseconds(deadline_seconds * 1e3)) {
  arrivals_ = static_cast<Arrival*>(map_shared(file, ROUNDS * size * sizeof(Arrival)));
}

Meeting::Arrival& Meeting::arrival(int64_t sequence, int rank) {
  return arrivals_[sequence % ROUNDS * size_ + rank];
}

Time Meeting::meet(int64_t sequence, Time reached) {
  Arrival& own = arrival(sequence, rank_);
  own.at = reached.time_since_epoch().count();
  own.sequence = sequence;
  const Time deadline = Clock::now() + patience_;
  int64_t last = own.at;
  for (int rank = 0; rank < size_; rank++)
    last = std::max(last, wait_for(sequence, rank, deadline));
  return Time(Length(last));
}

int64_t Meeting::wait_for(int64_t sequence, int rank, Time deadline) {
  Arrival& peer = arrival(sequence, rank);
  while (peer.sequence != sequence) {
    if (Clock::now() > deadline) {
      std::fprintf(stderr, "rank %d: rank %d did not come to collective %ld of %s\n", rank_, rank,
                   static_cast<long>(sequence), file_.c_str());
      std::abort();
    }
    std::this_thread::sleep_for(LOOK);
  }
  return peer.at;
}

}  // namespace fake
