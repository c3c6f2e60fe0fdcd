#include "core/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera {
namespace {

// What one rank asks for, as the others see it.
struct Request {
  const char* name = "";
  int64_t bytes = 0;
  int root = 0;
  const std::byte* data = nullptr;
  int64_t stride = 0;

  bool Matches(const Request& other) const {
    return std::strcmp(name, other.name) == 0 && bytes == other.bytes && root == other.root;
  }
  std::string Describe(int rank) const {
    return absl::StrCat("rank ", rank, " called ", name, " with ", bytes, " bytes and root ", root);
  }
};

// Where the ranks meet. A collective is two meetings: at the first everybody has
// published a request, after the second nobody reads a peer's memory any more.
class Group {
 public:
  explicit Group(int size) : requests_(size) {}

  int size() const { return static_cast<int>(requests_.size()); }

  // Waits until every rank has published. Either all ranks return OK, or none.
  absl::Status Publish(int rank, const Request& request) {
    std::unique_lock lock(mutex_);
    TESSERA_RETURN_IF_ERROR(failure_);
    requests_[rank] = request;
    const int64_t meeting = meetings_;
    if (++arrived_ == size()) {
      failure_ = CheckRequests();
      if (failure_.ok()) NextMeeting();
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meetings_ != meeting || !failure_.ok(); });
    return meetings_ != meeting ? absl::OkStatus() : failure_;
  }

  // Between Publish and Leave.
  const Request& request(int rank) const { return requests_[rank]; }

  // Waits until every rank has left. All of them come, since nothing blocks
  // between Publish and here; so not even an abort ends it early, and no rank
  // gives up memory that a peer still reads.
  void Leave() {
    std::unique_lock lock(mutex_);
    const int64_t meeting = meetings_;
    if (++arrived_ == size()) {
      NextMeeting();
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meetings_ != meeting; });
  }

  void Abort(int rank, const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = absl::CancelledError(absl::StrCat("rank ", rank, ": ", status.message()));
    changed_.notify_all();
  }

  absl::Status Check() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void NextMeeting() {
    arrived_ = 0;
    ++meetings_;
  }

  absl::Status CheckRequests() const {
    for (int rank = 1; rank < size(); ++rank) {
      if (requests_[rank].Matches(requests_[0])) continue;
      return absl::InternalError(
          absl::StrCat("ranks made different calls: ", requests_[0].Describe(0), ", ",
                       requests_[rank].Describe(rank)));
    }
    return absl::OkStatus();
  }

  std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  std::vector<Request> requests_;
  int arrived_ = 0;
  int64_t meetings_ = 0;
  absl::Status failure_;
};

void Copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) override {
    TESSERA_RETURN_IF_ERROR(Publish({.name = "AllGather", .bytes = bytes, .data = own}));
    for (int peer = 0; peer < size(); ++peer) {
      Copy(out + peer * bytes, group_->request(peer).data, bytes);
    }
    group_->Leave();
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status AllToAll(const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    TESSERA_RETURN_IF_ERROR(
        Publish({.name = "AllToAll", .bytes = bytes, .data = send, .stride = stride}));
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const Request& request = group_->request(peer);
      Copy(out, request.data + rank_ * request.stride, bytes);
      out += bytes;
    }
    group_->Leave();
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status Broadcast(std::byte* data, int64_t bytes, int root) override {
    TESSERA_RETURN_IF_ERROR(
        Publish({.name = "Broadcast", .bytes = bytes, .root = root, .data = data}));
    Copy(data, group_->request(root).data, bytes);
    group_->Leave();
    if (rank_ == root) bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int64_t));
    TESSERA_RETURN_IF_ERROR(Publish({.name = "AllReduceSum",
                                     .bytes = bytes,
                                     .data = reinterpret_cast<const std::byte*>(values.data())}));
    sum_.assign(values.size(), 0);
    for (int peer = 0; peer < size(); ++peer) {
      const auto* addend = reinterpret_cast<const uint64_t*>(group_->request(peer).data);
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += addend[i];
    }
    group_->Leave();
    std::transform(sum_.begin(), sum_.end(), values.begin(),
                   [](uint64_t value) { return static_cast<int64_t>(value); });
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status Barrier() override {
    TESSERA_RETURN_IF_ERROR(Publish({.name = "Barrier"}));
    group_->Leave();
    return absl::OkStatus();
  }

  void Abort(const absl::Status& status) override { group_->Abort(rank_, status); }
  absl::Status Check() override { return group_->Check(); }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  absl::Status Publish(const Request& request) { return group_->Publish(rank_, request); }

  const std::shared_ptr<Group> group_;
  const int rank_;
  std::atomic<int64_t> bytes_sent_ = 0;
  std::vector<uint64_t> sum_;  // unsigned: a sum wraps around
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadWorld(int size) {
  const auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> world;
  world.reserve(size);
  for (int rank = 0; rank < size; ++rank) {
    world.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  }
  return world;
}

}  // namespace tessera
