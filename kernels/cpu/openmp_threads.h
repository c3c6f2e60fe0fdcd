#ifndef TESSERA_KERNELS_CPU_OPENMP_THREADS_H_
#define TESSERA_KERNELS_CPU_OPENMP_THREADS_H_

// All that is used of OpenMP, in which oneDNN runs its own threads: how many it may
// take when the calling thread calls it. Declared here because <omp.h> belongs to
// each compiler's own runtime, while oneDNN is linked with GCC's.
extern "C" void omp_set_num_threads(int threads);

#endif  // TESSERA_KERNELS_CPU_OPENMP_THREADS_H_
