"""Build settings, without bazel_skylib."""

def _string_flag_impl(ctx):
    value = ctx.build_setting_value
    if value not in ctx.attr.values:
        fail("%s is %s, and must be one of %s" % (ctx.label, value, ", ".join(ctx.attr.values)))

string_flag = rule(
    implementation = _string_flag_impl,
    attrs = {"values": attr.string_list(mandatory = True)},
    build_setting = config.string(flag = True),
)

def _bool_flag_impl(ctx):
    pass

bool_flag = rule(
    implementation = _bool_flag_impl,
    build_setting = config.bool(flag = True),
)

def if_portable(yes, no = []):
    return select({
        "//tools/build:is_portable": yes,
        "//conditions:default": no,
    })
