"""`toolcredit/BFCL-v0`: the Berkeley Function Calling Leaderboard as an environment."""

from __future__ import annotations

from collections.abc import Sequence

from ..suite_env import SuiteEnv


class BFCLEnv(SuiteEnv):
    """Entries of BFCL: one turn of a single-turn entry, whole conversations of a multi-turn one; see `SuiteEnv`.

    Args:
        categories: only these, or the groups `single_turn`, `non_live`, `live`, `multi_turn`; a list, or with commas.
        version: `v4` or `v3`; by default that of `source`, or `v4`.
        mode: `fc` (functions as tools) or `prompting` (functions in the prompt, `[f(a=1)]` as the answer).
        scorer: whose verdict the reward is: `own`; or `official`, `both` (the official one, ours beside it), by which a
            broken attempt at a call is right where none fits.
        source: a folder of BFCL files; by default the installed asset.
        ids: only these entries.
        limit: at most so many entries, in turn from the categories.
        split: `all`, `train`, `dev` or `test`, see `SuiteEnv`; BFCL itself has no splits.
        parser: the syntax of calls in the mode `fc`.
        render_mode: `"ansi"` for the conversation as text.
    """

    def __init__(
        self,
        categories: str | Sequence[str] | None = None,
        version: str | None = None,
        mode: str = "fc",
        scorer: str = "own",
        source: str | None = None,
        ids: str | Sequence[str] | None = None,
        limit: int | None = None,
        split: str = "all",
        parser: str = "hermes",
        render_mode: str | None = None,
    ):
        super().__init__(
            "bfcl",
            {"version": version, "mode": mode, "scorer": scorer, "source": source},
            categories=categories,
            ids=ids,
            limit=limit,
            split=split,
            parser=parser,
            render_mode=render_mode,
        )
