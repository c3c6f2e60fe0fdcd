#include "core/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status.h"

namespace tessera {
namespace {

// A message's length is an int in MPI.
constexpr int64_t kLargestMessage = int64_t{1} << 30;

absl::Status CheckMpi(int code, absl::string_view call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return absl::UnavailableError(absl::StrCat(call, ": ", absl::string_view(text.data(), length)));
}

// Looks again at once a few times, then sleeps, longer the longer nothing has
// happened. It never yields: a core's other thread would keep it for a whole
// time slice of milliseconds, while who wakes from a sleep gets it back at once.
class Backoff {
 public:
  void Reset() { pauses_ = 0; }
  void Pause() {
    if (++pauses_ <= kSpins) return;
    const int microseconds = std::min(20 + 2 * (pauses_ - kSpins), 100);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }

 private:
  static constexpr int kSpins = 20;
  int pauses_ = 0;
};

enum class Kind : uint8_t { kAllGather, kAllToAll, kBroadcast, kAllReduceSum, kBarrier };
constexpr std::array<const char*, 8> kNames = {"AllGather", "AllToAll", "Broadcast", "AllReduceSum",
                                               "Barrier",   "?",        "?",         "?"};

// All is done by messages that do not block, so that an abort can be noticed
// while waiting for them. A receive takes whatever the peer sent next: its tag
// then tells whether the peer made the same call.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() = default;
  ~MpiCommunicator() override {
    if (!failure_.ok() || world_ == MPI_COMM_NULL) return;
    MPI_Cancel(&abort_request_);
    MPI_Wait(&abort_request_, MPI_STATUS_IGNORE);
    MPI_Comm_free(&abort_world_);
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  absl::Status Join();

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) override {
    Begin(Kind::kAllGather);
    ForPeers([&](int peer) { Receive(peer, out + peer * bytes, bytes); });
    ForPeers([&](int peer) { Send(peer, own, bytes); });
    std::byte* slot = out + rank_ * bytes;
    if (bytes > 0 && own != slot) std::memcpy(slot, own, static_cast<size_t>(bytes));
    return Complete();
  }

  absl::Status AllToAll(const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    Begin(Kind::kAllToAll);
    ForPeers([&](int peer) {
      const int slot = peer < rank_ ? peer : peer - 1;
      Receive(peer, out + slot * bytes, bytes);
    });
    ForPeers([&](int peer) { Send(peer, send + peer * stride, bytes); });
    return Complete();
  }

  absl::Status Broadcast(std::byte* data, int64_t bytes, int root) override {
    Begin(Kind::kBroadcast);
    if (rank_ == root) {
      ForPeers([&](int peer) { Send(peer, data, bytes); });
    } else {
      Receive(root, data, bytes);
    }
    return Complete();
  }

  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    const size_t count = values.size();
    const auto bytes = static_cast<int64_t>(count * sizeof(int64_t));
    addends_.resize(count * size_);
    Begin(Kind::kAllReduceSum);
    ForPeers([&](int peer) {
      Receive(peer, reinterpret_cast<std::byte*>(addends_.data() + peer * count), bytes);
    });
    ForPeers(
        [&](int peer) { Send(peer, reinterpret_cast<const std::byte*>(values.data()), bytes); });
    TESSERA_RETURN_IF_ERROR(Complete());
    ForPeers([&](int peer) {
      for (size_t i = 0; i < count; ++i) {
        values[i] =
            static_cast<int64_t>(static_cast<uint64_t>(values[i]) + addends_[peer * count + i]);
      }
    });
    return absl::OkStatus();
  }

  absl::Status Barrier() override {
    Begin(Kind::kBarrier);
    ForPeers([&](int peer) { Receive(peer, nullptr, 0); });
    ForPeers([&](int peer) { Send(peer, nullptr, 0); });
    return Complete();
  }

  void Abort(const absl::Status& status) override;
  absl::Status Check() override {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = CheckAborted();
    return failure_;
  }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  // What a request in requests_ is about.
  struct Expectation {
    int peer = 0;
    int bytes = 0;
    bool receive = false;
  };

  // Each rank starts with another peer, or all would talk to rank 0 first.
  template <typename Body>
  void ForPeers(Body body) const {
    for (int step = 1; step < size_; ++step) body((rank_ + step) % size_);
  }

  // Every call is Begin, then Receives and Sends, then Complete.
  void Begin(Kind kind) {
    kind_ = kind;
    ++calls_;
    requests_.clear();
    expectations_.clear();
  }
  int Tag() const {
    return static_cast<int>(calls_ % 4096 * kNames.size()) + static_cast<int>(kind_);
  }
  void Send(int peer, const std::byte* data, int64_t bytes);
  void Receive(int peer, std::byte* data, int64_t bytes);
  absl::Status Complete();

  // These need mutex_.
  absl::Status Poll(bool* progress, bool* done);
  absl::Status CheckReceived(const Expectation& expected, int error,
                             const MPI_Status& status) const;
  absl::Status CheckAborted();

  // MPI is called by one thread at a time: whoever has the mutex.
  std::mutex mutex_;
  absl::Status failure_;  // guarded by mutex_

  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm abort_world_ = MPI_COMM_NULL;
  MPI_Request abort_request_ = MPI_REQUEST_NULL;
  std::array<char, 1024> abort_text_{};  // received
  std::string abort_message_;            // sent; a slow peer may still be taking it
  int rank_ = 0;
  int size_ = 1;

  Kind kind_ = Kind::kBarrier;
  int64_t calls_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<Expectation> expectations_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  std::vector<uint64_t> addends_;  // unsigned: a sum wraps around
  std::atomic<int64_t> bytes_sent_ = 0;
};

absl::Status MpiCommunicator::Join() {
  // Backoff's business, which mpirun knows nothing of.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/1);
  int provided = 0;
  TESSERA_RETURN_IF_ERROR(CheckMpi(
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread"));
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::UnavailableError("this MPI cannot be called from more than one thread");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  TESSERA_RETURN_IF_ERROR(CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &abort_world_), "MPI_Comm_dup"));
  TESSERA_RETURN_IF_ERROR(CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(abort_world_, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world_, &rank_);
  MPI_Comm_size(world_, &size_);
  TESSERA_RETURN_IF_ERROR(
      CheckMpi(MPI_Irecv(abort_text_.data(), static_cast<int>(abort_text_.size()), MPI_CHAR,
                         MPI_ANY_SOURCE, MPI_ANY_TAG, abort_world_, &abort_request_),
               "MPI_Irecv"));
  return Barrier();
}

void MpiCommunicator::Send(int peer, const std::byte* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  int64_t at = 0;
  do {  // a message even for no bytes, so that the peer sees what was called
    const int part = static_cast<int>(std::min(bytes - at, kLargestMessage));
    expectations_.push_back({.peer = peer, .bytes = part, .receive = false});
    MPI_Isend(data + at, part, MPI_BYTE, peer, Tag(), world_, &requests_.emplace_back());
    at += part;
  } while (at < bytes);
  bytes_sent_ += bytes;
}

void MpiCommunicator::Receive(int peer, std::byte* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  int64_t at = 0;
  do {
    const int part = static_cast<int>(std::min(bytes - at, kLargestMessage));
    expectations_.push_back({.peer = peer, .bytes = part, .receive = true});
    MPI_Irecv(data + at, part, MPI_BYTE, peer, MPI_ANY_TAG, world_, &requests_.emplace_back());
    at += part;
  } while (at < bytes);
}

absl::Status MpiCommunicator::Complete() {
  Backoff backoff;
  while (true) {
    bool progress = false;
    bool done = false;
    {
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = Poll(&progress, &done);
      TESSERA_RETURN_IF_ERROR(failure_);
    }
    if (done) return absl::OkStatus();
    if (progress) backoff.Reset();
    backoff.Pause();
  }
}

absl::Status MpiCommunicator::Poll(bool* progress, bool* done) {
  TESSERA_RETURN_IF_ERROR(CheckAborted());
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                completed_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) TESSERA_RETURN_IF_ERROR(CheckMpi(code, "MPI_Testsome"));
  *progress = count > 0;
  for (int i = 0; i < count; ++i) {
    const int error = code == MPI_ERR_IN_STATUS ? statuses_[i].MPI_ERROR : MPI_SUCCESS;
    TESSERA_RETURN_IF_ERROR(CheckReceived(expectations_[completed_[i]], error, statuses_[i]));
  }
  *done = std::all_of(requests_.begin(), requests_.end(),
                      [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
  return absl::OkStatus();
}

absl::Status MpiCommunicator::CheckReceived(const Expectation& expected, int error,
                                            const MPI_Status& status) const {
  if (!expected.receive) return CheckMpi(error, "MPI_Isend");
  const bool too_long = error == MPI_ERR_TRUNCATE;
  if (!too_long) TESSERA_RETURN_IF_ERROR(CheckMpi(error, "MPI_Irecv"));
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (!too_long && bytes == expected.bytes && status.MPI_TAG == Tag()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "ranks made different calls: rank ", rank_, " called ", kNames[static_cast<size_t>(kind_)],
      " with ", expected.bytes, " bytes, rank ", expected.peer, " called ",
      kNames[static_cast<size_t>(status.MPI_TAG) % kNames.size()], " with ",
      too_long ? "more" : absl::StrCat(bytes), " bytes"));
}

absl::Status MpiCommunicator::CheckAborted() {
  int aborted = 0;
  MPI_Status status;
  TESSERA_RETURN_IF_ERROR(CheckMpi(MPI_Test(&abort_request_, &aborted, &status), "MPI_Test"));
  if (aborted == 0) return absl::OkStatus();
  int length = 0;
  MPI_Get_count(&status, MPI_CHAR, &length);
  return absl::CancelledError(absl::StrCat("rank ", status.MPI_SOURCE, ": ",
                                           absl::string_view(abort_text_.data(), length)));
}

void MpiCommunicator::Abort(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok() && failure_.code() == absl::StatusCode::kCancelled) return;
  failure_ = absl::CancelledError(absl::StrCat("rank ", rank_, ": ", status.message()));
  abort_message_ = std::string(status.message().substr(0, abort_text_.size()));
  std::vector<MPI_Request> requests;
  ForPeers([&](int peer) {
    MPI_Isend(abort_message_.data(), static_cast<int>(abort_message_.size()), MPI_CHAR, peer, 0,
              abort_world_, &requests.emplace_back());
  });
  // A peer that is gone never takes its message.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int done = 0;
  while (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                     MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
         done == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

bool BuiltWithMpi() { return true; }

bool StartedByMpi() {
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("PMI_RANK") != nullptr;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinMpiWorld() {
  auto communicator = std::make_unique<MpiCommunicator>();
  TESSERA_RETURN_IF_ERROR(communicator->Join());
  return communicator;
}

}  // namespace tessera
