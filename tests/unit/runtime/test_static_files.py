"""Files of the package for browsers: read once, tagged by their content, sent again only when they have changed."""

import pytest
from starlette.requests import Request

from godwit.runtime.static_files import CLIENT, file_response, static_file


def asked(**headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "headers": named})


def test_a_browser_gets_the_client_with_its_type_and_a_tag() -> None:
    response = file_response(asked(), CLIENT)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["etag"] == static_file(CLIENT).tag
    assert response.body == static_file(CLIENT).content


@pytest.mark.parametrize("known", ["{tag}", "W/{tag}", '"other", {tag}', "*"])
def test_a_browser_that_has_the_file_is_told_so(known: str) -> None:
    response = file_response(asked(if_none_match=known.format(tag=static_file(CLIENT).tag)), CLIENT)
    assert response.status_code == 304
    assert response.body == b""
    assert response.headers["etag"] == static_file(CLIENT).tag


def test_a_browser_that_has_another_file_gets_this_one() -> None:
    assert file_response(asked(if_none_match='"other"'), CLIENT).status_code == 200
