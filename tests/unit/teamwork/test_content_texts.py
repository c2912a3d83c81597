"""The texts of contents."""

from contextlib import closing
from pathlib import Path

from godwit.teamwork.content_texts import ContentTexts


def test_texts_are_kept_by_the_hash_of_their_content(tmp_path: Path) -> None:
    with closing(ContentTexts(tmp_path)) as texts:
        texts.put("aa", "steel")
        texts.put("bb", "stone")
    with closing(ContentTexts(tmp_path)) as texts:
        assert (texts.get("aa"), texts.get("bb"), texts.get("cc")) == ("steel", "stone", "")
        texts.keep_only({"bb"})
        assert (texts.get("aa"), texts.get("bb")) == ("", "stone")
