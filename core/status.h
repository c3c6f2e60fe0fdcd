#ifndef TESSERA_CORE_STATUS_H_
#define TESSERA_CORE_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::internal {

// Prints where the program's own assumption broke, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& detail);

}  // namespace tessera::internal

// For our own bugs only: what the outside world can cause is an absl::Status.
//   TESSERA_CHECK(bytes % 2 == 0, absl::StrCat("bytes ", bytes));
#define TESSERA_CHECK(condition, detail)                                        \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::tessera::internal::CheckFailed(__FILE__, __LINE__, #condition, detail); \
  } while (false)

#define TESSERA_RETURN_IF_ERROR(expression)                                            \
  do {                                                                                 \
    if (absl::Status tessera_status = (expression); !tessera_status.ok()) [[unlikely]] \
      return tessera_status;                                                           \
  } while (false)

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)

//   TESSERA_ASSIGN_OR_RETURN(int64_t bytes, ParseSize(text));
#define TESSERA_ASSIGN_OR_RETURN(declaration, expression) \
  TESSERA_ASSIGN_OR_RETURN_INNER(TESSERA_CONCAT(tessera_or_, __LINE__), declaration, expression)
#define TESSERA_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) [[unlikely]]                                        \
    return std::move(temporary).status();                                  \
  declaration = *std::move(temporary)

#endif  // TESSERA_CORE_STATUS_H_
