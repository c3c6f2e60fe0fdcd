#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/metrics/chrome_trace.h"
#include "core/metrics/json_lines.h"
#include "core/metrics/progress_line.h"
#include "core/philox.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

TEST(JsonLines, EveryLineIsThereAtOnceAndInOrder) {
  const std::string path = testing::TempDir() + "/metrics.jsonl";
  std::ofstream(path) << "an old run\n";
  auto lines = JsonLines::Create(path);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_TRUE(lines->Write({{"step", 1}, {"loss", 0.1}, {"memory", {{"device", 12}}}}).ok());
  EXPECT_EQ(ReadAll(path), "{\"step\":1,\"loss\":0.1,\"memory\":{\"device\":12}}\n");
  ASSERT_TRUE(lines->Write({{"step", 2}, {"loss", std::nan("")}, {"text", "\xff\n"}}).ok());
  EXPECT_EQ(ReadAll(path),
            "{\"step\":1,\"loss\":0.1,\"memory\":{\"device\":12}}\n"
            "{\"step\":2,\"loss\":null,\"text\":\"\xef\xbf\xbd\\n\"}\n");
}

TEST(JsonLines, GoesOnAfterTheLastLineThatIsKept) {
  const std::string path = testing::TempDir() + "/continued.jsonl";
  const auto up_to_two = [](const nlohmann::json& line) { return line["step"] <= 2; };
  const std::string kept = "{\"step\":1}\n{\"step\":2}\n";
  for (const char* rest : {"", "{\"step\":3}\n{\"step\":1}\n", "no JSON\n", "{\"step\":2}"}) {
    std::ofstream(path) << kept << rest;
    auto lines = JsonLines::Continue(path, up_to_two);
    ASSERT_TRUE(lines.ok()) << lines.status();
    ASSERT_TRUE(lines->Write({{"step", 7}}).ok());
    EXPECT_EQ(ReadAll(path), kept + "{\"step\":7}\n") << rest;
  }
  std::filesystem::remove(path);
  ASSERT_TRUE(JsonLines::Continue(path, up_to_two)->Write({{"step", 1}}).ok());
  EXPECT_EQ(ReadAll(path), "{\"step\":1}\n");
}

TEST(JsonLines, FloatsKeepTheirBits) {
  const std::string path = testing::TempDir() + "/bits.jsonl";
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0 / 3,
                                5e-324,
                                std::numeric_limits<double>::max(),
                                static_cast<double>(0.1f),
                                1e22,
                                123456789012345680.0};
  for (uint32_t i = 0; i < 5000; ++i) {
    const auto words = Philox(7, {i, 0, 0, 0});
    const double wild = std::bit_cast<double>(uint64_t{words[0]} << 32 | words[1]);
    if (std::isfinite(wild)) values.push_back(wild);
    const float narrow = std::bit_cast<float>(words[2]);
    if (std::isfinite(narrow)) values.push_back(narrow);
  }
  auto lines = JsonLines::Create(path);
  ASSERT_TRUE(lines.ok());
  ASSERT_TRUE(lines->Write({{"values", values}}).ok());
  const auto read = Json::parse(ReadAll(path))["values"].get<std::vector<double>>();
  ASSERT_EQ(read.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(read[i]), std::bit_cast<uint64_t>(values[i])) << values[i];
  }
}

TEST(JsonLines, SaysWhyItCannotWrite) {
  const auto missing = JsonLines::Create(testing::TempDir() + "/no/folder/metrics.jsonl");
  EXPECT_EQ(missing.status().message(), testing::TempDir() +
                                            "/no/folder/metrics.jsonl: cannot create: No such "
                                            "file or directory");
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto full = JsonLines::Create("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->Write({{"step", 1}}).message(),
            "/dev/full: cannot write: No space left on device");
}

TEST(ChromeTrace, HasARowForEveryLane) {
  const std::string path = testing::TempDir() + "/trace.json";
  ASSERT_TRUE(WriteChromeTrace(path, "rank 0",
                               {{"forward \"a\"", "compute", 0, 10.5},
                                {"gather b", "communication", 2, 3},
                                {"forward b", "compute", 10.5, 1}})
                  .ok());
  const Json rows = Json::parse(ReadAll(path))["traceEvents"];
  ASSERT_EQ(rows.size(), 6);
  EXPECT_EQ(rows[0]["args"]["name"], "rank 0");
  EXPECT_EQ(rows[1]["args"]["name"], "compute");
  EXPECT_EQ(rows[2]["name"], "forward \"a\"");
  EXPECT_EQ(rows[2]["ph"], "X");
  EXPECT_EQ(rows[2]["dur"], 10.5);
  EXPECT_EQ(rows[3]["args"]["name"], "communication");
  EXPECT_EQ(rows[4]["tid"], 1);
  EXPECT_EQ(rows[5]["tid"], 0);
  EXPECT_EQ(rows[5]["ts"], 10.5);
  EXPECT_FALSE(WriteChromeTrace(testing::TempDir() + "/no/folder/trace.json", "", {}).ok());
}

TEST(Human, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.00 KiB");
  EXPECT_EQ(HumanBytes(3.25 * 1048576), "3.25 MiB");
  EXPECT_EQ(HumanBytes(1048576 - 1), "1.00 MiB");
  EXPECT_EQ(HumanBytes(150e9), "140 GiB");
  EXPECT_EQ(HumanBytes(5e18), "4547474 TiB");
}

TEST(Human, CountAndDuration) {
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(45234), "45.2k");
  EXPECT_EQ(HumanCount(999999), "1.00M");
  EXPECT_EQ(HumanDuration(0.0123), "12ms");
  EXPECT_EQ(HumanDuration(4.24), "4.2s");
  EXPECT_EQ(HumanDuration(59.97), "1m00s");
  EXPECT_EQ(HumanDuration(187), "3m07s");
  EXPECT_EQ(HumanDuration(7505), "2h05m");
  EXPECT_EQ(HumanDuration(1e300), "?");
  EXPECT_EQ(HumanDuration(std::nan("")), "?");
}

TEST(Progress, IsOneLine) {
  EXPECT_EQ(ProgressLine({.step = 12,
                          .steps = 500,
                          .loss = 1.83421,
                          .learning_rate = 9.1e-4,
                          .grad_norm = 0.8219,
                          .tokens_per_second = 45234,
                          .mfu = 0.312,
                          .exposed_communication_seconds = 0.0123,
                          .bytes_sent = 3355443,
                          .memory = {{"device", 47185920}},
                          .seconds_left = 80}),
            "step  12/500  loss 1.8342  lr 9.10e-04  norm 0.822  45.2k tokens/s  mfu 31.2%  "
            "exposed 12ms  sent 3.20 MiB  device 45.0 MiB  1m20s left");
}

}  // namespace
}  // namespace tessera
