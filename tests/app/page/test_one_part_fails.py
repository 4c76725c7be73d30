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
