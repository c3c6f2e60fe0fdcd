#include "kernels/cpu/gemm.h"

#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera::kernels {

std::string GemmShape::Describe() const {
  return absl::StrCat(NameOf(input), " matrix product [", m, ", ", k, "] [", k, ", ", n, "] to ",
                      NameOf(output));
}

absl::StatusOr<const Gemm*> Gemm::Get(const GemmShape& shape) {
  static std::mutex mutex;
  static auto& products = *new std::map<GemmShape, std::unique_ptr<const Gemm>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Gemm>& product = products[shape];
  if (product == nullptr) {
    TESSERA_CHECK(shape.m > 0 && shape.n > 0 && shape.k > 0, shape.Describe());
    TESSERA_ASSIGN_OR_RETURN(product, Make(shape));
  }
  return product.get();
}

}  // namespace tessera::kernels
