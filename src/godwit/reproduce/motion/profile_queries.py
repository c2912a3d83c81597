"""XQL subscriptions drawn from profiles: each asks for what one profile says. [motion §6]

*Theory.* A subscription is drawn from a profile: a few of its facts become conditions, in one of the forms of Listing 2
with the operators of Figures 3 and 4; the paper shows no others. A third of all ask for users, a third for communities,
a third for artefacts; as only artefacts are published, the first two thirds match nothing, and cost the matcher what
they cost. The forms come equally often:

| form | in XQL |
|---|---|
| facts of the whole | `./Artefact?[Type = 'code' $and$ Status = 'draft' $and$ Version $ge$ 3]/Title` |
| a fact of any part | `./Artefact?[$any$ ./Author/Name = 'Anna Berger 7' $and$ Type = 'code']` |
| two facts of one part | `./Artefact/Access?[User = 'Anna Berger 7' $and$ Right = 'write']` |
| a fact of all parts | `./Artefact?[($all$ ./Author/Site = 'Wien') $and$ Community = 'ui 3' $and$ Keyword = 'ui']` |
| a text within a text | `./Artefact?[Title $contains$ 'guide plan' $and$ Community = 'ui 3']` |
| what is not so | `./Artefact?[Title = 'guide plan 5' $and$ $not$ (Status = 'obsolete')]` |
| numbers of parts | `./Artefact?[Change/Version $ge$ 3 $and$ Change/By = 'Anna Berger 7']` |

An eighth form, `Author/Name $ieq$ 'anna berger 7'`, is one that no tier can translate: it stands for operators that the
middleware does not know, of which §5 says that they must not occur too often. It is drawn only when it is asked for.
"""

from collections.abc import Callable, Iterator
from random import Random

from godwit.reproduce.motion.profiles import KINDS, STATES, Artefact, Community, Person, Profiles

__all__ = ["profile_queries"]


def profile_queries(profiles: Profiles, seed: int, *, has_unknown: bool = False) -> Iterator[str]:
    """Subscriptions without end: the first n are the same whatever n is. `has_unknown`: with the eighth form."""
    draw = Random(f"queries {seed}")
    artefact_forms = [*ARTEFACT_FORMS, _case] if has_unknown else ARTEFACT_FORMS
    number = 0
    while True:
        kind = KINDS[number % len(KINDS)]
        number += 1
        if kind == "User":
            yield draw.choice(USER_FORMS)(draw, draw.choice(profiles.users))
        elif kind == "Community":
            yield draw.choice(COMMUNITY_FORMS)(draw, draw.choice(profiles.communities))
        else:
            yield draw.choice(artefact_forms)(draw, draw.choice(profiles.artefacts))


def _with(path: str, *conditions: str) -> str:
    return f"./{path}?[{' $and$ '.join(conditions)}]"


def _is(path: str, value: str) -> str:
    return f"{path} = '{value}'"


# ---------------------------------------------------------------- artefacts


def _whole(draw: Random, one: Artefact) -> str:
    facts = [_is("Type", one.type), _is("Status", one.status), _is("Community", one.community)]
    numbers = [f"Version $ge$ {one.version}", f"Size $lt$ {one.size + 100}", f"Size $gt$ {max(0, one.size - 100)}"]
    return f"{_with('Artefact', *draw.sample(facts, 2), draw.choice(numbers))}/Title"


def _any_part(draw: Random, one: Artefact) -> str:
    name = _is("./Author/Name", draw.choice(one.authors).name)
    return _with("Artefact", f"$any$ {name}", _is("Type", one.type))


def _one_part(draw: Random, one: Artefact) -> str:
    if one.rights and draw.random() < 0.5:
        user, right = draw.choice(one.rights)
        return _with("Artefact/Access", _is("User", user), _is("Right", right))
    author = draw.choice(one.authors)
    return _with("Artefact/Author", _is("Name", author.name), _is("Site", author.site))


def _all_parts(draw: Random, one: Artefact) -> str:
    every = _is("./Author/Site", draw.choice(one.authors).site)
    keyword = _is("Keyword", draw.choice(one.keywords))
    return _with("Artefact", f"($all$ {every})", _is("Community", one.community), keyword)


def _within(_: Random, one: Artefact) -> str:
    words = " ".join(one.title.split()[:2])
    return _with("Artefact", f"Title $contains$ '{words}'", _is("Community", one.community))


def _not(draw: Random, one: Artefact) -> str:
    other = draw.choice([each for each in STATES if each != one.status])
    return _with("Artefact", _is("Title", one.title), f"$not$ ({_is('Status', other)})")


def _case(draw: Random, one: Artefact) -> str:
    name = draw.choice(one.authors).name.lower()
    facts = (_is("Type", one.type), _is("Community", one.community))
    return _with("Artefact", f"Author/Name $ieq$ '{name}'", *facts)


def _numbers(draw: Random, one: Artefact) -> str:
    if not one.changes:
        return _whole(draw, one)
    change = draw.choice(one.changes)
    return _with("Artefact", f"Change/Version $ge$ {change.version}", _is("Change/By", change.by))


# ---------------------------------------------------------------- users and communities


def _user_whole(draw: Random, one: Person) -> str:
    facts = [_is("Department", one.department), _is("Site", one.site), _is("Role", one.role)]
    return f"{_with('User', *draw.sample(facts, 2), f'Age $gt$ {one.age - 5}')}/Name"


def _user_part(draw: Random, one: Person) -> str:
    return f"{_with('User', _is('./Address/City', draw.choice(one.sites)), _is('Name', one.name))}/Role"


def _user_topics(draw: Random, one: Person) -> str:
    return _with("User", f"($all$ {_is('./Address/City', one.site)})", _is("Topic", draw.choice(one.topics)))


def _community_whole(_: Random, one: Community) -> str:
    return _with("Community", _is("Topic", one.topic), _is("Name", one.name))


def _community_part(draw: Random, one: Community) -> str:
    member = draw.choice(one.members)
    return _with("Community/Member", _is("Name", member.name), _is("Site", member.site))


ARTEFACT_FORMS: list[Callable[[Random, Artefact], str]] = [
    _whole,
    _any_part,
    _one_part,
    _all_parts,
    _within,
    _not,
    _numbers,
]
USER_FORMS: list[Callable[[Random, Person], str]] = [_user_whole, _user_part, _user_topics]
COMMUNITY_FORMS: list[Callable[[Random, Community], str]] = [_community_whole, _community_part]
