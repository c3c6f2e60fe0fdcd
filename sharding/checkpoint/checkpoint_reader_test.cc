#include "sharding/checkpoint/checkpoint_reader.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sharding/checkpoint/checkpoint_folder.h"

namespace tessera {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string ContentOf(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

// A checkpoint of one tensor of a few chunks, cut in three files with something in front.
class CheckpointReaderTest : public ::testing::Test {
 protected:
  static constexpr int64_t kElements = 600'000;  // two chunks and a bit

  CheckpointReaderTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/checkpoint-XXXXXX");
    root_ = mkdtemp(pattern.data());
    folder_ = std::make_unique<CheckpointFolder>(root_);
    values_.resize(kElements);
    std::iota(values_.begin(), values_.end(), 1.0F);
    EXPECT_TRUE(folder_->Acquire().ok());
    const std::string partial = *folder_->Begin(7);
    Manifest manifest;
    manifest.step = 7;
    manifest.settings = {"seed = 1"};
    manifest.tensors = {{"master.unit.x", {600, 1000}}, {"master.unit.empty", {0}}};
    const std::vector<int64_t> cuts = {0, 1, 300'001, kElements};
    for (size_t f = 0; f + 1 < cuts.size(); ++f) {
      Manifest::File file;
      file.name = absl::StrCat("file", f);
      const std::string front(64, ' ');
      file.pieces = {{"master.unit.x", cuts[f], cuts[f + 1] - cuts[f], 64}};
      const std::string content =
          front + std::string(reinterpret_cast<const char*>(values_.data() + cuts[f]),
                              file.pieces[0].elements * sizeof(float));
      file.bytes = static_cast<int64_t>(content.size());
      ChunkChecksums checksums;
      checksums.Append(content);
      file.checksums = checksums.Finish();
      EXPECT_TRUE(WriteFileAtomically(absl::StrCat(partial, "/", file.name), content).ok());
      manifest.files.push_back(file);
    }
    const absl::StatusOr<std::string> path = folder_->Publish(manifest);
    EXPECT_TRUE(path.ok()) << path.status();
    path_ = *path;
  }
  ~CheckpointReaderTest() override { std::filesystem::remove_all(root_); }

  // Reads [first, end); checks the values that come before an error.
  absl::Status Read(int64_t first, int64_t end) {
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(path_);
    if (!reader.ok()) return reader.status();
    int64_t next = first;
    const absl::Status status = reader->Read(
        [&](const std::string&) {
          return CheckpointReader::Range{first, end};
        },
        [&](const std::string& tensor, int64_t at, absl::Span<const float> values) {
          EXPECT_EQ(tensor, "master.unit.x");
          EXPECT_EQ(at, next);
          for (const float value : values) EXPECT_EQ(value, values_[next++]);
          return absl::OkStatus();
        });
    if (status.ok()) {
      EXPECT_EQ(next, end);
    }
    return status;
  }

  void Overwrite(const std::string& name, const std::string& content) {
    std::ofstream(absl::StrCat(path_, "/", name), std::ios::binary) << content;
  }

  std::string root_, path_;
  std::unique_ptr<CheckpointFolder> folder_;
  std::vector<float> values_;
};

TEST_F(CheckpointReaderTest, ReadsWhatIsWanted) {
  for (const auto& [first, end] : std::vector<std::pair<int64_t, int64_t>>{{0, kElements},
                                                                           {0, 1},
                                                                           {1, 2},
                                                                           {5, 300'002},
                                                                           {262'100, 262'200},
                                                                           {599'999, kElements}}) {
    EXPECT_TRUE(Read(first, end).ok()) << first << " to " << end;
  }
  EXPECT_TRUE(CheckpointReader::Open(path_)->Verify().ok());
}

// Whatever byte changes or is missing, it is told, with file and offset, and no wrong
// value comes out. TESSERA_LONG=1 tries 10,000.
TEST_F(CheckpointReaderTest, EveryByteCounts) {
  const int trials = std::getenv("TESSERA_LONG") != nullptr ? 2500 : 40;
  const RandomKey random = {11, RandomPurpose::kSample, 0};
  uint32_t draws = 0;
  for (const std::string name : {"manifest.json", "file0", "file1", "file2"}) {
    const std::string content = ContentOf(absl::StrCat(path_, "/", name));
    ASSERT_FALSE(content.empty());
    for (int trial = 0; trial < trials; ++trial) {
      const size_t at = random.Word(draws++) % content.size();
      std::string changed = content;
      if (trial % 4 == 0) {
        changed.resize(at);
      } else {
        changed[at] = static_cast<char>(changed[at] ^ (1 << random.Word(draws++) % 8));
      }
      Overwrite(name, changed);
      const absl::Status status = Read(0, kElements);
      ASSERT_TRUE(absl::IsDataLoss(status)) << name << " at " << at << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
      EXPECT_THAT(std::string(status.message()), HasSubstr("offset"));
    }
    Overwrite(name, content);
  }
  EXPECT_TRUE(Read(0, kElements).ok());
}

TEST_F(CheckpointReaderTest, MissingFiles) {
  std::filesystem::rename(path_ + "/file1", path_ + "/file3");
  absl::Status status = CheckpointReader::Open(path_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("file1: cannot open"));
  std::filesystem::remove(path_ + "/manifest.json");
  status = CheckpointReader::Open(path_).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

// What a manifest says is not believed where it makes no sense, whoever wrote it.
TEST_F(CheckpointReaderTest, ManifestsThatMakeNoSense) {
  const Manifest good = CheckpointReader::Open(path_)->manifest();
  const auto expect_refusal = [&](const std::function<void(Manifest*)>& change) {
    Manifest manifest = good;
    change(&manifest);
    Overwrite("manifest.json", ToText(manifest));
    const absl::Status status = CheckpointReader::Open(path_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status << "\n" << ToText(manifest).substr(0, 500);
  };
  expect_refusal([](Manifest* m) { m->files[1].pieces[0].offset = -4; });
  expect_refusal([](Manifest* m) { m->files[1].pieces[0].offset = 68; });
  expect_refusal([](Manifest* m) { m->files[1].pieces[0].elements = int64_t{1} << 62; });
  expect_refusal([](Manifest* m) { m->files[1].pieces[0].elements -= 1; });
  expect_refusal([](Manifest* m) { m->files[1].pieces[0].first += 1; });
  expect_refusal([](Manifest* m) { m->files[1].checksums.pop_back(); });
  expect_refusal([](Manifest* m) { m->files[1].bytes = -1; });
  expect_refusal([](Manifest* m) { m->files[1].name = "../file1"; });
  expect_refusal([](Manifest* m) { m->files.pop_back(); });
  expect_refusal([](Manifest* m) { m->tensors.pop_back(), m->tensors[0].shape = {600'001}; });
  expect_refusal([](Manifest* m) { m->tensors.erase(m->tensors.begin()); });
  Overwrite("manifest.json", ToText(good));
  EXPECT_TRUE(CheckpointReader::Open(path_).ok());
}

TEST_F(CheckpointReaderTest, FoldersTakeTurnsAndKeepWhatTheyShould) {
  CheckpointFolder& folder = *folder_;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckpointFolder(root_).Acquire()));
  for (const int64_t step : {10, 12, 20, 22, 24}) {
    Manifest manifest;
    manifest.step = step;
    ASSERT_TRUE(folder.Begin(step).ok());
    ASSERT_TRUE(folder.Publish(manifest).ok());
  }
  ASSERT_TRUE(folder.Begin(26).ok());  // and not finished
  const auto steps = [&] {
    std::vector<int64_t> steps;
    const std::vector<CheckpointFolder::Entry> entries = *folder.List();
    for (const CheckpointFolder::Entry& entry : entries) steps.push_back(entry.step);
    return steps;
  };
  EXPECT_THAT(steps(), ::testing::ElementsAre(24, 22, 20, 12, 10, 7));
  ASSERT_TRUE(folder.Prune(2, 10).ok());
  EXPECT_THAT(steps(), ::testing::ElementsAre(24, 22, 20, 10));
  // One of the same step takes the place of the one before.
  Manifest again;
  again.step = 24;
  again.sequences = 99;
  ASSERT_TRUE(folder.Begin(24).ok());
  ASSERT_TRUE(folder.Publish(again).ok());
  EXPECT_EQ(CheckpointReader::Open(folder.List()->front().path)->manifest().sequences, 99);
}

}  // namespace
}  // namespace tessera
