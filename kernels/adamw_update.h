#ifndef TESSERA_KERNELS_ADAMW_UPDATE_H_
#define TESSERA_KERNELS_ADAMW_UPDATE_H_

#include <cmath>

#include "core/host_device.h"

namespace tessera::kernels {

// One step's constants of AdamW, rounded to float once.
struct AdamWScalars {
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float epsilon = 0;
  float decay = 0;            // 1 - learning_rate * weight_decay
  float step_size = 0;        // learning_rate / (1 - beta1^step)
  float root_correction = 0;  // 1 / sqrt(1 - beta2^step)
};

// `step` counts from 1.
inline AdamWScalars MakeAdamWScalars(double learning_rate, double beta1, double beta2,
                                     double epsilon, double weight_decay, double step) {
  return {static_cast<float>(beta1),
          static_cast<float>(1 - beta1),
          static_cast<float>(beta2),
          static_cast<float>(1 - beta2),
          static_cast<float>(epsilon),
          static_cast<float>(1 - learning_rate * weight_decay),
          static_cast<float>(learning_rate / (1 - std::pow(beta1, step))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)))};
}

// AdamW of one parameter, wherever it runs: Loshchilov and Hutter, "Decoupled
// weight decay regularization" (ICLR 2019), in the form of PyTorch's, which
// decays by the learning rate.
TESSERA_HOST_DEVICE inline void AdamWUpdate(const AdamWScalars& scalars, float gradient,
                                            float& parameter, float& first_moment,
                                            float& second_moment) {
  first_moment = std::fma(scalars.beta1, first_moment, scalars.one_minus_beta1 * gradient);
  second_moment =
      std::fma(scalars.beta2, second_moment, scalars.one_minus_beta2 * gradient * gradient);
  const float denominator =
      std::fma(std::sqrt(second_moment), scalars.root_correction, scalars.epsilon);
  parameter = std::fma(-scalars.step_size, first_moment / denominator, parameter * scalars.decay);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ADAMW_UPDATE_H_
