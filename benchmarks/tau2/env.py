"""`toolcredit/Tau2-v0`: τ²-bench as an environment."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import EmptySplitError
from ..suite_env import SuiteEnv
from .dialogue import MAX_ERRORS, MAX_STEPS


class Tau2Env(SuiteEnv):
    """Dialogues of τ²-bench; see `SuiteEnv`. Without a user it is the solo mode, which needs no second model.

    Args:
        domain: one or several of `airline`, `retail`, `telecom`, `mock`, with commas; by default the first three, in
            solo mode `telecom`.
        split: the benchmark's own: `base`, `train`, `test`; telecom has `small` and `full`, too. There is no `dev`.
        user: who plays the user: `scripted` (without a model, see `references.ScriptedUsers`), `openai:MODEL`,
            `local:MODEL`, or another agent that chats. None for solo mode.
        user_base_url: the endpoint of an `openai:` user.
        user_api_key_env: environment variable with its key.
        max_steps: messages after which a dialogue is cut, worth 0.
        max_errors: failing calls after which it is cut, worth 0.
        ids: only these tasks, `DOMAIN/ID`.
        limit: at most so many tasks, in turn from the domains.
        parser: the syntax of calls.
        render_mode: `"ansi"` for the conversation as text.

    Raises:
        EmptySplitError: the split is `dev`.
    """

    def __init__(
        self,
        domain: str | None = None,
        split: str = "base",
        user: str | None = None,
        user_base_url: str | None = None,
        user_api_key_env: str | None = None,
        max_steps: int = MAX_STEPS,
        max_errors: int = MAX_ERRORS,
        ids: str | Sequence[str] | None = None,
        limit: int | None = None,
        parser: str = "hermes",
        render_mode: str | None = None,
    ):
        if split == "dev":
            raise EmptySplitError("τ²-bench has no split 'dev': expected base, train or test")
        options = {
            "domain": domain,
            "split": split,
            "solo": user is None,
            "user": user,
            "user_base_url": user_base_url,
            "user_api_key_env": user_api_key_env,
            "max_steps": max_steps,
            "max_errors": max_errors,
        }
        super().__init__("tau2", options, ids=ids, limit=limit, parser=parser, render_mode=render_mode)
