"""Every page in a real Chromium: no complaint, no request to the outside, links and keys that work."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit

from app.contents import HOME, PAGES
from engine.root import ROOT

pytestmark = pytest.mark.browser

ODD = "algorithm=flash1&seq=1000&heads=3&kv_heads=1&head_dim=48&window=77&causal=true&block_q=32&block_kv=16"
WIDTHS = (1440, 1024)
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"  # there after `npm ci`
READ_ALOUD = ("softmax", "decoding")  # pages with every kind of control, which axe-core looks at
SCHEMES = {name: ("light" if number > len(PAGES) / 2 else "dark",) for number, name in enumerate(PAGES)}
SCHEMES |= dict.fromkeys(READ_ALOUD, ("dark", "light"))  # contrasts are of a theme
# faults of Streamlit's own sidebar before 1.66
OF_STREAMLIT = ("aria-allowed-attr", "region") if streamlit.__version__ < "1.66" else ()
CUT = """() => [...document.querySelectorAll('[data-testid=stMain] :is(p, [data-testid=stMetricValue] *)')]
    .filter((element) => element.scrollWidth > element.clientWidth + 1
        && getComputedStyle(element).textOverflow === "ellipsis")
    .map((element) => element.textContent)"""
VIOLATIONS = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
    .map(({ id, nodes }) => `${id}: ${nodes[0].html}`)"""
WIDER = """() => ['stMain', 'stSidebarContent'].filter((name) => {
    const box = document.querySelector(`[data-testid=${name}]`);
    return box && box.scrollWidth > box.clientWidth + 1;
})"""
SYSTEMS_SCHEME = "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"
TOLD = 600  # ms after the system's theme has changed, by when a run has told the server
SHOWN_SCHEME = "getComputedStyle(document.querySelector('[data-testid=stApp]')).colorScheme"
NAME_OF_FOCUS = """() => {
    const focus = document.activeElement;
    return (focus.getAttribute('aria-label') || focus.innerText || '').trim();
}"""


def opened(page, address):
    """The page, its run ended and its content shown."""
    page.goto(address)
    page.locator("[data-testid=stMain] [data-testid=stElementContainer] >> visible=true").first.wait_for()
    settled(page)
    return page


# whether everything has stood where it stands for a while
STILL = """(ms) => {
  const ends = [...document.querySelectorAll("[data-testid=stElementContainer]")]
    .map((element) => Math.round(element.getBoundingClientRect().bottom)).join();
  const now = performance.now();
  if (ends !== window.endsBefore) [window.endsBefore, window.endsSince] = [ends, now];
  return now - window.endsSince >= ms;
}"""


def settled(page):
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.evaluate("delete window.endsBefore")
    page.wait_for_function(STILL, arg=250, polling=50)


def query(page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def slider(page, name):
    return page.locator("[data-testid=stSidebar]").get_by_role("slider", name=re.compile(f"^{name}"))


def stands_at(page, name, value):
    """Wait until a slider of the sidebar says that it stands at a value."""
    slider(page, name).and_(page.locator(f"[aria-valuetext='{value}']")).wait_for()


def is_sound(page, name, scheme):
    """The page says nothing that is wrong, and is read aloud as it should be."""
    wrong = "[data-testid=stException], [data-testid=stAlert]:not(:has([data-testid=stAlertContentSuccess]))"
    said = page.locator(wrong).all_inner_texts()
    assert (said, page.watch.complaints) == ([], []), f"{name} in the {scheme} theme"
    if name in READ_ALOUD and AXE.is_file():
        page.evaluate(AXE.read_text("utf-8"))
        found = [each for each in page.evaluate(VIOLATIONS) if not each.startswith(OF_STREAMLIT)]
        assert found == [], f"{name} in the {scheme} theme"
    assert page.watch.hosts <= {"127.0.0.1"}  # a page that is turned to may ask for nothing


def turned_to(page, dashboard, name, scheme):
    """A page of the navigation in a theme, drawn anew for a third of opening it; the first is opened."""
    flips = page.evaluate(SYSTEMS_SCHEME) != scheme
    page.emulate_media(color_scheme=scheme)
    if page.evaluate("window.turning"):
        if flips:  # a run of the page that is left would take it back
            page.wait_for_timeout(TOLD)
            settled(page)
        page.locator(".pages").get_by_role("link", name=PAGES[name], exact=True).click()
        page.wait_for_url(re.compile(rf"/{'' if name == HOME else name}(\?|$)"))
        settled(page)
        page.locator(".pages [aria-current=page]", has_text=PAGES[name]).wait_for()
    else:
        page.forget(dashboard)
        opened(page, f"{dashboard}/{'' if name == HOME else name}")
        page.evaluate("window.turning = true")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_without_a_complaint_and_cuts_nothing_off(kept, dashboard, name):
    page = kept
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    for scheme in SCHEMES[name]:
        turned_to(page, dashboard, name, scheme)
        assert page.evaluate(SHOWN_SCHEME) == scheme
        is_sound(page, name, scheme)
    for width in WIDTHS:
        if width != WIDTHS[0]:
            page.set_viewport_size({"width": width, "height": 900})
            settled(page)
        assert page.evaluate(WIDER) == page.evaluate(CUT) == [], f"at {width} pixels"


def test_what_the_server_draws_follows_the_systems_theme(page, dashboard):
    ground = "getComputedStyle(document.documentElement).getPropertyValue('--theme-ground')"
    page.emulate_media(color_scheme="light")
    opened(page, f"{dashboard}/masks")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{ground} !== {light!r}")


def test_a_link_restores_its_scenario_which_switching_pages_and_going_back_keep(page, dashboard):
    opened(page, f"{dashboard}/softmax?{ODD}")
    scenario = query(page)
    assert scenario == {name: values[0] for name, values in parse_qs(ODD).items()}
    for name, value in (("Sequence", 1000), ("Head", 48), ("Query", 32), ("Key", 16)):
        stands_at(page, name, value)
    page.get_by_role("link", name="Masks").click()
    page.wait_for_url("**/masks?*")
    settled(page)
    assert query(page) == scenario
    slider(page, "Query").press("ArrowRight")
    page.wait_for_url("**block_q=64**")
    settled(page)
    page.go_back()
    page.wait_for_url("**block_q=32**")
    settled(page)
    stands_at(page, "Query", 32)
    assert query(page) == scenario
    assert "went_back" not in page.url
    page.go_back()
    page.wait_for_url("**/softmax?*")
    settled(page)
    assert query(page) == scenario


@pytest.mark.parametrize("link", ["tiles", "?seq=2048", "tour?step=3", "start"])
def test_one_press_of_back_leaves_what_a_link_has_opened(page, dashboard, link):
    page.goto(f"{dashboard}/_stcore/health")
    opened(page, f"{dashboard}/{link}")
    page.wait_for_function("location.search || location.pathname === '/'")
    settled(page)
    if link.startswith("?"):
        assert (urlsplit(page.url).path, query(page)["seq"]) == ("/tiles", "2048")
    page.go_back()
    assert urlsplit(page.url).path == "/_stcore/health"


def test_sliders_pressed_quickly_typed_numbers_and_presets_follow_each_other(page, dashboard):
    opened(page, f"{dashboard}/masks?seq=64")
    control = slider(page, "Sequence")
    control.focus()
    for end, key in (("32768", "ArrowRight"), ("64", "ArrowLeft")):
        for _ in range(9):  # never pulled back
            page.keyboard.press(key)
        page.wait_for_url(f"**seq={end}&**")
        settled(page)
        assert control.get_attribute("aria-valuetext") == end
        assert page.get_by_label("Sequence length, typed").input_value() == end
    field = page.get_by_label("Sequence length, typed")
    field.fill("777")
    field.press("Enter")
    page.wait_for_url("**seq=777**")
    settled(page)
    stands_at(page, "Sequence", 777)
    page.get_by_label("Scenario").click()
    page.get_by_role("option", name="Long context").click()
    page.wait_for_url("**seq=131072**")
    settled(page)
    slider(page, "Query").focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_url("**block_q=32**")
    settled(page)
    assert (query(page)["seq"], query(page)["block_q"]) == ("131072", "32")  # it changed its value alone


def test_what_a_broken_link_says_is_shown_as_text(page, dashboard):
    opened(page, f"{dashboard}/masks?seq=%3Cimg%20src%3Dx%3E&dtype=![x](http://example.org/x.png)&heads=3")
    notice = page.locator(".st-key-notices")
    assert "<img src=x>" in notice.inner_text()
    assert "![x](http://example.org" in notice.inner_text()
    assert notice.locator("img").count() == 0
    assert query(page)["heads"] == "3"
    assert page.watch.hosts == {"127.0.0.1"}


def test_the_keyboard_alone_reaches_every_control_and_page(page, dashboard):
    opened(page, f"{dashboard}/softmax")
    missing = {"Scenario", "Algorithm", "Sequence length", "Key block", "Heads", "Mask", "GPU", "Traffic"}
    for _ in range(150):  # a page drawn again meanwhile loses the place: round once more
        page.keyboard.press("Tab")
        focused = page.evaluate(NAME_OF_FOCUS)
        missing = {name for name in missing if name not in focused}
        if not missing:
            break
    assert missing == set()


def test_the_usual_controls_fit_900_pixels_and_a_closed_sidebar_leaves_its_room(page, dashboard):
    opened(page, f"{dashboard}/masks?block_q=512&block_kv=1024&head_dim=256&hardware=a100")  # says most
    # the sidebar comes after the page: wait for it to take its place, and fail if it never fits
    lowest = "document.querySelector('.st-key-footprint')?.getBoundingClientRect().bottom"
    page.wait_for_function(f"{lowest} <= 900")
    page.mouse.move(120, 890)  # the button shows itself when the sidebar is pointed at
    page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    main = page.get_by_test_id("stMain")
    page.wait_for_function("(main) => main.getBoundingClientRect().left === 0", arg=main.element_handle())
    assert main.bounding_box()["width"] == 1440
