#include "comm.h"

#include <c10/core/StreamGuard.h>

#include "device.h"
#include "streams.h"
#include "tensors.h"

namespace fake {

Collectives collectives;

namespace {

using c10d::OpType;

// A collective that was launched on the group's own stream.
class Work final : public c10d::Work {
 public:
  Work(int rank, OpType type, const Tensors& results, StreamId stream)
      : c10d::Work(rank, type), results_(results), end_(put_moment(stream)) {
    const auto type_of_all = c10::ListType::create(c10::TensorType::get());
    const std::vector<c10::Device> devices{DEVICE};
    future_ = c10::make_intrusive<c10::ivalue::Future>(type_of_all, devices);
    c10::StreamGuard on(c10::Stream(c10::Stream::UNSAFE, DEVICE, stream));
    future_->markCompleted(c10::IValue(results));
  }

  bool isCompleted() override { return end_->has_passed(); }
  bool isSuccess() const override { return true; }
  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void synchronize() override { put_wait(current_stream, end_); }

  bool wait(std::chrono::milliseconds) override {
    synchronize();
    if (opType_ == OpType::BARRIER) {
      counts.synchronised++;
      end_->wait();
    }
    return true;
  }

 private:
  const Tensors results_;
  const MomentPtr end_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

// ---- on streams

Comm::Comm(int rank, int size, std::unique_ptr<Meeting> meeting)
    : Backend(rank, size), stream_(new_stream()), meeting_(std::move(meeting)) {}

WorkPtr Comm::launch(OpType type, const Tensors& results, bool is_async) {
  counts.collectives++;
  if (!is_async && collectives.on_current_stream) {
    queue(current_stream, type);
    return nullptr;
  }
  put_wait(stream_, put_moment(current_stream));
  queue(stream_, type);
  return c10::make_intrusive<Work>(getRank(), type, results, stream_);
}

void Comm::queue(StreamId stream, OpType type) {
  auto run = [meeting = meeting_, sequence = ++sequence_,
              length = milliseconds(collectives.ms)](Time begin) {
    return (meeting ? meeting->meet(sequence, begin) : begin) + length;
  };
  put(stream, {Kind::collective, c10d::opTypeToString(type), run});
}

WorkPtr Comm::barrier(const c10d::BarrierOptions& options) {
  auto work = launch(OpType::BARRIER, {}, options.asyncOp);
  if (!work) synchronize(current_stream);
  return work;
}

// ---- data, as if all ranks had the same

void Comm::reduce_data(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  if (op == c10d::ReduceOp::SUM) on_host(tensor).mul_(getSize());
  if (op == c10d::ReduceOp::PRODUCT) on_host(tensor).pow_(getSize());
}

void Comm::gather_data(const at::Tensor& all, const at::Tensor& own) const {
  auto parts = on_host(all).view({getSize(), -1});
  const auto part = on_host(own).reshape({-1}).clone();  // it may lie in what is written to
  for (int rank = 0; rank < getSize(); rank++) parts[rank].copy_(part);
}

void Comm::scatter_data(const at::Tensor& own, const at::Tensor& all,
                        const c10d::ReduceOp& op) const {
  on_host(own).copy_(on_host(all).reshape({getSize(), -1})[getRank()].view(own.sizes()));
  reduce_data(own, op);
}

WorkPtr Comm::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  for (const auto& tensor : tensors) reduce_data(tensor, options.reduceOp);
  return launch(OpType::ALLREDUCE, tensors, options.asyncOp);
}

WorkPtr Comm::allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) {
  for (const auto& tensor : tensors) reduce_data(tensor, options.reduceOp);
  return launch(OpType::ALLREDUCE_COALESCED, tensors, options.asyncOp);
}

WorkPtr Comm::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (options.rootRank == getRank())
    for (const auto& tensor : tensors) reduce_data(tensor, options.reduceOp);
  return launch(OpType::REDUCE, tensors, options.asyncOp);
}

WorkPtr Comm::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return launch(OpType::BROADCAST, tensors, options.asyncOp);
}

WorkPtr Comm::allgather(std::vector<Tensors>& all, Tensors& own,
                        const c10d::AllgatherOptions& options) {
  for (size_t i = 0; i < own.size(); i++)
    for (const auto& part : all[i]) on_host(part).copy_(on_host(own[i]));
  return launch(OpType::ALLGATHER, all[0], options.asyncOp);
}

WorkPtr Comm::_allgather_base(at::Tensor& all, at::Tensor& own,
                              const c10d::AllgatherOptions& options) {
  gather_data(all, own);
  return launch(OpType::_ALLGATHER_BASE, {all}, options.asyncOp);
}

WorkPtr Comm::allgather_into_tensor_coalesced(Tensors& all, Tensors& own,
                                              const c10d::AllgatherOptions& options) {
  for (size_t i = 0; i < own.size(); i++) gather_data(all[i], own[i]);
  return launch(OpType::COALESCED, all, options.asyncOp);
}

WorkPtr Comm::gather(std::vector<Tensors>& all, Tensors& own,
                     const c10d::GatherOptions& options) {
  if (options.rootRank == getRank())
    for (const auto& part : all[0]) on_host(part).copy_(on_host(own[0]));
  return launch(OpType::GATHER, own, options.asyncOp);
}

WorkPtr Comm::scatter(Tensors& own, std::vector<Tensors>& all,
                      const c10d::ScatterOptions& options) {
  if (options.rootRank == getRank())
    on_host(own[0]).copy_(on_host(all[0][getRank()]));
  else
    on_host(own[0]).zero_();
  return launch(OpType::SCATTER, own, options.asyncOp);
}

WorkPtr Comm::reduce_scatter(Tensors& own, std::vector<Tensors>& all,
                             const c10d::ReduceScatterOptions& options) {
  for (size_t i = 0; i < own.size(); i++) {
    on_host(own[i]).copy_(on_host(all[i][getRank()]));
    reduce_data(own[i], options.reduceOp);
  }
  return launch(OpType::REDUCE_SCATTER, own, options.asyncOp);
}

WorkPtr Comm::_reduce_scatter_base(at::Tensor& own, at::Tensor& all,
                                   const c10d::ReduceScatterOptions& options) {
  scatter_data(own, all, options.reduceOp);
  return launch(OpType::_REDUCE_SCATTER_BASE, {own}, options.asyncOp);
}

WorkPtr Comm::reduce_scatter_tensor_coalesced(Tensors& own, Tensors& all,
                                              const c10d::ReduceScatterOptions& options) {
  for (size_t i = 0; i < own.size(); i++) scatter_data(own[i], all[i], options.reduceOp);
  return launch(OpType::REDUCE_SCATTER_TENSOR_COALESCED, own, options.asyncOp);
}

WorkPtr Comm::alltoall(Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) {
  for (const auto& part : to) on_host(part).copy_(on_host(from[getRank()]));
  return launch(OpType::ALLTOALL, to, options.asyncOp);
}

WorkPtr Comm::alltoall_base(at::Tensor& to, at::Tensor& from, std::vector<int64_t>& to_sizes,
                            std::vector<int64_t>& from_sizes,
                            const c10d::AllToAllOptions& options) {
  TORCH_CHECK(to_sizes.empty() && from_sizes.empty(), "fakecomm has no uneven alltoall");
  gather_data(to, on_host(from).reshape({getSize(), -1})[getRank()]);
  return launch(OpType::ALLTOALL_BASE, {to}, options.asyncOp);
}

WorkPtr Comm::send(Tensors& tensors, int, int) { return launch(OpType::SEND, tensors, true); }

WorkPtr Comm::recv(Tensors& tensors, int, int) { return launch(OpType::RECV, tensors, true); }

}  // namespace fake
