"""The tasks of one test: carried out in order, and their claims judged."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType

from pytest_vnc_use import assembly
from pytest_vnc_use.agent import VncUseAgent
from pytest_vnc_use.errors import TaskFailed
from pytest_vnc_use.marker import TaskSpec
from pytest_vnc_use.safety import Policy
from pytest_vnc_use.settings import Settings, merge
from pytest_vnc_use.transcript import plain, told_failure
from pytest_vnc_use.types import Limits, Verdict
from pytest_vnc_use.verification import failure_of

# --- carrying out ----------------------------------------------------------------------------------------------------


def carry_out(agent: VncUseAgent, specs: Sequence[TaskSpec], *, judge_end_state: bool) -> None:
    """Run each task and judge its claims; with `judge_end_state`, a task without claims is judged by its end state.

    At the first that fails, raises ProductFailed where a claim fails, Inconclusive where the judge is only unsure,
    another TaskFailed where the run did not end as done; InfraError where the tool broke.
    """
    for spec in specs:
        own = settings_of(agent, spec)
        limits = Limits(own.steps, own.seconds, own.stall)
        result = agent.run(spec.task, expect=spec.expect, limits=limits, policy=policy_of(own, spec), check=True)
        verdicts = [agent.verify(claim, votes=own.votes) for claim in spec.expect]
        if judge_end_state and not verdicts:
            verdicts = [agent.verify_end_state(spec.task, votes=own.votes)]
        if not all(verdict.holds for verdict in verdicts):
            raise failure_of([verdict.kind for verdict in verdicts])(told_failure(told_verdicts(verdicts), result))


@contextmanager
def checks_told(
    agent: VncUseAgent, tell: Callable[[str], None], *, skips: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Raises, at its end, what the agent's soft checks come to, also in the place of one of `skips`.

    Where anything else is raised, `tell` gets it.
    """
    unmet: Callable[[], TaskFailed | None] = getattr(agent, "unmet", lambda: None)  # a user's own may have no checks
    try:
        yield
    except BaseException as exc:
        # whatever ended the test, what its checks found belongs to its report
        if failed := unmet():
            if isinstance(exc, skips):
                raise failed from exc
            tell(str(failed))
        raise
    getattr(agent, "end_body", lambda: None)()
    if failed := unmet():
        raise failed


def settings_of(agent: VncUseAgent, spec: TaskSpec) -> Settings:
    """The agent's settings, with what the task's own marker says over them."""
    return merge((vars(agent.settings), str), (spec.settings, str))


def policy_of(settings: Settings, spec: TaskSpec) -> Policy | None:
    """The policy that the task's own marker names; None for the agent's."""
    return assembly.build_policy(settings) if "policy" in spec.settings else None


def told_verdicts(verdicts: Sequence[Verdict]) -> str:
    """How many claims do not hold, and a line for each claim."""
    failed = sum(not verdict.holds for verdict in verdicts)
    lines = [plain(str(verdict)) for verdict in verdicts]
    return "\n  ".join([f"{failed} of {len(verdicts)} claims not shown to hold", *lines])


# --- bodies that check nothing ---------------------------------------------------------------------------------------

_CHECKS = (ast.Assert, ast.Raise, ast.With, ast.AsyncWith)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_JUST_TELLS = re.compile(
    r"p?print|((self|cls)\.)?_*log(ger|ging)?\..+|.+\.(verify|saw|screenshot)", re.IGNORECASE | re.DOTALL
)
"""Calls that fail nothing, by how they are written: `print`, `logging.info`, a `vnc_agent.verify` without an assert."""


def checks_nothing(function: Callable[..., object]) -> bool:
    """Whether a test function's body could not fail, so that only a judge can tell: no assert, raise, with, or call.

    `print` and logging do not count as calls; a function that the body defines counts where it is called. Decided from
    the source of what decorators wrap; where there is none, a body of `pass`, `...` or a docstring checks nothing.
    """
    function = inspect.unwrap(function)
    body = _body(function)
    if body is None:
        return _operations(getattr(function, "__code__", _nothing.__code__)) == _operations(_nothing.__code__)
    return not any(map(_is_check, _executed(body)))


def _body(function: Callable[..., object]) -> list[ast.stmt] | None:
    try:
        module = ast.parse("if True:\n" + textwrap.indent(inspect.getsource(function), " "))
    except (OSError, TypeError, SyntaxError):
        return None
    block = module.body[0]
    definition = block.body[0] if isinstance(block, ast.If) else block
    if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)) and definition.name == function.__name__:
        return definition.body
    return None


def _executed(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and all within them, but for the bodies of functions that are only defined."""
    for node in nodes:
        yield node
        if not isinstance(node, _FUNCTIONS):
            yield from _executed(ast.iter_child_nodes(node))


def _is_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not _JUST_TELLS.fullmatch(ast.unparse(node.func))
    return isinstance(node, _CHECKS)


def _nothing() -> None: ...


def _operations(code: CodeType) -> list[str]:
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    return [name for name in names if name != "NOP"]
