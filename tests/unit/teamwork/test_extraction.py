"""The profile of an artefact from its file: what each type says, and what becomes of broken and hostile files."""

import zipfile
from pathlib import Path

import pytest

from godwit.teamwork.extraction import Extracted, extracted, type_of
from godwit.teamwork.profiles import checked_fields, document_of

CORE = """<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>Bridge plan</dc:title>
<dc:creator>Ann Smith</dc:creator><cp:keywords>steel, river</cp:keywords>
<dcterms:created>2026-01-02T03:04:05Z</dcterms:created></cp:coreProperties>"""
WORD = """<w:document xmlns:w="urn:w"><w:body><w:p><w:r><w:t>Hel</w:t></w:r><w:r><w:t>lo</w:t></w:r></w:p>
<w:p><w:r><w:t>world</w:t></w:r></w:p></w:body></w:document>"""
META = """<office:document-meta xmlns:office="urn:o" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0"><office:meta><dc:title>Minutes</dc:title>
<meta:initial-creator>Bob</meta:initial-creator><dc:creator>Cid</dc:creator>
<meta:creation-date>2026-01-02T03:04:05</meta:creation-date></office:meta></office:document-meta>"""
CONTENT = '<d xmlns:text="urn:t"><text:h>First</text:h><text:p>and <text:span>last</text:span></text:p></d>'


def pdf(text: str, info: str = "/Title (Bridge plan) /Author (Ann Smith) /CreationDate (D:20260102030405Z)") -> bytes:
    """A PDF of one page."""
    font = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << {font} >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        f"<< {info} >>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    table = f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R /Info 5 0 R >>\n"
    return data + f"{table}startxref\n{len(data)}\n%%EOF\n".encode()


def archive(path: Path, parts: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return path


def file(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def own(found: Extracted) -> dict[str, object]:
    """What the document says about itself."""
    return {name: value for name, value in found.fields.items() if name not in ("name", "type", "size", "changed")}


def test_a_pdf(tmp_path: Path) -> None:
    found = extracted(file(tmp_path, "plan.pdf", pdf("Hello bridge")))
    assert found.problem == ""
    assert (found.fields["name"], found.fields["type"]) == ("plan.pdf", "application/pdf")
    assert own(found) == {"title": "Bridge plan", "author": ["Ann Smith"], "created": "2026-01-02T03:04:05+00:00"}
    assert found.text == "Hello bridge"
    assert checked_fields("artefact", found.fields) == found.fields
    assert b"<title>Bridge plan</title>" in document_of("artefact", "1", found.fields)


def test_office_open_xml(tmp_path: Path) -> None:
    found = extracted(archive(tmp_path / "plan.docx", {"docProps/core.xml": CORE, "word/document.xml": WORD}))
    assert found.problem == ""
    assert own(found) == {
        "title": "Bridge plan",
        "author": ["Ann Smith"],
        "keyword": ["steel", "river"],
        "created": "2026-01-02T03:04:05Z",
    }
    assert found.text == "Hello world"


def test_slides_are_read_in_their_order(tmp_path: Path) -> None:
    slides: dict[str, str | bytes] = {f"ppt/slides/slide{n}.xml": f"<s><p>{n}</p></s>" for n in (10, 2, 1)}
    assert extracted(archive(tmp_path / "talk.pptx", slides)).text == "1 2 10"


def test_open_document(tmp_path: Path) -> None:
    found = extracted(archive(tmp_path / "minutes.odt", {"meta.xml": META, "content.xml": CONTENT}))
    assert (found.problem, found.text) == ("", "First and last")
    assert own(found) == {"title": "Minutes", "author": ["Bob", "Cid"]}, "a time without a zone is left out"


def test_html(tmp_path: Path) -> None:
    page = (
        "<html><head><title>Site</title><meta name=author content=Ann><meta name=keywords content='a, b'>"
        "<style>p {}</style></head><body><p>Hello</p> <script>alert()</script><p>world</p></body></html>"
    )
    found = extracted(file(tmp_path, "a.html", page))
    assert own(found) == {"title": "Site", "author": ["Ann"], "keyword": ["a", "b"]}
    assert found.text == "Hello world"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("---\ntitle: 'The plan'\nauthor: Ann\n---\n# Other\ntext", {"title": "The plan", "author": ["Ann"]}),
        ("text\n\n## The plan ##\n", {"title": "The plan"}),
        ("The plan\n========\ntext", {"title": "The plan"}),
        ("no heading", {}),
    ],
)
def test_markdown(tmp_path: Path, text: str, fields: dict[str, object]) -> None:
    found = extracted(file(tmp_path, "a.md", text))
    assert (own(found), found.fields["type"], found.problem) == (fields, "text/markdown", "")
    assert text.endswith(found.text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("Söhne".encode(), "Söhne"),
        ("\ufeffSöhne".encode(), "Söhne"),
        ("Söhne".encode("latin-1"), "Söhne"),
        ("Söhne".encode("utf-16"), "Söhne"),
    ],
)
def test_plain_text_in_its_encodings(tmp_path: Path, data: bytes, text: str) -> None:
    found = extracted(file(tmp_path, "a.txt", data))
    assert (found.text, found.problem, found.fields["size"]) == (text, "", len(data))


def test_a_file_of_another_type_has_a_name_and_a_size(tmp_path: Path) -> None:
    found = extracted(file(tmp_path, "x", b"\0\1"), "odd\nname/with\tall.bin")
    assert found.fields["name"] == "odd name/with all.bin"
    assert (found.fields["type"], found.text, found.problem) == ("application/octet-stream", "", "")


def test_types_are_known_by_the_end_of_a_name() -> None:
    assert type_of("A.DOCX").endswith("wordprocessingml.document")
    assert (type_of("a.csv"), type_of("none")) == ("text/csv", "application/octet-stream")


# ------------------------------------------------------------ broken and hostile files


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.pdf", b"%PDF-1.4\nrubbish", "it is not a PDF, or is damaged"),
        ("a.pdf", pdf("x")[:200], "it is not a PDF, or is damaged"),
        ("a.docx", b"PK\3\4rubbish", "it is not an archive of an office document, or is damaged"),
        ("a.txt", b"\0\0\0", "it is not a text"),
    ],
)
def test_a_broken_file_has_a_profile_and_a_message(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    found = extracted(file(tmp_path, name, data))
    assert (own(found), found.text) == ({}, "")
    assert found.problem.startswith(f"the document's own title, author and text are missing: {why}")
    assert found.fields["size"] == len(data)


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.docx", {"word/document.xml": b"<a>" + b" " * 34_000_000})
    assert path.stat().st_size < 1_000_000
    assert "word/document.xml in it has more than 32 MiB when it is unpacked" in extracted(path).problem


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><a>&z;</a>'
    assert "declares entities" in extracted(archive(tmp_path / "a.odt", {"content.xml": bomb})).problem


def test_a_reader_that_takes_too_long_or_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, "plan.pdf", pdf("Hello"))
    assert "reading it took longer than 0.01 s" in extracted(path, seconds_max=0.01).problem
    monkeypatch.setattr("godwit.teamwork.extraction.MEMORY_BYTES_MAX", 30_000_000)
    found = extracted(path)
    assert "it cannot be read: " in found.problem
    assert found.fields["name"] == "plan.pdf"


def test_texts_are_cut_at_their_limit(tmp_path: Path) -> None:
    found = extracted(file(tmp_path, "a.txt", "word " * 1_000_000))
    assert (len(found.text), found.fields["size"]) == (1_000_000, 5_000_000)


def test_long_titles_are_cut(tmp_path: Path) -> None:
    found = extracted(file(tmp_path, "a.html", f"<title>{'x' * 10_000_000}</title>"))
    assert len(str(found.fields.get("title", ""))) <= 1_000
