#ifndef TESSERA_SHARDING_VALUE_H_
#define TESSERA_SHARDING_VALUE_H_

#include <cstdint>
#include <string>

namespace tessera {

// A symbol for what bytes of memory hold. Equal symbols are equal values.
struct Value {
  enum class Kind : uint8_t {
    kNothing,         // never written, or released
    kScratch,         // written, but means nothing to others
    kField,           // (field, micro-step)
    kParameter,       // (unit, version): 0 before the step, 1 after
    kMaster,          // (unit, version)
    kMomentum,        // (unit, version)
    kVariance,        // (unit, version)
    kHidden,          // (call, micro-step): the call's output
    kSaved,           // (call, micro-step)
    kLoss,            // (micro-step)
    kPrediction,      // (micro-step)
    kHiddenGradient,  // (call, micro-step)
    kContribution,    // (unit, parameter, call, micro-step)
    kLeaf,            // (unit, micro-step)
    kSlot,            // (unit, level): of the counter after so many leaves (micro-step)
    kOwnSum,          // (unit): the canonical sum of the rank's own leaves
    kPieces,          // (unit, micro-step or -1, first byte)
    kGradient,        // (unit): the canonical sum of the step, rounded
    kNorm,            // (number of units in it, whether they are the host's)
    kGlobalNorm,      // (whether of the host's units)
    kAllLosses,
    kClip,
  };
  Kind kind = Kind::kNothing;
  int64_t a = -1;
  int64_t b = -1;
  int64_t c = -1;
  int64_t d = -1;
  // What is at byte x of a buffer belongs at byte x + shift of the whole that it is a
  // part of.
  int64_t shift = 0;

  friend bool operator==(const Value&, const Value&) = default;
};

std::string NameOf(const Value& value);

}  // namespace tessera

#endif  // TESSERA_SHARDING_VALUE_H_
