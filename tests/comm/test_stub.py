"""The stub of the compiled module is what the module is."""

from __future__ import annotations

import ast
from pathlib import Path

from nanobind.stubgen import StubGen

import nbdist.comm._native as native


def test_the_stub_is_what_stubgen_writes():
    generator = StubGen(native)
    generator.put(native)
    stub = Path(native.__file__).with_name("_native.pyi")
    if not stub.exists():  # an editable install keeps the module away from its sources
        stub = Path(__file__).parents[2] / "nbdist" / "comm" / "_native.pyi"
    assert shape(generator.get()) == shape(stub.read_text())


def shape(source: str) -> list[str]:
    """Reduce a stub to what it declares, so that formatting and the order of imports do not count."""
    body = [node for node in ast.parse(source).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.dump(node) for node in body]
