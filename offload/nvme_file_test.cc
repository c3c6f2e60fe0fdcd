#include "offload/nvme_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/without_privileges.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kPage = kNvmeAlignment;

class Memory {
 public:
  explicit Memory(int64_t bytes)
      : data_(
            static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)),
            &std::free) {}
  std::byte* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

std::byte Expected(int64_t offset) {
  return static_cast<std::byte>(offset * 31 % 251 + offset / 7001);
}

class NvmeFileTest : public ::testing::Test {
 protected:
  NvmeFileTest() {
    std::string name = ::testing::TempDir() + "/nvme-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data()));
  }
  ~NvmeFileTest() override { std::filesystem::remove_all(folder_); }

  const std::string& folder() const { return folder_; }
  size_t FilesLeft() const {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      (void)entry;
      ++files;
    }
    return files;
  }

 private:
  std::string folder_;
};

// Writes ranges of `sizes` one after the other, each from a page on, and reads them back
// in one list, backwards.
void ExpectMoved(NvmeFile* file, const std::vector<int64_t>& sizes) {
  int64_t bytes = 0;
  for (int64_t size : sizes) bytes += (size + kPage - 1) / kPage * kPage;
  const Memory from(bytes);
  const Memory to(bytes);
  std::memset(to.data(), 0xee, bytes);
  for (int64_t i = 0; i < bytes; ++i) from.data()[i] = Expected(i);
  std::vector<NvmeFile::Transfer> writes, reads;
  int64_t at = 0;
  for (int64_t size : sizes) {
    writes.push_back({from.data() + at, at, size});
    reads.insert(reads.begin(), {to.data() + at, at, size});
    at += (size + kPage - 1) / kPage * kPage;
  }
  ASSERT_TRUE(file->Write(writes).ok());
  const absl::Status read = file->Read(reads);
  ASSERT_TRUE(read.ok()) << read;
  for (const NvmeFile::Transfer& range : writes) {
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i) {
      ASSERT_EQ(to.data()[i], from.data()[i]) << "byte " << i;
    }
  }
}

TEST_F(NvmeFileTest, MovesExactlyWhatItIsGiven) {
  const auto file = NvmeFile::Create(folder(), 40 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(FilesLeft(), 0u);
  ExpectMoved(file->get(), {});
  ExpectMoved(file->get(), {1});
  ExpectMoved(file->get(), {0, kPage, 0, 1, kPage - 1, kPage + 1});
  ExpectMoved(file->get(), {(20 << 20) + 2048, IoQueue::kBlockBytes, IoQueue::kBlockBytes + 1, 77});
  std::vector<int64_t> many(300, kPage + 5);
  ExpectMoved(file->get(), many);
}

TEST_F(NvmeFileTest, OfNoBytes) {
  const auto file = NvmeFile::Create(folder(), 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Read({}).ok());
}

TEST_F(NvmeFileTest, StartsAsZeros) {
  const auto file = NvmeFile::Create(folder(), 3 * kPage + 1);
  ASSERT_TRUE(file.ok()) << file.status();
  const Memory memory(4 * kPage);
  std::memset(memory.data(), 0xee, 4 * kPage);
  ASSERT_TRUE((*file)->Read({{memory.data(), 0, 3 * kPage + 1}}).ok());
  for (int64_t i = 0; i < 3 * kPage + 1; ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
}

TEST_F(NvmeFileTest, ReadsAndWritesAtOnce) {
  const auto file = NvmeFile::Create(folder(), 16 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  const Memory from(8 << 20), to(8 << 20);
  for (int64_t i = 0; i < (8 << 20); ++i) from.data()[i] = Expected(i);
  ASSERT_TRUE((*file)->Write({{from.data(), 0, 8 << 20}}).ok());
  std::thread writer([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE((*file)->Write({{from.data(), 8 << 20, 8 << 20}}).ok());
    }
  });
  for (int i = 0; i < 5; ++i) {
    std::memset(to.data(), 0, 8 << 20);
    EXPECT_TRUE((*file)->Read({{to.data(), 0, 8 << 20}}).ok());
    EXPECT_EQ(std::memcmp(from.data(), to.data(), 8 << 20), 0);
  }
  writer.join();
}

// Runs `body` in a process of its own; whether it said that all was well.
bool InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A file that the process was killed over is gone too.
TEST_F(NvmeFileTest, LeavesNothingWhenKilled) {
  const pid_t child = fork();
  if (child == 0) {
    const auto file = NvmeFile::Create(folder(), 1 << 20);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(FilesLeft(), 0u);
}

// A refusal names the folder, the size, errno and what to do.
bool Refuses(const std::string& folder, int64_t bytes, absl::StatusCode code, int error,
             absl::string_view advice) {
  const absl::Status status = NvmeFile::Create(folder, bytes).status();
  const bool clear = status.code() == code && absl::StrContains(status.message(), folder) &&
                     absl::StrContains(status.message(), absl::StrCat(bytes, " bytes")) &&
                     absl::StrContains(status.message(), absl::StrCat("errno ", error)) &&
                     absl::StrContains(status.message(), advice);
  if (!clear) std::cerr << status << "\n";
  return clear;
}

TEST_F(NvmeFileTest, RefusesWhatIsNoFolderOfThisUsers) {
  EXPECT_TRUE(
      Refuses(folder() + "/missing", 8192, absl::StatusCode::kNotFound, ENOENT, "make the folder"));
  const std::string file = folder() + "/file";
  close(open(file.c_str(), O_CREAT | O_RDWR, 0600));
  EXPECT_TRUE(Refuses(file, 8192, absl::StatusCode::kNotFound, ENOTDIR, "memory.nvme.path"));
  const std::string closed = folder() + "/closed";
  ASSERT_EQ(mkdir(closed.c_str(), 0755), 0);
  ASSERT_EQ(chmod(closed.c_str(), 0500), 0);
  const WithoutPrivileges as_a_user;
  EXPECT_TRUE(Refuses(closed, 8192, absl::StatusCode::kPermissionDenied, EACCES, "may write to"));
}

TEST_F(NvmeFileTest, RefusesMoreThanTheProcessMayWrite) {
  EXPECT_TRUE(InChild([&] {
    const rlimit limit = {1 << 20, 1 << 20};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           Refuses(folder(), 2 << 20, absl::StatusCode::kResourceExhausted, EFBIG, "ulimit -f") &&
           NvmeFile::Create(folder(), 1 << 20).ok();
  }));
  EXPECT_EQ(FilesLeft(), 0u);
}

// With a file system of `type` on a folder of its own; false if the system lets no user
// mount one.
bool Mount(const std::string& folder, const char* type, const char* options) {
  const std::string user = absl::StrCat("0 ", geteuid(), " 1");
  const std::string group = absl::StrCat("0 ", getegid(), " 1");
  const auto set = [](const char* path, const std::string& text) {
    const int file = open(path, O_WRONLY);
    return write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           close(file) == 0;
  };
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && set("/proc/self/setgroups", "deny") &&
         set("/proc/self/uid_map", user) && set("/proc/self/gid_map", group) &&
         mount("none", folder.c_str(), type, 0, options) == 0;
}

bool CanMount(const std::string& folder) {
  return InChild([&] { return Mount(folder, "tmpfs", "size=1m"); });
}

TEST_F(NvmeFileTest, RefusesAFullDisk) {
  if (!CanMount(folder())) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_TRUE(InChild([&] {
    return Mount(folder(), "tmpfs", "size=1m") &&
           Refuses(folder(), 2 << 20, absl::StatusCode::kResourceExhausted, ENOSPC,
                   "1048576 bytes are free") &&
           FilesLeft() == 0;
  }));
}

TEST_F(NvmeFileTest, GoesThroughThePageCacheWhereDirectIoIsRefused) {
  if (!CanMount(folder())) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_TRUE(InChild([&] {
    if (!Mount(folder(), "ramfs", "")) return false;
    const auto file = NvmeFile::Create(folder(), 1 << 20);
    if (!file.ok()) std::cerr << file.status() << "\n";
    if (!file.ok() || !absl::StrContains((*file)->note(), "refuses direct I/O")) return false;
    ExpectMoved(file->get(), {5000, 700000});
    return !HasFailure();
  }));
}

// The number of the file's descriptor, found from outside: that of the nameless file in
// the folder.
int DescriptorIn(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (absl::StartsWith(target, folder + "/")) return std::stoi(entry.path().filename());
  }
  return -1;
}

// Answers every system call `number` of this process, or those whose argument `argument` has
// all of `flags`, with `error`, as older systems and containers do.
bool Forbid(uint32_t number, uint32_t error, int argument = 0, uint32_t flags = 0) {
  const auto low_word = static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_word),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool ForbidIoUring() { return Forbid(__NR_io_uring_setup, EPERM); }

bool ForbidNamelessFiles() { return Forbid(__NR_openat, EOPNOTSUPP, 2, O_TMPFILE); }

TEST_F(NvmeFileTest, TakesTheNameAwayWhereFilesNeedOne) {
  EXPECT_TRUE(InChild([&] {
    if (!ForbidNamelessFiles()) return false;
    const auto file = NvmeFile::Create(folder(), 1 << 20);
    if (!file.ok() || FilesLeft() != 0) return false;
    ExpectMoved(file->get(), {5000, 700000});
    return !HasFailure();
  }));
}

TEST_F(NvmeFileTest, LeavesNothingWhereFilesNeedANameAndDirectIoIsRefused) {
  if (!CanMount(folder())) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_TRUE(InChild([&] {
    if (!Mount(folder(), "ramfs", "") || !ForbidNamelessFiles()) return false;
    const auto file = NvmeFile::Create(folder(), 1 << 20);
    return file.ok() && absl::StrContains((*file)->note(), "refuses direct I/O") &&
           FilesLeft() == 0;
  }));
}

TEST_F(NvmeFileTest, IsWholeWhereTheFileSystemReservesNoPlace) {
  EXPECT_TRUE(InChild([&] {
    if (!Forbid(__NR_fallocate, EOPNOTSUPP)) return false;
    const auto file = NvmeFile::Create(folder(), (1 << 20) + 5);
    if (!file.ok()) std::cerr << file.status() << "\n";
    struct stat found = {};
    if (!file.ok() || fstat(DescriptorIn(folder()), &found) != 0) return false;
    if (found.st_blocks * 512 < (1 << 20) + kPage) return false;
    ExpectMoved(file->get(), {5000, 700000});
    return !HasFailure();
  }));
}

// Linux 5.1 to 5.5 has rings, which cannot say what they know, and do not know reading.
TEST_F(NvmeFileTest, WorksWithAnOlderIoUring) {
  EXPECT_TRUE(InChild([&] {
    if (!Forbid(__NR_io_uring_register, EINVAL)) return false;
    const auto file = NvmeFile::Create(folder(), 1 << 20);
    if (!file.ok() || !absl::StrContains((*file)->note(), "io_uring cannot be used")) return false;
    ExpectMoved(file->get(), {5000, 700000});
    return !HasFailure();
  }));
}

TEST_F(NvmeFileTest, WorksWithoutIoUring) {
  EXPECT_TRUE(InChild([&] {
    if (!ForbidIoUring()) return false;
    const auto file = NvmeFile::Create(folder(), 40 << 20);
    if (!file.ok() || !absl::StrContains((*file)->note(), "io_uring cannot be used")) return false;
    ExpectMoved(file->get(), {(20 << 20) + 2048, kPage, 1});
    return !HasFailure();
  }));
}

// What the system answers when something else stands behind the descriptor.
class BrokenFile : public NvmeFileTest, public ::testing::WithParamInterface<bool> {
 protected:
  // Calls check(file, memory, descriptor), in a process of its own.
  void With(const std::function<bool(NvmeFile&, std::byte*, int)>& check) {
    EXPECT_TRUE(InChild([&] {
      if (!GetParam() && !ForbidIoUring()) return false;
      const auto file = NvmeFile::Create(folder(), 4 << 20);
      const Memory memory(4 << 20);
      std::memset(memory.data(), 1, 4 << 20);
      return file.ok() && check(**file, memory.data(), DescriptorIn(folder()));
    }));
  }

  bool Says(const absl::Status& status, std::initializer_list<absl::string_view> parts) const {
    bool all = !status.ok() && absl::StrContains(status.message(), folder());
    for (absl::string_view part : parts) all = all && absl::StrContains(status.message(), part);
    if (!all) std::cerr << status << "\n";
    return all;
  }
};

TEST_P(BrokenFile, ReadingPastWhatWasCut) {
  With([&](NvmeFile& file, std::byte* memory, int descriptor) {
    return ftruncate(descriptor, 1 << 20) == 0 && file.Read({{memory, 0, 1 << 20}}).ok() &&
           Says(file.Read({{memory, 0, 4 << 20}}), {"ended after", "at offset 1048576"});
  });
}

TEST_P(BrokenFile, WritingWhereThereIsNoRoom) {
  With([&](NvmeFile& file, std::byte* memory, int descriptor) {
    return dup2(open("/dev/full", O_RDWR), descriptor) >= 0 &&
           Says(file.Write({{memory, 8192, 4096}}),
                {"writing 4096 bytes at offset 8192", "No space left", "errno 28"});
  });
}

// Nothing is mapped at the first addresses, and to read there is an I/O error.
TEST_P(BrokenFile, AnInputOutputError) {
  With([&](NvmeFile& file, std::byte* memory, int descriptor) {
    return dup2(open("/proc/self/mem", O_RDWR), descriptor) >= 0 &&
           Says(file.Read({{memory, 4096, 8192}}),
                {"reading 8192 bytes at offset 4096", "Input/output error", "errno 5"}) &&
           Says(file.Write({{memory, 4096, 8192}}), {"errno 5"});
  });
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutIoUring, BrokenFile, ::testing::Bool());

}  // namespace
}  // namespace tessera
