#include "tests/cuda_on_cpu/bugs/expected.h"

#include <map>

#include "core/status.h"

namespace tessera::cuda_on_cpu {
namespace {

// How a kind of bug shows in each mode.
struct Kind {
  Expected plain;
  Expected address;
  Expected thread;
};

constexpr Expected kNothing = {Outcome::kRight, 0};

// The same whatever the order.
constexpr Kind kWrongResult = {
    {Outcome::kWrong, 100}, {Outcome::kWrong, 100}, {Outcome::kWrong, 100}};
constexpr Kind kReported = {
    {Outcome::kReport, 100}, {Outcome::kReport, 100}, {Outcome::kReport, 100}};
constexpr Kind kReportedInSomeOrders = {
    {Outcome::kReport, 40}, {Outcome::kReport, 40}, {Outcome::kReport, 20}};
constexpr Kind kWrongInMostOrders = {
    {Outcome::kWrong, 60}, {Outcome::kWrong, 60}, {Outcome::kWrong, 40}};
// Between threads of a block, which run in many orders.
constexpr Kind kThreadsRace = {
    {Outcome::kWrong, 75}, {Outcome::kWrong, 75}, {Outcome::kSanitizer, 100}};
// Where no order of whole threads shows it.
constexpr Kind kOnlyRace = {kNothing, kNothing, {Outcome::kSanitizer, 100}};
// Between streams and the host.
constexpr Kind kStreamsRace = {
    {Outcome::kWrong, 10}, {Outcome::kWrong, 10}, {Outcome::kSanitizer, 100}};
constexpr Kind kWritesPastTheEnd = {
    {Outcome::kReport, 100}, {Outcome::kSanitizer, 100}, {Outcome::kReport, 100}};
constexpr Kind kOnlyAddress = {kNothing, {Outcome::kSanitizer, 100}, kNothing};
// Clang does not check the alignment of a structure that is copied, g++ does.
#ifdef __clang__
constexpr Kind kMisaligned = {kNothing, kNothing, kNothing};
#else
constexpr Kind kMisaligned = {kNothing, {Outcome::kSanitizer, 100}, kNothing};
#endif

const std::map<std::string, Kind>& Kinds() {
  static const auto& kinds = *new std::map<std::string, Kind>{
      {"no barrier before a read", kThreadsRace},
      {"no barrier before an overwrite", kThreadsRace},
      {"no __syncwarp", kThreadsRace},
      {"global write past the end", kWritesPastTheEnd},
      {"global read past the end", kOnlyAddress},
      {"shared write past the end", kWritesPastTheEnd},
      {"dynamic shared write past the end", kWritesPastTheEnd},
      {"divergent barrier", kReported},
      {"shuffle mask too wide", kReportedInSomeOrders},
      {"shuffle from a lane that is not there", kWrongResult},
      {"cp.async without a wait", kWrongResult},
      {"cp.async waits for all but the last", kWrongResult},
      {"cp.async without a barrier", kThreadsRace},
      {"shifted index", kWrongResult},
      {"uninitialised shared memory", kWrongResult},
      {"uninitialised global memory", kWrongResult},
      {"sum in shared memory without atomics", kOnlyRace},
      {"block reads another's output", kWrongInMostOrders},
      {"misaligned vector load", kMisaligned},
      {"kernel gets a pointer to host memory", kReported},
      {"kernel gets freed memory", kReported},
      {"ldmatrix without __syncwarp", kOnlyRace},
      {"registers of a fragment swapped", kWrongResult},
      {"ldmatrix not transposed", kWrongResult},
      {"mma by half a warp", kReported},
      {"compute does not wait for upload", kStreamsRace},
      {"upload overwrites what compute reads", kStreamsRace},
      {"download does not wait for compute", kStreamsRace},
      {"compute overwrites what download reads", kStreamsRace},
      {"pinned source reused early", kStreamsRace},
      {"host reads before it waits", kStreamsRace},
      {"event recorded before the copy", kStreamsRace},
      {"wait for an event of an earlier record", kStreamsRace},
      {"cleared in another stream", kStreamsRace},
      {"host function before a download", kStreamsRace},
      {"host function calls CUDA", kReported},
      {"host reads device memory", kOnlyAddress},
      {"host writes device memory", kOnlyAddress},
      {"copy past the end", kReported},
      {"kernel gets memory of another device", kReported},
      {"matmul does not wait for an operand", kStreamsRace},
      {"matmul does not wait for the bias", kStreamsRace},
      {"operand overwritten before matmul", kStreamsRace},
      {"reader does not wait for matmul", kStreamsRace},
      {"matmul's workspace holds something", kWrongResult},
      {"matmul's workspace past the end", kReported},
      {"gather does not wait for producer", kStreamsRace},
      {"consumer does not wait for gather", kStreamsRace},
      {"producer overwrites what gather sends", kStreamsRace},
      {"gather overwrites what consumer reads", kStreamsRace},
      {"collectives out of order", kReported},
      {"collectives of different sizes", kReported},
      {"collectives of different types", kReported},
      {"collectives of different roots", kReported},
      {"one collective too many", kReported},
      {"one collective too few", kReported},
      {"ring of sends without a group", kReported},
      {"send and receive of different sizes", kReported},
      {"collective from host memory", kReported},
  };
  return kinds;
}

}  // namespace

Expected ExpectedOf(const std::string& bug, Mode mode) {
  const auto found = Kinds().find(bug);
  TESSERA_CHECK(found != Kinds().end(), bug);
  switch (mode) {
    case Mode::kPlain:
      return found->second.plain;
    case Mode::kAddress:
      return found->second.address;
    default:
      return found->second.thread;
  }
}

}  // namespace tessera::cuda_on_cpu
