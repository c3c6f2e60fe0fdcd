#include "core/data/token_file.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/data/byte_tokenizer.h"
#include "core/data/token_writer.h"
#include "core/without_privileges.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string TempPath(const std::string& name) { return testing::TempDir() + "/" + name; }

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// An llm.c file: the header's three first words, then tokens of the given type.
template <typename Token>
std::string LlmcBytes(int32_t magic, int32_t version, int32_t count,
                      const std::vector<Token>& tokens) {
  std::string bytes(1024, '\0');
  const int32_t words[3] = {magic, version, count};
  std::memcpy(bytes.data(), words, sizeof(words));
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token));
  return bytes;
}

std::string Narrow(int32_t magic, int32_t version, int32_t count, int tokens) {
  return LlmcBytes(magic, version, count, std::vector<uint16_t>(tokens, 7));
}

std::vector<int32_t> ReadAll(const std::string& path, int64_t vocabulary) {
  const auto file = TokenFile::Open(path, vocabulary);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> tokens((*file)->tokens());
  const absl::Status status = (*file)->Read(0, absl::MakeSpan(tokens));
  EXPECT_TRUE(status.ok()) << status;
  return tokens;
}

TEST(TokenFile, ReadsEveryFormat) {
  const std::string path = TempPath("formats.bin");
  WriteBytes(path, LlmcBytes<uint16_t>(20240520, 1, 3, {1, 65535, 3}));
  EXPECT_EQ(ReadAll(path, 65536), (std::vector<int32_t>{1, 65535, 3}));
  WriteBytes(path, LlmcBytes<uint32_t>(20240801, 7, 3, {1, 100000, 3}));
  EXPECT_EQ(ReadAll(path, 128256), (std::vector<int32_t>{1, 100000, 3}));
  WriteBytes(path, std::string("\x01\x00\x51\xc4\x02\x00", 6));
  EXPECT_EQ(ReadAll(path, 50258), (std::vector<int32_t>{1, 50257, 2}));
}

TEST(TokenFile, ReadsARange) {
  const std::string path = TempPath("range.bin");
  ASSERT_TRUE(WriteTokenFile(path, {10, 11, 12, 13, 14}).ok());
  const auto file = TokenFile::Open(path, 15);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> out(3);
  ASSERT_TRUE((*file)->Read(2, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{12, 13, 14}));
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;  // after "PATH: "
};

TEST(TokenFile, RefusesWhatIsNotATokenFile) {
  const std::vector<BadFile> table = {
      {"empty", "", "empty; expected a token file"},
      {"one byte", "x",
       "1 bytes and no llm.c header at offset 0; uint16 tokens take an even number of bytes: the "
       "file is cut short, or is not a token file"},
      {"odd length", "abcdefg",
       "7 bytes and no llm.c header at offset 0; uint16 tokens take an even number of bytes: the "
       "file is cut short, or is not a token file"},
      {"header cut", Narrow(20240520, 1, 3, 3).substr(0, 1023),
       "1023 bytes, but the llm.c header alone takes 1024; the file is cut short: make it again"},
      {"magic alone", Narrow(20240520, 1, 3, 3).substr(0, 4),
       "4 bytes, but the llm.c header alone takes 1024; the file is cut short: make it again"},
      {"version", Narrow(20240520, 2, 3, 3),
       "offset 4: version 2 of the llm.c token format 20240520; expected 1: convert the file, or "
       "make it again"},
      {"wide version", LlmcBytes<uint32_t>(20240801, 1, 1, {5}),
       "offset 4: version 1 of the llm.c token format 20240801; expected 7: convert the file, or "
       "make it again"},
      {"negative count", Narrow(20240520, 1, -3, 3),
       "offset 8: -3 tokens; expected 0 or more: the header is damaged, make the file again"},
      {"cut short", Narrow(20240520, 1, 4, 3),
       "1030 bytes, but the header (offset 8) says 4 tokens of 2 bytes; expected 1032 bytes: the "
       "file is cut short, make it again"},
      {"half a token", Narrow(20240520, 1, 3, 3).substr(0, 1029),
       "1029 bytes, but the header (offset 8) says 3 tokens of 2 bytes; expected 1030 bytes: the "
       "file is cut short, make it again"},
      {"too long", Narrow(20240520, 1, 2, 3),
       "1030 bytes, but the header (offset 8) says 2 tokens of 2 bytes; expected 1028 bytes: the "
       "file is too long, make it again"},
      {"wide cut short", LlmcBytes<uint32_t>(20240801, 7, 2, {5}),
       "1028 bytes, but the header (offset 8) says 2 tokens of 4 bytes; expected 1032 bytes: the "
       "file is cut short, make it again"},
      {"huge count", Narrow(20240520, 1, 2147483647, 3),
       "1030 bytes, but the header (offset 8) says 2147483647 tokens of 2 bytes; expected "
       "4294968318 bytes: the file is cut short, make it again"},
      {"model", Narrow(20240326, 3, 3, 3),
       "offset 0: magic number 20240326 is a model of llm.c; expected 20240520 (uint16 tokens) or "
       "20240801 (uint32 tokens)"},
      {"evaluation", Narrow(20240522, 1, 3, 3),
       "offset 0: magic number 20240522 is a multiple-choice evaluation of llm.c; expected "
       "20240520 (uint16 tokens) or 20240801 (uint32 tokens)"},
      {"unknown kind", Narrow(20241111, 1, 3, 3),
       "offset 0: magic number 20241111 is an unknown kind of llm.c file; expected 20240520 "
       "(uint16 tokens) or 20240801 (uint32 tokens)"},
  };
  const std::string path = TempPath("bad.bin");
  for (const BadFile& bad : table) {
    SCOPED_TRACE(bad.name);
    WriteBytes(path, bad.bytes);
    const auto file = TokenFile::Open(path, 100);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(file.status().message(), path + ": " + bad.message);
  }
}

TEST(TokenFile, RefusesWhatCannotBeOpened) {
  const std::string missing = TempPath("missing.bin");
  auto file = TokenFile::Open(missing, 100);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file.status().message(),
            missing + ": cannot open the token file: No such file or directory");

  const std::string folder = TempPath("folder.bin");
  std::filesystem::create_directory(folder);
  file = TokenFile::Open(folder, 100);
  EXPECT_EQ(file.status().message(), folder + ": not a regular file; expected a token file");

  const std::string pipe = TempPath("pipe.bin");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  file = TokenFile::Open(pipe, 100);
  EXPECT_EQ(file.status().message(), pipe + ": not a regular file; expected a token file");
}

TEST(TokenFile, RefusesWhatMayNotBeRead) {
  const std::string path = TempPath("secret.bin");
  ASSERT_TRUE(WriteTokenFile(path, {1, 2}).ok());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const WithoutPrivileges like_anybody;
  const auto file = TokenFile::Open(path, 100);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(file.status().message(), path + ": cannot open the token file: Permission denied");
}

TEST(TokenFile, NamesATokenOutOfRange) {
  const std::string path = TempPath("range_error.bin");
  std::vector<int32_t> out(2);
  ASSERT_TRUE(WriteTokenFile(path, {1, 2, 255, 256}).ok());
  auto file = TokenFile::Open(path, 256);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Read(1, absl::MakeSpan(out)).ok());
  absl::Status status = (*file)->Read(2, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            path +
                ": offset 1030: token number 3 is 256; expected less than the vocabulary of 256: "
                "raise model.vocabulary, or use data of the model's own tokenizer");

  WriteBytes(path, LlmcBytes<uint32_t>(20240801, 7, 2, {1, 4294967295u}));
  file = TokenFile::Open(path, 256);
  ASSERT_TRUE(file.ok());
  status = (*file)->Read(0, absl::MakeSpan(out));
  EXPECT_EQ(status.message(),
            path +
                ": offset 1028: token number 1 is 4294967295; expected less than the vocabulary "
                "of 256: raise model.vocabulary, or use data of the model's own tokenizer");
}

TEST(TokenFile, NoticesAChange) {
  const std::string path = TempPath("changing.bin");
  ASSERT_TRUE(WriteTokenFile(path, std::vector<int32_t>(10000, 7)).ok());
  const auto file = TokenFile::Open(path, 256);
  ASSERT_TRUE(file.ok());
  std::vector<int32_t> out(10000);
  ASSERT_TRUE((*file)->Read(0, absl::MakeSpan(out)).ok());

  std::filesystem::resize_file(path, 2048);
  absl::Status status = (*file)->Read(0, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), path +
                                  ": changed size while in use, from 21024 to 2048 bytes; leave "
                                  "data files alone during a run");

  std::filesystem::resize_file(path, 21024);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  status = (*file)->Read(0, absl::MakeSpan(out));
  EXPECT_EQ(status.message(),
            path + ": modified while in use; leave data files alone during a run");
}

TEST(TokenWriter, WritesNothingUntilItIsClosed) {
  const std::string folder = TempPath("writer");
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/tokens.bin";
  {
    auto writer = TokenWriter::Create(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Append({1, 2}).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    const absl::Status status = writer->Append({65536});
    EXPECT_EQ(status.message(),
              path + ": token 65536 does not fit; a uint16 token file holds 0 to 65535");
    EXPECT_EQ(writer->Append({-1}).message(),
              path + ": token -1 does not fit; a uint16 token file holds 0 to 65535");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));

  const std::string text = std::string("any byte: \0\xff", 12);
  auto writer = TokenWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Append(EncodeBytes(text.substr(0, 5))).ok());
  ASSERT_TRUE(writer->Append(EncodeBytes(text.substr(5))).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(DecodeBytes(ReadAll(path, kByteVocabulary)), text);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(TokenWriter, SaysWhyItCannotWrite) {
  const std::string path = TempPath("no/such/folder/tokens.bin");
  EXPECT_EQ(WriteTokenFile(path, {1}).message(),
            path + ".partial: cannot create: No such file or directory");
}

}  // namespace
}  // namespace tessera
