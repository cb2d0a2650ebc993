"""Read a cell before any rank runs it."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import CellSyntaxError


def assigned_names(shell: Any, cell: str) -> set[str]:
    """Return the names a cell assigns at its top level.

    Raises:
        CellSyntaxError: the cell does not compile; it is told here, once, before a rank runs a line.
    """
    try:
        tree = ast.parse(shell.transform_cell(cell), filename="<cell>")
        compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as problem:
        raise CellSyntaxError(problem) from None
    finder = _Assigned()
    finder.visit(tree)
    return finder.names


class _Assigned(ast.NodeVisitor):
    """Collect names bound in a module's own scope, also inside its loops, branches and `with`."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.names.add(node.id)

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
