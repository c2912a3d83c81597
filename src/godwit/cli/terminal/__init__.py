"""What people see on a terminal: styled text, tables, trees, progress. On a pipe, commands print JSON lines instead.

*Theory.* A drawing gives the lines it takes for a width: `lines(width)`. A line is a list of pieces, each a text with a
style such as `bold cyan`. A `Console` prints drawings; on a terminal it writes the codes of ECMA-48 for styles. `Live`
draws again and again at the same place; `Progress` is built on it.

*Rules.*
1. Text is never interpreted: no markup. Callers make text of strangers safe first (`event_display.safe`).
2. Colours are left out if NO_COLOR is set or TERM is `dumb`; FORCE_COLOR makes any stream a terminal.
"""

from godwit.cli.terminal.console import Console
from godwit.cli.terminal.drawings import Beside, Drawing, Framed, Indented, Stacked, Tree
from godwit.cli.terminal.live import Live, Progress, Task, clock_of
from godwit.cli.terminal.styled_text import Text
from godwit.cli.terminal.tables import Table

__all__ = [
    "Beside",
    "Console",
    "Drawing",
    "Framed",
    "Indented",
    "Live",
    "Progress",
    "Stacked",
    "Table",
    "Task",
    "Text",
    "Tree",
    "clock_of",
]
