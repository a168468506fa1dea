"""A benchmark run as a plain description: which suite, which agent, which tasks. What a run folder stores."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .players import make_player
from .registry import make_suite
from .results import RESULT, load_result, run_config
from .runner import DEADLINE, OnProgress, run_suite
from .suite import Selection, Suite

#: options of an agent that say how fast it is asked, not what: they may change when a run is continued
PACING = ("in_flight", "requests_per_minute", "tokens_per_minute", "timeout", "retries", "cache")


@dataclass(frozen=True)
class BenchPlan:
    """What to measure.

    Attributes:
        suite: name or import path.
        options: of the suite.
        agent: as a user writes it, see `players`.
        agent_options: of the agent, see `players`.
        selection: which tasks.
        trials: attempts at each task.
        seed: of everything random.
    """

    suite: str
    agent: str
    options: dict[str, Any] = field(default_factory=dict)
    agent_options: dict[str, Any] = field(default_factory=dict)
    selection: Selection = Selection()
    trials: int = 1
    seed: int = 0

    def config(self) -> dict[str, Any]:
        """The description that a run folder stores; the runner adds the rest."""
        measured = {name: value for name, value in self.agent_options.items() if name not in PACING}
        return {
            "suite": self.suite,
            "options": self.options,
            "agent": self.agent,
            "agent_options": measured,
            "selection": asdict(self.selection),
        }

    @classmethod
    def from_run(cls, folder: str | os.PathLike, pacing: Mapping[str, Any]) -> BenchPlan:
        """The plan that a run folder was started with.

        Args:
            folder: the run folder.
            pacing: options of `PACING`.

        Raises:
            RunError: it is no run of a benchmark.
        """
        config = run_config(folder)
        chosen: dict[str, Any] = dict(config.get("selection", {}))
        chosen |= {key: tuple(value) for key, value in chosen.items() if isinstance(value, list)}
        return cls(
            config["suite"],
            config["agent"],
            config.get("options", {}),
            {**config.get("agent_options", {}), **pacing},
            Selection(**chosen),
            config["trials"],
            config["seed"],
        )

    def run(
        self,
        out: str | os.PathLike,
        *,
        workers: int | None = None,
        deadline: float = DEADLINE,
        retry_failed: bool = False,
        references: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Carry the plan out in the folder `out`, or go on with it; see `runner.run_suite`."""
        suite = make_suite(self.suite, self.options)
        wanted = suite.beside if references is None else references
        if (result := self._finished(Path(out), suite, wanted, retry_failed)) is not None:
            return result  # without loading a model for nothing
        options = dict(self.agent_options)
        if workers is not None and self.agent.partition(":")[0] in ("openai", "local"):
            options.setdefault("in_flight", workers)
        return run_suite(
            suite,
            make_player(self.agent, suite, options, deadline),
            out,
            config=self.config(),
            selection=self.selection,
            trials=self.trials,
            seed=self.seed,
            workers=workers,
            deadline=deadline,
            retry_failed=retry_failed,
            references=references,
            on_progress=on_progress,
        )

    def _finished(
        self, out: Path, suite: Suite, references: Sequence[str], retry_failed: bool
    ) -> dict[str, Any] | None:
        """The result of this very plan, if the folder holds it and nothing is left to do."""
        if not (out / RESULT).is_file():
            return None
        result = load_result(out)
        described = {**self.config(), "trials": self.trials, "seed": self.seed, "identity": suite.identity}
        open_attempts = result["unresolved"] + (result["failed"] if retry_failed else 0)
        missing = set(references) - {self.agent, *result["references"]}
        same = json.loads(json.dumps(described)) == result["config"]
        return result if same and not open_attempts and not missing else None
