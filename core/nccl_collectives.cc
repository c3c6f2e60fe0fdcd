#include "core/nccl_collectives.h"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{50};

absl::Status NcclStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* detail = ncclGetLastError(nullptr);
  return absl::UnavailableError(
      absl::StrCat(call, ": ", ncclGetErrorString(result),
                   detail == nullptr || *detail == 0 ? "" : absl::StrCat(" (", detail, ")"),
                   "; NCCL_DEBUG=INFO tells more"));
}

class NcclCollectives final : public Collectives {
 public:
  // `rank` of the `size` ranks of a group.
  NcclCollectives(CudaDevice& device, Communicator& control, int rank, int size)
      : device_(device), control_(control), rank_(rank), size_(size) {}

  ~NcclCollectives() override {
    if (watcher_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      wake_.notify_all();
      watcher_.join();
    }
    device_.ConfirmWith(this, nullptr);
    if (communicator_ == nullptr) return;
    // To destroy it is to wait for the others, who may be gone.
    Look().ok() ? ncclCommDestroy(communicator_) : ncclCommAbort(communicator_);
  }

  absl::Status Join(const ncclUniqueId& id) {
    device_.Activate();
    TESSERA_RETURN_IF_ERROR(
        NcclStatus(ncclCommInitRank(&communicator_, size_, id, rank_), "ncclCommInitRank"));
    device_.ConfirmWith(this, [this] { return Look(); });
    watcher_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  absl::Status AllGather(Lane& lane, const std::byte* own, std::byte* out, int64_t bytes) override {
    std::byte* const slot = out + rank_ * bytes;
    if (size_ == 1) return Copy(lane, own, slot, bytes);
    bytes_sent_ += (size_ - 1) * bytes;
    return NcclStatus(ncclAllGather(own, out, static_cast<size_t>(bytes), ncclInt8, communicator_,
                                    CudaLaneOf(lane).stream()),
                      "ncclAllGather");
  }

  absl::Status AllToAll(Lane& lane, const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    if (size_ == 1) return absl::OkStatus();
    bytes_sent_ += (size_ - 1) * bytes;
    const auto count = static_cast<size_t>(bytes);
    cudaStream_t const stream = CudaLaneOf(lane).stream();
    TESSERA_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (int step = 1; step < size_ && status.ok(); ++step) {
      const int to = (rank_ + step) % size_;
      const int from = (rank_ - step + size_) % size_;
      const int slot = from < rank_ ? from : from - 1;
      status = NcclStatus(ncclSend(send + to * stride, count, ncclInt8, to, communicator_, stream),
                          "ncclSend");
      if (!status.ok()) break;
      status = NcclStatus(
          ncclRecv(out + slot * bytes, count, ncclInt8, from, communicator_, stream), "ncclRecv");
    }
    const absl::Status end = NcclStatus(ncclGroupEnd(), "ncclGroupEnd");
    return status.ok() ? end : status;
  }

  absl::Status AllReduceSum(Lane& lane, const int64_t* in, int64_t* out, int64_t count) override {
    const auto bytes = static_cast<int64_t>(count * sizeof(int64_t));
    if (size_ == 1) {
      return Copy(lane, reinterpret_cast<const std::byte*>(in), reinterpret_cast<std::byte*>(out),
                  bytes);
    }
    bytes_sent_ += (size_ - 1) * bytes;
    return NcclStatus(ncclAllReduce(in, out, static_cast<size_t>(count), ncclInt64, ncclSum,
                                    communicator_, CudaLaneOf(lane).stream()),
                      "ncclAllReduce");
  }

  // Only asks: this may be called where no call of NCCL's may be made.
  void Abort() override {
    {
      const std::lock_guard lock(mutex_);
      abort_requested_ = true;
    }
    wake_.notify_all();
  }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  static absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes) {
    if (from == to || bytes == 0) return absl::OkStatus();
    return CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                      CudaLaneOf(lane).stream()),
                      "cudaMemcpyAsync");
  }

  // On a thread of its own, since the rank's may be held up by a full stream.
  void Watch() {
    device_.Activate();
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, kWatchInterval, [&] { return stopping_ || abort_requested_; });
      if (stopping_) return;
      const bool requested = abort_requested_;
      lock.unlock();
      const absl::Status status = requested ? absl::CancelledError("aborted") : Look();
      if (!status.ok()) {
        device_.Fail(status);  // first: from now on nothing more is issued
        ncclCommAbort(communicator_);
        communicator_ = nullptr;
        return;
      }
      lock.lock();
    }
  }

  absl::Status Look() {
    TESSERA_RETURN_IF_ERROR(control_.Check());
    ncclResult_t error = ncclSuccess;
    TESSERA_RETURN_IF_ERROR(
        NcclStatus(ncclCommGetAsyncError(communicator_, &error), "ncclCommGetAsyncError"));
    return NcclStatus(error, "a collective");
  }

  CudaDevice& device_;
  Communicator& control_;
  const int rank_;
  const int size_;
  ncclComm_t communicator_ = nullptr;
  std::atomic<int64_t> bytes_sent_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool abort_requested_ = false;  // guarded by mutex_
  bool stopping_ = false;         // guarded by mutex_
  std::thread watcher_;
};

// The id of this rank's group, which the first of its ranks makes.
absl::StatusOr<ncclUniqueId> ExchangeIds(const std::vector<int>& group, Communicator& control) {
  ncclUniqueId own = {};
  if (group[0] == control.rank()) {
    TESSERA_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&own), "ncclGetUniqueId"));
  }
  std::vector<ncclUniqueId> ids(control.size());
  TESSERA_RETURN_IF_ERROR(control.AllGather(reinterpret_cast<const std::byte*>(&own),
                                            reinterpret_cast<std::byte*>(ids.data()),
                                            sizeof(ncclUniqueId)));
  return ids[group[0]];
}

}  // namespace

absl::Status CheckOneRankPerGpu(const std::string& bus_id, Communicator& control) {
  // A place is text of a fixed length, which ranks can exchange.
  using Place = std::array<char, 320>;
  Place own = {};
  gethostname(own.data(), 255);
  const std::string text = absl::StrCat(own.data(), " GPU ", bus_id);
  own = {};
  text.copy(own.data(), own.size() - 1);
  std::vector<Place> places(control.size());
  TESSERA_RETURN_IF_ERROR(control.AllGather(reinterpret_cast<const std::byte*>(own.data()),
                                            reinterpret_cast<std::byte*>(places.data()),
                                            sizeof(Place)));
  for (int rank = 1; rank < control.size(); ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (places[rank] != places[other]) continue;
      return absl::InvalidArgumentError(absl::StrCat("ranks ", other, " and ", rank,
                                                     " have the same GPU (", places[rank].data(),
                                                     "); start at most one rank per GPU"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(CudaDevice& device,
                                                                 Communicator& control) {
  std::vector<int> all(control.size());
  std::iota(all.begin(), all.end(), 0);
  return MakeNcclGroupCollectives(device, control, {all});
}

absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclGroupCollectives(CudaDevice& device,
                                                                      Communicator& control,
                                                                      const RankGroups& groups) {
  const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& ranks) {
    return std::find(ranks.begin(), ranks.end(), control.rank()) != ranks.end();
  });
  TESSERA_CHECK(group != groups.end(), absl::StrCat("rank ", control.rank(), " has no group"));
  const auto rank = std::find(group->begin(), group->end(), control.rank()) - group->begin();
  auto collectives = std::make_unique<NcclCollectives>(device, control, static_cast<int>(rank),
                                                       static_cast<int>(group->size()));
  if (control.size() == 1) return collectives;
  TESSERA_RETURN_IF_ERROR(CheckOneRankPerGpu(device.bus_id(), control));
  TESSERA_ASSIGN_OR_RETURN(const ncclUniqueId id, ExchangeIds(*group, control));
  if (group->size() > 1) TESSERA_RETURN_IF_ERROR(collectives->Join(id));
  return collectives;
}

}  // namespace tessera
