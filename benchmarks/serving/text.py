"""From sampled tokens to text that can be sent at once: no half characters, nothing that a stop string would cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNREADABLE = "\ufffd"


class TextStream:
    """The text of a growing list of tokens.

    Args:
        decode: text of token ids.
        stops: strings that end the text; they are no part of it.

    Attributes:
        text: what is certain so far. It only grows.
        stopped: whether a stop string was found.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()):
        self.text, self.stopped = "", False
        self._decode, self._stops = decode, tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._whole = ""
        # Tokens are decoded a few at a time, each time after some that are written already: how a token reads
        # depends on whether it stands first. `_written` of those from `_begin` on are in `_whole`.
        self._begin, self._written = 0, 0

    def feed(self, ids: Sequence[int], last: bool = False) -> None:
        """Take the tokens in that came since the last time.

        Args:
            ids: all tokens so far.
            last: no more will come, so that nothing is held back.
        """
        if self.stopped or (self._written == len(ids) and not last):
            return
        before = self._decode(ids[self._begin : self._written])
        now = self._decode(ids[self._begin :])
        if last or not now.endswith(_UNREADABLE):  # which is what the first part of a character looks like
            self._whole += now[len(before) :]
            self._begin, self._written = self._written, len(ids)
        self._cut()
        if not self.stopped:
            self.text = self._whole if last else self._whole[: len(self._whole) - self._open_stop()]

    def _cut(self) -> None:
        """End the text before the first stop string; what `text` shows already holds none."""
        start = max(len(self.text) - self._longest, 0)
        found = [place for stop in self._stops if (place := self._whole.find(stop, start)) >= 0]
        if found:
            self.text, self.stopped = self._whole[: min(found)], True

    def _open_stop(self) -> int:
        """Length of the longest end of the text that a stop string may go on from."""
        for length in range(min(self._longest - 1, len(self._whole)), 0, -1):
            if any(len(stop) > length and self._whole.endswith(stop[:length]) for stop in self._stops):
                return length
        return 0
