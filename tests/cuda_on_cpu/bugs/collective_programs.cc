#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <vector>

#include "core/status.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/ranks.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// Four ranks that compute in one stream and communicate in another.
namespace tessera::cuda_on_cpu {
namespace {

constexpr int kRanks = 4;
constexpr int kCount = 128;
constexpr int kRounds = 3;

void Succeed(cudaError_t error) { TESSERA_CHECK(error == cudaSuccess, cudaGetErrorName(error)); }
void Succeed(ncclResult_t result) {
  TESSERA_CHECK(result == ncclSuccess, ncclGetErrorString(result));
}

class RankCommunicator {
 public:
  RankCommunicator(const ncclUniqueId& id, int rank) {
    Succeed(ncclCommInitRank(&communicator_, kRanks, id, rank));
  }
  ~RankCommunicator() { ncclCommDestroy(communicator_); }
  ncclComm_t get() const { return communicator_; }

 private:
  ncclComm_t communicator_ = nullptr;
};

class OrderedLanes {
 public:
  OrderedLanes() { Succeed(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~OrderedLanes() { cudaEventDestroy(event_); }
  // What `after` is given next comes after all that `before` was given.
  void Order(const TestLane& before, const TestLane& after) const {
    Succeed(cudaEventRecord(event_, before.stream()));
    Succeed(cudaStreamWaitEvent(after.stream(), event_, 0));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Runs `rank` on every rank; whether all were right.
template <typename Rank>
bool OnRanks(Rank rank) {
  ncclUniqueId id;
  Succeed(ncclGetUniqueId(&id));
  std::atomic<bool> right = true;
  RunRanks(kRanks, [&](int r) {
    Succeed(cudaSetDevice(r));
    const RankCommunicator communicator(id, r);
    if (!rank(r, communicator.get())) right = false;
  });
  return right;
}

enum class Left : uint8_t {
  kNothing,
  kGatherWaitsForProducer,
  kConsumerWaitsForGather,
  kProducerWaitsForGather,
  kGatherWaitsForConsumer,
};

// Each round: own = numbers * factor; gather own of all; used = 2 * gathered.
bool GatherRounds(Left left) {
  return OnRanks([left](int rank, ncclComm_t communicator) {
    TestLane produce;
    TestLane communicate;
    TestLane consume;
    const OrderedLanes lanes;
    const DeviceArray<float> numbers(Numbers(kCount));
    const DeviceArray<float> own(kCount);
    const DeviceArray<float> gathered(kRanks * kCount);
    const DeviceArray<float> used(kRounds * kRanks * kCount);
    for (int round = 0; round < kRounds; ++round) {
      if (left != Left::kProducerWaitsForGather) lanes.Order(communicate, produce);
      const auto factor = static_cast<float>(10 * round + rank);
      TESSERA_CHECK(Scale(produce, own.data(), numbers.data(), factor, kCount).ok(), "");
      if (left != Left::kGatherWaitsForProducer) lanes.Order(produce, communicate);
      if (left != Left::kGatherWaitsForConsumer) lanes.Order(consume, communicate);
      Succeed(ncclAllGather(own.data(), gathered.data(), kCount, ncclFloat, communicator,
                            communicate.stream()));
      if (left != Left::kConsumerWaitsForGather) lanes.Order(communicate, consume);
      TESSERA_CHECK(
          Scale(consume, used.data() + round * kRanks * kCount, gathered.data(), 2, kRanks * kCount)
              .ok(),
          "");
    }
    const std::vector<float> result = used.Values();
    const std::vector<float> expected = Numbers(kCount);
    bool right = true;
    for (int i = 0; i < kRounds * kRanks * kCount; ++i) {
      const int factor = 10 * (i / (kRanks * kCount)) + i / kCount % kRanks;
      right &= result[i] == 2 * expected[i % kCount] * static_cast<float>(factor);
    }
    return right;
  });
}

template <Left kLeft>
bool GatherWithout(bool bug) {
  return GatherRounds(bug ? kLeft : Left::kNothing);
}

// What differs between rank 1 and the others.
enum class Differs : uint8_t { kNothing, kOrder, kCount, kRoot, kType, kOneMore, kOneLess };

bool Collectives(Differs differs) {
  return OnRanks([differs](int rank, ncclComm_t communicator) {
    const Differs own = rank == 1 ? differs : Differs::kNothing;
    TestLane lane;
    const DeviceArray<float> x(Numbers(kCount));
    const DeviceArray<float> sum(kCount);
    const DeviceArray<float> gathered(kRanks * kCount);
    const auto reduce = [&] {
      const size_t count = own == Differs::kCount ? kCount / 2 : kCount;
      Succeed(ncclAllReduce(x.data(), sum.data(), count,
                            own == Differs::kType ? ncclInt32 : ncclFloat, ncclSum, communicator,
                            lane.stream()));
    };
    const auto gather = [&] {
      Succeed(
          ncclAllGather(x.data(), gathered.data(), kCount, ncclFloat, communicator, lane.stream()));
    };
    if (own == Differs::kOrder) gather();
    reduce();
    if (own != Differs::kOrder) gather();
    if (own != Differs::kOneLess) {
      Succeed(ncclBroadcast(x.data(), x.data(), kCount, ncclFloat, own == Differs::kRoot ? 1 : 2,
                            communicator, lane.stream()));
    }
    if (own == Differs::kOneMore) gather();
    Succeed(cudaStreamSynchronize(lane.stream()));
    const std::vector<float> result = sum.Values();
    const std::vector<float> expected = Numbers(kCount);
    bool right = true;
    for (int i = 0; i < kCount; ++i) right &= result[i] == kRanks * expected[i];
    return right;
  });
}

template <Differs kDiffers>
bool CollectivesWith(bool bug) {
  return Collectives(bug ? kDiffers : Differs::kNothing);
}

// Each rank sends to the next.
bool Ring(bool grouped, bool same_size) {
  return OnRanks([grouped, same_size](int rank, ncclComm_t communicator) {
    TestLane lane;
    std::vector<float> numbers = Numbers(kCount);
    numbers[0] = static_cast<float>(rank);
    const DeviceArray<float> x(numbers);
    const DeviceArray<float> y(kCount);
    const int before = (rank + kRanks - 1) % kRanks;
    const size_t count = !same_size && rank == 1 ? kCount / 2 : kCount;
    if (grouped) Succeed(ncclGroupStart());
    Succeed(ncclSend(x.data(), count, ncclFloat, (rank + 1) % kRanks, communicator, lane.stream()));
    Succeed(ncclRecv(y.data(), kCount, ncclFloat, before, communicator, lane.stream()));
    if (grouped) Succeed(ncclGroupEnd());
    Succeed(cudaStreamSynchronize(lane.stream()));
    return y.Values()[0] == static_cast<float>(before);
  });
}

bool RingWithoutAGroup(bool bug) { return Ring(!bug, true); }
bool RingOfDifferentSizes(bool bug) { return Ring(true, !bug); }

bool SendFromHostMemory(bool bug) {
  return OnRanks([bug](int rank, ncclComm_t communicator) {
    TestLane lane;
    std::vector<float> numbers(kCount, static_cast<float>(rank));
    const DeviceArray<float> x(numbers);
    const DeviceArray<float> sum(kCount);
    Succeed(ncclAllReduce(bug ? numbers.data() : x.data(), sum.data(), kCount, ncclFloat, ncclSum,
                          communicator, lane.stream()));
    return sum.Values() == std::vector<float>(kCount, 6);
  });
}

}  // namespace

std::vector<Program> CollectivePrograms() {
  return {
      {"gather does not wait for producer", &GatherWithout<Left::kGatherWaitsForProducer>},
      {"consumer does not wait for gather", &GatherWithout<Left::kConsumerWaitsForGather>},
      {"producer overwrites what gather sends", &GatherWithout<Left::kProducerWaitsForGather>},
      {"gather overwrites what consumer reads", &GatherWithout<Left::kGatherWaitsForConsumer>},
      {"collectives out of order", &CollectivesWith<Differs::kOrder>},
      {"collectives of different sizes", &CollectivesWith<Differs::kCount>},
      {"collectives of different types", &CollectivesWith<Differs::kType>},
      {"collectives of different roots", &CollectivesWith<Differs::kRoot>},
      {"one collective too many", &CollectivesWith<Differs::kOneMore>},
      {"one collective too few", &CollectivesWith<Differs::kOneLess>},
      {"ring of sends without a group", &RingWithoutAGroup},
      {"send and receive of different sizes", &RingOfDifferentSizes},
      {"collective from host memory", &SendFromHostMemory},
  };
}

}  // namespace tessera::cuda_on_cpu
