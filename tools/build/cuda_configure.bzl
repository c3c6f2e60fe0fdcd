"""@local_cuda: the CUDA toolkit under $CUDA_HOME (default /usr/local/cuda).

Every target exists with or without a toolkit: what is missing becomes an empty
cc_library, and defs.bzl says whether there is a compiler.
"""

# Header, library, how to link it on another machine (see //tools/build:portable), deps.
_LIBRARIES = {
    "cudart": (
        "include/cuda_runtime.h",
        "libcudart.so",
        ["-l:libcudart_static.a", "-lpthread", "-ldl", "-lrt"],
        [],
    ),
    "cublaslt": ("include/cublasLt.h", "libcublasLt.so", ["-lcublasLt"], [":cudart"]),
    "nccl": ("include/nccl.h", "libnccl.so", ["-lnccl"], [":cudart"]),
}

# Of cccl (1700 files) only what cuda_fp16.h needs: nvcc finds the rest itself,
# and each sandbox has a link made for each header.
_HEADERS = """cc_library(
    name = "headers",
    hdrs = glob(
        ["include/*.h", "include/*.hpp"] +
        ["include/%s/**" % d for d in ["cccl/nv", "crt", "nccl_device", "nv", "nvtx3"]],
    ),
    includes = ["include", "include/cccl"],
)"""

_LIBRARY = """cc_library(
    name = "{name}",
    linkopts = ["-L{folder}"] + select({{
        "@tessera//tools/build:is_portable": {portable},
        "//conditions:default": ["-l{library}", "-Wl,-rpath,{folder}"],
    }}),
    deps = {deps},
)"""

def _cuda_configure_impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    nvcc = home + "/bin/nvcc"
    available = ctx.path(nvcc).exists
    folder = home + ("/lib64" if ctx.path(home + "/lib64").exists else "/lib")
    rules = ["package(default_visibility = [\"//visibility:public\"])"]
    if available:
        ctx.symlink(home + "/include", "include")
        rules.append(_HEADERS)
    else:
        rules.append("cc_library(name = \"headers\")")
    for name, (header, library, portable, deps) in _LIBRARIES.items():
        if available and ctx.path(home + "/" + header).exists and ctx.path(folder + "/" + library).exists:
            rules.append(_LIBRARY.format(
                name = name,
                folder = folder,
                library = library[len("lib"):-len(".so")],
                portable = repr(portable),
                deps = repr([":headers"] + deps),
            ))
        else:
            rules.append("cc_library(name = \"%s\")" % name)
    ctx.file("BUILD.bazel", "\n\n".join(rules) + "\n")
    ctx.file("defs.bzl", "NVCC = \"%s\"\n" % (nvcc if available else ""))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME"],
    configure = True,
    local = True,
)
