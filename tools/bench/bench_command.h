#ifndef TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_
#define TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera bench [step] [adamw] [ranks] [plan] [gpu [--json FILE.json]]
// Prints ratios against ceilings that it measures in the same run; without
// arguments, of all parts that need no GPU. Returns the exit status.
int BenchCommand(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_BENCH_COMMAND_H_
