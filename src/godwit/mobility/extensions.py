"""Components and attach policies from outside: registered by name, and named in a broker's settings.

*Theory.* A broker is made of the components that `mobile_broker` lists, and of those that `BrokerConfig.components`
names besides. A client attaches by the policies that `mobile_broker` lists and by those that
`BrokerConfig.attach_policies` names. A name is looked for among what a program has registered, then among the entry
points of installed packages (`registry.py`): the groups are `godwit.components` and `godwit.attach_policies`.
docs/guides/extend.md shows one of each.

*Rules.*
1. Messages and states of a component are registered, too, before the first broker with it is made
   (`godwit.codec.register_messages`, `register_states`).
2. A policy says what it promises (`Mode`). No policy takes the name of a mode that already exists.
"""

from collections.abc import Callable

import msgspec

from godwit.broker.component import Component
from godwit.errors import ConfigurationError
from godwit.mobility.attaching import AttachPolicy
from godwit.mobility.modes import MODES, Mode
from godwit.mobility.relocation import Relocation
from godwit.registry import Registry

__all__ = [
    "Policy",
    "attach_policies",
    "attach_policy_names",
    "component_names",
    "further_components",
    "mode_names",
    "mode_of",
    "register_attach_policy",
    "register_component",
]

MakeComponent = Callable[[], Component]
MakePolicy = Callable[[Relocation], AttachPolicy]


class Policy(msgspec.Struct, frozen=True):
    """A way to attach: what it promises, and how it is made for a broker."""

    promises: Mode
    make: MakePolicy


_COMPONENTS: Registry[MakeComponent] = Registry("component", "godwit.components")
_POLICIES: Registry[Policy] = Registry("attach policy", "godwit.attach_policies")


def register_component(name: str, make: MakeComponent) -> None:
    """Let `BrokerConfig.components` name a component; `make` makes one for each broker."""
    _COMPONENTS.register(name, make)


def register_attach_policy(name: str, policy: Policy) -> None:
    """Let `BrokerConfig.attach_policies` name a way to attach; clients use it as `Attach.mode`."""
    if name in MODES and MODES[name] is not policy.promises:
        raise ValueError(f"there is a mode {name!r} already")
    _POLICIES.register(name, policy)
    MODES[name] = policy.promises


def component_names() -> tuple[str, ...]:
    """Every name that `BrokerConfig.components` may hold."""
    return _COMPONENTS.names()


def attach_policy_names() -> tuple[str, ...]:
    """Every name that `BrokerConfig.attach_policies` may hold."""
    return _POLICIES.names()


def mode_names() -> tuple[str, ...]:
    """Every mode that a client may move in: those of every broker, and the attach policies from outside."""
    return tuple(dict.fromkeys((*MODES, *_POLICIES.names())))


def mode_of(name: str) -> Mode:
    """What the mode of that name promises; an attach policy is loaded. An unknown name is a `ConfigurationError`."""
    if name not in MODES:
        MODES[name] = _POLICIES.part(name).promises
    return MODES[name]


def further_components(names: tuple[str, ...]) -> list[Component]:
    """The components of these names, made for one broker. An unknown name is a `ConfigurationError`."""
    return [_COMPONENTS.part(name)() for name in names]


def attach_policies(names: tuple[str, ...], relocation: Relocation) -> dict[str, AttachPolicy]:
    """The policies of these names, made for one broker. An unknown name is a `ConfigurationError`."""
    found = {name: _POLICIES.part(name) for name in names}
    for name, policy in found.items():
        if MODES.setdefault(name, policy.promises) is not policy.promises:
            raise ConfigurationError(f"the attach policy {name!r} has the name of a mode that already exists")
    return {name: policy.make(relocation) for name, policy in found.items()}
