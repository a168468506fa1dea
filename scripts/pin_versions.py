"""Print constraints.txt: the installed versions of everything that toolcredit[train,dev] needs, with Python markers."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("train", "dev")
OLDEST_PYTHON = "3.10"


def needed(name: str, extras: tuple[str, ...], found: dict[str, str]) -> None:
    """Add `name` and, recursively, what it requires here."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return  # for another platform or Python
    key = canonicalize_name(name)
    if key in found and not extras:
        return
    found[key] = pin(package.metadata)
    for line in package.requires or ():
        requirement = Requirement(line)
        if any(requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in (*extras, "")):
            needed(requirement.name, tuple(requirement.extras), found)


def pin(metadata) -> str:
    """`name==version`, with a marker if the version does not install on the oldest Python."""
    line = f"{metadata['Name']}=={metadata['Version'].split('+')[0]}"
    least = re.search(r">=\s*(3\.\d+)", metadata.get("Requires-Python") or "")
    if least and int(least[1].split(".")[1]) > int(OLDEST_PYTHON.split(".")[1]):
        line += f' ; python_version >= "{least[1]}"'
    return line


def main() -> None:
    found: dict[str, str] = {}
    needed("toolcredit", EXTRAS, found)
    found.pop("toolcredit")
    print("# The versions that toolcredit is tested with; made by scripts/pin_versions.py.")
    print("# pip install -c constraints.txt -e '.[train,dev]'")
    print("\n".join(found[name] for name in sorted(found)))


if __name__ == "__main__":
    main()
