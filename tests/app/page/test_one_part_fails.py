"""A part of a page that fails takes none of the others with it."""

from app import sidebar


def test_a_sidebar_that_fails_leaves_the_page_and_the_tools(open_app, monkeypatch):
    def fails():
        raise RuntimeError("the sidebar")

    monkeypatch.setattr(sidebar, "show", fails)
    app = open_app("softmax", seq="1024")
    assert len(app.exception) == 1
    assert app.get("button_group") or app.get("html") or app.get("button")
    assert app.query_params["seq"] == "1024"  # the scenario is in the address as ever


def test_a_page_that_fails_leaves_the_sidebar(open_app, monkeypatch):
    from app.page import softmax

    monkeypatch.setattr(softmax, "show", lambda: 1 / 0)
    app = open_app("softmax", seq="1024")
    assert len(app.exception) == 1
    assert app.number_input(key="scenario heads").value == 16
