"""Title, author and text of a document: the program that `extraction.py` runs in a separate process.

It reads a document from standard input and writes `Said` as JSON. Arguments: media type, bytes of memory, seconds.

*Rules.*
1. Nothing is fetched, and no entity is expanded. Parts of archives are read up to a limit, whatever they unpack to.
2. It imports little: half of the time that a small document takes is that of the imports.
3. What a reader cannot make sense of is a problem in the answer. Anything worse ends the process, with its last line of
   standard error as the message.
"""

import codecs
import re
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec
from lxml import etree, html

__all__ = ["Said", "main", "said_by"]

TEXT_CHARS_MAX = 1_000_000
PART_BYTES_MAX = 32 * 2**20
PARTS_MAX = 500
PAGES_MAX = 2_000
SPACE = re.compile(r"\s+")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$|^(\S.*)\n=+\s*$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
PARSER = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, recover=True)

DC = "{http://purl.org/dc/elements/1.1/}"
TERMS = "{http://purl.org/dc/terms/}"
CORE = "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}"
META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
PROPERTIES = {
    f"{DC}title": "title",
    f"{DC}creator": "author",
    f"{META}initial-creator": "author",
    f"{DC}subject": "subject",
    f"{DC}description": "description",
    f"{DC}language": "language",
    f"{CORE}keywords": "keyword",
    f"{META}keyword": "keyword",
    f"{TERMS}created": "created",
    f"{META}creation-date": "created",
}
OFFICE_TEXTS = re.compile(
    r"word/(document|footnotes|endnotes|comments)\.xml|ppt/slides/slide\d+\.xml|ppt/notesSlides/notesSlide\d+\.xml|"
    r"xl/sharedStrings\.xml"
)
BLOCKS = ("p", "h", "si", "br", "tr", "table-row")  # after these elements a word has ended

Fields = dict[str, list[str]]


class Said(msgspec.Struct, frozen=True):
    """What a document says, and why something is missing."""

    fields: dict[str, list[str]] = {}
    text: str = ""
    problem: str = ""


class Unreadable(Exception):
    """A document that a reader cannot make sense of: `str()` says why."""


def said_by(file: BinaryIO, type: str) -> Said:
    """What a document of a media type says."""
    reader = next((made for start, made in READERS.items() if type.startswith(start)), None)
    if reader is None:
        return Said()
    try:
        return reader(file)
    except Unreadable as error:
        return Said(problem=str(error))


# ---------------------------------------------------------------- texts


def plain(file: BinaryIO) -> Said:
    """A plain text."""
    return Said(text=_decoded(file))


def markdown(file: BinaryIO) -> Said:
    """A Markdown text: its title is in front of it, or is its first heading."""
    text = _decoded(file)
    fields: Fields = {}
    if front := FRONT_MATTER.match(text):
        for line in front[1].splitlines():
            name, _, value = line.partition(":")
            if name.strip().lower() in ("title", "author") and value.strip():
                fields[name.strip().lower()] = [value.strip().strip("\"'")]
        text = text[front.end() :]
    if "title" not in fields and (heading := HEADING.search(text)):
        fields["title"] = [heading[1] or heading[2]]
    return Said(fields, text)


def web_page(file: BinaryIO) -> Said:
    """A page of HTML."""
    parser = html.HTMLParser(no_network=True, huge_tree=False, recover=True)
    try:
        root: Any = html.document_fromstring(file.read(PART_BYTES_MAX), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable(f"it is not valid HTML: {error}") from None
    fields: Fields = {"title": [title] if (title := root.findtext(".//title")) else []}
    for meta in root.iter("meta"):
        name = (meta.get("name") or "").lower()
        if name in ("author", "description", "keywords") and meta.get("content"):
            found = [str(meta.get("content"))]
            fields["keyword" if name == "keywords" else name] = found[0].split(",") if name == "keywords" else found
    for element in list(root.iter("script", "style", "template", "noscript")):
        element.drop_tree()
    body = root.find("body")
    return Said(fields, _spaced(str(each) for each in (root if body is None else body).itertext()))


def _decoded(file: BinaryIO) -> str:
    """The text of a file, by its mark, as UTF-8, or as Latin-1, which reads anything."""
    data = file.read(4 * TEXT_CHARS_MAX)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")[:TEXT_CHARS_MAX]
    if b"\0" in data[:1000]:
        raise Unreadable("it is not a text: there are zero bytes in it")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)[:TEXT_CHARS_MAX]
    except UnicodeDecodeError:
        return data.decode("latin-1")[:TEXT_CHARS_MAX]


def _spaced(pieces: Iterator[str]) -> str:
    """Pieces of text with one space wherever there is any, up to the limit."""
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > TEXT_CHARS_MAX:
            break
    return SPACE.sub(" ", "".join(found)).strip()[:TEXT_CHARS_MAX]


# ---------------------------------------------------------------- office documents


def office(file: BinaryIO) -> Said:
    """Office Open XML, or OpenDocument: an archive of XML files."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()[:100_000]
            fields = _properties(archive, names)
            texts = [name for name in names if name == "content.xml" or OFFICE_TEXTS.fullmatch(name)]
            pieces = (piece for name in sorted(texts, key=_by_number)[:PARTS_MAX] for piece in _texts(archive, name))
            return Said(fields, _spaced(pieces))
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError) as error:
        raise Unreadable(f"it is not an archive of an office document, or is damaged: {error}") from None


def _by_number(name: str) -> tuple[int, str]:
    """Slides in their order: 2 before 10."""
    digits = re.sub(r"\D", "", name)
    return int(digits[:9] or 0), name


def _properties(archive: zipfile.ZipFile, names: list[str]) -> Fields:
    fields: Fields = {}
    for name in ("docProps/core.xml", "meta.xml"):
        if name in names:
            for element in _parsed(archive, name).iter():
                field = PROPERTIES.get(str(element.tag))
                if field and element.text:
                    several = re.split(r"[,;]", element.text) if field == "keyword" else [element.text]
                    fields.setdefault(field, []).extend(several)
    return fields


def _texts(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    for event, element in etree.iterwalk(_parsed(archive, name), events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if event == "start":
            yield element.text or ""
        else:
            if element.tag.rpartition("}")[2] in BLOCKS:
                yield " "
            yield element.tail or ""


def _parsed(archive: zipfile.ZipFile, name: str) -> "etree._Element":
    """A part of an archive, up to the limit. (rule 1)"""
    with archive.open(name) as part:
        data = part.read(PART_BYTES_MAX + 1)
    if len(data) > PART_BYTES_MAX:
        raise Unreadable(f"{name} in it has more than {PART_BYTES_MAX // 2**20} MiB when it is unpacked")
    if b"<!ENTITY" in data:
        raise Unreadable(f"{name} in it declares entities")
    root = etree.fromstring(data, PARSER)
    if root is None:
        raise Unreadable(f"{name} in it is not valid XML")
    return root


# ---------------------------------------------------------------- PDF


def pdf(file: BinaryIO) -> Said:
    """A PDF document."""
    from pypdf import PdfReader

    try:
        reader = PdfReader(file, strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted")
        about = reader.metadata
        fields: Fields = {}
        if about is not None:
            said = {"title": about.title, "author": about.author, "subject": about.subject}
            fields = {name: [str(value)] for name, value in said.items() if value}
            if keywords := about.get("/Keywords"):
                fields["keyword"] = re.split(r"[,;]", str(keywords))
            if created := _created(lambda: about.creation_date):
                fields["created"] = [created]
        pieces = (f"{page.extract_text()} " for page, _ in zip(reader.pages, range(PAGES_MAX), strict=False))
        return Said(fields, _spaced(pieces))
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # a broken document: pypdf raises nearly anything
        raise Unreadable(f"it is not a PDF, or is damaged: {error}") from None


def _created(ask: Callable[[], object]) -> str:
    try:
        return getattr(ask(), "isoformat", str)() if ask() else ""
    except Exception:  # a date that is none
        return ""


READERS: dict[str, Callable[[BinaryIO], Said]] = {
    "application/pdf": pdf,
    "application/vnd.openxmlformats-officedocument.": office,
    "application/vnd.oasis.opendocument.": office,
    "text/html": web_page,
    "application/xhtml+xml": web_page,
    "text/markdown": markdown,
    "text/": plain,
}
"""By the start of a media type."""


def main(type: str, memory_bytes_max: int, seconds_max: float) -> None:
    """Read standard input, write `Said`."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes_max, memory_bytes_max))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds_max) + 1,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.stdout.buffer.write(msgspec.json.encode(_encodable(said_by(sys.stdin.buffer, type))))


def _encodable(said: Said) -> Said:
    """The same without lone surrogates, which some documents have and JSON has not."""
    return Said(
        {name: [_valid(each) for each in values] for name, values in said.fields.items()},
        _valid(said.text),
        _valid(said.problem),
    )


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
