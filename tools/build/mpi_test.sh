#!/bin/bash
# mpi_test.sh NP PROGRAM [ARG...]: runs PROGRAM as NP ranks on this host.
set -euo pipefail
np=$1
shift
# Root is normal in CI and in containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores, and no binding of ranks to them.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
# One host: no ssh, no InfiniBand, and no process_vm_readv, which containers
# often forbid.
export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# Each sandbox has its own process ids, from which Open MPI makes the names of
# its session folder and shared memory segments: give each run folders of its
# own, or concurrent tests write into each other's memory. Short paths, since
# the session folder may hold Unix sockets.
TMPDIR=$(mktemp -d /tmp/ompi.XXXXXX)
OMPI_MCA_btl_vader_backing_directory=$(mktemp -d /dev/shm/ompi.XXXXXX)
export TMPDIR OMPI_MCA_btl_vader_backing_directory
trap 'rm -rf "$TMPDIR" "$OMPI_MCA_btl_vader_backing_directory"' EXIT
export LSAN_OPTIONS=suppressions=tools/build/lsan.supp:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}
export TSAN_OPTIONS=suppressions=tools/build/tsan.supp:print_suppressions=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}
# Ranks other than the first write no files for Bazel, or all would write the same.
# shellcheck disable=SC2016
rank='((OMPI_COMM_WORLD_RANK)) && unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE TEST_SHARD_STATUS_FILE; exec "$@"'
mpirun --tag-output -np "$np" bash -c "$rank" rank "$@"
