#include "core/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr int kOldestMajor = 8;  // Ampere: bf16 on tensor cores, cp.async

// After a failure the lanes end by themselves, once collectives have been aborted;
// a GPU that hangs even so is given up.
constexpr std::chrono::seconds kPatience{20};

std::string Version(int version) {  // CUDA has 13020 for 13.2
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  int driver = 0;
  int runtime = 0;
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  const cudaError_t error = cudaDriverGetVersion(&driver);
  if (error != cudaSuccess || driver == 0) {
    return absl::UnavailableError(
        "there is no NVIDIA driver on this machine; install one, or use --device cpu");
  }
  int count = 0;
  switch (const cudaError_t counted = cudaGetDeviceCount(&count)) {
    case cudaSuccess:
      break;
    case cudaErrorInsufficientDriver:
      return absl::UnavailableError(absl::StrCat(
          "the NVIDIA driver is too old: it supports CUDA up to ", Version(driver),
          ", this program needs ", Version(runtime), "; update the driver, or use --device cpu"));
    case cudaErrorNoDevice:
      count = 0;
      break;
    default:
      return absl::UnavailableError(
          absl::StrCat(CudaStatus(counted, "cudaGetDeviceCount").message(),
                       "; look at nvidia-smi, or use --device cpu"));
  }
  if (count > 0) return count;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return absl::UnavailableError(
      visible == nullptr
          ? "there is no GPU on this machine; use --device cpu"
          : absl::StrCat("no GPU is visible, since CUDA_VISIBLE_DEVICES is \"", visible,
                         "\"; unset it or name a GPU, or use --device cpu"));
}

absl::StatusOr<std::string> CudaBusId(int index) {
  std::array<char, 64> bus_id = {};
  TESSERA_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index),
                 "cudaDeviceGetPCIBusId"));
  return std::string(bus_id.data());
}

// Recorded once at least; a wait for one that never was is none.
struct CudaDevice::CudaEvent final : Event {
  cudaEvent_t event = nullptr;
  bool recorded = false;

  ~CudaEvent() override {
    if (event != nullptr) cudaEventDestroy(event);
  }
};

class CudaDevice::Stream final : public CudaLane {
 public:
  Stream(CudaDevice& device, int index) : device_(device), index_(index) {}
  ~Stream() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Create() {
    return CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                      "cudaStreamCreateWithFlags");
  }

  cudaStream_t stream() const override { return stream_; }
  CudaFault* fault() const override { return device_.fault_; }
  std::byte* library_workspace() const override {
    return index_ == 0 ? device_.library_workspace_ : nullptr;
  }
  ThreadPool& pool() override { return device_.pool_; }

  void Enqueue(std::function<absl::Status()> work) override {
    if (device_.failed_) return;
    device_.Activate();
    if (const absl::Status status = work(); !status.ok()) device_.Fail(status);
  }

  void EnqueueHost(std::function<absl::Status()> work) override {
    if (device_.failed_) return;
    device_.Activate();
    auto host_work = std::make_unique<HostWork>(HostWork{device_, std::move(work)});
    const cudaError_t error = cudaLaunchHostFunc(stream_, &RunHostWork, host_work.get());
    if (error == cudaSuccess) {
      host_work.release();  // RunHostWork owns it
    } else {
      device_.Fail(CudaStatus(error, "cudaLaunchHostFunc"));
    }
  }

  void Record(Event& event) override {
    auto& own = static_cast<CudaEvent&>(event);
    device_.Activate();
    own.recorded = true;
    device_.FailIf(cudaEventRecord(own.event, stream_), "cudaEventRecord");
  }

  void Wait(Event& event) override {
    const auto& other = static_cast<const CudaEvent&>(event);
    if (!other.recorded) return;
    device_.Activate();
    device_.FailIf(cudaStreamWaitEvent(stream_, other.event, 0), "cudaStreamWaitEvent");
  }

  void Stamp(double* seconds) override {
    device_.Activate();
    cudaEvent_t& event = device_.stamps_[seconds];
    if (event == nullptr) device_.FailIf(cudaEventCreate(&event), "cudaEventCreate");
    if (device_.stamped_.empty()) {
      device_.FailIf(cudaEventRecord(device_.origin_, stream_), "cudaEventRecord");
    }
    device_.stamped_.push_back(seconds);
    device_.FailIf(cudaEventRecord(event, stream_), "cudaEventRecord");
  }

 private:
  struct HostWork {
    CudaDevice& device;
    std::function<absl::Status()> work;
  };

  static void RunHostWork(void* data) {
    const std::unique_ptr<HostWork> host_work(static_cast<HostWork*>(data));
    if (host_work->device.failed_) return;
    if (const absl::Status status = host_work->work(); !status.ok()) {
      host_work->device.Fail(status);
    }
  }

  CudaDevice& device_;
  const int index_;
  cudaStream_t stream_ = nullptr;
};

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const CudaDeviceOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  if (options.index >= count) {
    return absl::UnavailableError(absl::StrCat("GPU ", options.index, " is wanted, but ", count,
                                               count == 1 ? " is" : " are",
                                               " visible; start at most one rank per GPU"));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  TESSERA_RETURN_IF_ERROR(device->Initialize());
  return device;
}

CudaDevice::CudaDevice(const CudaDeviceOptions& options)
    : options_(options), pool_(options.threads) {}

absl::Status CudaDevice::Initialize() {
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options_.index), "cudaSetDevice"));
  cudaDeviceProp properties;
  TESSERA_RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, options_.index), "cudaGetDeviceProperties"));
  name_ = properties.name;
  if (properties.major < kOldestMajor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU ", options_.index, " (", name_, ") has compute capability ", properties.major, ".",
        properties.minor, "; ", kOldestMajor, ".0 is the oldest that this program is built for"));
  }
  TESSERA_ASSIGN_OR_RETURN(bus_id_, CudaBusId(options_.index));
  for (int index = 0; index < options_.lanes; ++index) {
    streams_.push_back(std::make_unique<Stream>(*this, index));
    TESSERA_RETURN_IF_ERROR(streams_.back()->Create());
  }
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&origin_), "cudaEventCreate"));
  TESSERA_ASSIGN_OR_RETURN(std::byte * fault, Allocate(MemoryKind::kHost, sizeof(CudaFault)));
  fault_ = new (fault) CudaFault;
  return absl::OkStatus();
}

CudaDevice::~CudaDevice() {
  Activate();
  Join().IgnoreError();
  streams_.clear();
  for (const auto& [seconds, event] : stamps_) cudaEventDestroy(event);
  if (origin_ != nullptr) cudaEventDestroy(origin_);
  for (const Memory& memory : memory_) {
    memory.kind == MemoryKind::kDevice ? cudaFree(memory.data) : cudaFreeHost(memory.data);
  }
}

void CudaDevice::Activate() const { cudaSetDevice(options_.index); }

absl::StatusOr<int64_t> CudaDevice::FreeBytes() const {
  Activate();
  size_t free = 0;
  size_t total = 0;
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  return static_cast<int64_t>(free);
}

absl::StatusOr<std::byte*> CudaDevice::Allocate(MemoryKind kind, int64_t bytes) {
  TESSERA_CHECK(bytes >= 0, absl::StrCat(bytes, " bytes"));
  Activate();
  // Files are read into, and written from, whole pages of the host.
  constexpr int64_t kPage = 4096;
  const bool on_host = kind == MemoryKind::kHost;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1) + (on_host ? kPage : 0));
  void* data = nullptr;
  if (on_host) {
    const cudaError_t error =
        cudaHostAlloc(&data, size, cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) {
      cudaGetLastError();  // it is no failure of what comes next
      const absl::Status status = CudaStatus(
          error, absl::StrCat("cudaHostAlloc of ", bytes, " bytes of pinned host memory"));
      return absl::Status(status.code(),
                          absl::StrCat(absl::string_view(status.message()),
                                       "; raise what this user may lock (ulimit -l), free memory "
                                       "of the host, or offload less to it"));
    }
    std::memset(data, 0, size);
  } else {
    if (const cudaError_t error = cudaMalloc(&data, size); error != cudaSuccess) {
      cudaGetLastError();  // it is no failure of what comes next
      const absl::StatusOr<int64_t> free = FreeBytes();
      return CudaStatus(
          error, absl::StrCat("cudaMalloc of ", bytes, " bytes on GPU ", options_.index, " (",
                              name_, "), of which ", free.ok() ? absl::StrCat(*free) : "unknown",
                              " bytes are free"));
    }
    TESSERA_RETURN_IF_ERROR(CudaStatus(cudaMemset(data, 0, size), "cudaMemset"));
    TESSERA_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"));
  }
  auto* const begin = static_cast<std::byte*>(data);
  memory_.push_back({kind, begin});
  if (!on_host) return begin;
  const auto past_page = reinterpret_cast<uintptr_t>(begin) % kPage;
  return past_page == 0 ? begin : begin + (kPage - past_page);
}

absl::Status CudaDevice::CopyToHost(const std::byte* device, void* host, int64_t bytes) {
  Activate();
  return CudaStatus(cudaMemcpy(host, device, static_cast<size_t>(bytes), cudaMemcpyDefault),
                    absl::StrCat("cudaMemcpy of ", bytes, " bytes to the host"));
}

absl::Status CudaDevice::CopyFromHost(const void* host, std::byte* device, int64_t bytes) {
  Activate();
  TESSERA_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpy(device, host, static_cast<size_t>(bytes), cudaMemcpyDefault),
                 absl::StrCat("cudaMemcpy of ", bytes, " bytes to the device")));
  // From pageable memory it may return before the last bytes are there, and the
  // lanes' streams do not wait for the default one.
  return CudaStatus(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

std::unique_ptr<Event> CudaDevice::CreateEvent() {
  Activate();
  auto event = std::make_unique<CudaEvent>();
  FailIf(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming),
         "cudaEventCreateWithFlags");
  return event;
}

Lane& CudaDevice::lane(int index) { return *streams_[index]; }

void CudaDevice::OnFailure(std::function<void(const absl::Status&)> callback) {
  const std::lock_guard lock(failure_mutex_);
  on_failure_ = std::move(callback);
}

void CudaDevice::Fail(const absl::Status& status) {
  std::function<void(const absl::Status&)> callback;
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    failed_ = true;
    callback = on_failure_;
  }
  if (callback) callback(status);
}

void CudaDevice::FailIf(cudaError_t error, const char* call) {
  if (error != cudaSuccess) Fail(CudaStatus(error, call));
}

void CudaDevice::ConfirmWith(const void* owner, std::function<absl::Status()> confirm) {
  std::erase_if(confirm_, [&](const auto& entry) { return entry.first == owner; });
  if (confirm) confirm_.emplace_back(owner, std::move(confirm));
}

absl::Status CudaDevice::Join() {
  Activate();
  absl::Status status = WaitForStreams();
  for (const auto& [owner, confirm] : confirm_) {
    if (status.ok() && !failed_) status = confirm();
  }
  if (status.ok()) status = CheckFault();
  if (status.ok() && !failed_) status = ReadStamps();
  if (!status.ok()) Fail(status);
  stamped_.clear();
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

// Looks now and then, instead of blocking: a stream that a lost peer holds up must
// not hold up the host.
absl::Status CudaDevice::WaitForStreams() {
  int looks = 0;
  std::chrono::steady_clock::time_point failed_since;
  for (const auto& stream : streams_) {
    while (true) {
      const cudaError_t error = cudaStreamQuery(stream->stream());
      if (error == cudaSuccess) break;
      if (error != cudaErrorNotReady) {
        return CudaStatus(error, "a kernel or copy that was issued before");
      }
      if (failed_) {
        const auto now = std::chrono::steady_clock::now();
        if (failed_since.time_since_epoch().count() == 0) failed_since = now;
        if (now - failed_since > kPatience) return absl::OkStatus();
      }
      constexpr int kImpatientLooks = 100;
      if (++looks > kImpatientLooks) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::CheckFault() {
  if (fault_ == nullptr || fault_->kind == CudaFault::kNone) return absl::OkStatus();
  const CudaFault fault = std::exchange(*fault_, CudaFault());
  return absl::OutOfRangeError(
      absl::StrCat(fault.kind == CudaFault::kTokenOutOfRange ? "token " : "target ", fault.value,
                   " in element ", fault.position, " of a micro-batch is not in the vocabulary of ",
                   fault.limit, ": check that the data was made with this model's tokenizer"));
}

absl::Status CudaDevice::ReadStamps() {
  for (double* const seconds : stamped_) {
    float milliseconds = 0;
    TESSERA_RETURN_IF_ERROR(CudaStatus(
        cudaEventElapsedTime(&milliseconds, origin_, stamps_[seconds]), "cudaEventElapsedTime"));
    *seconds = 1e-3 * milliseconds;
  }
  return absl::OkStatus();
}

}  // namespace tessera
