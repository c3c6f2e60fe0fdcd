#ifndef TESSERA_TOOLS_DATA_COMMAND_H_
#define TESSERA_TOOLS_DATA_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera data TEXT... --train FILE --validation FILE [--held-out PERCENT]
// Makes token files of bytes: every text is cut into 100 parts, of which every
// N-th goes to validation, so that both see all of it. Returns the exit status.
int DataCommand(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_DATA_COMMAND_H_
