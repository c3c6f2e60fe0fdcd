"""External repositories made from libraries that the system has installed.

The labels are those of the upstream Bazel modules (@com_google_absl//absl/status
and so on), so that a hermetic source build can replace these repositories
without a change to any BUILD file.
"""

# Never worth passing on: the first is a Windows matter, the second is implied.
_DROP = ["-DNOMINMAX", "-DGTEST_HAS_PTHREAD=1"]

def _pkg_config(ctx, tool, args):
    res = ctx.execute([tool] + args)
    if res.return_code != 0:
        return None
    return [word for word in res.stdout.strip().split(" ") if word]

def _cc_library(name, hdrs, includes, defines, linkopts):
    return """cc_library(
    name = %s,
    hdrs = %s,
    includes = %s,
    defines = %s,
    linkopts = %s,
)
""" % (
        repr(name),
        "glob(%s)" % repr(hdrs) if hdrs else "[]",
        repr(includes),
        repr(defines),
        _either_linking(linkopts),
    )

# Libraries as they are here, or linked in.
def _either_linking(linkopts):
    archives = ["-l:lib%s.a" % o[2:] if o.startswith("-l") else o for o in linkopts]
    return "select({\"@tessera//tools/build:is_portable\": %r, \"//conditions:default\": %r})" % (
        archives,
        linkopts,
    )

def _system_repository_impl(ctx):
    tool = ctx.which("pkg-config")
    if not tool:
        fail("pkg-config is missing: apt-get install pkg-config")
    builds = {}
    include_dirs = {}
    available = True
    for label, modules in ctx.attr.libs.items():
        package, _, name = label.partition(":")
        modules = modules.split(" ")
        cflags = _pkg_config(ctx, tool, ["--cflags"] + modules)
        libs = _pkg_config(ctx, tool, ["--libs"] + modules)
        defines = list(ctx.attr.defines)
        if cflags == None or libs == None:
            if not ctx.attr.optional:
                fail("%s: pkg-config knows no %s: apt-get install %s" %
                     (ctx.name, " ".join(modules), ctx.attr.debian))
            available = False
            defines, cflags, libs = [], [], []
        hdrs, includes = [], []
        for flag in cflags:
            if flag in _DROP:
                continue
            if flag.startswith("-I"):
                # Outside the compiler's own include folders, so a header that
                # Bazel must know of: link the folder into this repository.
                if flag not in include_dirs:
                    include_dirs[flag] = "include%d" % len(include_dirs)
                    ctx.symlink(flag[2:], include_dirs[flag])
                hdrs.append(include_dirs[flag] + "/**")
                includes.append(include_dirs[flag])
            elif flag.startswith("-D"):
                defines.append(flag[2:])
        builds.setdefault(package, []).append(
            _cc_library(name, hdrs, includes, defines, libs),
        )
    _write(ctx, builds, available)

def _write(ctx, builds, available):
    ctx.file("defs.bzl", "AVAILABLE = %s\n\ndef if_available(yes, no = []):\n    return yes if AVAILABLE else no\n" % available)
    builds.setdefault("", [])
    for package, rules in builds.items():
        ctx.file(
            (package + "/" if package else "") + "BUILD.bazel",
            "package(default_visibility = [\"//visibility:public\"])\n\n" + "\n".join(rules),
        )

system_repository = repository_rule(
    implementation = _system_repository_impl,
    attrs = {
        "libs": attr.string_dict(doc = "package:target -> pkg-config modules"),
        "debian": attr.string(doc = "Debian packages to name when missing"),
        "optional": attr.bool(),
        "defines": attr.string_list(),
    },
    environ = ["PKG_CONFIG_PATH"],
    configure = True,
    local = True,
)

def _system_library_impl(ctx):
    """For a library without a .pc file: found by its header."""
    found = False
    for root in ["/usr/include", "/usr/local/include"]:
        if ctx.path(root + "/" + ctx.attr.header).exists:
            found = True
    if not found and not ctx.attr.optional:
        fail("%s: no %s: apt-get install %s" % (ctx.name, ctx.attr.header, ctx.attr.debian))
    _write(ctx, {"": [_cc_library(
        ctx.attr.target,
        [],
        [],
        ctx.attr.defines if found else [],
        ctx.attr.linkopts if found else [],
    )]}, found)

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "target": attr.string(),
        "header": attr.string(),
        "linkopts": attr.string_list(),
        "defines": attr.string_list(),
        "debian": attr.string(),
        "optional": attr.bool(),
    },
        configure = True,
    local = True,
)

def system_deps():
    system_repository(
        name = "com_google_absl",
        debian = "libabsl-dev",
        libs = {
            "absl/base:core_headers": "absl_core_headers",
            "absl/container:flat_hash_map": "absl_flat_hash_map",
            "absl/container:inlined_vector": "absl_inlined_vector",
            "absl/flags:flag": "absl_flags",
            "absl/flags:parse": "absl_flags_parse",
            "absl/flags:usage": "absl_flags_usage",
            "absl/status:status": "absl_status",
            "absl/status:statusor": "absl_statusor",
            "absl/strings:strings": "absl_strings",
            "absl/strings:str_format": "absl_str_format",
            "absl/synchronization:synchronization": "absl_synchronization",
            "absl/time:time": "absl_time",
            "absl/types:span": "absl_span",
        },
    )
    system_repository(
        name = "com_google_googletest",
        debian = "libgtest-dev libgmock-dev",
        libs = {":gtest": "gmock gtest", ":gtest_main": "gmock_main gmock gtest"},
    )
    system_repository(
        name = "yaml-cpp",
        debian = "libyaml-cpp-dev",
        libs = {":yaml-cpp": "yaml-cpp"},
    )
    system_repository(
        name = "nlohmann_json",
        debian = "nlohmann-json3-dev",
        libs = {":json": "nlohmann_json"},
    )
    system_repository(
        name = "eigen",
        debian = "libeigen3-dev",
        libs = {":eigen": "eigen3"},
    )
    system_repository(
        name = "liburing",
        debian = "liburing-dev",
        libs = {":liburing": "liburing"},
    )
    system_repository(
        name = "mpi",
        debian = "libopenmpi-dev openmpi-bin",
        libs = {":mpi": "ompi-c"},
        # The C++ bindings are gone from MPI 3; without this, mpi.h pulls them in.
        defines = ["OMPI_SKIP_MPICXX=1"],
    )
    system_library(
        name = "xxhash",
        target = "xxhash",
        header = "xxhash.h",
        debian = "libxxhash-dev",
    )
    system_library(
        name = "onednn",
        target = "onednn",
        header = "oneapi/dnnl/dnnl.hpp",
        linkopts = [
            "-ldnnl",
            "-lgomp",
        ],
        debian = "libdnnl-dev",
    )
