#include "tests/support/cuda_world.h"

#include "core/cuda_device.h"
#include "core/nccl_collectives.h"
#include "core/status.h"
#include "core/thread_communicator.h"

#ifdef TESSERA_CUDA_ON_CPU
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/ranks.h"
#endif

namespace tessera::testing {

absl::StatusOr<RankDevice> MakeCudaRank(Communicator& communicator) {
  TESSERA_ASSIGN_OR_RETURN(
      std::unique_ptr<CudaDevice> device,
      CudaDevice::Create({.index = communicator.rank(), .lanes = kLanes, .threads = 1}));
  RankDevice rank;
  TESSERA_ASSIGN_OR_RETURN(rank.collectives, MakeNcclCollectives(*device, communicator));
  rank.device = std::move(device);
  return rank;
}

int LargestCudaWorld() { return CountCudaDevices().value_or(0); }

#ifdef TESSERA_CUDA_ON_CPU

namespace {

// Ranks take turns, and who waits for another one here must pass on its turn.
class PolitelyWaiting final : public Communicator {
 public:
  explicit PolitelyWaiting(Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) override {
    const cuda_on_cpu::BlockingSection section;
    return communicator_.AllGather(own, out, bytes);
  }
  absl::Status AllToAll(const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    const cuda_on_cpu::BlockingSection section;
    return communicator_.AllToAll(send, stride, out, bytes);
  }
  absl::Status Broadcast(std::byte* data, int64_t bytes, int root) override {
    const cuda_on_cpu::BlockingSection section;
    return communicator_.Broadcast(data, bytes, root);
  }
  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    const cuda_on_cpu::BlockingSection section;
    return communicator_.AllReduceSum(values);
  }
  absl::Status Barrier() override {
    const cuda_on_cpu::BlockingSection section;
    return communicator_.Barrier();
  }
  void Abort(const absl::Status& status) override { communicator_.Abort(status); }
  absl::Status Check() override { return communicator_.Check(); }
  int64_t bytes_sent() const override { return communicator_.bytes_sent(); }

 private:
  Communicator& communicator_;
};

}  // namespace

void InCudaWorld(int world, const RankFunction& run) {
  const std::vector<std::unique_ptr<Communicator>> communicators = MakeThreadWorld(world);
  cuda_on_cpu::RunRanks(world, [&](int rank) {
    PolitelyWaiting communicator(*communicators[rank]);
    run(communicator);
  });
}

bool CudaIsSimulated() { return true; }

void SetNcclAbortReachesPeers(bool reaches) {
  cuda_on_cpu::Pretended().abort_reaches_peers = reaches;
}

void SetCudaSeed(uint64_t seed) { cuda_on_cpu::SetSeed(seed); }

#else

void InCudaWorld(int world, const RankFunction& run) { InThreadWorld(world, run); }

bool CudaIsSimulated() { return false; }

void SetNcclAbortReachesPeers(bool /*reaches*/) {}

void SetCudaSeed(uint64_t /*seed*/) {}

#endif

}  // namespace tessera::testing
