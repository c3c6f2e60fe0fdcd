#ifndef TESSERA_TESTS_CUDA_ON_CPU_FAULTS_PLANTED_H_
#define TESSERA_TESTS_CUDA_ON_CPU_FAULTS_PLANTED_H_

namespace tessera {

// Which of the faults in faults.bzl is on, counted from 1; 0 for none. At first as the
// variable TESSERA_PLANTED_FAULT of the environment says.
extern int planted_fault;

}  // namespace tessera

#endif  // TESSERA_TESTS_CUDA_ON_CPU_FAULTS_PLANTED_H_
