"""cuda_library: .cu files, usable in the deps of a cc_* rule.

With --config=cuda nvcc compiles them. With --config=cuda_on_cpu the host's
compiler does, and their kernels run on the processor: see docs/cuda_on_cpu.md.
Without either they are left out of //..., as is all that depends on them.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "NVCC")

# For target_compatible_with.
CUDA_ONLY = select({
    "//tools/build:cuda_on_cpu": [],
    "//tools/build:cuda_toolkit": [],
    "//conditions:default": ["//tools/build:unavailable"],
})

CUDA_TOOLKIT_ONLY = select({
    "//tools/build:cuda_toolkit": [],
    "//conditions:default": ["//tools/build:unavailable"],
})

CUDA_ON_CPU_ONLY = select({
    "//tools/build:cuda_on_cpu": [],
    "//conditions:default": ["//tools/build:unavailable"],
})

# Ampere and Hopper, and an intermediate form for later ones.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

def if_cuda(yes, no = []):
    return select({
        "//tools/build:cuda_on_cpu": yes,
        "//tools/build:cuda_toolkit": yes,
        "//conditions:default": no,
    })

def _compile(ctx, cc_toolchain, context, source):
    path = "_objs/%s/%s" % (ctx.label.name, source.basename[:-3])
    object = ctx.actions.declare_file(path + ".o")

    # What ptxas says of registers and spills (tools/check_ptxas.sh).
    resources = ctx.actions.declare_file(path + ".ptxas")
    args = ctx.actions.args()
    args.add_all(["-c", source, "-o", object, "-objtemp", "-std=c++20"])
    args.add_all(["-ccbin", cc_toolchain.compiler_executable])
    args.add_all(["-fmad=false", "--expt-relaxed-constexpr", "-Werror=all-warnings", "-Xptxas=-v"])
    args.add("-Xcompiler=-fPIC,-ffp-contract=off,-Wall,-Werror")
    if ctx.var["COMPILATION_MODE"] == "dbg":
        args.add_all(["-O0", "-g"])
    else:
        args.add_all(["-O3", "-lineinfo"])
    if ctx.var["COMPILATION_MODE"] == "opt":
        args.add("-DNDEBUG")
    args.add_all(_ARCHITECTURES)
    args.add_all(context.defines, before_each = "-D")
    args.add_all(context.quote_includes, before_each = "-I")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.system_includes, before_each = "-isystem")
    ctx.actions.run_shell(
        command = "log=$1; shift; %s \"$@\" >$log 2>&1 || { grep -v ptxas $log >&2; exit 1; }" % NVCC,
        arguments = [resources.path, args],
        inputs = depset(
            [source] + [f for f in ctx.files.srcs if f.extension != "cu"],
            transitive = [context.headers, cc_toolchain.all_files],
        ),
        outputs = [object, resources],
        mnemonic = "CudaCompile",
        progress_message = "Compiling (nvcc) %s" % source.short_path,
        use_default_shell_env = True,
    )
    return object, resources

def _nvcc_library_impl(ctx):
    if not NVCC:
        fail("%s: no CUDA toolkit: set CUDA_HOME, or build without --config=cuda" % ctx.label)
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    infos = [dep[CcInfo] for dep in ctx.attr.deps]
    own = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        # "folder/file.h" from the workspace's root, as cc_library has it.
        quote_includes = depset([".", ctx.bin_dir.path]),
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [CcInfo(compilation_context = own)] + infos,
    ).compilation_context
    compiled = [
        _compile(ctx, cc_toolchain, context, source)
        for source in ctx.files.srcs
        if source.extension == "cu"
    ]
    objects = depset([object for object, _ in compiled])
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [info.linking_context for info in infos],
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = objects),
        OutputGroupInfo(ptxas = depset([resources for _, resources in compiled])),
        CcInfo(compilation_context = context, linking_context = linking),
    ]

_nvcc_library = rule(
    implementation = _nvcc_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".h"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# 16-byte loads through casts are ordinary CUDA.
ON_CPU_OPTIONS = [
    "-include",
    "tests/cuda_on_cpu/device_language.h",
    "-fno-strict-aliasing",
    "-Wno-unknown-pragmas",
    "-Wno-pass-failed",
]

def _on_cpu_library(name, srcs, deps, **kwargs):
    sources = []
    for source in srcs:
        if not source.endswith(".cu"):
            sources.append(source)
            continue
        generated = "%s_%s.cc" % (name, source[:-len(".cu")].replace("/", "_"))
        native.genrule(
            name = generated + "_rule",
            srcs = [source],
            outs = [generated],
            cmd = "(echo '#line 1 \"$<\"'; cat $<) >$@",
            tags = ["manual"],
        )
        sources.append(generated)
    native.cc_library(
        name = name,
        srcs = sources,
        copts = ON_CPU_OPTIONS,
        deps = deps + ["//tests/cuda_on_cpu:device_language"],
        target_compatible_with = CUDA_ON_CPU_ONLY,
        **kwargs
    )

def cuda_test(name, srcs, deps, **kwargs):
    """A test, and its cases as a library, for other tests to run."""
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        target_compatible_with = CUDA_ONLY,
        deps = deps + ["@com_google_googletest//:gtest"],
        alwayslink = True,
    )
    native.cc_test(
        name = name,
        tags = ["cuda"],
        target_compatible_with = CUDA_ONLY,
        deps = [
            ":%s_cases" % name,
            "@com_google_googletest//:gtest_main",
        ],
        **kwargs
    )

def cuda_library(name, srcs, hdrs = [], deps = [], testonly = False, visibility = None):
    """A library of .cu files (and headers of their own) in srcs."""
    deps = deps + ["//tools/build:cudart"]
    _nvcc_library(
        name = name + "_toolkit",
        srcs = srcs,
        hdrs = hdrs,
        tags = ["manual"],
        testonly = testonly,
        target_compatible_with = CUDA_TOOLKIT_ONLY,
        deps = deps,
    )
    _on_cpu_library(
        name = name + "_on_cpu",
        srcs = srcs,
        hdrs = hdrs,
        tags = ["manual"],
        testonly = testonly,
        deps = deps,
    )
    native.alias(
        name = name,
        actual = select({
            "//tools/build:cuda_toolkit": name + "_toolkit",
            "//conditions:default": name + "_on_cpu",
        }),
        testonly = testonly,
        visibility = visibility,
    )
