import gc

import pytest

from godwit.reproduce.garbage import no_garbage


def test_the_collector_rests_inside_and_works_afterwards_also_after_an_error() -> None:
    assert gc.isenabled()
    with no_garbage():
        assert not gc.isenabled()
        with no_garbage():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), no_garbage():
        raise ValueError("x")
    assert gc.isenabled()
