// Where processes meet: each collective begins when all of them have reached it.
#pragma once
#include <cstdint>
#include <string>

#include "streams.h"

namespace fake {

class Meeting {
 public:
  // The file is shared by all ranks of a group, and made by the first of them.
  Meeting(const std::string& file, int rank, int size, double deadline_seconds);

  // When the last rank has reached this collective; aborts the process after the deadline.
  Time meet(int64_t sequence, Time arrival);

 private:
  struct Arrival {
    std::atomic<int64_t> sequence;  // counted from 1, written after the time
    std::atomic<int64_t> at;
  };
  Arrival& arrival(int64_t sequence, int rank);
  int64_t wait_for(int64_t sequence, int rank, Time deadline);

  const std::string file_;
  const int rank_, size_;
  const Length patience_;
  Arrival* arrivals_;
};

}  // namespace fake
