"""Each extension has one twin in Python: the same names, the same signatures."""

import inspect

import pytest

from surebayes.kernels import mail_twin, pool_twin, text_twin

TWINS = {"text": text_twin, "mail": mail_twin, "pool": pool_twin}
NOT_CALLED_BY_NAME = {"Block"}  # the type of the buffers that the compiled kernel returns; its twin's are arrays


def functions():
    for name, twin in TWINS.items():
        compiled = pytest.importorskip(f"surebayes.kernels._{name}", reason="the kernels aren't built")
        for function in sorted(set(vars(compiled)) - NOT_CALLED_BY_NAME):
            if not function.startswith("_") and callable(getattr(compiled, function)):
                yield name, compiled, twin, function


def parameters(function):
    """(name, default) in order; where arguments go by place alone, their names don't count."""
    listed = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return [(p.name, p.default, p.kind is p.KEYWORD_ONLY) for p in listed]


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_has_every_name_of_its_extension(name):
    compiled = pytest.importorskip(f"surebayes.kernels._{name}", reason="the kernels aren't built")
    public = {public for public in vars(compiled) if not public.startswith("_")} - NOT_CALLED_BY_NAME
    assert len(public) >= 8
    assert public <= set(vars(TWINS[name]))


def test_signatures_are_the_same():
    compared = 0
    for name, compiled, twin, function in functions():
        ours, theirs = getattr(compiled, function), getattr(twin, function)
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
