"""Combined budgets of a layer and its bases: the strictest threshold holds. The module doesn't use numpy."""

import os

from surebayes.errors import StoreError
from surebayes.filter.verdicts.budgets import stricter
from surebayes.filter.verdicts.memory import Memory, VerdictDetails, is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from surebayes.filter.model import Decision, Model
    from surebayes.filter.verdicts.budgets import InForce


def name_of(folder: str) -> str:
    """Return the name of a layer's owner, which is stored with verdicts in the bases."""
    return os.path.basename(os.path.abspath(folder))


def opened(folder: str, one_shot: bool = False) -> "Memory | None":
    """Open the remembered verdicts of a base; return None if they are missing or unreadable."""
    try:
        return Memory(folder, one_shot=one_shot) if is_there(folder) else None
    except (StoreError, OSError):  # `doctor` reports the problem at the base
        return None


def in_force(memory_here: "Memory | None", below: "Sequence[Memory]") -> "dict[str, InForce]":
    """Return the budgets in force for a layer, given its memory and those of its bases."""
    force = {} if memory_here is None else memory_here.in_force()
    for memory in below:
        force = stricter(force, memory.in_force())
    return force


def answer(
    memory_here: "Memory | None", below: "Sequence[Memory]", model: "Model", scores: "Sequence[float]",
    fingerprint: str, about: "Callable[[Memory], VerdictDetails]",
) -> "tuple[Decision, dict[str, InForce]]":  # fmt: skip
    """Judge by the strictest budget, and record the verdict in every memory.

    Parameters
    ----------
    memory_here : Memory or None
        The memory of the filter that judges, if it has one.
    below : sequence of Memory
        The memories of its bases.
    model, scores, fingerprint
        As in `Memory.answer`.
    about : callable
        Function that returns the details to store with the verdict in a memory.
    """
    first, rest = (memory_here, below) if memory_here is not None else (below[0], below[1:])
    beside = in_force(None, rest)
    decision, force = first.answer(model, scores, fingerprint, about(first), beside)
    for memory in rest:
        memory.queue_verdict(decision, model, scores, fingerprint, about(memory))
    return decision, force


def answer_once(
    folder: str, folders: "Sequence[str]", model: "Model", scores: "Sequence[float]", fingerprint: str, has_budget: bool
) -> "tuple[Decision, dict[str, InForce]]":
    """Judge like `answer`, for a process that judges a single document; open the memories of these folders first.

    Raises
    ------
    BadModel
        If the filter has a budget and its memory is missing.
    """
    memory_here = Memory(folder, one_shot=True) if has_budget or is_there(folder) else None
    below = [memory for each in folders if (memory := opened(each, one_shot=True)) is not None]
    if memory_here is None and not below:
        return model.decide(scores), {}
    name = name_of(folder)
    return answer(
        memory_here,
        below,
        model,
        scores,
        fingerprint,
        lambda memory: VerdictDetails("" if memory is memory_here else name),
    )
