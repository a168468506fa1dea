"""In which script and language a text is written: enough to tell a reply in the wrong one, nothing more."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_SAMPLE = 2_000
_WORD = re.compile(r"[^\W\d_]+")
_MINIMUM_WORDS = 3
_WITH_CJK = ("HIRAGANA", "KATAKANA")  # Japanese mixes them with Chinese characters
_FUNCTION_WORDS = {
    "English": "the of and to in is it you that was for on are with as at be this have from or by not what your which "
    "an will there can if do its has my me how please i",
    "German": "der die das und ist nicht ein eine zu den von mit sich auf für im dem des es an werden aus wird bei "
    "sind ich sie was wie kann bitte mir ihr",
    "French": "le la les et des est une du dans que pour qui pas sur au plus par je vous avec ce il sont nous mais "
    "quel quelle avez s'il",
    "Spanish": "el los las y es una del en que por con para su al lo como más pero sus le se está hay cuál qué mi yo",
    "Italian": "il gli di che è una per con del della nel sono non si alla dei anche più come ma qual mi questo ho",
    "Portuguese": "os as e é uma do da em que por com para não no na se mais como dos ao qual você eu meu está são",
}
_LANGUAGES = {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}


def script(text: str) -> str | None:
    """The script of most letters, as Unicode names it (`LATIN`, `CYRILLIC`, `CJK`, …); None without letters."""
    scripts = (unicodedata.name(char, "").split(" ")[0] for char in text[:_SAMPLE] if char.isalpha())
    counts = Counter("CJK" if name in _WITH_CJK else name for name in scripts)
    return counts.most_common(1)[0][0] if counts else None


def language(text: str) -> str | None:
    """The language with the most function words in the text; None if there are too few of them, or no clear winner."""
    words = _WORD.findall(text[:_SAMPLE].lower())
    counts = sorted(((sum(word in known for word in words), name) for name, known in _LANGUAGES.items()), reverse=True)
    (most, name), (second, _) = counts[:2]
    return name if most >= _MINIMUM_WORDS and most >= 2 * second else None


def differs(text: str, other: str) -> bool:
    """Whether two texts are clearly in different scripts or languages."""
    scripts = script(text), script(other)
    if None not in scripts and scripts[0] != scripts[1]:
        return True
    languages = language(text), language(other)
    return None not in languages and languages[0] != languages[1]
