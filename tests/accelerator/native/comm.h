// A process group's backend that behaves as NCCL's does towards streams.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "meeting.h"

namespace fake {

// How collectives behave, in this process.
struct Collectives {
  double ms = 0;  // that each takes once all ranks are there
  bool on_current_stream = true;  // where synchronous ones run, as since torch 2.8
};
extern Collectives collectives;

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Computes as if all ranks had the same data, and so needs no other rank but for waiting.
class Comm final : public c10d::Backend {
 public:
  Comm(int rank, int size, std::unique_ptr<Meeting> meeting);
  const std::string getBackendName() const override { return "fakecomm"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override;
  WorkPtr allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&) override;
  WorkPtr reduce(Tensors&, const c10d::ReduceOptions&) override;
  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override;
  WorkPtr allgather(std::vector<Tensors>&, Tensors&, const c10d::AllgatherOptions&) override;
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors&, Tensors&,
                                          const c10d::AllgatherOptions&) override;
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override;
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override;
  WorkPtr reduce_scatter(Tensors&, std::vector<Tensors>&,
                         const c10d::ReduceScatterOptions&) override;
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&,
                               const c10d::ReduceScatterOptions&) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors&, Tensors&,
                                          const c10d::ReduceScatterOptions&) override;
  WorkPtr alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override;
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const c10d::AllToAllOptions&) override;
  WorkPtr send(Tensors&, int, int) override;
  WorkPtr recv(Tensors&, int, int) override;
  WorkPtr barrier(const c10d::BarrierOptions&) override;

 private:
  WorkPtr launch(c10d::OpType type, const Tensors& results, bool is_async);
  void queue(StreamId stream, c10d::OpType type);
  void reduce_data(const at::Tensor& tensor, const c10d::ReduceOp& op) const;
  void gather_data(const at::Tensor& all, const at::Tensor& own) const;
  void scatter_data(const at::Tensor& own, const at::Tensor& all, const c10d::ReduceOp& op) const;

  const StreamId stream_;
  const std::shared_ptr<Meeting> meeting_;  // none: it stands for all ranks alone
  std::atomic<int64_t> sequence_{0};
};

}  // namespace fake
