"""mpi_test: a C++ test that runs as `np` ranks under mpirun, where the build has MPI."""

# For target_compatible_with.
MPI_ONLY = select({
    "//tools/build:without_mpi": ["//tools/build:unavailable"],
    "//conditions:default": [],
})

def if_mpi(yes, no = []):
    return select({
        "//tools/build:without_mpi": no,
        "//conditions:default": yes,
    })

def mpi_test(name, np = 2, args = [], deps = [], size = "small", tags = [], env = {}, **kwargs):
    native.cc_binary(
        name = name + "_ranks",
        testonly = True,
        target_compatible_with = MPI_ONLY,
        deps = deps + ["//tools/build:mpi_test_support"],
        **kwargs
    )
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools/build:mpi_test.sh"],
        args = [str(np), "$(location :%s_ranks)" % name] + args,
        data = [":%s_ranks" % name, "//tools/build:lsan.supp", "//tools/build:tsan.supp"],
        env = env,
        tags = tags + ["cpu:%d" % np, "mpi"],
        target_compatible_with = MPI_ONLY,
    )
