"""A document as attributes: the values at each path, and what kind of document it is.

*Theory.* What is held, and why, is told in `xml_documents.py`. Here it is collected. Documents of one source look
alike: the same tags in the same order. So what depends on tags alone is worked out once for all documents of a shape,
as a `Plan`: the path of each element, which of them come several times, which hold others. What is left for each
document is to read its texts.

Besides attributes there is the `Structure` of the document: of each path, which names its elements have, whether there
is more than one, and whether the values tell all. Exact tests use this first: a test that filters can
say on such documents need not be run (`Certainty` of `query.py`).

*Profile.* Flattening 2 kB of CAP or SIRI took 110 to 230 µs, against 20 to 40 of parsing: most of it for paths, and for
joining the texts of elements that hold elements, to see whether they read as a number. Reading tags and texts takes 10.

*Rules.*
1. Plans and structures that are kept are bounded. They are only remembered: without them the result is the same.
2. `//name` has the values of all elements of a name, but for long texts (`xml_texts.py`).
3. A structure does not refer to its plan, which refers to it: a plan that is not kept is freed at once. As a reference
   cycle it would wait for the garbage collector, with 45 KiB for a document of 2,000 elements.
"""

from collections.abc import Hashable, Iterable
from sys import intern
from typing import Any, NamedTuple

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, NAME_LENGTH_MAX, VALUES_MAX, Attributes, values_of
from godwit.filters.values import Value
from godwit.languages.xml_names import ANYWHERE, NAMESPACES, NUMERALS, PREFIXES, REPEATED
from godwit.languages.xml_texts import (
    BARE,
    HIDDEN,
    LOOKED,
    NAMED_SHIFT,
    REWRITTEN,
    ROUNDED,
    STRANGE,
    UNHELD,
    VALUES_OF_TEXT_MAX,
    Held,
    HeldText,
    complex_numbers,
    held_text,
    remembered_texts,
    together,
)
from godwit.languages.xml_trees import PRESERVE, Tree, local_name, written_attributes

__all__ = ["DEPTH_MAX", "Assumption", "Structure", "flattened"]

DEPTH_MAX = 64
REMEMBERED_NODES_MAX = 1_000  # of a document whose plan is kept
PLANS_MAX = 512
STRUCTURES_MAX = 256  # of one plan
FURTHER = 4  # attributes besides those of paths and names
SEVERAL = 1  # there are several elements at a path; the other flags are those of texts
COMPLEX = LOOKED | HIDDEN | ROUNDED | STRANGE
OF_PATH = (1 << NAMED_SHIFT) - 1

Assumption = tuple[str, str, str]
"""What a filter relies on: ("tag" or "written", path, name), (one of `UNFLAGGED`, path, "")."""
UNFLAGGED = {"single": SEVERAL, "plain": LOOKED, "held": HIDDEN, "read": ROUNDED, "canonical": REWRITTEN}
UNFLAGGED["decimal"] = STRANGE
"""What is not the case at a path where an assumption is true: there are not several elements, texts are held as they
stand, texts are held, numbers are read alike by all, numbers are written as they usually are, all read numbers as
such."""


class Attribute(NamedTuple):
    """An XML attribute of an element, given by its number."""

    node: int
    name: str  # as written
    key: str  # with its namespace
    text: str


class Complex(NamedTuple):
    """An element that holds others: where it is held, and which texts are in it, from one number up to another."""

    path: str
    named: str
    node: int
    first: int
    last: int


class Structure:
    """What is known of all documents whose elements have the same places and look alike there."""

    __slots__ = ("_flags", "_tags", "_written", "numerals")

    def __init__(self, tags: dict[str, set[str]], written: dict[str, set[str]], flags: dict[str, int]) -> None:
        self._tags, self._written, self._flags = tags, written, flags  # the former are those of its plan (rule 3)
        self.numerals = [
            name.removeprefix(ANYWHERE)
            for name, told in flags.items()
            if told & (REWRITTEN | BARE) == REWRITTEN and name.startswith(ANYWHERE)
        ]

    def meets(self, assumptions: Iterable[Assumption]) -> bool:
        """Whether all assumptions are true of such documents. What is not there meets any."""
        return all(path not in self._flags or self._is_true(kind, path, name) for kind, path, name in assumptions)

    def _is_true(self, kind: str, path: str, name: str) -> bool:
        match kind:
            case "tag":
                return self._tags[path] == {name}
            case "written":
                return self._written[path] == {name}
        return not self._flags[path] & UNFLAGGED[kind]


class Plan:
    """All that documents of one shape have in common: where each text is held."""

    def __init__(self, nodes: list[Tree], attributes: list[Attribute]) -> None:
        self.tags: dict[str, set[str]] = {}
        self.written: dict[str, set[str]] = {}
        self.flags: dict[str, int] = {}
        self.paths: list[str] = []  # of each text, where it is held,
        self.names: list[str] = []  # by which name,
        self.sources: list[int] = []  # and the number of its element, or after these of its attribute
        self.preserved: set[int] = set()  # texts whose white space is kept
        self.complexes: list[Complex] = []
        self.structures: dict[tuple[int, ...], Structure] = {}
        self._take_up(nodes, attributes)
        complexes = {each for found in self.complexes for each in found[:2]}
        texts_at: dict[tuple[str, bool], list[int]] = {}
        for number, (path, name) in enumerate(zip(self.paths, self.names, strict=True)):
            texts_at.setdefault((path, False), []).append(number)
            texts_at.setdefault((name, True), []).append(number)
        # Where several texts are held: the path, whether it is a name, the texts, whether ' ' is held besides.
        self.gathered = [
            (path, by_name, texts, path in complexes)
            for (path, by_name), texts in texts_at.items()
            if len(texts) > 1 or path in complexes
        ]
        self.empty: dict[str, Held] = dict.fromkeys(self.flags, UNHELD)  # so that attributes are in order
        tags = {tag for each in self.tags.values() for tag in each}
        self.empty[NAMESPACES] = together(sorted({tag[1:].partition("}")[0] if tag[0] == "{" else "" for tag in tags}))
        prefixes = {name.partition(":")[0] for each in self.written.values() for name in each if ":" in name}
        if prefixes:
            self.empty[PREFIXES] = together(sorted(prefixes))
        repeated = [path for path in self.tags if self.flags[path] & SEVERAL and not path.startswith(ANYWHERE)]
        if repeated:
            self.empty[REPEATED] = together(repeated)

    def _take_up(self, nodes: list[Tree], attributes: list[Attribute]) -> None:
        """Find the places of all texts. Nodes are in the order of the document."""
        above: list[tuple[Complex, bool, list[int]]] = []  # open elements: whether space is kept, children to come
        attribute_places: list[tuple[str, str]] = []
        places: dict[tuple[str, str, str | None], tuple[str, str]] = {}  # of elements, by parent, tag and prefix
        flags = self.flags
        for number, node in enumerate(nodes):
            while above and not above[-1][2][0]:
                self.complexes.append(above.pop()[0]._replace(last=len(self.paths)))
            parent, preserve = (f"{above[-1][0].path}/", above[-1][1]) if above else ("", False)
            if above:
                above[-1][2][0] -= 1
            tag = node.tag
            if type(tag) is not str:
                continue
            if len(above) >= DEPTH_MAX:
                raise BadEvent(f"line {node.sourceline}, column 1: elements nested deeper than {DEPTH_MAX} levels")
            prefix = node.prefix
            if (known := places.get((parent, tag, prefix))) is not None:  # most elements look as one before
                path, named = known
                flags[path] |= SEVERAL
                flags[named] |= SEVERAL
            else:
                path, named = places[parent, tag, prefix] = self._place(parent, node)
            while len(attribute_places) < len(attributes) and attributes[len(attribute_places)].node == number:
                attribute = attributes[len(attribute_places)]
                if attribute.key == PRESERVE:
                    preserve = attribute.text == "preserve"
                behind = f"/@{attribute.name}"
                attribute_places.append((self._named(path + behind, node), self._named(named + behind, node)))
            if children := len(node):
                flags[path] |= COMPLEX
                flags[named] |= COMPLEX
                above.append((Complex(path, named, number, len(self.paths), 0), preserve, [children]))
                continue
            if preserve:
                self.preserved.add(len(self.paths))
            self._add(path, named, number)
        self.complexes += [each._replace(last=len(self.paths)) for each, _, _ in above]
        for number, (path, named) in enumerate(attribute_places, len(nodes)):
            self._add(path, named, number)

    def _place(self, parent: str, node: Tree) -> tuple[str, str]:
        """The path and the name of an element."""
        name = local_name(node.tag)
        path, named = self._named(f"{parent}{name}", node), self._named(f"{ANYWHERE}{name}", node)
        for each in (path, named):
            self.tags.setdefault(each, set()).add(node.tag)
            self.written.setdefault(each, set()).add(f"{node.prefix}:{name}" if node.prefix else name)
        return path, named

    def _add(self, path: str, named: str, source: int) -> None:
        self.paths.append(path)
        self.names.append(named)
        self.sources.append(source)

    def _named(self, path: str, node: Tree) -> str:
        """A path or name at which something is held."""
        if path in self.flags:
            self.flags[path] |= SEVERAL
        elif len(path) > NAME_LENGTH_MAX:
            raise BadEvent(
                f"line {node.sourceline}, column 1: a path of {len(path)} characters ({path[:60]}…): "
                f"at most {NAME_LENGTH_MAX} are allowed"
            )
        elif len(self.flags) >= ATTRIBUTES_MAX - FURTHER:
            raise BadEvent(
                f"line {node.sourceline}, column 1: more than {ATTRIBUTES_MAX - FURTHER} different paths and names"
            )
        else:
            self.flags[path] = 0
        return intern(path)

    def filled(self, nodes: list[Tree], texts: list[str | None]) -> tuple[Attributes, Structure]:
        """The attributes of a document of this shape, and its structure. `texts` are of elements and attributes."""
        get = remembered_texts.get
        held: list[Any] = [get(texts[source]) for source in self.sources]
        if None in held or self.preserved:
            for number, each in enumerate(held):
                if each is None or number in self.preserved:
                    held[number] = held_text(texts[self.sources[number]], number in self.preserved)
        found = self.empty.copy()
        found.update(zip(self.paths, [each[0] for each in held], strict=True))
        found.update(zip(self.names, [each[1] for each in held], strict=True))
        for path, by_name, numbers, is_complex in self.gathered:
            values: dict[Value, None] = {UNHELD: None} if is_complex else {}
            for number in numbers:
                one = held[number][by_name]
                if type(one) is tuple:
                    values.update(dict.fromkeys(one))
                else:
                    values[one] = None
            found[path] = together(values)
        numeric = [each[3] for each in held]
        more: dict[str, list[Value]] = {}
        for path, name, node, first, last in self.complexes:
            if False not in numeric[first:last] and (found_numbers := complex_numbers(nodes[node])):
                more.setdefault(path, []).extend(found_numbers)
                more.setdefault(name, []).extend(found_numbers)
        for path, added in more.items():
            found[path] = together(dict.fromkeys((*values_of(found[path]), *added)))
        self._check_values(found, held, nodes[0])
        structure = self._structure(tuple([each[2] for each in held]))
        if structure.numerals:
            found[NUMERALS] = together(structure.numerals)
        return found, structure

    def _check_values(self, found: Attributes, held: list[HeldText], root: Tree) -> None:
        if len(held) + len(self.complexes) <= VALUES_MAX // VALUES_OF_TEXT_MAX:
            return
        count = len(self.complexes) + sum(len(values_of(each.values)) for each in held)
        if max(count, sum(len(values_of(values)) for values in found.values())) > VALUES_MAX:
            raise BadEvent(f"line {root.sourceline}, column 1: more than {VALUES_MAX} values in the document")

    def _structure(self, flags_held: tuple[int, ...]) -> Structure:
        structure = self.structures.get(flags_held)
        if structure is None:
            flags = self.flags.copy()
            for path, name, added in zip(self.paths, self.names, flags_held, strict=True):
                flags[path] |= added & OF_PATH
                flags[name] |= added >> NAMED_SHIFT
            if len(self.structures) >= STRUCTURES_MAX:
                self.structures.clear()
            structure = self.structures[flags_held] = Structure(self.tags, self.written, flags)
        return structure


_plans: dict[Hashable, Plan] = {}


def flattened(root: Tree) -> tuple[Attributes, Structure]:
    """The attributes of a document, and its structure."""
    nodes = list(root.iter())
    attributes = [
        Attribute(number, *written)
        for number, node in enumerate(nodes)
        if node.items()
        for written in written_attributes(node)
    ]
    texts = [node.text for node in nodes]
    if attributes:
        texts += [attribute.text for attribute in attributes]
    if len(nodes) > REMEMBERED_NODES_MAX:
        return Plan(nodes, attributes).filled(nodes, texts)
    shape = (
        tuple([node.tag for node in nodes]),
        tuple([node.prefix for node in nodes]),
        tuple([len(node) for node in nodes]),
        tuple([(node, name, key, key == PRESERVE and text) for node, name, key, text in attributes]),
    )
    plan = _plans.get(shape)
    if plan is None:
        plan = Plan(nodes, attributes)
        if len(_plans) >= PLANS_MAX:
            _plans.clear()
        _plans[shape] = plan
    return plan.filled(nodes, texts)
