#include <algorithm>

#include "sharding/executor.h"

namespace tessera {

std::vector<Tensor> Executor::Fields(const Instruction& instruction) const {
  std::vector<Tensor> fields;
  for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
    for (const Access& access : *accesses) {
      if (access.role != Role::kField) continue;
      fields.push_back(View(access, model_.fields[access.index], plan_.options.micro_sequences));
    }
  }
  return fields;
}

MicroBatch Executor::MicroBatchOf(const Instruction& instruction,
                                  absl::Span<const Tensor> fields) const {
  MicroBatch micro_batch;
  micro_batch.fields = fields;
  micro_batch.index = plan_.MicroBatchOf(rank_, instruction.micro_step);
  micro_batch.step = context_->step;
  micro_batch.seed = context_->seed;
  micro_batch.training = plan_.options.kind == PlanOptions::Kind::kTrain;
  micro_batch.gradient_scale = context_->gradient_scale;
  return micro_batch;
}

Executor::Work Executor::BindStageBatch(const Instruction& instruction) {
  return [this, &instruction, fields = Fields(instruction)] {
    const int64_t micro_batch = plan_.MicroBatchOf(rank_, instruction.micro_step);
    const int64_t sequences = plan_.options.micro_sequences;
    return context_->source->Read(context_->first_sequence + micro_batch * sequences, sequences,
                                  fields);
  };
}

Executor::Work Executor::BindForward(const Instruction& instruction) {
  const Call& call = model_.calls[instruction.call];
  const Footprint& footprint = footprints_[instruction.call];
  const bool predicts =
      model_.IsLast(instruction.call) && plan_.options.kind == PlanOptions::Kind::kPredict;
  const Module* module = predicts ? model_.predictor.get() : call.module.get();

  std::vector<Tensor> parameters;
  std::vector<Tensor> saved(footprint.saved.size());
  for (size_t s = 0; s < saved.size(); ++s) {
    saved[s] = {nullptr, footprint.saved[s].dtype, footprint.saved[s].shape};
  }
  Tensor input;
  Tensor output = {nullptr, footprint.output.dtype, footprint.output.shape};
  std::byte* workspace = nullptr;
  double* loss = nullptr;
  for (const Access& read : instruction.reads) {
    if (read.role == Role::kInput) {
      input = View(read, footprints_[instruction.call - 1].output, 0);
    } else if (read.role == Role::kParameter) {
      const ParameterUse& use = call.uses[read.index];
      const Shape& shape = model_.units[use.unit].parameters[use.parameter].shape;
      parameters.push_back({At(read), model_.dtype, shape});
    }
  }
  for (const Access& write : instruction.writes) {
    if (write.role == Role::kSaved) saved[write.index].data = At(write);
    if (write.role == Role::kOutput || write.role == Role::kPrediction) output.data = At(write);
    if (write.role == Role::kWorkspace) workspace = At(write);
    if (write.role == Role::kLoss) loss = reinterpret_cast<double*>(At(write));
  }
  return [this, &instruction, module, fields = Fields(instruction), input, parameters, output,
          saved, workspace, loss] {
    const MicroBatch micro_batch = MicroBatchOf(instruction, fields);
    return module->Forward({device_.lane(static_cast<int>(instruction.lane)), micro_batch, input,
                            parameters, output, saved, workspace, loss});
  };
}

Executor::Work Executor::BindBackward(const Instruction& instruction) {
  const Call& call = model_.calls[instruction.call];
  const Footprint& footprint = footprints_[instruction.call];

  std::vector<Tensor> parameters(call.uses.size());
  std::vector<Tensor> gradients(call.uses.size());
  for (size_t p = 0; p < call.uses.size(); ++p) {
    const ParameterUse& use = call.uses[p];
    const Shape& shape = model_.units[use.unit].parameters[use.parameter].shape;
    parameters[p] = {nullptr, model_.dtype, shape};
    gradients[p] = parameters[p];
  }
  std::vector<Tensor> saved(footprint.saved.size());
  Tensor input, output_gradient, input_gradient;
  std::byte* workspace = nullptr;
  double* loss = nullptr;
  for (const Access& read : instruction.reads) {
    if (read.role == Role::kInput) {
      input = View(read, footprints_[instruction.call - 1].output, 0);
    }
    if (read.role == Role::kParameter) parameters[read.index].data = At(read);
    if (read.role == Role::kSaved) saved[read.index] = View(read, footprint.saved[read.index], 0);
    if (read.role == Role::kOutputGradient) output_gradient = View(read, footprint.output, 0);
  }
  for (const Access& write : instruction.writes) {
    if (write.role == Role::kParameterGradient) {
      Tensor& gradient = gradients[write.index];
      gradient.data = At(write);
      // A contribution to a tied parameter stays in fp32 until all are added.
      const bool contribution = plan_.buffers[write.buffer].category == Category::kWorkspace;
      if (contribution) gradient.dtype = DType::kFloat32;
    }
    if (write.role == Role::kInputGradient) {
      input_gradient = View(write, footprints_[instruction.call - 1].output, 0);
    }
    if (write.role == Role::kWorkspace) workspace = At(write);
    if (write.role == Role::kLoss) loss = reinterpret_cast<double*>(At(write));
  }
  return [this, &instruction, module = call.module.get(), fields = Fields(instruction), input,
          parameters, saved, output_gradient, input_gradient, gradients, workspace, loss] {
    const MicroBatch micro_batch = MicroBatchOf(instruction, fields);
    return module->Backward({device_.lane(static_cast<int>(instruction.lane)), micro_batch, input,
                             parameters, saved, output_gradient, input_gradient, gradients,
                             workspace, loss});
  };
}

}  // namespace tessera
