"""`chat`: a frozen language model at any OpenAI-compatible endpoint, decoded greedily, answers one letter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ....llm.client import DEFAULT_KEY_VARIABLE, ChatClient
from ....llm.limiter import Limit
from ..questions import PublicQuestion
from ..tools.base import Evidence
from .base import Answer
from .prompt import parse_choice, prompt_digest, reasoner_messages

#: Room for a model that reasons before it answers; one that follows the prompt uses a token or two.
MAX_TOKENS = 1024


class ChatReasoner:
    """Asks an endpoint. What the model says but cannot be read is `Answer(None)`; what the endpoint fails at raises.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint, up to and with `/v1`; default `$OPENAI_BASE_URL`, else OpenAI's own.
        api_key_env: environment variable with the key.
        in_flight: requests at once.
        requests_per_minute: None for no limit.
        tokens_per_minute: None for no limit.
        params: further fields of the request; they replace the defaults `temperature=0` and `max_tokens=1024`, and None
            removes one (for models that do not accept it).
        bases: show only the middle bases of each sequence.
        timeout: seconds for one attempt.
        deadline: seconds for all attempts of one answer.
        max_retries: attempts after the first.
        cache: file of a response cache, for runs that ask the same again.
    """

    name = "chat"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = DEFAULT_KEY_VARIABLE,
        in_flight: int = 16,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        params: dict[str, Any] | None = None,
        bases: int | None = None,
        timeout: float = 120.0,
        deadline: float = 300.0,
        max_retries: int = 5,
        cache: str | None = None,
    ):
        self.client = ChatClient(
            model,
            base_url=base_url,
            api_key_env=api_key_env,
            limit=Limit(in_flight, requests_per_minute, tokens_per_minute),
            timeout=timeout,
            deadline=deadline,
            max_retries=max_retries,
            cache=cache,
        )
        wanted = {"temperature": 0, "max_tokens": MAX_TOKENS} | (params or {})
        self._params = {key: value for key, value in wanted.items() if value is not None}
        self._bases = bases
        self.concurrency = in_flight
        parts = json.dumps([prompt_digest(), self._params, bases], sort_keys=True)
        self.version = f"{model} {hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    def answer(self, question: PublicQuestion, evidence: Sequence[Evidence]) -> Answer:
        """The option that the model names (see `Reasoner`).

        Raises:
            EndpointError: the endpoint gave no valid reply.
        """
        reply = self.client.complete(reasoner_messages(question, evidence, self._bases), **self._params)
        return Answer(parse_choice(reply.text, question.choices), reply.text)
