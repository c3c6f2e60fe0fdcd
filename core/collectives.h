#ifndef TESSERA_CORE_COLLECTIVES_H_
#define TESSERA_CORE_COLLECTIVES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/communicator.h"
#include "core/device.h"

namespace tessera {

// Collectives among the ranks of a world on memory of their devices, placed in a
// lane: called, like a kernel, from work that was enqueued there, and done in the
// lane's order. Every rank makes the same calls in the same order, all in one lane;
// ranks that have several of them together, in one order over all of these.
//
// Nothing here adds floating-point numbers: the order of such a sum is the plan's
// business, never a library's. Errors are those of Communicator.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // As Communicator's.
  virtual absl::Status AllGather(Lane& lane, const std::byte* own, std::byte* out,
                                 int64_t bytes) = 0;
  virtual absl::Status AllToAll(Lane& lane, const std::byte* send, int64_t stride, std::byte* out,
                                int64_t bytes) = 0;

  // out = the element-wise wrap-around sum of every rank's `in`, of `count` words.
  // They may be the same; else they do not overlap.
  virtual absl::Status AllReduceSum(Lane& lane, const int64_t* in, int64_t* out, int64_t count) = 0;

  // Ends what is pending on this rank, which fails. Callable from any thread.
  virtual void Abort() = 0;

  // Bytes that this rank has handed over to other ranks so far.
  virtual int64_t bytes_sent() const = 0;
};

// Through a communicator, for devices whose memory is the host's. An abort of the
// communicator ends what is pending.
class HostCollectives final : public Collectives {
 public:
  // `communicator` must outlive it.
  explicit HostCollectives(Communicator& communicator) : communicator_(communicator) {}

  absl::Status AllGather(Lane& /*lane*/, const std::byte* own, std::byte* out,
                         int64_t bytes) override {
    return communicator_.AllGather(own, out, bytes);
  }
  absl::Status AllToAll(Lane& /*lane*/, const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    return communicator_.AllToAll(send, stride, out, bytes);
  }
  absl::Status AllReduceSum(Lane& /*lane*/, const int64_t* in, int64_t* out,
                            int64_t count) override {
    if (in != out) std::copy_n(in, count, out);
    return communicator_.AllReduceSum(absl::MakeSpan(out, static_cast<size_t>(count)));
  }
  void Abort() override {}
  int64_t bytes_sent() const override { return communicator_.bytes_sent(); }

 private:
  Communicator& communicator_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COLLECTIVES_H_
