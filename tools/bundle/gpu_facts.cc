// Prints what a report on a GPU should say of the machine, as lines of "key=value".
// Exit status 1, with the reason on standard error, where no GPU can be used.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>

#include "core/cuda_device.h"
#include "core/status.h"
#include "tools/exit_status.h"

namespace tessera {
namespace {

absl::Status PrintFacts() {
  TESSERA_ASSIGN_OR_RETURN(const int gpus, CountCudaDevices());
  cudaDeviceProp gpu = {};
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties"));
  int driver = 0;
  int runtime = 0;
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  TESSERA_RETURN_IF_ERROR(CudaStatus(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  int nccl = 0;
  const bool has_nccl = ncclGetVersion(&nccl) == ncclSuccess;
  std::printf("gpus=%d\n", gpus);
  std::printf("gpu=%s\n", gpu.name);
  std::printf("compute_capability=%d.%d\n", gpu.major, gpu.minor);
  std::printf("multiprocessors=%d\n", gpu.multiProcessorCount);
  std::printf("memory_bytes=%zu\n", gpu.totalGlobalMem);
  std::printf("driver_cuda=%d.%d\n", driver / 1000, driver % 1000 / 10);
  std::printf("runtime_cuda=%d.%d\n", runtime / 1000, runtime % 1000 / 10);
  std::printf("cublaslt=%zu\n", cublasLtGetVersion());
  std::printf("nccl=%s\n", has_nccl ? std::to_string(nccl).c_str() : "none");
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main() {
  const absl::Status status = tessera::PrintFacts();
  return status.ok() ? tessera::FinishOutput() : tessera::ReportFailure(status, /*rank=*/-1);
}
