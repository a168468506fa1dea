"""File store: finding, reading, writing, moving, sharing files."""

from __future__ import annotations

from random import Random
from typing import Any

from .base import Dice, Domain, Ids, Named, State, known, refuse, table
from .params import ALL_DAYS, DATE, NAME, PERSON, TEXT, array, enum, identifier, integer, name, text
from .words import FILES, FOLDERS, PEOPLE, PHRASES

STORE = Domain("files")

INDEX = Named.of("FIL", "file", FILES)
FILE_ID = identifier("FIL", INDEX.ids.sample, words=("file",))
FILE_NAME = name(FILES, words=("file", "name"))
FOLDER = enum(*FOLDERS, words=("folder", "where"))
ROLE = enum("viewer", "editor", "owner", words=("role", "right", "access"))
FORMAT = enum("pdf", "csv", "html", "txt", say={f: f.upper() for f in ("pdf", "csv", "html", "txt")}, words=("format",))
NOTE_TITLE = text(
    tuple(f"{word} notes" for word in ("kitchen", "garden", "travel", "office", "music", "reading")),
    words=("title", "name"),
)
NOTES = Ids("NOT", "note", 0)
LINKS = Ids("LNK", "link", 0)
JOBS = Ids("JOB", "job", 0)


def _folder(state: State, file_id: str) -> str:
    INDEX.ids.decode(state, file_id)
    return table(state, "moved files").get(file_id) or Dice(state, "folder", file_id).choice(FOLDERS)


@STORE.tool(
    params={"file_name": FILE_NAME("Name with extension.")},
    returns={"file_id": FILE_ID, "file_name": NAME, "folder": FOLDER},
    asks=(
        "In which folder is the file {file_name}?",
        "Find {file_name} in the file store, I need its id.",
        "Where did I put {file_name}?",
    ),
    reply="The file {file_name} ({.file_id}) is in the folder {.folder}.",
)
def find_file(state: State, file_name: str) -> dict[str, Any]:
    """Find a file of the store by its name: id and folder."""
    file_name = known(FILES, file_name, "file", "file_name")
    file_id = INDEX.id(state, file_name)
    return {"file_id": file_id, "file_name": file_name, "folder": _folder(state, file_id)}


@STORE.tool(
    params={"file_id": FILE_ID("Id of the file, as FIL-12345.")},
    returns={"file_id": FILE_ID, "size_kb": integer(0, 10_000_000), "modified": DATE, "modified_by": NAME},
    asks=(
        "Who changed file {file_id} last, and when?",
        "How large is the file {file_id}, and when was it modified?",
        "Show size and last change of {file_id}.",
    ),
    reply="File {file_id} has {.size_kb} kB and was last changed by {.modified_by} on {.modified}.",
)
def get_file_info(state: State, file_id: str) -> dict[str, Any]:
    """Size, last change and its author of a file, by file id."""
    INDEX.name(state, file_id)
    dice = Dice(state, "file", file_id)
    return {
        "file_id": file_id,
        "size_kb": dice.integer(3, 24_000),
        "modified": dice.choice(ALL_DAYS),
        "modified_by": dice.choice(PEOPLE),
    }


@STORE.tool(
    params={"file_id": FILE_ID("Id of the file.")},
    returns={"file_id": FILE_ID, "first_line": TEXT, "lines": integer(0, 1_000_000)},
    asks=(
        "What is the first line of file {file_id}, and how many lines does it have?",
        "Open file {file_id} and read me its beginning.",
    ),
    reply='File {file_id} has {.lines} lines and begins with "{.first_line}".',
)
def read_file(state: State, file_id: str) -> dict[str, Any]:
    """First line and number of lines of a file's content, by file id."""
    INDEX.name(state, file_id)
    dice = Dice(state, "content", file_id)
    return {
        "file_id": file_id,
        "first_line": f"{dice.choice(PHRASES)} (version {dice.integer(1, 90)})",
        "lines": dice.integer(4, 4000),
    }


@STORE.tool(
    params={"file_id": FILE_ID("Id of the file."), "folder": FOLDER("Folder it goes to.")},
    returns={"file_id": FILE_ID, "file_name": NAME, "folder": FOLDER},
    asks=(
        "Move file {file_id} to the folder {folder}.",
        "Please put {file_id} into {folder}.",
    ),
    reply="The file {.file_name} is now in the folder {.folder}.",
    vague=("Move file {file_id} to another folder.",),
    writes=True,
)
def move_file(state: State, file_id: str, folder: str) -> dict[str, Any]:
    """Move a file to another folder, by file id."""
    if _folder(state, file_id) == folder:
        refuse(f"The file {file_id} is in {folder} already.", "conflict")
    table(state, "moved files")[file_id] = folder
    return {"file_id": file_id, "file_name": INDEX.name(state, file_id), "folder": folder}


@STORE.tool(
    params={
        "file_id": FILE_ID("Id of the file."),
        "person": PERSON("Full name of the person who gets access."),
        "role": ROLE("What the person may do.").optional("viewer"),
    },
    returns={"link_id": identifier("LNK"), "person": NAME, "role": ROLE, "expires": DATE},
    asks=(
        "Share file {file_id} with {person}.",
        "Give {person} access to {file_id} as {role}.",
        "{person} should become {role} of the file {file_id}.",
    ),
    reply="{.person} is now {.role} of {file_id} (link {.link_id}, until {.expires}).",
    vague=("Share file {file_id} with my colleague.",),
    writes=True,
)
def share_file(state: State, file_id: str, person: str, role: str = "viewer") -> dict[str, Any]:
    """Give a person access to a file, by file id."""
    INDEX.name(state, file_id)
    person = known(PEOPLE, person, "person", "person")
    link_id = LINKS.fresh(state, file_id, person, role)
    table(state, "shares")[link_id] = {"file_id": file_id, "person": person, "role": role}
    expires = Dice(state, "expires", link_id).choice(ALL_DAYS[365:])
    return {"link_id": link_id, "person": person, "role": role, "expires": expires}


@STORE.tool(
    params={"file_id": FILE_ID("Id of the file."), "format": FORMAT("Format that is wanted.")},
    returns={"job_id": identifier("JOB"), "output_name": NAME},
    asks=(
        "Convert file {file_id} to {format}.",
        "I need {file_id} as {format}.",
    ),
    reply="The file {.output_name} is being made by the job {.job_id}.",
    vague=("Convert file {file_id} to another format.",),
    writes=True,
)
def convert_file(state: State, file_id: str, format: str) -> dict[str, Any]:
    """Convert a file to another format, by file id."""
    stem, ending = INDEX.name(state, file_id).split(".")
    if ending == format:
        refuse(f"The file {file_id} is a {format} file already.", "conflict")
    job_id = JOBS.fresh(state, file_id, format)
    table(state, "jobs")[job_id] = f"{stem}.{format}"
    return {"job_id": job_id, "output_name": f"{stem}.{format}"}


@STORE.tool(
    params={
        "title": NOTE_TITLE("Title of the note."),
        "content": text(PHRASES, 2000, words=("text", "content", "write"))("Text of the note."),
        "tags": array(text(("urgent", "idea", "someday", "family")), 1, 5, 2)("Tags.").optional(None),
    },
    returns={"note_id": identifier("NOT"), "title": NAME, "characters": integer(0, 3000)},
    asks=(
        'Save a note called "{title}" with the text "{content}".',
        'Write down in a new note "{title}": "{content}", tagged {tags}.',
    ),
    reply='The note "{.title}" is saved as {.note_id}.',
    vague=('Save a new note called "{title}".',),
    writes=True,
)
def write_note(state: State, title: str, content: str, tags: list[str] | None = None) -> dict[str, Any]:
    """Save a new note with a title and a text."""
    note_id = NOTES.fresh(state, title, content)
    table(state, "notes")[note_id] = {"title": title, "content": content, "tags": tags or []}
    return {"note_id": note_id, "title": title, "characters": len(content)}


@STORE.tool(
    params={"note_id": identifier("NOT", words=("note",))("Id of the note, as NOT-12345.")},
    returns={"note_id": identifier("NOT"), "title": NAME, "content": text(max_length=2000)},
    asks=(),
    reply='The note "{.title}" says: "{.content}".',
)
def read_note(state: State, note_id: str) -> dict[str, Any]:
    """Title and text of a saved note, by its id."""
    note = table(state, "notes").get(note_id) or refuse(f"There is no note {note_id}.", "not_found")
    return {"note_id": note_id, "title": note["title"], "content": note["content"]}


@STORE.tool(
    params={"folder": FOLDER("Name of the folder.")},
    returns={"folder": FOLDER, "files": integer(0, 1000), "total_kb": integer(0, 10_000_000)},
    asks=(
        "How many files are in the folder {folder}, and how large are they together?",
        "How much space does the folder {folder} take?",
        "Show me count and total size of {folder} in the file store.",
    ),
    reply="The folder {folder} has {.files} files, {.total_kb} kB in all.",
    vague=("How much space does that folder take?",),
)
def get_folder_size(state: State, folder: str) -> dict[str, Any]:
    """Number of files in a folder and their total size."""
    dice = Dice(state, "folder size", folder)
    return {"folder": folder, "files": dice.integer(2, 80), "total_kb": dice.integer(900, 800_000)}


def _draw_move(rng: Random, state: State) -> dict[str, Any]:
    file_name = rng.choice(FILES)
    here = _folder(state, INDEX.id(state, file_name))
    return {"file_name": file_name, "folder": rng.choice([folder for folder in FOLDERS if folder != here])}


STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("i", "get_file_info", {"file_id": "@f.file_id"}),
    asks=(
        "Who changed {file_name} last?",
        "How large is {file_name}, and when was it last modified?",
    ),
    reply="The file {file_name} has {i.size_kb} kB; {i.modified_by} changed it last, on {i.modified}.",
)
STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("m", "move_file", {"file_id": "@f.file_id", "folder": "$folder"}),
    asks=(
        "Move {file_name} to the folder {folder}.",
        "The file {file_name} is in the wrong place. It belongs into {folder}.",
    ),
    reply="The file {file_name} moved from {f.folder} to {m.folder}.",
    draw=_draw_move,
)
STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("s", "share_file", {"file_id": "@f.file_id", "person": "$person", "role": "$role"}),
    asks=(
        "Make {person} {role} of {file_name}.",
        "{person} needs access to {file_name} as {role}.",
    ),
    reply="{s.person} is now {s.role} of {file_name} until {s.expires} ({s.link_id}).",
)
STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("i", "get_file_info", {"file_id": "@f.file_id"}),
    ("s", "share_file", {"file_id": "@f.file_id", "person": "@i.modified_by", "role": "$role"}),
    asks=(
        "Whoever changed {file_name} last should become {role} of it.",
        "Find out who modified {file_name} last and give that person access as {role}.",
    ),
    reply="{i.modified_by} changed {file_name} last, on {i.modified}, and is now {s.role} of it ({s.link_id}).",
)
STORE.recipe(
    ("w", "write_note", {"title": "$title", "content": "$content"}),
    ("r", "read_note", {"note_id": "@w.note_id"}),
    asks=(
        'Save a note "{title}" with the text "{content}", then open it again to check what was saved.',
        'Write the note "{title}" saying "{content}" and read it back to me from the store.',
    ),
    reply='The note {w.note_id}, "{r.title}", says: "{r.content}".',
)
STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("c", "convert_file", {"file_id": "@f.file_id", "format": "$format"}),
    ("s", "share_file", {"file_id": "@f.file_id", "person": "$person"}),
    asks=(
        "Convert {file_name} to {format}, and share the original with {person}.",
        "Share {file_name} with {person}; please also convert that file to {format}.",
    ),
    reply="The file {c.output_name} is being made by {c.job_id}, and {file_name} is shared with {s.person} until "
    "{s.expires}.",
)
STORE.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("i", "get_file_info", {"file_id": "@f.file_id"}),
    ("r", "read_file", {"file_id": "@f.file_id"}),
    asks=(
        "How large is {file_name}, and what does its first line say?",
        "Tell me who changed {file_name} last, and read me its first line.",
    ),
    reply="The file {file_name} has {i.size_kb} kB, was last changed by {i.modified_by} and begins with "
    '"{r.first_line}".',
)
STORE.resemble("find_file", "get_file_info", "read_file")
