// NCCL's functions, of a library that is looked for when the first is called: the
// program starts where there is none, and one rank alone never calls them.

#include <dlfcn.h>
#include <nccl.h>

#include <string>

namespace {

constexpr char kLibrary[] = "libnccl.so.2";

struct Nccl {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  // Why there is none; never freed, since NCCL's errors may be read late.
  const std::string& error = *new std::string(library == nullptr ? dlerror() : "");
};

const Nccl& TheNccl() {
  static const Nccl nccl;
  return nccl;
}

// The library's function of this type and name, or null.
template <typename Function>
Function* Find(Function* /*of_this_type*/, const char* name) {
  if (TheNccl().library == nullptr) return nullptr;
  return reinterpret_cast<Function*>(dlsym(TheNccl().library, name));
}

template <typename... Parameters, typename... Arguments>
ncclResult_t Call(ncclResult_t (*own)(Parameters...), const char* name, Arguments... arguments) {
  const auto function = Find(own, name);
  return function == nullptr ? ncclSystemError : function(arguments...);
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  const auto function = Find(&ncclGetErrorString, __func__);
  return function == nullptr ? "there is no NCCL, which several ranks on GPUs need"
                             : function(result);
}

const char* ncclGetLastError(ncclComm_t communicator) {
  const auto function = Find(&ncclGetLastError, __func__);
  return function == nullptr ? TheNccl().error.c_str() : function(communicator);
}

ncclResult_t ncclGetVersion(int* version) { return Call(&ncclGetVersion, __func__, version); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return Call(&ncclGetUniqueId, __func__, id); }

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  return Call(&ncclCommInitRank, __func__, communicator, ranks, id, rank);
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return Call(&ncclCommDestroy, __func__, communicator);
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  return Call(&ncclCommAbort, __func__, communicator);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  return Call(&ncclCommGetAsyncError, __func__, communicator, error);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return Call(&ncclAllGather, __func__, send, receive, count, type, communicator, stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return Call(&ncclAllReduce, __func__, send, receive, count, type, operation, communicator,
              stream);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return Call(&ncclSend, __func__, data, count, type, peer, communicator, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return Call(&ncclRecv, __func__, data, count, type, peer, communicator, stream);
}

ncclResult_t ncclGroupStart() { return Call(&ncclGroupStart, __func__); }

ncclResult_t ncclGroupEnd() { return Call(&ncclGroupEnd, __func__); }

}  // extern "C"
