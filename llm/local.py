"""Local language models: one loader for the installed asset, a tiny random model, and any transformers model.

Weights are read as safetensors only and code from a model repository is never run. torch and transformers are imported
when a model is loaded, not before.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import assets
from ..errors import ConfigError, MissingExtraError, UsageError

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

Message = dict[str, Any]

#: For tokenizers that bring no chat template (base models). Append-only: k+1 turns begin with the text of k turns.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


@dataclass
class LocalModel:
    """A causal language model with its tokenizer, in evaluation mode.

    Attributes:
        name: what `load_local_model` was given.
        model: the `PreTrainedModel`, on its device.
        tokenizer: its `PreTrainedTokenizerBase`; chat template and padding token are always set.
    """

    name: str
    model: Any
    tokenizer: Any

    @property
    def device(self) -> torch.device:
        """Where the model's inputs belong."""
        return self.model.device

    @property
    def context_length(self) -> int:
        """The most tokens the model was made for, prompt and reply together."""
        return int(getattr(self.model.config, "max_position_embeddings", 0) or 1 << 30)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[dict] | None = None, prompt: bool = True
    ) -> list[int]:
        """Token ids of chat messages under the model's own template.

        Control tokens written inside a message (`<|im_end|>` in a question's text) are broken up, so that no content
        can end its turn or open another one.

        Args:
            messages: OpenAI-style message dicts.
            tools: tool schemas for templates that show them.
            prompt: end with the header of the assistant's turn.

        Raises:
            UsageError: the template refuses these messages (a role it does not know, for example).
        """
        safe = [message | {"content": self._defuse(message.get("content") or "")} for message in messages]
        try:
            ids = self.tokenizer.apply_chat_template(
                safe, tools=tools, add_generation_prompt=prompt, tokenize=True, return_dict=False
            )
        except Exception as error:  # noqa: BLE001 - templates raise their own error types
            raise UsageError(f"the chat template of {self.name!r} refuses these messages: {error}") from None
        return list(ids)

    def _defuse(self, content: str) -> str:
        for token in self.tokenizer.added_tokens_decoder.values():
            if token.special and token.content in content:
                content = content.replace(token.content, f"{token.content[0]} {token.content[1:]}")
        return content

    def reply(self, messages: Sequence[Message], *, max_tokens: int = 256, tools: Sequence[dict] | None = None) -> str:
        """The greedy reply as text, without control tokens.

        Raises:
            UsageError: prompt and reply do not fit into the model's context.
        """
        import torch

        ids = self.render(messages, tools=tools)
        self.check_length(len(ids) + max_tokens)
        inputs = torch.tensor([ids], device=self.device)
        with torch.inference_mode():
            out = self.model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=max_tokens,
                do_sample=False,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        return self.tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)

    def next_token_logprobs(self, messages: Sequence[Message], texts: Sequence[str]) -> list[float]:
        """Log-probability of each text as the first token of the reply.

        Args:
            messages: the chat so far.
            texts: strings of one token each.

        Raises:
            UsageError: a text is not one token, or the prompt does not fit into the context.
        """
        import torch

        candidates = [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        long = [text for text, ids in zip(texts, candidates, strict=True) if len(ids) != 1]
        if long:
            raise UsageError(f"{long[0]!r} is not one token of {self.name!r}; compare generated replies instead")
        ids = self.render(messages)
        self.check_length(len(ids))
        with torch.inference_mode():
            logits = self.model(torch.tensor([ids], device=self.device), logits_to_keep=1).logits[0, -1]
            logprobs = torch.log_softmax(logits.float(), dim=-1)
        return [float(logprobs[ids[0]]) for ids in candidates]

    def check_length(self, tokens: int) -> None:
        """Refuse more tokens than the context holds, with an error that says both numbers."""
        if tokens > self.context_length:
            raise UsageError(
                f"{tokens} tokens do not fit into the {self.context_length} of {self.name!r}: shorten the prompt"
            )

    def fingerprint(self) -> str:
        """SHA-256 over the chat template, a tokenised sample, and every weight's name, shape, type and sixteen values.

        Cheap, and different for another model, precision, merged adapter, tokenizer or template.
        """
        import torch

        sample_ids = self.tokenizer.encode("Question 12: ACGTTGCA? (A) donor\n", add_special_tokens=False)
        digest = hashlib.sha256(f"{self.tokenizer.chat_template} {sample_ids}".encode())
        for name, weight in sorted(self.model.state_dict().items()):
            flat = weight.detach().reshape(-1)
            places = torch.linspace(0, max(flat.numel() - 1, 0), min(16, flat.numel()), dtype=torch.float64).long()
            sample = flat[places.to(flat.device)].float().cpu().numpy().tobytes()
            digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + sample)
        return digest.hexdigest()


def load_local_model(name: str, *, dtype: str = "auto", device: str = "auto", seed: int = 0) -> LocalModel:
    """Load a model and its tokenizer, ready for inference.

    Args:
        name: `smollm2` (the installed asset), `tiny` or the larger `tiny-chat` (random weights, made in a second, for
            tests and trials), a folder, or a name on the Hugging Face hub (what is in the local cache is not asked for
            again).
        dtype: `auto` (bfloat16 on CUDA, else float32), `float32`, `bfloat16` or `float16`.
        device: `auto` (CUDA if there is one, else the CPU) or a torch device.
        seed: of the random weights of `tiny` and `tiny-chat`.

    Raises:
        AssetError: `smollm2` is not installed.
        UsageError: the folder or hub name cannot be loaded: not found, offline, no safetensors, needs remote code.
        ConfigError: an unknown dtype or device.
        MissingExtraError: torch or transformers is not installed.
    """
    try:
        import torch
        import transformers  # noqa: F401 - only to tell early that it is missing
    except ImportError as error:
        raise MissingExtraError(error.name or "transformers", "train", "a local model") from None
    place = _device(torch, device)
    kind = _dtype(torch, dtype, place)
    if name in ("tiny", "tiny-chat"):
        from .tiny import tiny_chat_model, tiny_model

        model, tokenizer = (tiny_model if name == "tiny" else tiny_chat_model)(seed)
        model = model.to(kind)
    else:
        model, tokenizer = _from_pretrained(str(assets.path(name)) if name == "smollm2" else name, kind)
    if tokenizer.chat_template is None:
        log.warning("%s has no chat template; using plain 'role: content' turns", name)
        tokenizer.chat_template = PLAIN_TEMPLATE
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LocalModel(name, model.to(place).eval(), tokenizer)


def _device(torch: Any, device: str) -> Any:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}; try auto or cpu") from None


def _dtype(torch: Any, dtype: str, device: Any) -> Any:
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ConfigError(f"unknown dtype {dtype!r}: expected auto, float32, bfloat16 or float16")
    return getattr(torch, dtype)


def _from_pretrained(source: str, dtype: Any) -> tuple[Any, Any]:
    folder = Path(source).expanduser()
    is_path = folder.is_dir() or source.startswith((".", "~")) or folder.is_absolute()
    if is_path and not (folder / "config.json").is_file():
        raise UsageError(f"{source} is no model folder: it has no config.json")
    try:
        with _quiet_transformers():
            if is_path:
                return _load(str(folder), dtype)
            try:
                return _load(source, dtype, local_files_only=True)
            except OSError:
                _ask_hub(source)  # one short question first: transformers would retry an unknown name for half a minute
                return _load(source, dtype)
    except Exception as error:  # noqa: BLE001 - a broken folder or repository raises whatever its reader raises
        first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UsageError(
            f"the model {source!r} cannot be loaded: {first}. Expected smollm2, tiny, a folder with config.json, "
            "safetensors and a tokenizer, or a hub name that is cached or can be reached"
        ) from None


def _load(source: str, dtype: Any, **options: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options["trust_remote_code"] = False
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    return AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, **options), tokenizer


def _ask_hub(name: str) -> None:
    """Raise an error for people if the hub does not know a model name or cannot be reached."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        huggingface_hub.model_info(name, timeout=10)
    except (RepositoryNotFoundError, HFValidationError):
        raise UsageError("there is no such folder, and no such public model on the hub") from None
    except Exception as error:  # noqa: BLE001 - the HTTP library's own tree, which differs between versions
        raise UsageError(f"no such folder, not in the local cache, and the hub cannot be reached ({error})") from None


@contextlib.contextmanager
def _quiet_transformers() -> Any:
    """Loading bars are noise for models that load in a second; restore the user's setting afterwards."""
    from transformers.utils import logging as hf_logging

    shown = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            hf_logging.enable_progress_bar()
