"""Faults that are planted in copies of real sources, one turned on at a time."""

def _fault(name, source, edits, tests, plain, races = None):
    """A fault.

    Args:
      edits: from texts that each occur once in the source to what becomes of them; there
        FAULT is true while the fault is on.
      tests: a filter of gtest's for the tests that are to catch it.
      plain: what catches it: "wrong" (a test fails), "report" (the harness's), "crash" (a
        check of the program itself), or None, if nothing does.
      races: the same with ThreadSanitizer, there also "race"; as in plain if not given.
        That something catches it is asserted; what does is what was seen.
    """
    return struct(
        name = name,
        source = source,
        edits = edits,
        tests = tests,
        plain = _OUTCOMES[plain],
        races = _OUTCOMES[races or plain],
    )

_OUTCOMES = {
    None: "kRight",
    "crash": "kCrash",
    "race": "kSanitizer",
    "report": "kReport",
    "wrong": "kWrong",
}

_ADAMW = "//kernels/cuda:adamw.cu"
_ATTENTION_BACKWARD = "//kernels/cuda:attention_backward.cu"
_ATTENTION_FORWARD = "//kernels/cuda:attention_forward.cu"
_ATTENTION_GENERAL = "//kernels/cuda:attention_general.cu"
_CHUNK_SUM = "//kernels/cuda:chunk_sum.cu"
_COLUMN_SUM = "//kernels/cuda:column_sum.cu"
_CUBLASLT_PRODUCT = "//kernels/cuda:cublaslt_product.cc"
_CUDA_DEVICE = "//core:cuda_device.cc"
_ELEMENTWISE = "//kernels/cuda:elementwise.cu"
_EMBEDDING = "//kernels/cuda:embedding.cu"
_GELU = "//kernels/cuda:gelu.cu"
_NCCL = "//core:nccl_collectives.cc"
_NORMALIZATION = "//kernels/cuda:normalization.cu"
_ORDERED_SUM = "//kernels/cuda:ordered_sum.cu"
_SOFTMAX = "//kernels/cuda:softmax_cross_entropy.cu"
_SQUARE_NORM = "//kernels/cuda:square_norm.cu"
_SWIGLU = "//kernels/cuda:swiglu.cu"
_TOKEN_LISTS = "//kernels/cuda:token_lists.cu"

_ATTENTION_BF16 = "*CudaAttentionTest.HeadsShareKeys/bf16"
_ATTENTION_FP32 = "*CudaAttentionTest.HeadsShareKeys/fp32"
_LAYERNORM_BACKWARD = "CudaLayerNormTest.BackwardMatchesDoubles"
_TRAINING = "FaultyTraining.*"

FAULTS = [
    # Kernels.
    _fault("keys used before all have come", _ATTENTION_FORWARD, {
        """    WaitForCopies<0>();
    __syncthreads();
    LoadTile<T::kKeys, kHeadSize, T::kThreads>(values""": """    WaitForCopies<0>();
    if (!FAULT) __syncthreads();
    LoadTile<T::kKeys, kHeadSize, T::kThreads>(values""",
    }, _ATTENTION_BF16, "wrong", "race"),
    _fault("values used without a wait", _ATTENTION_FORWARD, {
        """    WaitForCopies<0>();
    __syncthreads();
    if (first_key""": """    if (!FAULT) WaitForCopies<0>();
    __syncthreads();
    if (first_key""",
    }, _ATTENTION_BF16, "wrong"),
    _fault("causal mask shifted by one", _ATTENTION_FORWARD, {
        "ColumnOf(e) <= warp_query + m * 16": "ColumnOf(e) + FAULT <= warp_query + m * 16",
    }, _ATTENTION_BF16, "wrong"),
    _fault("running sum forgotten at the next tile", _ATTENTION_FORWARD, {
        "sum[half] * correction": "(FAULT ? 0.0f : sum[half]) * correction",
    }, "*CudaAttentionTest.Lengths/bf16", "wrong"),
    _fault("one warp's P used before the other has it", _ATTENTION_BACKWARD, {
        """    __syncthreads();
    const float next_scalar""": """    if (!FAULT) __syncthreads();
    const float next_scalar""",
    }, _ATTENTION_BF16, "wrong", "race"),
    _fault("next tile loaded over the one in use", _ATTENTION_BACKWARD, {
        """    const int stage = step % kStages;
    LoadTile""": """    const int stage = FAULT ? 0 : step % kStages;
    LoadTile""",
    }, _ATTENTION_BF16, "wrong", "race"),
    _fault("query gradient without a barrier", _ATTENTION_BACKWARD, {
        """    __syncthreads();
    if (step + 1 < steps)""": """    if (!FAULT) __syncthreads();
    if (step + 1 < steps)""",
    }, _ATTENTION_BF16, "wrong", "race"),
    _fault("weights used without __syncwarp", _ATTENTION_GENERAL, {
        """    __syncwarp();
    AddWeighted<kHeadSize>(out""": """    if (!FAULT) __syncwarp();
    AddWeighted<kHeadSize>(out""",
    }, _ATTENTION_FP32, "wrong", "race"),
    _fault("one column of a tile for all", _ATTENTION_GENERAL, {
        "head.Row(first_row + row)[column]": "head.Row(first_row + row)[FAULT ? 0 : column]",
    }, _ATTENTION_FP32, "wrong"),
    _fault("one place for two sums of a block", _NORMALIZATION, {
        "shared[row % 2]": "shared[FAULT ? 0 : row % 2]",
    }, _LAYERNORM_BACKWARD, "wrong", "race"),
    _fault("padding counts in the variance", _NORMALIZATION, {
        "if (slots.Has(thread + s * kThreads, i)) squares": "if (FAULT || slots.Has(thread + s * kThreads, i)) squares",
    }, "CudaLayerNormTest.ForwardMatchesDoubles", "wrong"),
    _fault("bias gradient from the weight's sums", _NORMALIZATION, {
        "partial + width": "partial + (FAULT ? 0 : width)",
    }, _LAYERNORM_BACKWARD, "wrong"),
    _fault("no barrier before the maxima of warps", _SOFTMAX, {
        """  __syncthreads();
  total = {};""": """  if (!FAULT) __syncthreads();
  total = {};""",
    }, "CudaSoftmaxCrossEntropyTest.MatchesDoubles", "wrong", "race"),
    _fault("gradient at the next target", _SOFTMAX, {
        "slots.Element(slot, i) == target": "slots.Element(slot, i) == target + FAULT",
    }, "CudaSoftmaxCrossEntropyTest.MatchesDoubles", "wrong"),
    _fault("losses overwritten before they are added", _SOFTMAX, {
        """    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *total""": """    }
    if (!FAULT) __syncthreads();
  }
  if (threadIdx.x == 0) *total""",
    }, "CudaSoftmaxCrossEntropyTest.LossesAreAddedInOrder", "wrong", "race"),
    _fault("position of the next row", _EMBEDDING, {
        "row % length * slots.width": "(row + FAULT) % length * slots.width",
    }, "CudaEmbeddingTest.ForwardHasTheSameBitsAsTheCpu", "wrong"),
    _fault("no barrier in the scan of counts", _TOKEN_LISTS, {
        """  __syncthreads();
  int32_t before""": """  if (!FAULT) __syncthreads();
  int32_t before""",
    }, "CudaEmbeddingTest.BackwardHasTheSameBitsAsTheCpu", "wrong", "race"),
    _fault("rows of a token added backwards", _TOKEN_LISTS, {
        "places[other] < i ?": "(FAULT ? places[other] > i : places[other] < i) ?",
    }, "CudaEmbeddingTest.BackwardHasTheSameBitsAsTheCpu", "wrong"),
    _fault("counts without atomics", _TOKEN_LISTS, {
        "  atomicAdd(&starts[CheckedIndex": "  if (FAULT) ++starts[tokens[i] + 1];\n  else atomicAdd(&starts[CheckedIndex",
    }, "CudaEmbeddingTest.BackwardHasTheSameBitsAsTheCpu", None, "race"),
    _fault("a piece read twice", _ORDERED_SUM, {
        "load_piece(piece + 1, next)": "load_piece(piece + !FAULT, next)",
    }, "CudaOrderedSumTest.HardSizes", "wrong"),
    _fault("groups of one leaf more", _ORDERED_SUM, {
        "++in_group == counter.group": "++in_group == counter.group + FAULT",
    }, "CudaOrderedSumTest.SameBitsAsTheCpuHoweverItIsCut", "wrong"),
    _fault("clip factor without a barrier", _ADAMW, {
        """  __syncthreads();
  const float factor""": """  if (!FAULT) __syncthreads();
  const float factor""",
    }, "CudaAdamWTest.SameBitsAsTheCpu", "wrong", "race"),
    _fault("random words of the next elements", _ADAMW, {
        "(rounding.first + first) / 4)": "(rounding.first + first) / 4 + FAULT)",
    }, "CudaAdamWTest.StochasticRounding", "wrong"),
    _fault("sums of a block without a barrier", _SQUARE_NORM, {
        """  __syncthreads();
  if (thread < ExactSum::kWords &&""": """  if (!FAULT) __syncthreads();
  if (thread < ExactSum::kWords &&""",
    }, "CudaSquareNormTest.SameBitsAsTheCpu", "wrong", "race"),
    _fault("sums of a block without atomics", _SQUARE_NORM, {
        "AtomicAdd(&words[terms.first + i], terms.values[i]);": "FAULT ? void(words[terms.first + i] += terms.values[i]) : AtomicAdd(&words[terms.first + i], terms.values[i]);",
    }, "CudaSquareNormTest.SameBitsAsTheCpu", None, "race"),
    _fault("columns without a barrier", _COLUMN_SUM, {
        """  __syncthreads();
  // As many""": """  if (!FAULT) __syncthreads();
  // As many""",
    }, "CudaColumnSumTest.MatchesDoubles", "wrong", "race"),
    _fault("last chunk left out", _CHUNK_SUM, {
        "min(chunks, (run": "min(chunks - FAULT, (run",
    }, "CudaColumnSumTest.MatchesDoubles", "wrong"),
    _fault("store past the end", _GELU, {
        "StoreFloats(gradient, first, elements, vector, dx)": "StoreFloats(gradient, first, elements + (FAULT ? kMapElements : 0), vector, dx)",
    }, "*CudaGeluTest.AgreesWithDoublePrecision/fp32", "wrong", "report"),
    _fault("second half shifted", _SWIGLU, {
        "gate_start + slots.width": "gate_start + slots.width - FAULT",
    }, "*CudaSwiGluTest.AgreesWithDoublePrecision/fp32", "crash", "race"),
    _fault("first contribution alone", _ELEMENTWISE, {
        "c < contributions.count": "!FAULT && c < contributions.count",
    }, "CudaElementwiseTest.SumContributions", "wrong"),

    # The use of the runtime and of the libraries.
    _fault("product in the default stream", _CUBLASLT_PRODUCT, {
        "kWorkspaceBytes, lane.stream())": "kWorkspaceBytes, FAULT ? nullptr : lane.stream())",
    }, _TRAINING, "wrong", "race"),
    _fault("an operand not transposed", _CUBLASLT_PRODUCT, {
        "operation(shape_.transpose_b)": "operation(!FAULT && shape_.transpose_b)",
    }, "CudaMatMulTest.AgreesWithDoublePrecision", "wrong"),
    _fault("no wait for events", _CUDA_DEVICE, {
        "if (!other.recorded) return;": "if (FAULT || !other.recorded) return;",
    }, _TRAINING, "wrong", "race"),
    _fault("compute waits for no other lane", _CUDA_DEVICE, {
        "const auto& other = static_cast<const CudaEvent&>(event);": "const auto& other = static_cast<const CudaEvent&>(event);\n    if (FAULT && index_ == 0) return;",
    }, _TRAINING, "wrong", "race"),
    _fault("communication waits for no other lane", _CUDA_DEVICE, {
        "void Wait(Event& event) override {": "void Wait(Event& event) override {\n    if (FAULT && index_ == 1) return;",
    }, _TRAINING, "wrong", "race"),
    _fault("an event is recorded once only", _CUDA_DEVICE, {
        "    own.recorded = true;": "    if (FAULT && own.recorded) return;\n    own.recorded = true;",
    }, _TRAINING, "wrong", "race"),
    _fault("host does not wait for the lanes", _CUDA_DEVICE, {
        "if (error == cudaSuccess) break;": "if (FAULT || error == cudaSuccess) break;",
    }, _TRAINING, "wrong", "race"),
    _fault("last piece not exchanged", _NCCL, {
        "step < size_ && status.ok()": "step < size_ - FAULT && status.ok()",
    }, "NcclCollectives.MoveTheRightBytes", "wrong"),
    _fault("received pieces by step, not by rank", _NCCL, {
        "from < rank_ ? from : from - 1": "FAULT ? step - 1 : from < rank_ ? from : from - 1",
    }, "NcclCollectives.MoveTheRightBytes", "wrong"),
    _fault("piece of another rank sent", _NCCL, {
        "send + to * stride": "send + (FAULT ? from : to) * stride",
    }, "NcclCollectives.MoveTheRightBytes", "wrong"),
    _fault("a rank calls two gathers in the other order", _NCCL, {
        """    return NcclStatus(ncclAllGather(""": """    if (FAULT && rank_ == 1) {
      static std::function<absl::Status()> held;
      const auto gather = [=, this, stream = CudaLaneOf(lane).stream()] {
        return NcclStatus(ncclAllGather(own, out, static_cast<size_t>(bytes), ncclInt8,
                                        communicator_, stream),
                          "ncclAllGather");
      };
      if (held == nullptr) {
        held = gather;
        return absl::OkStatus();
      }
      TESSERA_RETURN_IF_ERROR(gather());
      return held();
    }
    return NcclStatus(ncclAllGather(""",
    }, _TRAINING, "report"),
]
