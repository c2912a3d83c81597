"""How long Python's searches for garbage take is known while somebody measures."""

import gc

from godwit.runtime.metrics import GarbagePauses


def test_the_longest_search_for_garbage_is_noted_while_it_is_measured() -> None:
    pauses = GarbagePauses()
    pauses.start()
    pauses.start()  # twice is once
    gc.collect()
    assert pauses.longest_s > 0
    pauses.stop()
    assert pauses._on_search not in gc.callbacks
    pauses.longest_s = 0.0
    gc.collect()
    assert pauses.longest_s == 0
    pauses.stop()
