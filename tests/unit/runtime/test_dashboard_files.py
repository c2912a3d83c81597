"""The dashboard's files: a page for every address, files of the package, and nothing else."""

import re
from base64 import b64encode
from hashlib import sha256
from posixpath import dirname, join, normpath

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from godwit.dashboard import import_map
from godwit.runtime.dashboard_files import PAGE, content_security_policy, dashboard_response, served
from godwit.runtime.static_files import static_file

REQUEST = Request({"type": "http", "method": "GET", "headers": []})


@pytest.mark.parametrize("path", ["", "why", "sessions", "no/such/page"])
def test_every_address_without_a_suffix_is_the_page(path: str) -> None:
    response = dashboard_response(REQUEST, path)
    assert response.body == static_file(PAGE).content
    assert response.headers["content-security-policy"] == content_security_policy()


@pytest.mark.parametrize(
    "path", ["none.js", "../../errors.py", "vendor/vendored.toml", "/etc/passwd.js", "pages/../main.css"]
)
def test_what_is_no_file_of_the_dashboard_is_not_there(path: str) -> None:
    with pytest.raises(HTTPException) as refused:
        dashboard_response(REQUEST, path)
    assert refused.value.status_code == 404


def test_the_page_loads_all_it_needs_from_here_and_its_policy_allows_nothing_else() -> None:
    page = static_file(PAGE).content.decode()
    names = re.findall(r'(?:src|href)="/dashboard/([^"]+)"', page)
    names += [path.removeprefix("/dashboard/") for path in import_map("/dashboard/vendor/")["imports"].values()]
    assert set(names) <= served()
    [said] = re.findall(r'<script type="importmap">(.*?)</script>', page, re.DOTALL)
    assert b64encode(sha256(said.encode()).digest()).decode() in content_security_policy()
    assert "unsafe" not in content_security_policy()


def test_the_import_map_of_the_page_names_the_libraries() -> None:
    page = static_file(PAGE).content.decode()
    for module, path in import_map("/dashboard/vendor/")["imports"].items():
        assert f'"{module}": "{path}"' in page


def test_modules_import_what_is_there() -> None:
    libraries = set(import_map("")["imports"])
    for path in served():
        if path.endswith(".js") and not path.startswith("vendor/"):
            text = static_file(f"dashboard/web/{path}").content.decode()
            for name in re.findall(r'from "([^"]+)"', text):
                if name not in libraries:
                    assert normpath(join(dirname(path), name)) in served(), f"{path} imports {name}"
