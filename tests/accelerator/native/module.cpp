// What Python sees of it.
#include <torch/csrc/utils/pybind.h>

#include "comm.h"
#include "device.h"
#include "streams.h"
#include "tensors.h"

namespace fake {
namespace {

namespace py = pybind11;
using WithoutGil = py::call_guard<py::gil_scoped_release>;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kernel: return "kernel";
    case Kind::copy: return "copy";
    case Kind::collective: return "collective";
    case Kind::wait: return "wait";
    case Kind::mark: return "mark";
    case Kind::event: return "event";
  }
  return "";
}

int64_t nanoseconds(Time time) { return time.time_since_epoch() / std::chrono::nanoseconds(1); }

py::tuple row_of(const Entry& entry) {
  return py::make_tuple(entry.stream, name_of(entry.kind), entry.label, entry.awaited,
                        nanoseconds(entry.queued), nanoseconds(entry.begin),
                        nanoseconds(entry.end));
}

py::list log_rows() {
  py::list rows;
  for (const auto& entry : logged()) rows.append(row_of(entry));
  return rows;
}

c10::intrusive_ptr<Comm> make_comm(int rank, int size, const std::string& file,
                                   double deadline_seconds) {
  std::unique_ptr<Meeting> meeting;
  if (!file.empty()) meeting = std::make_unique<Meeting>(file, rank, size, deadline_seconds);
  return c10::make_intrusive<Comm>(rank, size, std::move(meeting));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  // Work and what was done.
  m.def("work", [](double ms, const std::string& label) {
    put_sleep(current_stream, Kind::kernel, label, ms);
  });
  m.def("mark", [](const std::string& label) { put_sleep(current_stream, Kind::mark, label, 0); });
  m.def("log", &log_rows);
  m.def("clear_log", &clear_log);
  m.def("drain", &drain_all, WithoutGil());
  m.def("synchronize", [] { counts.synchronised++; drain_all(); }, WithoutGil());
  m.def("recorded", [] { return counts.recorded.load(); });
  m.def("queried", [] { return counts.queried.load(); });
  m.def("synchronisations", [] { return counts.synchronised.load(); });
  m.def("collectives", [] { return counts.collectives.load(); });

  // How it behaves.
  m.def("is_current_stream_capturing", [] { return capturing.load(); });
  m.def("set_capturing", [](bool is_capturing) { capturing = is_capturing; });
  m.def("set_copies", [](double ms, bool blocking) { copies = {ms, blocking}; });
  m.def("set_collectives", [](double ms, bool on_current_stream) {
    collectives = {ms, on_current_stream};
  });
  m.def("set_total_memory", &set_total_memory);
  m.def("total_memory", &total_memory);
  m.def("set_allocation_retries", &set_allocation_retries);

  py::class_<Comm, c10d::Backend, c10::intrusive_ptr<Comm>>(m, "Comm").def(py::init(&make_comm));
}

}  // namespace
}  // namespace fake
