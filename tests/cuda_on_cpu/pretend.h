#ifndef TESSERA_TESTS_CUDA_ON_CPU_PRETEND_H_
#define TESSERA_TESTS_CUDA_ON_CPU_PRETEND_H_

#include <cstdint>

namespace tessera::cuda_on_cpu {

// The machine that the runtime's double pretends to run on. For tests to change before
// they call CUDA. From the environment, for a program that a test starts:
//   TESSERA_CUDA_ON_CPU="driver=0,devices=2,memory_mib=64,architecture=75"
struct Pretend {
  // As CUDA counts: 13000 is 13.0. 0 for none installed; less than the runtime's is
  // too old for it.
  int driver = 13000;
  int devices = 8;                          // 0: the driver finds none
  int64_t memory_bytes = int64_t{8} << 30;  // of each device
  // Compute capability, times ten. The kernels are for 80 and later.
  int architecture = 80;
  // Whether a rank's ncclCommAbort ends what its peers wait for, as it does over a
  // network; on one machine they wait until they abort too.
  bool abort_reaches_peers = true;
};

Pretend& Pretended();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_PRETEND_H_
