#ifndef TESSERA_TOOLS_LAUNCH_ONE_HOST_H_
#define TESSERA_TOOLS_LAUNCH_ONE_HOST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// What mpirun needs to run any number of ranks on this host alone: variables for
// its environment, and folders of its own for as long as this object lives.
class OneHost {
 public:
  static absl::StatusOr<OneHost> Create();
  ~OneHost();
  OneHost(OneHost&&) = default;
  OneHost& operator=(OneHost&&) = delete;

  // NAME=value. Those under which a user may choose otherwise are not in it when
  // this process' own environment has them.
  const std::vector<std::string>& variables() const { return variables_; }

 private:
  OneHost() = default;

  std::vector<std::string> variables_;
  std::vector<std::string> folders_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_ONE_HOST_H_
