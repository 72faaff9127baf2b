"""Each extension has one module in Python to compare with: the same names, the same signatures."""

import inspect

import pytest

from surebayes.kernels.reference import pool, text
from surebayes.mail import readers

REFERENCES = {"text": text, "mail": readers, "pool": pool}
NOT_CALLED_BY_NAME = {"Block"}  # the type of the buffers that the compiled kernel returns; its reference's are arrays


def functions():
    for name, reference in REFERENCES.items():
        compiled = pytest.importorskip(f"surebayes.kernels._{name}", reason="the kernels aren't built")
        for function in sorted(set(vars(compiled)) - NOT_CALLED_BY_NAME):
            if not function.startswith("_") and callable(getattr(compiled, function)):
                yield name, compiled, reference, function


def parameters(function):
    """(name, default) in order; where arguments go by place alone, their names don't count."""
    listed = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return [(p.name, p.default, p.kind is p.KEYWORD_ONLY) for p in listed]


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_has_every_name_of_its_extension(name):
    compiled = pytest.importorskip(f"surebayes.kernels._{name}", reason="the kernels aren't built")
    public = {public for public in vars(compiled) if not public.startswith("_")} - NOT_CALLED_BY_NAME
    assert len(public) >= 8
    assert public <= set(vars(REFERENCES[name]))


def test_signatures_are_the_same():
    compared = 0
    for name, compiled, reference, function in functions():
        ours, theirs = getattr(compiled, function), getattr(reference, function)
        pairs = [(function, ours, theirs)]
        if inspect.isclass(ours):
            pairs += [(f"{function}.{m}", getattr(ours, m), getattr(theirs, m)) for m in dir(ours) if m[0] != "_"]
        for label, compiled_one, python_one in pairs:
            expected, actual = parameters(compiled_one), parameters(python_one)
            if all(p.kind is p.POSITIONAL_ONLY for p in inspect.signature(compiled_one).parameters.values()):
                expected, actual = ([entry[1:] for entry in listed] for listed in (expected, actual))
            assert actual == expected, (name, label)
            compared += 1
    assert compared > 30
