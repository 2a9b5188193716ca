"""Sphinx: Markdown pages, and a reference drawn from the docstrings of the package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

import attrs

import polygateway._version

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "polygateway"
author = "polygateway contributors"
project_copyright = author
version = release = polygateway._version.__version__  # noqa: SLF001 - the version's one place

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # CHANGELOG.md is included below the page's own heading

html_theme = "furo"
html_title = f"polygateway {release}"

napoleon_numpy_docstring = False
napoleon_custom_sections = [("Entering raises", "Raises")]

autodoc_member_order = "bysource"
# Shown by their names, not spelled out.
autodoc_type_aliases = {
    name: name
    for name in (
        *("Auto", "Recovery", "SeamKind", "Standing"),
        *("AttemptKind", "CallOutcome", "ChunkKind", "Confidence", "ContentKind", "EndKind"),
        *("ErrorKind", "FinishReason", "HedgeReason", "JSON", "Message", "Outcome", "RateBasis"),
        *("RateReason", "RefusalReason", "ReplyForm", "StallCause", "WasteConfidence", "Winner"),
    )
}
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True}
python_use_unqualified_type_names = True
add_module_names = False  # one imports from polygateway, wherever a class is written down

nitpick_ignore_regex = [
    # Of other projects, whose pages are not fetched to build ours.
    ("py:.*", r"(collections|h11|os|ssl|trio|typing)\..*"),
    ("py:class", "SearchStrategy"),
    # Type variables, and how Sphinx names an alias that refers to itself.
    ("py:class", "T|Ts|TypeAliasForwardRef"),
    # Not public: described where they are taken or given.
    ("py:class", r"(.*\.)?(ClientStream|Connect|Policies|Steps)"),
]


def find_by_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Element | None:
    """Resolve ``Completion`` from the docstring of any module: public names are unique."""
    if node.get("refdomain") != "py" or node.get("refspecific"):
        return None
    node["refspecific"] = True
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], node["reftarget"], node, content
    )


def hide_constructor(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str] | None:
    """Leave out what a class is made with: its fields follow, each with its meaning."""
    return ("", "") if signature and what in {"class", "exception"} else None


def keep_prose(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep Napoleon from taking "Retries: none" on a field's first line for a type.

    It looks at nothing but that line, so an empty comment goes before it.
    """
    if what in {"attribute", "data", "property"}:
        lines[:0] = ["..", ""]


def add_default(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Say under each field of a policy what it is when nobody sets it."""
    _, policies, path = name.partition("polygateway.policies.")
    owner, _, field = path.partition(".")
    if what != "attribute" or not policies or not field:
        return
    policy = cast(
        "type[attrs.AttrsInstance]", getattr(import_module("polygateway.policies"), owner)
    )
    default = attrs.fields_dict(policy)[field].default
    if isinstance(default, bool | int | float | str):
        lines += ["", f"Default: ``{default!r}``."]


def setup(app: Sphinx) -> None:
    """Connect what is defined above."""
    app.connect("missing-reference", find_by_short_name)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("autodoc-process-docstring", keep_prose, priority=0)  # before Napoleon's 500
    app.connect("autodoc-process-docstring", add_default)
