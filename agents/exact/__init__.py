"""The measuring rod: tool-calling tasks so small that every rollout can be listed, and exact gradients on them.

`enumeration` holds all rollouts of a task under a tabular policy and gives the policy gradient without sampling;
`moments` the expectation and variance of any estimator's gradient over all groups; `tasks` three small tasks. The
command `python -m toolcredit.agents.exact` prints what stands in docs/estimators.md.
"""

from .enumeration import Decision, Enumeration, Rollout
from .moments import Moments, moments

__all__ = ["Decision", "Enumeration", "Moments", "Rollout", "moments"]
