#ifndef TESSERA_CORE_SINGLE_COMMUNICATOR_H_
#define TESSERA_CORE_SINGLE_COMMUNICATOR_H_

#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/communicator.h"

namespace tessera {

// A world of one rank: nothing is sent.
class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) override {
    const absl::Status status = Barrier();
    if (status.ok() && own != out && bytes > 0) std::memcpy(out, own, static_cast<size_t>(bytes));
    return status;
  }
  absl::Status AllToAll(const std::byte* /*send*/, int64_t /*stride*/, std::byte* /*out*/,
                        int64_t /*bytes*/) override {
    return Barrier();
  }
  absl::Status Broadcast(std::byte* /*data*/, int64_t /*bytes*/, int /*root*/) override {
    return Barrier();
  }
  absl::Status AllReduceSum(absl::Span<int64_t> /*values*/) override { return Barrier(); }
  absl::Status Barrier() override { return Check(); }
  absl::Status Check() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void Abort(const absl::Status& status) override {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = absl::CancelledError(absl::StrCat("rank 0: ", status.message()));
  }

  int64_t bytes_sent() const override { return 0; }

 private:
  std::mutex mutex_;
  absl::Status failure_;  // guarded by mutex_
};

}  // namespace tessera

#endif  // TESSERA_CORE_SINGLE_COMMUNICATOR_H_
