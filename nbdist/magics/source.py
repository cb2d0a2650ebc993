"""Read a cell before any rank runs it."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from typing import Any

from ..errors import CellSyntaxError

_TRANSPARENT = ("time", "capture", "prun")
"""Magics whose text binds names in the cell that holds them."""


def assigned_names(shell: Any, cell: str) -> set[str]:
    """Return the names a cell assigns at its top level.

    Raises:
        CellSyntaxError: the cell does not compile; it is told here, once, before a rank runs a line.
    """

    def read(text: str) -> ast.Module:
        tree: ast.Module = ast.parse(shell.transform_cell(text), filename="<cell>")
        compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        return tree

    finder = _Assigned(read)
    try:
        finder.visit(read(cell))
    except SyntaxError as problem:
        raise CellSyntaxError(problem) from None
    return finder.names


class _Assigned(ast.NodeVisitor):
    """Collect names bound in a module's own scope, also inside its loops, branches and `with`."""

    def __init__(self, read: Callable[[str], ast.Module]) -> None:
        self.names: set[str] = set()
        self._parse = read

    def _read(self, text: str) -> None:
        self.visit(self._parse(text))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.names.add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        # `%%time` and its kind run their text in the cell's own scope.
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if texts and texts[0] in _TRANSPARENT:
            if called == "run_cell_magic":
                self._read(texts[-1])
            elif called == "run_line_magic":
                with contextlib.suppress(SyntaxError):  # the line may begin with options of the magic
                    self._read(texts[-1])
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names.add(node.name)  # what is bound inside is local to it

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815
    visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def visit_comprehension(self, node: ast.comprehension) -> None:
        pass  # its target is local to the comprehension

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self.names.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.names.add(node.rest)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        if node.name == "*":
            return  # what it binds is known only where the module is
        self.names.add((node.asname or node.name).split(".")[0])
