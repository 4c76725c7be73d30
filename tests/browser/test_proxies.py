"""The dashboard under a base path, and behind Caddy and nginx, which keep a path or take it away."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from app import serving
from tests.browser.test_pages import opened, query, settled, slider
from tests.dashboard import free_port, ready, served

pytestmark = pytest.mark.browser
CADDY = """
{{
  admin off
}}
:{port} {{
  {path} {{
    reverse_proxy 127.0.0.1:{to}
  }}
}}
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ }}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port};
    location {path} {{
      proxy_pass http://127.0.0.1:{to};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """What the dashboard under a base path says."""
    return tmp_path_factory.mktemp("below") / "log.txt"


@pytest.fixture(scope="module")
def below(log):
    """A dashboard under a base path."""
    with served(log=log, more=["--server.baseUrlPath", "/some/tools/"]) as found:
        yield found


@contextlib.contextmanager
def running(kind: str, config: str, folder) -> Iterator[subprocess.Popen]:
    """A proxy, begun."""
    command = os.environ.get(kind.upper()) or shutil.which(kind) or shutil.which(kind, path="/usr/sbin")
    if not command:
        pytest.skip(f"{kind} is not installed")
    file = folder / "config"
    file.write_text(config)
    more = {"caddy": ["run", "--config", file, "--adapter", "caddyfile"], "nginx": ["-c", file, "-p", folder]}
    environment = {**os.environ, "HOME": str(folder)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([command, *more[kind]], stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def is_whole(page, address: str) -> None:
    """Every kind of thing that a page asks the server for is there, and changes reach it."""
    opened(page, f"{address}/tiles/below/it?seq=64")
    assert page.url.startswith(f"{address}/tiles?")
    page.locator(".st-key-tiles canvas").first.wait_for()
    slider(page, "Key").press("ArrowRight")
    page.wait_for_url("**block_kv=128**")
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
        page.get_by_role("button", name="totals, JSON").click()
    assert download.value.path().stat().st_size > 500
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Agreement").click()
    page.wait_for_url(f"{address}/agreement?**")
    # the browser comes from the machine, by the machine's name
    page.get_by_text(re.compile(re.escape(serving.REFUSED[:60]))).first.wait_for()
    assert query(page)["seq"] == "64"
    opened(page, f"{address}/")
    assert page.url == f"{address}/"
    assert page.watch.complaints == []


def test_under_a_base_path_which_the_first_line_names(page, below, log):
    assert f"at http://localhost:{below.port}/some/tools\n" in log.read_text()
    opened(page, f"{below.address}/some/tools")
    assert page.url == f"{below.address}/some/tools/"


@pytest.mark.parametrize("kind", ["caddy", "nginx"])
def test_behind_a_proxy_that_takes_a_path_away_or_keeps_it(page, dashboard, below, tmp_path, kind):
    given = {"port": free_port(), "folder": tmp_path}
    if kind == "caddy":
        base, given["to"] = "/lecture", urlsplit(dashboard).port
        config = CADDY.format(path=f"handle_path {base}/*", **given)
    else:
        base, given["to"] = "/some/tools", below.port
        config = NGINX.format(path=f"{base}/", **given)
    address = f"http://localhost:{given['port']}{base}"
    with running(kind, config, tmp_path) as proxy:
        assert ready(proxy, address)
        is_whole(page, address)
