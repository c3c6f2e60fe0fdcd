#include "tools/launch/one_host.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Whether a process may read the memory of another that has the same parent, as
// ranks do: one copy for a message instead of two. Containers often forbid it.
bool SiblingsReadEachOther() {
  const pid_t sleeper = fork();
  if (sleeper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    _exit(0);
  }
  const pid_t reader = fork();
  if (reader == 0) {
    static int value = 0;  // at the same address in both
    int copy = 0;
    const iovec local{&copy, sizeof(copy)};
    const iovec remote{&value, sizeof(value)};
    _exit(process_vm_readv(sleeper, &local, 1, &remote, 1, 0) == sizeof(copy) ? 0 : 1);
  }
  int status = 1;
  if (reader > 0) waitpid(reader, &status, 0);
  if (sleeper > 0) {
    kill(sleeper, SIGKILL);
    waitpid(sleeper, nullptr, 0);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::StatusOr<std::string> MakeFolder(const std::string& parent) {
  std::string path = parent + "/tessera.XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder in ", parent, ": ", std::strerror(errno)));
  }
  return path;
}

}  // namespace

absl::StatusOr<OneHost> OneHost::Create() {
  OneHost host;
  const auto set = [&host](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) host.variables_.push_back(absl::StrCat(name, "=", value));
  };
  if (geteuid() == 0) {  // normal in a container
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set("OMPI_MCA_hwloc_base_binding_policy", "none");
  set("OMPI_MCA_plm", "isolated");
  set("OMPI_MCA_pml", "ob1");
  set("OMPI_MCA_btl", "self,vader");
  if (!SiblingsReadEachOther()) {
    set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    // Ranks look for a message's next part now and then, so parts should be large.
    set("OMPI_MCA_btl_vader_max_send_size", "262144");
  }

  // Folders of its own: mpirun makes names from process ids, and containers that
  // share a folder may not share those. Short, since they may hold Unix sockets.
  auto session = MakeFolder("/tmp");
  if (!session.ok()) return session.status();
  host.folders_.push_back(*session);
  host.variables_.push_back(absl::StrCat("TMPDIR=", *session));
  if (const auto memory = MakeFolder("/dev/shm"); memory.ok()) {
    host.folders_.push_back(*memory);
    host.variables_.push_back(absl::StrCat("OMPI_MCA_btl_vader_backing_directory=", *memory));
  }
  return host;
}

OneHost::~OneHost() {
  std::error_code ignored;
  for (const std::string& folder : folders_) std::filesystem::remove_all(folder, ignored);
}

}  // namespace tessera
