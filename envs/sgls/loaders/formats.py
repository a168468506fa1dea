"""One reader for each format of tool-calling data: from a row to tasks. `FORMATS` holds them by name.

* `tasks`: this package's own, `Task.to_json()`.
* `generic`: the form for one's own data, see `docs/sgls_data.md`.
* `slca`: the RL and evaluation rows of SLCA-GRPO, `prompt` and `reward_model.ground_truth`.
* `conversation`: recorded conversations, one task for each request of the user: raw Toucan, its SFT form, and the SFT
  rows of SLCA-GRPO, both as `messages` and as ShareGPT's `conversations`.
* `bfcl`: single-turn entries of the Berkeley leaderboard; the answers stand in `possible_answer/` beside the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import TaskError
from ...spaces import ChatMessages
from ..json_strict import StrictJsonError, loads, shorten
from ..parsing import RawCall
from ..schemas import SchemaError
from ..tasks import Fact, Plan, Task, ToolSpec
from ..validation import Toolbox
from . import bfcl
from .conversations import exchanges, opening, read_messages
from .gold import ToolReader, read_gold
from .rows import RowError, decode

Row = Mapping[str, Any]
_SPACE = ChatMessages()
_LISTED = ("<tools>", "</tools>")


@dataclass
class Source:
    """What readers need to know beside the row.

    Attributes:
        path: the file.
        split: of the tasks.
        keep_system: keep system messages that list the tools.
        tools: reads tool definitions.
        bfcl_answers: ground truth of a BFCL file by id; None until needed.
    """

    path: Path
    split: str = "train"
    keep_system: bool = False
    tools: ToolReader = field(default_factory=ToolReader)
    bfcl_answers: dict[str, Any] | None = None

    def row_id(self, row: Row, number: int, *keys: str) -> str:
        """The row's own id, else file and number."""
        own = next((str(row[key]) for key in keys if row.get(key) not in (None, "")), None)
        return own or f"{self.path.stem}-{number}"


@dataclass(frozen=True)
class Format:
    """One format: whether a row looks like it, and the tasks of a row."""

    fits: Callable[[Row], bool]
    read: Callable[[Row, int, Source], Iterator[Task]]


def _read_native(row: Row, number: int, source: Source) -> Iterator[Task]:
    yield Task.from_json(row)


def _read_generic(row: Row, number: int, source: Source) -> Iterator[Task]:
    unknown = set(row) - set(GENERIC_FIELDS)
    if unknown:
        raise RowError(f"unknown fields {', '.join(sorted(unknown))}; known: {', '.join(GENERIC_FIELDS)}")
    if "gold" not in row and "plans" not in row:
        raise RowError("neither 'gold' nor 'plans': give [] as gold if nothing should be called")
    golds = [read_gold(gold) for gold in (row["plans"] if "plans" in row else [row["gold"]])]
    kinds = {kind for _, kind in golds}
    if len(kinds) != 1:
        raise RowError(f"the plans are of different kinds ({', '.join(sorted(kinds)) or 'there is none'})")
    messages = row.get("messages") or [{"role": "user", "content": row.get("question")}]
    facts = tuple(_fact(fact) for fact in row.get("facts", ()))
    optional = {key: row[key] for key in ("category", "tier", "domain", "reply") if key in row}
    yield make_task(
        id=source.row_id(row, number, "id"),
        split=row.get("split", source.split),
        messages=opening(read_messages(messages), keep_system=True),
        specs=source.tools.read(row.get("tools")),
        plans=tuple(plan for plan, _ in golds),
        gold_kind=kinds.pop(),
        facts=facts,
        missing=tuple(row.get("missing", ())),
        source="generic",
        **optional,
    )


GENERIC_FIELDS = (
    "id", "question", "messages", "tools", "gold", "plans", "facts", "reply", "missing", "category", "tier", "domain",
    "split",
)  # fmt: skip


def _fact(value: Any) -> Fact:
    try:
        fact = Fact(**{**value, "variants": tuple(value.get("variants") or (str(value["value"]),))})
    except (TypeError, KeyError, AttributeError):
        raise RowError(
            f"{shorten(value, 80)} is no fact, expected key, value and optionally kind, call, variants"
        ) from None
    return fact


def _read_slca(row: Row, number: int, source: Source) -> Iterator[Task]:
    truth = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
    if not isinstance(truth, dict) or "gold_tool_calls" not in truth:
        raise RowError("reward_model has no ground_truth with gold_tool_calls")
    specs = source.tools.read(row.get("tools") or truth.get("tool_schemas"))
    allowed = truth.get("allowed_tools")
    if allowed is not None:
        specs = tuple(spec for spec in specs if spec.name in set(decode(allowed, "allowed_tools")))
    plan, kind = read_gold(truth["gold_tool_calls"])
    messages = read_messages(row.get("prompt"))
    if messages[-1].role != "user":
        raise RowError("the prompt does not end with the user's request")
    extra = row.get("extra_info")
    yield make_task(
        id=source.row_id(extra if isinstance(extra, dict) else {}, number, "index", "id", "uuid"),
        split=source.split,
        messages=opening(messages, source.keep_system),
        specs=specs,
        plans=(plan,),
        gold_kind=kind,
        source=f"{row.get('data_source') or 'slca'}/{truth.get('subset_name') or ''}".rstrip("/"),
    )


def _read_conversation(row: Row, number: int, source: Source) -> Iterator[Task]:
    messages, specs = conversation(row, source.tools)
    found = list(exchanges(messages, source.keep_system))
    if not found:
        raise RowError("the conversation has no request of a user")
    own = source.row_id(row, number, "uuid", "id")
    for turn, exchange in enumerate(found):
        yield make_task(
            id=f"{own}-{turn}" if len(found) > 1 else own,
            split=source.split,
            messages=exchange.opening,
            specs=specs,
            plans=(exchange.plan,),
            reply=exchange.reply,
            source=str(row.get("subset_name") or "conversation"),
        )


def conversation(row: Row, tools: ToolReader) -> tuple[list[Any], tuple[ToolSpec, ...]]:
    """The messages of a row and the tools that were shown.

    Raises:
        RowError: it holds no readable conversation, or no tools.
    """
    messages = read_messages(row.get("messages") or row.get("conversations"))
    listed = row.get("tools") or row.get("available_tools")
    if not listed and messages[0].role == "system":
        inner = messages[0].text.partition(_LISTED[0])[2].partition(_LISTED[1])[0]
        listed = [_definition(line) for line in inner.splitlines() if line.strip()]
    return messages, tools.read(listed)


def _definition(line: str) -> Any:
    try:
        return loads(line)
    except StrictJsonError as error:
        raise RowError(f"the tools in the system message are not one JSON object a line: {error}") from None


def _read_bfcl(row: Row, number: int, source: Source) -> Iterator[Task]:
    if source.bfcl_answers is None:
        source.bfcl_answers = bfcl.read_answers(source.path)
    plans = bfcl.read_plans(row, source.bfcl_answers)
    turns = decode(row["question"], "the question")
    yield make_task(
        id=source.row_id(row, number, "id"),
        split=source.split,
        messages=opening(read_messages(turns[0]), keep_system=True),
        specs=source.tools.read(bfcl.convert_tools(row["function"])),
        plans=plans,
        source="bfcl",
    )


FORMATS: dict[str, Format] = {
    "tasks": Format(lambda row: {"plans", "specs", "messages", "gold_kind"} <= row.keys(), _read_native),
    "slca": Format(lambda row: {"prompt", "reward_model"} <= row.keys(), _read_slca),
    "bfcl": Format(lambda row: "question" in row and bool({"function", "involved_classes"} & row.keys()), _read_bfcl),
    "generic": Format(lambda row: "tools" in row and bool({"gold", "plans"} & row.keys()), _read_generic),
    "conversation": Format(lambda row: bool({"messages", "conversations"} & row.keys()), _read_conversation),
}


def make_task(
    *,
    id: str,
    messages: Sequence[dict[str, Any]],
    specs: tuple[ToolSpec, ...],
    plans: tuple[Plan, ...],
    gold_kind: str = "full",
    **more: Any,
) -> Task:
    """A task of loaded data, checked.

    Args:
        id: of the task.
        messages: the opening.
        specs: the tools shown.
        plans: equivalent gold plans.
        gold_kind: `full`, `flat` or `names_only`.
        **more: further fields of `Task`; category and tier follow from the gold if they are not given.

    Raises:
        RowError: the task could not be played or scored.
    """
    if not any(message["role"] == "user" for message in messages):
        raise RowError("there is no request of a user")
    if not _SPACE.contains(list(messages)):
        raise RowError("the opening messages are malformed or far too long")
    names = {spec.name for spec in specs}
    unknown = sorted({call.name for plan in plans for call in plan.calls} - names)
    if unknown:
        raise RowError(f"the gold calls {', '.join(unknown)}, which is not among the tools")
    calls = len(plans[0].calls)
    if any(fact.call is not None and not 0 <= fact.call < calls for fact in more.get("facts", ())):
        raise RowError(f"a fact names a call that is not among the {calls} of the gold, counted from 0")
    try:
        Toolbox(specs).check_schemas()
    except SchemaError as error:
        raise RowError(str(error)) from None
    fields = {"category": _category(plans[0], more.get("missing", ())), "tier": "medium" if calls <= 2 else "hard"}
    try:
        return Task(
            id=id,
            messages=tuple(messages),
            tools=tuple(spec.name for spec in specs),
            plans=plans,
            gold_kind=gold_kind,
            specs=specs,
            **{"domain": "", **fields, **more},
        )
    except TaskError as error:
        raise RowError(str(error)) from None


def _category(plan: Plan, missing: Sequence[str]) -> str:
    if not plan.steps:
        return "missing" if missing else "irrelevant"
    if len(plan.calls) == 1:
        return "single"
    if len(plan.steps) == 1:
        return "parallel"
    return "serial" if all(len(step) == 1 for step in plan.steps) else "mixed"


def misfits(task: Task) -> list[str]:
    """Gold calls that do not fit their tool's schema: such a call is scored, but stopped before the tool sees it."""
    if task.gold_kind == "names_only":
        return []
    toolbox = Toolbox(task.specs)
    return [
        f"gold call {call.name}: {problem.path + ': ' if problem.path else ''}{problem.message}"
        for call in task.gold.calls
        for problem in toolbox.check(RawCall(call.name, call.arguments)).problems
    ]
