"""Pages look as they did: pictures of a fixed state, compared with those that are kept."""

from PIL import Image

from tests.browser.fixed_state import fixed_network
from tests.browser.kept_browser import run
from tests.browser.stored_pictures import FOLDER, difference, stored, take_all
from tests.browser.test_dashboard import dashboard

BYTES_MAX = 30_000
AGAIN = "`make screenshots` takes the pictures again: look at them before you commit them"


def test_every_page_looks_as_it_did() -> None:
    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            taken = await take_all(page)
        kept = {name: stored(name) for name in taken}
        missing = [name for name, picture in kept.items() if picture is None]
        assert missing == [], AGAIN
        differ = {name: difference(taken[name], picture) for name, picture in kept.items() if picture is not None}
        assert {name: found for name, found in differ.items() if not found.is_small} == {}, AGAIN
        assert {file.stem for file in FOLDER.glob("*.png")} == set(taken), "there is a picture of a page that is gone"

    run(scene())


def test_a_page_that_looks_different_is_noticed() -> None:
    pages = sorted(FOLDER.glob("*.png"))
    for one in pages:
        for other in pages:
            found = difference(Image.open(one), Image.open(other))
            assert found.is_small == (one == other), (one.name, other.name, found)
        spoilt = Image.open(one).convert("RGB")
        spoilt.paste("#cc2222", (20, 60, 140, 90))  # something the size of a button too many
        assert not difference(Image.open(one), spoilt).is_small


def test_pictures_are_small() -> None:
    assert [file.name for file in FOLDER.glob("*.png") if file.stat().st_size > BYTES_MAX] == []
