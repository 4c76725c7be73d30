"""Markdown as HTML, and its formulas as MathML, which browsers draw by themselves."""

from html import escape

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from app import contents

LEFT_OUT = ("image", "html_block", "html_inline", "autolink")  # what a tour's file has no use for


def mathml(latex: str, display: str = "block") -> str:
    """A formula; what is none is shown as it is written. Alone it is reached by keys, for it may be wide."""
    try:
        made = convert(latex.replace("{aligned}", "{align*}").replace("'", "′"), display=display)
    except Exception:  # one of fifteen kinds, of a lecturer's own formula
        return f"<code>{escape(latex)}</code>"
    return made.replace("<math", "<math tabindex='0'", 1) if display == "block" else made


def html(markdown: str) -> str:
    """Paragraphs, lists, code, headings, links and formulas; its own HTML is shown as it is written."""
    return MARKDOWN.render(markdown)


def inline(text: str) -> str:
    """What stands within a line."""
    return MARKDOWN.renderInline(text)


def _leads(address: str) -> bool:
    return address.startswith(("https://", "http://")) or address.isidentifier()


def _link(_, tokens, index, *__) -> str:
    """A link to a page of the dashboard leads to the first of its files in the static site."""
    page = tokens[index].attrs["href"]
    picture = contents.picture(page) if page in contents.PAGES else None
    file = next(iter(picture.files(page)), None) if picture else None
    return f'<a href="{escape(file.name if file else page)}">'


def _formula(latex: str, options: dict) -> str:
    return mathml(latex, "block" if options["display_mode"] else "inline")


MARKDOWN = (
    MarkdownIt("commonmark", {"html": False}).disable(LEFT_OUT).use(dollarmath_plugin, renderer=_formula)
)
MARKDOWN.validateLink = _leads
RULES = {
    "link_open": _link,
    "fence": lambda _, of, at, *__: f"<pre tabindex='0'><code>{escape(of[at].content)}</code></pre>\n",
    "heading_open": lambda *_: "<h3>",
    "heading_close": lambda *_: "</h3>",
}
for name, rule in RULES.items():
    MARKDOWN.add_render_rule(name, rule)
