#ifndef TESSERA_TESTS_CUDA_ON_CPU_NCCL_CLIQUE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_NCCL_CLIQUE_H_

#include <nccl.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/runtime/stream.h"

namespace tessera::cuda_on_cpu {

enum class Collective : uint8_t { kAllReduce, kAllGather, kBroadcast, kSend, kReceive };
const char* NameOf(Collective collective);

// What one rank asks of a collective, or of a send or a receive.
struct Part {
  Collective collective;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t operation;
  int peer;  // or the root
  bool done = false;

  size_t SendBytes() const;
  size_t ReceiveBytes(int ranks) const;
};
using PartPointer = std::shared_ptr<Part>;

// The ranks of one communicator: where their parts meet. With the lock held.
class Clique {
 public:
  explicit Clique(int ranks) : queues_(ranks), devices_(ranks, -1) {}

  int ranks() const { return static_cast<int>(queues_.size()); }

  void Join(int rank, int device);
  bool complete() const { return joined_ == ranks(); }
  // Two ranks on one device.
  bool SharesDevices() const;

  // The rank's stream has come to this part. The last to come does the work of all.
  // Reports ranks that ask for different things.
  void Post(int rank, const PartPointer& part);

  // Ends what a rank waits for, now and later; and its peers, if that reaches them.
  void Abort(int rank);
  bool failed() const { return failed_; }

  // Orders, for ThreadSanitizer, all that take part.
  const Token& order() const { return order_; }

 private:
  using Channel = std::pair<int, int>;  // from, to

  void TryCollectives();
  void TryChannel(const Channel& channel);
  void CheckAlike(const std::vector<PartPointer>& parts) const;
  void Perform(const std::vector<PartPointer>& parts) const;

  std::vector<std::deque<PartPointer>> queues_;  // collectives, a rank's in its order
  std::map<Channel, std::deque<PartPointer>> sends_;
  std::map<Channel, std::deque<PartPointer>> receives_;
  std::vector<int> devices_;
  std::vector<PartPointer> posted_;  // that are not done
  std::vector<bool> aborted_ = std::vector<bool>(queues_.size());
  int joined_ = 0;
  bool failed_ = false;
  Token order_ = NewToken();
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_NCCL_CLIQUE_H_
