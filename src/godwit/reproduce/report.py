"""The report of reproduced papers: each claim with its bound, its grade for every seed, the spread, and the figures.

*Rules.*
1. A claim's grade over several seeds is the worst of them: one seed that breaks a claim breaks it.
2. A number that differs between seeds is shown as its range. Texts that differ in more than numbers stand one by one.
3. The report is one HTML file beside the figures that it shows; it needs nothing from elsewhere.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from godwit.reproduce.claims import PAPERS, Claim, Grade

__all__ = ["grades", "overall", "spread", "write_report"]

WORST_FIRST: tuple[Grade, ...] = ("does not hold", "not decided", "holds under a stated reading", "holds")
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } th { background: #f3f3f3 }
th, td { border: 1px solid #ccc; padding: .4rem .6rem; text-align: left; vertical-align: top }
td.grade { font-weight: 600 } .holds { color: #05690d }
.reading { color: #8a5a00 } .fails { color: #a31515 } .open { color: #555 }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(33rem, 1fr)); gap: 1rem; margin: 1rem 0 }
figure { margin: 0 } img { max-width: 100% } figcaption { color: #555; font-size: .8rem }
small { color: #555 } td { white-space: pre-line }
"""
CLASSES: dict[Grade, str] = {
    "holds": "holds",
    "holds under a stated reading": "reading",
    "does not hold": "fails",
    "not decided": "open",
}

Runs = Mapping[int, Sequence[Claim]]
"""By seed, the claims of a paper."""


def overall(grades: Sequence[Grade]) -> Grade:
    """The grade of a claim over all seeds. (rule 1)"""
    return next(grade for grade in WORST_FIRST if grade in grades)


def spread(texts: Sequence[str]) -> str:
    """The results of several runs as one text, with a range for each number that differs. (rule 2)"""
    if len(set(texts)) == 1:
        return texts[0]
    if len({NUMBER.sub("#", text) for text in texts}) > 1:
        return "\n".join(texts)
    columns = zip(*(NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(column) for column in columns])
    return NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    in_order = sorted(set(numbers), key=lambda each: float(each.replace(",", "")))
    return in_order[0] if len(in_order) == 1 else f"{in_order[0]} to {in_order[-1]}"


def write_report(folder: Path, papers: Mapping[str, Runs], full: bool, version: str, took: str = "") -> Path:
    """Write `report.html` into a folder that has a subfolder with the figures of each paper."""
    kind = "the papers' parameters (--full)" if full else "small runs (--quick)"
    about = (
        f"<p>Godwit {escape(version)}, {kind}. A claim is judged by the plain reading of the paper's words, with a "
        "bound that is fixed before the run; its grade over several seeds is the worst. Numbers that differ "
        "between seeds are shown as a range. A figure that names one of the paper's in its title is that figure, drawn "
        "from our runs; what the paper's text says of its own is marked in it, as we have the paper's text and not its "
        f"images. {escape(took)}</p>"
    )
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Reproduction of the papers</title>",
        f"<style>{STYLE}</style></head><body><h1>Reproduction of the papers</h1>",
        about,
        _counts(papers),
    ]
    for paper, runs in papers.items():
        parts += [f"<h2>{escape(paper)}: {escape(PAPERS[paper][0])}</h2>", _table(runs), _figures(folder, paper)]
    path = folder / "report.html"
    path.write_text("\n".join([*parts, "</body></html>\n"]), encoding="utf-8")
    return path


def grades(papers: Mapping[str, Runs]) -> dict[str, Grade]:
    """By claim, its grade over all seeds."""
    return {
        key: overall([claim.grade for claim in claims])
        for runs in papers.values()
        for key, claims in _by_key(runs).items()
    }


def _by_key(runs: Runs) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for claims in runs.values():
        for claim in claims:
            found.setdefault(claim.key, []).append(claim)
    return found


def _counts(papers: Mapping[str, Runs]) -> str:
    found: dict[Grade, list[str]] = {}
    for key, grade in grades(papers).items():
        found.setdefault(grade, []).append(key)
    rows = [
        f"<tr><td class='grade {CLASSES[grade]}'>{grade}</td><td>{len(found[grade])}</td>"
        f"<td>{', '.join(found[grade])}</td></tr>"
        for grade in reversed(WORST_FIRST)
        if grade in found
    ]
    return "<table><tr><th>grade</th><th></th><th>claims</th></tr>" + "".join(rows) + "</table>"


def _table(runs: Runs) -> str:
    names = ("", "claim", "paper", "bound", "ours", "grade")
    heading = "".join(f"<th>{name}</th>" for name in names)
    rows = [f"<p><small>Seeds: {', '.join(map(str, runs))}.</small></p><table><tr>{heading}</tr>"]
    for key, claims in _by_key(runs).items():
        first, grade = claims[0], overall([claim.grade for claim in claims])
        said = [escape(spread([claim.ours for claim in claims]))]
        if grade != "holds":
            worst = next(claim for claim in claims if claim.grade == grade)
            said += [f"<small>{name}: {escape(text)}</small>" for name, text in _reasons(worst) if text]
        elif first.note:
            said.append(f"<details><summary>note</summary><small>{escape(first.note)}</small></details>")
        counts = Counter(claim.grade for claim in claims)
        each = (
            ""
            if len(counts) == 1
            else "\n" + "\n".join(f"{number} of {len(claims)} {name}" for name, number in counts.items())
        )
        cells = (
            f"[{escape(first.where)}] {escape(first.claim)}",
            escape(first.paper),
            escape(first.bound),
            "\n".join(said),
        )
        rows.append(
            f"<tr><th>{escape(key)}</th>"
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + f"<td class='grade {CLASSES[grade]}'>{grade}<small>{escape(''.join(each))}</small></td></tr>"
        )
    return "\n".join([*rows, "</table>"])


def _reasons(claim: Claim) -> tuple[tuple[str, str], ...]:
    return ("not decided", claim.undecided), ("reading", claim.reading), ("note", claim.note)


def _figures(folder: Path, paper: str) -> str:
    """The figures of all seeds together, and those that only single seeds have, in the order of their numbers."""
    shown: dict[str, Path] = {}
    for path in (*sorted((folder / paper).glob("*.png")), *sorted((folder / paper).glob("seed_*/*.png"))):
        shown.setdefault(path.name, path)
    figures = [
        f"<figure><a href='{(where := escape(shown[name].relative_to(folder).as_posix()))}'>"
        f"<img src='{where}' alt='{escape(name)}'></a><figcaption>{where}</figcaption></figure>"
        for name in sorted(shown, key=_by_number)
    ]
    return "\n".join(["<div class='figures'>", *figures, "</div>"])


def _by_number(name: str) -> list[tuple[int, str]]:
    """A key that puts `fig4` before `fig10`."""
    return [(int(digits or -1), text) for digits, text in re.findall(r"(\d*)(\D*)", name)]
