"""A LoRA language-model policy: loading, chat rendering, exact candidate scoring, token-exact sampling.

`LoraPolicy` is imported on first use, because it needs torch and configurations do not.
"""

from typing import TYPE_CHECKING, Any

from .config import PolicyConfig

if TYPE_CHECKING:
    from .policy import LoraPolicy

__all__ = ["LoraPolicy", "PolicyConfig"]


def __getattr__(name: str) -> Any:
    if name == "LoraPolicy":
        from .policy import LoraPolicy

        return LoraPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
