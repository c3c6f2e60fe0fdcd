#ifndef TESSERA_CORE_HOST_DEVICE_H_
#define TESSERA_CORE_HOST_DEVICE_H_

// Marks a function that kernels on a GPU call too.
#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

#endif  // TESSERA_CORE_HOST_DEVICE_H_
