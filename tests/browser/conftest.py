"""One dashboard and one Chromium for all browser tests; without a Chromium they skip and say so."""

import os
from urllib.parse import urlsplit

import pytest

from tests.dashboard import PATIENCE, chromium, served

LOCAL_SCHEMES = ("data", "blob", "about")
SIZE = {"width": 1440, "height": 900}
# `window.__player` of the picture that moves: its state, its frames, and what leads it to a place
PICTURE = """(() => {
    const find = (root) => [...root.querySelectorAll("*")].reduce(
        (found, each) => found ?? each.player ?? (each.shadowRoot ? find(each.shadowRoot) : null), null);
    const known = new WeakMap();
    const asked = (player) => {
        const { advance, load } = player, frames = [];
        let redrawn = 1;
        player.advance = (...given) => (advance.apply(player, given), frames.push([given[1]]));
        player.load = (part) => (load.call(player, part), redrawn++);
        const at = () => ({ time: player.at, longest: player.model.longest, redrawn });
        const state = () => ({ ...at(), ...player.controls.shown });
        return { frames, state, seek: (at) => player.seek(at) };
    };
    Object.defineProperty(window, "__player", { get: () => {
        const player = find(document);
        if (player?.model && !known.has(player)) known.set(player, asked(player));
        return known.get(player);
    } });
})()"""
FORGET = "location.protocol === 'about:' || (localStorage.clear(), sessionStorage.clear())"


def pytest_collection_modifyitems(items):
    """A browser starved by its neighbours gets a second run; the summary names who needed it."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def window(browser, **options):
    """A window without a past, as patient as a slow machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE)
    context.add_init_script(PICTURE)
    return context


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory):
    """Address of a dashboard that runs for the session."""
    with served(log=tmp_path_factory.mktemp("dashboard") / "log.txt") as found:
        yield found.address


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium: the one of CHROMIUM, of the system, or Playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        try:
            found = chromium(playwright)
        except api.Error as error:
            reason = f"no Chromium that starts: {str(error).splitlines()[0]}"
            (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
        yield found
        found.close()


class Watch:
    """What a page complained about, and which hosts it asked, since it was told to forget."""

    def __init__(self, page):
        self.forget()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        page.on("request", lambda request: self._request(urlsplit(request.url)))

    def forget(self) -> None:
        """What was said so far is another test's."""
        self.complaints: list[str] = []
        self.hosts: set[str] = set()

    def _request(self, parts) -> None:
        if parts.scheme not in LOCAL_SCHEMES:
            self.hosts.add(parts.hostname)


class Tab:
    """A page that many tests open one after the other, each as if it were new.

    A window of its own and scripts read anew cost every test four CPU seconds more than a navigation here.
    """

    def __init__(self, browser):
        self.browser, self.page = browser, None
        self.kept = False  # whether it still shows what the last test opened

    def begin(self, scheme: str | None = "dark"):
        """The page in its usual size and a theme, with what it complains about from now on."""
        if self.page is None:
            self.page = window(self.browser, viewport=SIZE, color_scheme="dark").new_page()
            self.page.watch, self.page.forget = Watch(self.page), self.forget
        theme = {"color_scheme": scheme} if scheme else {}
        self.page.emulate_media(reduced_motion="no-preference", **theme)
        self.page.set_viewport_size(SIZE)
        self.page.mouse.move(0, 0)
        self.page.context.clear_permissions()
        self.page.watch.forget()
        return self.page

    def forget(self, address: str) -> None:
        """Leave what the last test opened, and clear what the browser stored for it."""
        if self.page is None:
            return
        try:
            for other in self.page.context.pages[1:]:  # a window in front keeps this one from full screen
                other.close()
            self.page.context.set_offline(False)
            self.page.evaluate(FORGET)  # of a file, which has a store of its own
            self.page.goto(f"{address}/_stcore/health")  # the dashboard's origin without the dashboard
            self.page.evaluate(FORGET)
            self.page.context.clear_cookies()
        except BaseException:  # a page that crashed or hangs is the last test's alone
            self.close()
            raise

    def close(self) -> None:
        """Close the page, if there is one: the next to begin opens another."""
        page, self.page = self.page, None
        if page is not None:
            page.context.close()


@pytest.fixture(scope="session")
def tab(browser):
    """The page that tests share."""
    tab = Tab(browser)
    yield tab
    tab.close()


@pytest.fixture
def kept(tab):
    """A page that may still show what the test before opened."""
    tab.kept = True
    return tab.begin(scheme=None)


@pytest.fixture
def page(tab, dashboard):
    """A page of 1440 x 900 without a past, with `page.watch` for complaints and hosts."""
    if tab.kept:
        tab.forget(dashboard)
        tab.kept = False
    yield tab.begin()
    tab.forget(dashboard)
