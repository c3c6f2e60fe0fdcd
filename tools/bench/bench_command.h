#ifndef TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_
#define TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera bench [step] [adamw] [ranks] [plan]
// Prints ratios against ceilings that it measures in the same run; all parts
// without arguments. Returns the exit status.
int BenchCommand(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_
