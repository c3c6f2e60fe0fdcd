#ifndef TESSERA_MODELS_INITIALIZATION_H_
#define TESSERA_MODELS_INITIALIZATION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "models/module.h"

namespace tessera {

// Elements [first, first + out.size()) of a parameter's initial values, in fp32:
// a pure function of (seed, stream, element), so that any part of a parameter can
// be made alone. `stream` is unique to the parameter in its model and below 2^28.
// Parameters have at most 2^34 elements.
void InitializeParameter(const ParameterSpec& parameter, uint64_t seed, uint32_t stream,
                         int64_t first, absl::Span<float> out);

}  // namespace tessera

#endif  // TESSERA_MODELS_INITIALIZATION_H_
