// `tessera train --device`, where CUDA is simulated: what it pretends to find is in the
// environment.

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class CudaCommandTest : public ::testing::Test {
 protected:
  ~CudaCommandTest() override { unsetenv("TESSERA_CUDA_ON_CPU"); }

  static void Pretend(const char* machine) { setenv("TESSERA_CUDA_ON_CPU", machine, 1); }

  Result Train(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "run.yaml", "--metrics", "metrics.jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCommand(arguments);
  }

  std::vector<nlohmann::json> Metrics() { return ReadMetrics(place_ / "metrics.jsonl"); }

  Workplace place_;
};

TEST_F(CudaCommandTest, TrainsOnCuda) {
  const Result cpu = Train({"--device", "cpu"});
  ASSERT_EQ(cpu.status, 0) << cpu.error;
  const auto on_cpu = Metrics();
  const Result cuda = Train({"--device", "cuda"});
  ASSERT_EQ(cuda.status, 0) << cuda.error;
  EXPECT_EQ(cuda.error, "");
  EXPECT_THAT(cuda.out, HasSubstr("on 1 rank of "));
  const auto on_cuda = Metrics();
  ASSERT_EQ(on_cuda.size(), on_cpu.size());
  for (size_t i = 0; i < on_cuda.size(); ++i) {
    if (!on_cuda[i].contains("loss")) continue;
    EXPECT_NEAR(on_cuda[i]["loss"].get<double>(), on_cpu[i]["loss"].get<double>(), 2e-2);
  }
  // What is not chosen is chosen for its GPU.
  ASSERT_EQ(Train({"--device", "auto"}).status, 0);
  EXPECT_EQ(Metrics().back()["weights_digest"], on_cuda.back()["weights_digest"]);
}

TEST_F(CudaCommandTest, SaysWhatIsMissing) {
  const struct {
    const char *machine, *message;
  } cases[] = {
      {"driver=0", "there is no NVIDIA driver on this machine; install one, or use --device cpu"},
      {"driver=12020",
       "the NVIDIA driver is too old: it supports CUDA up to 12\\.2, this program needs 13\\.0; "
       "update the driver, or use --device cpu"},
      {"devices=0", "there is no GPU on this machine; use --device cpu"},
      {"architecture=75", ".*compute capability 7\\.5; 8\\.0 is the oldest.*"},
  };
  for (const auto& c : cases) {
    Pretend(c.machine);
    const Result result = Train({"--device", "cuda"});
    EXPECT_EQ(result.status, 1) << c.machine;
    EXPECT_THAT(result.error,
                MatchesRegex(std::string("tessera: error: (rank 0: )?") + c.message + "\n"));
  }
}

TEST_F(CudaCommandTest, WithoutAGpuAutoTakesTheCpuAndSaysSo) {
  Pretend("driver=0");
  const Result result = Train({"--device", "auto"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.error,
            "tessera: note: training on the CPU, since there is no NVIDIA driver on this machine; "
            "install one, or use --device cpu\n");
}

TEST_F(CudaCommandTest, ThePlanSaysWhatMemoryIsMissing) {
  Pretend("memory_mib=64");
  const Result result = Train({"--device", "cuda", "--set", "memory.device=1MiB"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, MatchesRegex("tessera: error: the run needs [0-9]+ bytes of device "
                                         "memory per rank, [0-9]+ more than the 1048576 there are "
                                         "\\(memory\\.device\\), most of them for workspace .*\n"));
}

TEST_F(CudaCommandTest, TwoRanksOnOneGpu) {
  Pretend("devices=1");
  const Result result = Train({"--device", "cuda", "--ranks", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("ranks 0 and 1 have the same GPU ("));
}

TEST_F(CudaCommandTest, TooFewGpusLeaveAutoTheCpu) {
  Pretend("devices=1");
  const Result result = Train({"--device", "auto", "--ranks", "2"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.error, MatchesRegex("tessera: note: training on the CPU, since ranks 0 and 1 "
                                         "have the same GPU \\(.*\n"));
}

TEST_F(CudaCommandTest, NoSuchDevice) {
  const Result result = Train({"--device", "tpu"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.error, "tessera: error: --device is tpu; expected auto, cpu or cuda\n");
}

}  // namespace
}  // namespace tessera::testing
