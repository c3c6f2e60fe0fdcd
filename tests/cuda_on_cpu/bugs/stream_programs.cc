#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "core/status.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// Work that several streams and the host share.
namespace tessera::cuda_on_cpu {
namespace {

constexpr int kCount = 512;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr int kRounds = 4;

void Succeed(cudaError_t error) { TESSERA_CHECK(error == cudaSuccess, cudaGetErrorName(error)); }

struct EventHandle {
  EventHandle() { Succeed(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
  ~EventHandle() { cudaEventDestroy(event); }
  void Record(const TestLane& lane) { Succeed(cudaEventRecord(event, lane.stream())); }
  void MakeWait(const TestLane& lane) { Succeed(cudaStreamWaitEvent(lane.stream(), event, 0)); }
  cudaEvent_t event = nullptr;
};

struct Pinned {
  explicit Pinned(size_t count) {
    Succeed(cudaHostAlloc(reinterpret_cast<void**>(&data), count * sizeof(float), 0));
  }
  ~Pinned() { cudaFreeHost(data); }
  float* data = nullptr;
};

// Upload, compute and download of several rounds, each in a stream of its own, with two
// buffers of each kind.
enum class Left : uint8_t {
  kNothing,
  kComputeWaitsForUpload,
  kUploadWaitsForCompute,
  kDownloadWaitsForCompute,
  kComputeWaitsForDownload,
  kHostWaitsForUpload,
  kHostWaitsForDownload,
  kUploadIsRecordedAfterIt,
};

bool Pipeline(Left left) {
  TestLane upload;
  TestLane compute;
  TestLane download;
  EventHandle uploaded[2];
  EventHandle computed[2];
  EventHandle downloaded[2];
  const Pinned source(2 * kCount);
  const Pinned result(kRounds * kCount);
  const DeviceArray<float> in(2 * kCount);
  const DeviceArray<float> out(2 * kCount);
  const std::vector<float> numbers = Numbers(kRounds * kCount);
  for (int round = 0; round < kRounds; ++round) {
    const int b = round % 2;
    float* const staged = source.data + b * kCount;
    float* const x = in.data() + b * kCount;
    float* const y = out.data() + b * kCount;
    if (left != Left::kHostWaitsForUpload) Succeed(cudaEventSynchronize(uploaded[b].event));
    std::memcpy(staged, numbers.data() + round * kCount, kBytes);
    if (left != Left::kUploadWaitsForCompute) computed[b].MakeWait(upload);
    if (left == Left::kUploadIsRecordedAfterIt) uploaded[b].Record(upload);
    Succeed(cudaMemcpyAsync(x, staged, kBytes, cudaMemcpyHostToDevice, upload.stream()));
    if (left != Left::kUploadIsRecordedAfterIt) uploaded[b].Record(upload);
    if (left != Left::kComputeWaitsForUpload) uploaded[b].MakeWait(compute);
    if (left != Left::kComputeWaitsForDownload) downloaded[b].MakeWait(compute);
    TESSERA_CHECK(Scale(compute, y, x, 3, kCount).ok(), "");
    computed[b].Record(compute);
    if (left != Left::kDownloadWaitsForCompute) computed[b].MakeWait(download);
    Succeed(cudaMemcpyAsync(result.data + round * kCount, y, kBytes, cudaMemcpyDeviceToHost,
                            download.stream()));
    downloaded[b].Record(download);
  }
  if (left != Left::kHostWaitsForDownload) Succeed(cudaStreamSynchronize(download.stream()));
  bool right = true;
  for (int i = 0; i < kRounds * kCount; ++i) right &= result.data[i] == 3 * numbers[i];
  return right;
}

template <Left kLeft>
bool PipelineWithout(bool bug) {
  return Pipeline(bug ? kLeft : Left::kNothing);
}

bool HostReadsDeviceMemory(bool bug) {
  const DeviceArray<float> x(Numbers(kCount));
  Succeed(cudaDeviceSynchronize());
  const float first = bug ? x.data()[0] : x.Values()[0];
  return first == Numbers(1)[0];
}

bool HostWritesDeviceMemory(bool bug) {
  const DeviceArray<float> x(Numbers(kCount));
  Succeed(cudaDeviceSynchronize());
  const float value = 7;
  if (bug) {
    x.data()[3] = value;
  } else {
    Succeed(cudaMemcpy(x.data() + 3, &value, sizeof(value), cudaMemcpyHostToDevice));
  }
  return x.Values()[3] == value;
}

bool HostFunctionCallsCuda(bool bug) {
  TestLane lane;
  Succeed(cudaLaunchHostFunc(
      lane.stream(),
      [](void* call) {
        int device = 0;
        if (*static_cast<bool*>(call)) static_cast<void>(cudaGetDevice(&device));
      },
      &bug));
  Succeed(cudaStreamSynchronize(lane.stream()));
  return true;
}

// A host function that adds up what another stream downloads.
bool HostFunctionBeforeDownload(bool bug) {
  TestLane download;
  TestLane host;
  const std::vector<float> numbers = Numbers(kCount);
  const DeviceArray<float> x(numbers);
  const Pinned pinned(kCount);
  EventHandle downloaded;
  struct Work {
    const float* data;
    float sum;
  } work{.data = pinned.data, .sum = 0};
  for (int i = 0; i < kCount; ++i) pinned.data[i] = 0;
  Succeed(
      cudaMemcpyAsync(pinned.data, x.data(), kBytes, cudaMemcpyDeviceToHost, download.stream()));
  downloaded.Record(download);
  if (!bug) downloaded.MakeWait(host);
  Succeed(cudaLaunchHostFunc(
      host.stream(),
      [](void* argument) {
        auto& sum = *static_cast<Work*>(argument);
        for (int i = 0; i < kCount; ++i) sum.sum += sum.data[i];
      },
      &work));
  Succeed(cudaStreamSynchronize(host.stream()));
  float expected = 0;
  for (const float number : numbers) expected += number;
  const bool right = work.sum == expected;
  Succeed(cudaStreamSynchronize(download.stream()));
  return right;
}

// What a kernel needs is zeroed in another stream.
bool ClearedInAnotherStream(bool bug) {
  TestLane clear;
  TestLane compute;
  EventHandle cleared;
  const DeviceArray<float> x(kCount);
  const DeviceArray<float> y(kCount);
  Succeed(cudaMemsetAsync(x.data(), 0, kBytes, clear.stream()));
  cleared.Record(clear);
  if (!bug) cleared.MakeWait(compute);
  TESSERA_CHECK(Scale(compute, y.data(), x.data(), 3, kCount).ok(), "");
  Succeed(cudaStreamSynchronize(compute.stream()));
  return y.Values() == std::vector<float>(kCount);
}

bool EventOfAnEarlierRecord(bool bug) {
  TestLane producer;
  TestLane consumer;
  EventHandle done;
  const std::vector<float> numbers = Numbers(kCount);
  const DeviceArray<float> x(numbers);
  const DeviceArray<float> y(kCount);
  const DeviceArray<float> z(kCount);
  done.Record(producer);
  if (bug) done.MakeWait(consumer);  // for what was recorded so far: nothing
  TESSERA_CHECK(Scale(producer, y.data(), x.data(), 3, kCount).ok(), "");
  done.Record(producer);
  if (!bug) done.MakeWait(consumer);
  TESSERA_CHECK(Scale(consumer, z.data(), y.data(), 1, kCount).ok(), "");
  Succeed(cudaStreamSynchronize(consumer.stream()));
  const std::vector<float> result = z.Values();
  bool right = true;
  for (int i = 0; i < kCount; ++i) right &= result[i] == 3 * numbers[i];
  return right;
}

bool CopyPastTheEnd(bool bug) {
  TestLane lane;
  const DeviceArray<float> x(Numbers(kCount));
  const DeviceArray<float> y(kCount);
  Succeed(cudaMemcpyAsync(y.data() + (bug ? 1 : 0), x.data(), kBytes, cudaMemcpyDeviceToDevice,
                          lane.stream()));
  return y.Values() == Numbers(kCount);
}

bool MemoryOfAnotherDevice(bool bug) {
  const DeviceArray<float> x(Numbers(kCount));
  Succeed(cudaSetDevice(bug ? 1 : 0));
  TestLane lane;
  const DeviceArray<float> y(kCount);
  TESSERA_CHECK(Scale(lane, y.data(), x.data(), 1, kCount).ok(), "");
  return y.Values() == Numbers(kCount);
}

}  // namespace

std::vector<Program> StreamPrograms() {
  return {
      {"compute does not wait for upload", &PipelineWithout<Left::kComputeWaitsForUpload>},
      {"upload overwrites what compute reads", &PipelineWithout<Left::kUploadWaitsForCompute>},
      {"download does not wait for compute", &PipelineWithout<Left::kDownloadWaitsForCompute>},
      {"compute overwrites what download reads", &PipelineWithout<Left::kComputeWaitsForDownload>},
      {"pinned source reused early", &PipelineWithout<Left::kHostWaitsForUpload>},
      {"host reads before it waits", &PipelineWithout<Left::kHostWaitsForDownload>},
      {"event recorded before the copy", &PipelineWithout<Left::kUploadIsRecordedAfterIt>},
      {"wait for an event of an earlier record", &EventOfAnEarlierRecord},
      {"cleared in another stream", &ClearedInAnotherStream},
      {"host function before a download", &HostFunctionBeforeDownload},
      {"host function calls CUDA", &HostFunctionCallsCuda},
      {"host reads device memory", &HostReadsDeviceMemory},
      {"host writes device memory", &HostWritesDeviceMemory},
      {"copy past the end", &CopyPastTheEnd},
      {"kernel gets memory of another device", &MemoryOfAnotherDevice},
  };
}

}  // namespace tessera::cuda_on_cpu
