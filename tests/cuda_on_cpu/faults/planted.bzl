"""planted_copies: real sources with faults in them that are turned on at run time."""

load(":faults.bzl", "FAULTS")

def _name(source):
    return source.replace("//", "").replace(":", "_").replace("/", "_").replace(".", "_") + ".cc"

def _planted_copy_impl(ctx):
    args = ctx.actions.args()
    args.add_all([ctx.file.source, ctx.outputs.out])
    args.add_all(ctx.attr.edits)
    ctx.actions.run(
        executable = ctx.executable._plant,
        arguments = [args],
        inputs = [ctx.file.source],
        outputs = [ctx.outputs.out],
        mnemonic = "PlantFaults",
    )

_planted_copy = rule(
    implementation = _planted_copy_impl,
    attrs = {
        "edits": attr.string_list(),
        "out": attr.output(),
        "source": attr.label(allow_single_file = True),
        "_plant": attr.label(default = ":plant", executable = True, cfg = "host"),
    },
)

def _fault_table_impl(ctx):
    ctx.actions.write(ctx.outputs.out, "\n".join([
        '{"%s", "%s", "%s", Outcome::%s, Outcome::%s},' %
        (f.name, f.source.split("//")[1].replace(":", "/"), f.tests, f.plain, f.races)
        for f in FAULTS
    ]) + "\n")

_fault_table = rule(
    implementation = _fault_table_impl,
    attrs = {"out": attr.output()},
)

def planted_copies():
    """Makes copies of all sources that faults.bzl names; a list of their files."""
    edits = {}
    for i in range(len(FAULTS)):
        for text, faulty in FAULTS[i].edits.items():
            edits.setdefault(FAULTS[i].source, []).extend([str(i + 1), text, faulty])
    for source in edits:
        _planted_copy(
            name = _name(source) + "_rule",
            edits = edits[source],
            out = _name(source),
            source = source,
            tags = ["manual"],
        )
    return [_name(source) for source in edits]

def fault_table(name, out):
    """The table of faults, for C++ to include."""
    _fault_table(name = name, out = out, tags = ["manual"])
