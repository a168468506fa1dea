"""A backend whose turns are written by a function: everything but the model is real."""

from __future__ import annotations

from toolcredit.agents.trajectory import SampledTurn
from toolcredit.errors import InfrastructureError


class ScriptedBackend:
    """Writes one token of every open turn per `advance`, like a model in this process.

    Args:
        tokenizer: of the policy.
        write: (episode, number of the episode's turn) → the turn's text, without its end; or an error. A text that ends
            in `…` is cut off there by the length limit.
        slots: episodes at once.
        context_length: the most tokens of a conversation.
    """

    in_process = True

    def __init__(self, tokenizer, write, slots=4, context_length=4096):
        self.tokenizer, self.write, self.slots, self.context_length = tokenizer, write, slots, context_length
        self.stop_ids, self.policy_version = frozenset(), 7
        self.requests, self.released, self.peak = [], [], 0
        self.begun = self.ended = 0
        self._left = {}

    def begin(self, wake):
        self.begun += 1
        self._turns = {}

    def end(self):
        self.ended += 1
        return {"forwarded_tokens": sum(len(r.ids) for r in self.requests)}

    def submit(self, request):
        self.requests.append(request)
        number = self._turns.get(request.episode, 0)
        self._turns[request.episode] = number + 1
        text = self.write(request.episode, number)
        if isinstance(text, Exception):
            self._left[request.episode] = [text, 1]
        else:
            ids = self.tokenizer.encode(text.removesuffix("…"), add_special_tokens=False)
            ids = ids if text.endswith("…") else [*ids, self.tokenizer.eos_token_id]
            ids = ids[: request.max_new_tokens]
            clipped = ids[-1] not in request.stop_ids
            turn = SampledTurn(tuple(ids), tuple(-0.25 for _ in ids), clipped)
            self._left[request.episode] = [turn, len(ids)]
        self.peak = max(self.peak, len(self._left))

    def advance(self):
        ended = []
        for episode, state in list(self._left.items()):
            state[1] -= 1
            if state[1] <= 0:
                ended.append((episode, state[0]))
                del self._left[episode]
        return ended

    def release(self, episode):
        self.released.append(episode)


def failing(reason="the server is down"):
    """What `write` gives for a turn that fails."""
    return InfrastructureError(reason)
