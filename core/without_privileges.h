#ifndef TESSERA_CORE_WITHOUT_PRIVILEGES_H_
#define TESSERA_CORE_WITHOUT_PRIVILEGES_H_

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "core/status.h"

namespace tessera {

// For tests: while it lives, file permissions bind this thread even if it is root's.
class WithoutPrivileges {
 public:
  WithoutPrivileges() {
    TESSERA_CHECK(syscall(SYS_capget, &header_, saved_.data()) == 0, "capget");
    auto reduced = saved_;
    reduced[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    Set(reduced);
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;
  ~WithoutPrivileges() { Set(saved_); }

 private:
  using Capabilities = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

  void Set(const Capabilities& capabilities) {
    TESSERA_CHECK(syscall(SYS_capset, &header_, capabilities.data()) == 0, "capset");
  }

  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  Capabilities saved_ = {};
};

}  // namespace tessera

#endif  // TESSERA_CORE_WITHOUT_PRIVILEGES_H_
