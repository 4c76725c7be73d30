"""How a tour's step is laid out: rules that are there before the step is."""

STYLE = """
<style>
  :root {
    .st-key-tour_head { flex-wrap: wrap; column-gap: 1rem; }
    .st-key-tour_head > :first-child { /* the title */ flex: 1 1 16rem; width: auto; }
    .st-key-tour_text { min-height: 4.9rem; margin-top: -0.5rem; }
    .st-key-tour_words { gap: 0.35rem; }
    .st-key-tour_head button p, .st-key-tour_words button p { font-size: 1rem; }
    :is(.st-key-tour_text, .st-key-tour_words) :is(code, pre) { font-size: 0.85rem; line-height: 1.43; }
    .st-key-tour_next { min-width: 8.6rem; } /* which "The answer" needs in a room's type */
    .st-key-tour_size button { min-width: 2.6rem; }
    .st-key-tour_picture .masks { max-width: 50dvh; grid-template-columns: 1fr; }
    .st-key-tour_picture .bars { row-gap: 0.8rem; }
    .st-key-tour_picture .bars .bar { height: 2.6rem; }
    .st-key-tour_words [data-testid="stMetricValue"] { font-size: 1.8rem; line-height: 1.2; }
    .st-key-tour_words .katex-display { margin: 0; padding: 0.2rem 0 0; text-align: left; }
    .st-key-tour_words .katex-display > .katex { text-align: left; }
  }
</style>
"""
