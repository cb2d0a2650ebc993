"""Read a cell before any rank runs it."""

from __future__ import annotations

import ast
from typing import Any


def assigned_names(shell: Any, cell: str) -> set[str]:
    """Return the names a cell assigns at its top level.

    Raises:
        SyntaxError: the cell does not compile; it is raised here, once, before a rank runs a line.
    """
    source = shell.transform_cell(cell)
    tree = ast.parse(source, filename="<cell>")
    compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
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

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add((node.asname or node.name).split(".")[0])
