"""How MkDocs follows links of pages to files outside docs/.

Pages are written for readers of the repository: their links are relative paths to files, wherever these are. The site
has only docs/. So the documents at the root become pages of the site, and so does each file of code that a page links
to; each link then leads to that page. A browser would fetch Mermaid from another host, so diagrams are pictures:
scripts/diagrams.py draws them.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
CODE = "code/"
ROOT_PAGES = {
    "README.md": "overview.md",
    "BENCHMARKS.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".yml": "yaml", ".js": "js"}
"""How a file of code is highlighted, by the end of its name."""
BESIDES_SEARCH = "---\nsearch:\n  exclude: true\n---\n"

LINK = re.compile(
    r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)"
    r"|^```.*?^```[ ]*$|``.+?``|`[^`\n]+`",  # code, in which nothing is a link
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the root, and the code that pages link to."""
    for name, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    linked = {target for file in files.documentation_pages() for target in _code_linked_from(file)}
    for target in sorted(linked):
        files.append(File.generated(config, site_path(target), content=code_page(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead each link to the page of the site that has the file."""
    if page.file.src_uri.startswith(CODE):
        return markdown
    return rewritten(markdown, page.file.src_uri)


def repository_path(place: str) -> str:
    """Where the source of a page of the site is in the repository."""
    names = {page: name for name, page in ROOT_PAGES.items()}
    return names.get(place, DOCS + place)


def site_path(path: str) -> str:
    """Where a file or folder of the repository is on the site."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return ROOT_PAGES.get(path, f"{CODE}{path}.md")


def rewritten(markdown: str, place: str) -> str:
    """The text of a page with its links as they must be on the site; literal text is left as it is."""
    folder = posixpath.dirname(repository_path(place))

    def lead(link: re.Match[str]) -> str:
        if not link["target"]:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["target"]))
        target = posixpath.relpath(site_path(path), posixpath.dirname(place) or ".")
        return f"{link['text']}({target}{link['anchor'] or ''})"

    return LINK.sub(lead, markdown)


def code_page(path: str) -> str:
    """A page that shows a file of code, or lists a folder."""
    source = ROOT / path
    if source.is_dir():
        names = sorted(each.name for each in source.iterdir() if not each.name.startswith(("_", ".")))
        return f"{BESIDES_SEARCH}# {path}\n\nA folder of the repository:\n\n" + "".join(
            f"- `{name}`\n" for name in names
        )
    text = source.read_text(encoding="utf-8").rstrip("\n")
    if source.suffix == ".md":
        return BESIDES_SEARCH + text
    return f"{BESIDES_SEARCH}# {path}\n\n````{LANGUAGES.get(source.suffix, 'text')}\n{text}\n````\n"


def _code_linked_from(file: File) -> Iterator[str]:
    folder = posixpath.dirname(repository_path(file.src_uri))
    for link in LINK.finditer(file.content_string):
        path = posixpath.normpath(posixpath.join(folder, link["target"] or ""))
        if link["target"] and site_path(path).startswith(CODE) and (ROOT / path).exists():
            yield path
