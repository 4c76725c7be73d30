"""The theme the reader has chosen, and the few style rules that Streamlit has no setting for."""

from __future__ import annotations

import streamlit as st

from app.contents import HOME, OWN
from app.figures.rules import RULES
from app.frame.tour_style import STYLE as TOUR_STYLE
from app.scenario import theme
from app.scenario.presentation import presenting

# Shown in place of Streamlit's own words wherever something fails that nobody foresaw.
FAILED = (
    "Something here could not be drawn. Change the scenario or reload the page; "
    "what went wrong is in the terminal that runs this dashboard."
)
STYLE = """
<style>
  :root { /* outdoes Streamlit's own, which come later */
    .st-key-style { display: none; }
    [data-testid="stSidebar"][data-collapsed="false"] { min-width: 256px; max-width: 256px; }
    @media (min-width: 768px) { /* the sidebar comes last, to an edge that is free from the start */
      [data-testid="stSidebar"] { position: absolute !important; inset: 0 auto 0 0; z-index: 999991; }
    }
    .st-key-growth { min-height: 18.72rem; }
    .st-key-opening { min-height: clamp(440px, 100dvh - 27rem, 760px); }
    .st-key-gpu_source { min-width: 20.8rem; }
    [class*="st-key-gpu_call"] { max-width: 35rem; }
    @media (min-width: 600px) { .st-key-across_sliders [data-testid="stColumn"] { min-width: 0 !important; } }
    .st-key-tiles, .st-key-backward, .st-key-gpu {
      min-height: clamp(var(--least, 560px), 100dvh - 9.5rem, 1400px);
    }
    .st-key-across { min-height: clamp(560px, 100dvh - 18.9rem, 1400px); }
    [data-testid="stMain"] [tabindex="-1"]:focus { outline: none; }
    .st-key-navigation { row-gap: 0; }
    .st-key-navigation [data-testid="stPageLink-NavLink"] { padding-inline: 0.4rem; }
    [data-testid="stMain"] a:focus-visible { outline: 2px solid; outline-offset: 1px; } /* not a mere tint */
    .st-key-navigation p { white-space: nowrap; }
    .st-key-navigation [data-testid="stSkeleton"] { height: 1.72rem; width: 4rem; }
    .st-key-navigation > :first-child [data-testid="stSkeleton"] { width: 2.8rem; } /* of a short name */
    .st-key-navigation :first-child > [data-testid="stSkeleton"] { width: 2.4rem; } /* of a group's */
    .st-key-navigation [data-testid="stElementContainer"] {
      min-height: 1.72rem; display: flex; align-items: center;
    }
    .st-key-navigation [data-testid="stHtml"] { opacity: 0.65; font-size: 0.86rem; padding-right: 0.2rem; }
    @media (max-width: 1100px) { .st-key-navigation { column-gap: 0.8rem; } } /* two groups in a line */
    @media (max-width: 767px) {
      .st-key-navigation { flex-wrap: nowrap; overflow-x: auto; scrollbar-width: none; }
      .st-key-navigation [data-testid="stHorizontalBlock"] { flex-wrap: nowrap; }
      .st-key-navigation > * { flex-basis: max-content !important; max-width: none; } /* not the window's */
    }
    [data-testid="stSidebarContent"], [data-testid="stSidebarHeader"] { padding-inline: 0; }
    [data-testid="stSidebarHeader"] { height: 1.6rem; margin-block: 0; }
    [data-testid="stSidebarUserContent"] { padding-inline: 1rem; }
    [data-testid="stSidebar"] [data-testid="stVerticalBlock"] { gap: 0.3rem; }
    [data-testid="stSidebar"] [data-testid="stHorizontalBlock"] { gap: 0.5rem; }
    [data-testid="stSidebar"] [data-testid="stWidgetLabel"] { white-space: nowrap; min-height: 1.2rem; }
    [data-testid="stMain"] [data-testid="stMainBlockContainer"] { padding-inline: 1.5rem; max-width: none; }
    [data-testid="stFullScreenFrame"] { width: round(down, 100%, 1px); } /* Plotly draws
      a chart again whose width it reads as another: it reads three decimals */
    [data-testid="stSliderThumbValue"], [data-testid="stMetricValue"], input[type="number"] {
      font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
      font-variant-numeric: tabular-nums;
    }
    [data-testid="stSidebar"] [data-testid="stSlider"] { margin-bottom: -0.5rem; }
    [data-testid="stSidebar"] input[type="number"] { padding-inline: 0.5rem; }
    [data-testid="stSidebar"] input[role="combobox"] { padding-right: 0; text-overflow: ellipsis; }
    [data-testid="stWidgetLabelRequired"] { display: none; }
    [data-testid="stSkeleton"] { animation: none; } /* where no GPU draws it, its pulse holds the page up */
    .st-key-tools { position: relative; z-index: 1; margin-top: -1.3rem; max-width: 14.5rem; }
    .st-key-tools button { min-height: 0; padding: 0.15rem 0.28rem; }
    .st-key-tools [data-testid="stPopoverButton"] { padding-right: 0.45rem; }
    .st-key-tools button p { font-size: 0.85rem; white-space: nowrap; }
    .st-key-tools [data-testid="stPopoverButton"] > div > div + div { display: none; }
    [data-testid="stPopoverBody"] { max-width: min(44rem, 94vw); }
    [data-testid="stPopoverBody"] [data-testid="stCaptionContainer"] { color: inherit; opacity: 0.85; }
    [data-testid="stPopoverBody"] dl { margin: 0; padding-right: 0.8rem; }
    [data-testid="stPopoverBody"] dd { margin: 0 0 0.7rem; }
    .st-key-frame, .st-key-glossary, .st-key-lectern_teller { position: absolute; }
    .st-key-presenter_keys, .st-key-room, .st-key-tour_keys { position: absolute; }
    .st-key-footprint { padding: 0.5rem 0.7rem; }
    .st-key-footprint p { font-size: 0.85rem; }
    .st-key-flash3_head { min-height: 3.6rem; } /* filled once it is known what is switched on */
    .st-key-kernel_head { min-height: 3.9rem; justify-content: center; } /* two lines of a finding */
    .st-key-kernel_status { min-height: 2.6rem; justify-content: center; }
    .st-key-kernel_picture { min-height: clamp(520px, 100dvh - 18rem, 1200px); }
    .st-key-kernel_lab_picture { min-height: 520px; }
    .st-key-kernel_lab { min-height: 8.2rem; }
    .st-key-flash3_words { min-height: 3.2rem; }
    .st-key-flash3_picture { min-height: 34rem; }
    .st-key-gpu_controls { min-height: 2.6rem; }
    .st-key-agreement_verdict { min-height: 3.9rem; justify-content: center; }
    .st-key-notices { padding: 0.4rem 0.8rem; }
    [class*="st-key-in_a_row"] [data-testid="stHorizontalBlock"] { flex-wrap: nowrap; } /* on a phone too */
    [data-testid="stMain"] [class*="st-key-in_a_row"] [data-testid="stColumn"] { min-width: 2.6rem; }
    [data-testid="stMain"] .st-key-in_a_row_softmax_step [data-testid="stColumn"]:last-child {
      min-width: 4.6rem; /* Play */
    }
    [data-testid="stMain"] .stElementContainer[class*="st-key-"]:has(> [data-testid="stButtonGroup"]) {
      min-height: 2.5rem; /* as what stands in for it while its script is loaded */
    }
    [data-testid="stButtonGroup"] [role="radiogroup"] { flex-wrap: wrap; }
    .katex-display { overflow: auto hidden; } /* where a phone is too narrow for a formula */
    .katex .sizing.reset-size3.size1 { font-size: 1em; } /* an index of an index as large as an index */
    @media (max-width: 480px) { .katex-display { font-size: 0.88em; } }
    [data-testid="stException"] [data-testid="stAlertContentError"] > * { display: none; }
    @media (min-width: 641px) {
      .st-key-in_a_row_numbers [data-testid="stMetricValue"] { font-size: clamp(1.3rem, 1.9vw, 2.25rem); }
    }
    @media (max-width: 900px) { /* beside the sidebar there is no room for columns */
      [data-testid="stMain"] [data-testid="stColumn"] { min-width: calc(100% - 1.5rem); }
    }
    @media (max-width: 767px) { .st-key-tools { margin-top: 0.3rem; } } /* the pages' names stand above */
  }
</style>
"""
# What a page's parts will take, while the scripts that draw them are loaded; `frame.js` puts the rules aside
# when all is there, because a browser then looks at every part that changes, and at all around it, for them.
WAITING = """
<style id="waiting">
  :root {
    [data-testid="stSidebar"] [class*="st-key-scenario"]:has([data-testid="stSkeleton"]) {
      min-height: 58px; /* a control's */
    }
    [data-testid="stMainBlockContainer"]:has([data-testid="stAppSkeleton"]) { padding-top: 0.5rem; }
    [class*="st-key-in_a_row"], [class*="_sliders"] .stElementContainer:not([class*="metric"]) {
      &:has([data-testid="stSkeleton"]) { min-height: 4.25rem; }
    }
    [class*="st-key-"]:has([data-testid="stSkeleton"]) {
      &[class*="scenario-head_dim"], &[class*="scenario-block_"] { min-height: 51px; } /* a slider's */
      &.st-key-tools [data-testid="stSkeleton"] { height: 26px; }
      &[class*="decoding_key"] [data-testid="stSkeleton"] { height: 20px; }
      &.st-key-flash3_techniques { min-height: 6rem; }
      &.st-key-traffic_bars { min-height: 13.9rem; }
      &.st-key-decoding_sms { min-height: calc(0.121 * (100vw - 336px) + 10px); }
      &.st-key-masks_picture { min-height: calc((100vw - 370px) / 5 + 6.8rem); }
      &.st-key-gains_numbers [data-testid="stElementContainer"] { min-height: 7.86rem; }
      @media (min-width: 1700px) { &.st-key-flash3_techniques { min-height: 3.8rem; } }
      &[class*="own-mask"] { min-width: 14.8rem; } /* a row of buttons' */
      &[class*="own-pass"] { min-width: 13rem; }
      &[class*="own-beside"] { min-width: min(37.8rem, 100vw - 3rem); }
      @media (max-width: 768px) { /* what stands beside another stands below it here */
        &.st-key-decoding_sms { min-height: calc(27.27vw - 13px); }
        &.st-key-masks_picture { min-height: calc(150vw + 16.5rem); }
      }
      @media (max-width: 520px) { /* and buttons take more lines */
        &.st-key-flash3_techniques { min-height: 15rem; }
        &.st-key-gpu_controls { min-height: 6rem; }
        &.st-key-traffic_bars { min-height: 15.4rem; }
        &.st-key-claims_verdict { min-height: 6.5rem; }
        &[class*="own-beside"], &.st-key-agreement_quantity { min-height: 4.25rem; }
      }
    }
  }
</style>
"""
ASIDE = """
<style>
  :root {
    @media (min-width: 769px) { /* below, Streamlit closes it by itself */
      :not([data-testid="stSidebar"][data-collapsed="true"] ~ *) > :is(.stMain, .stAppHeader) {
        padding-left: 256px;
      }
    }
    @media (max-width: 768px) { /* there is a button that opens it, from the start */
      [data-testid="stMain"] [data-testid="stMainBlockContainer"] { padding-top: 4.25rem; }
    }
  }
</style>
"""
KERNEL_STYLE = """
<style>
  [data-testid="stMain"]:has(.st-key-kernel_cancel):has(.st-key-watched) { /* they are of the run before */
    .st-key-kernel_head, .st-key-kernel_picture, .st-key-kernel_lab_picture { opacity: 0.5; }
  }
</style>
"""
START_STYLE = """
<style>
  :root {
    [data-testid="stMain"], [data-testid="stHeader"] { padding-left: 0 !important; }
    .st-key-tools { margin-top: 0; max-width: none; }
  }
</style>
"""
PRESENTER_STYLE = """
<style>
  html { font-size: clamp(19px, 1.48vw, 32px) !important; --below: 2.1rem; --room: 1; --now: 1.4rem;
    --full: none; /* of a picture's button: f fills the screen */
  }
  :root {
    [data-testid="stSidebar"], [data-testid="stHeader"] { display: none !important; }
    [data-testid="stMain"] { padding-left: 0 !important; }
    [data-testid="stMain"] [data-testid="stMainBlockContainer"] { padding: 0.4rem 1.4rem 1.8rem; }
    [data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { color: inherit; opacity: 1; }
    .st-key-gpu, .st-key-across { --least: 470px; }
    .st-key-flash3_picture { --told: 1.3em; }
    [class*="st-key-apart"] [data-testid="stColumn"] { min-width: 100%; } /* for want of room beside */
    .st-key-apart_inside [data-testid="stColumn"]:last-child [data-testid="stVerticalBlock"] {
      flex-flow: row wrap;
      > * { flex: 1; width: auto; }
    }
    [data-testid="stMetricLabel"] p { white-space: normal; }
    [data-testid="stMarkdownContainer"] code { font-size: 0.86rem; }
    .grid td, .sms i { font-size: 0.9rem !important; }
    .katex .reset-size6.size1 { font-size: 0.7em; }
    button p, label p { font-size: 1rem !important; }
    div:has(> .st-key-presenter), div:has(> .st-key-presenter_hint), div:has(> .st-key-audience_link) {
      position: absolute; /* out of the page's flow */
    }
    .st-key-presenter { position: fixed; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    .st-key-presenter_hint { /* in room that the page leaves free, where it fits the screen */
      position: fixed; inset: auto 0 0 auto; width: auto; height: 1.7rem; padding: 0.1rem 1.4rem;
      z-index: 5;
      background: Canvas; border-radius: 6px 0 0; pointer-events: none; animation: leave 0.6s 8s forwards;
    }
    div:has(> .st-key-room_badge) { position: absolute; }
    .st-key-room_badge { /* beside the hint, in room that the page leaves free */
      position: fixed; inset: auto auto 0 0; width: auto; height: 1.7rem; padding: 0.1rem 1.4rem; z-index: 5;
      background: Canvas; border-radius: 0 6px 0 0; pointer-events: none;
    }
    .st-key-presenter_hint p { font-size: 0.9rem; line-height: 1.3; text-align: right; }
    .st-key-audience_link {
      position: fixed; z-index: 10; left: 8vw; right: 8vw; top: 28vh; width: auto; padding: 1.2rem 1.6rem;
      background: Canvas; box-shadow: 0 8px 40px rgba(0, 0, 0, 0.5);
    }
    .st-key-audience_link code { font-size: 1.3rem; }
    .st-key-audience_link:has(.st-key-live_join) { top: 10vh; }
  }
  @keyframes leave { to { opacity: 0; visibility: hidden; } }
</style>
"""


def early(aside: bool, presented: bool) -> str:
    """The rules that hold on every page, with a sidebar or without; the document has them.

    Those of a presentation are there until a run has sent them: it may end, while the document stays.
    """
    room = PRESENTER_STYLE.replace("<style>", '<style id="presented">') * presented
    return STYLE + TOUR_STYLE + f"<style>{RULES}</style>" + WAITING + ASIDE * aside + room


def apply(page: str) -> None:
    """Send what the document's rules lack on this page, and in this theme; before anything is drawn."""
    colours = theme.colours()
    # Streamlit writes on its coloured buttons in white, too pale on the dark theme's light blue
    button = f"[data-testid='stBaseButton-primary'] * {{ color: {colours.ground}; }}"
    failed = (
        f"[data-testid='stException'] [data-testid='stAlertContentError']::after {{ content: '{FAILED}'; }}"
    )
    # Streamlit's own grey of a control without effect is too pale to read, and so are its colours of code
    greyed = f"[data-testid='stWidgetLabel'][disabled] {{ color: {colours.muted}; }}"
    told = {
        "comment": colours.muted,
        "keyword": colours.q,
        "string": colours.s,
        "boolean": colours.s,
    }
    code = " ".join(f"[data-testid='stCode'] .token.{kind} {{ color: {ink}; }}" for kind, ink in told.items())
    rules = ASIDE * (page != HOME) + f"<style>{button} {greyed} {code} {failed}</style>"
    rules += START_STYLE * (page == HOME) + KERNEL_STYLE * (page in OWN) + PRESENTER_STYLE * presenting()
    # the browser loads what draws st.html later than what draws Markdown
    with st.container(key="style"):
        st.markdown(rules, unsafe_allow_html=True)
