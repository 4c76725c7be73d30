"""The rules of the figures in HTML that are drawn anew while a slider moves.

They are sent once, with the document: a rule that comes with a figure makes the browser look at every
element of the page again.
"""

from app.figures.base import MONO

LINE = "color-mix(in srgb, currentColor 16%, transparent)"
SMS_ACROSS = 22
TABLES = f"""
  .numbers {{ border-collapse: collapse; width: 100%; margin: 0; font-size: 0.93rem; border: none; }}
  .numbers th, .numbers td {{ border: none; border-bottom: 1px solid {LINE}; padding: 3px 0 3px 10px; }}
  .numbers th {{ font-weight: 600; text-align: right; vertical-align: bottom; }}
  .numbers td {{ text-align: right; font-family: {MONO}; font-variant-numeric: tabular-nums; }}
  .numbers th:first-child, .numbers td:first-child {{ text-align: left; padding-left: 0; }}
  .numbers .words {{ text-align: left; font-family: inherit; }}
  .numbers .words:not(:first-child) {{ padding-left: 1.4rem; }}
  .numbers td:not(.words), .numbers th:not(.words) {{ white-space: nowrap; }}
  .scrolled {{ overflow: auto; }}
  @media (max-width: 1200px) {{ .numbers {{ font-size: 0.86rem; }} }}
  @media (max-width: 760px) {{
    .numbers .words {{ min-width: 6rem; }}
    .scrolled .words {{ min-width: 14rem; }}
    .scrolled .words:first-child {{ min-width: 9rem; }}
  }}
  .scrolled th {{ position: sticky; top: 0; background: Canvas; }}
  .scrolled .numbers th {{ white-space: normal; }}
  .grid {{ border-collapse: separate; border-spacing: 2px; width: 100%; table-layout: fixed; }}
  .grid {{ margin: 0; border: none; }}
  .grid th, .grid td {{ border: none; padding: 0; text-align: center; height: 2.14rem; white-space: nowrap; }}
  .grid th, .grid td {{ font: 0.86rem {MONO}; overflow: hidden; }}
  .grid th {{ color: color-mix(in srgb, currentColor 65%, transparent); font-weight: 400; }}
  .grid th:first-child {{ width: 3rem; }}
  .grid .axis {{ font-family: inherit; height: 1.29rem; }}
  @media (max-width: 1400px) {{ .grid td {{ font-size: 0.79rem; }} .grid th:first-child {{ width: 2rem; }} }}
  .bars {{ display: grid; grid-template-columns: auto 1fr; gap: 5px 10px; align-items: center; }}
  .bars .key {{ grid-column: 2; display: flex; flex-wrap: wrap; gap: 0 16px; font-size: 0.93rem; }}
  .bars .key {{ min-height: 1.43rem; }}
  .bars .key span {{ white-space: nowrap; }}
  .bars .key i {{ display: inline-block; width: 0.79rem; height: 0.79rem; margin-right: 0.43rem; }}
  .bars .place {{ font: 0.86rem {MONO}; white-space: pre; opacity: 0.8; }}
  .bars .bar {{ display: flex; align-items: center; height: 1.71rem; white-space: nowrap; }}
  .bars .bar {{ font: 0.93rem {MONO}; }}
  .bars .bar i {{ height: 100%; box-sizing: border-box; flex: none; border-right: 1px solid; }}
  .bars .bar b {{ font-weight: 400; padding-left: 8px; }}
"""
SMS = f"""
  .sms {{ display: grid; grid-template-columns: repeat({SMS_ACROSS}, 1fr); gap: 2px; }}
  .sms i {{ aspect-ratio: 1; font: 0.71rem {MONO}; display: grid; place-items: center; overflow: hidden; }}
  .sms i {{ border-radius: 2px; box-sizing: border-box; }}
  @media (max-width: 700px) {{ .sms i {{ font-size: 0.57rem; }} }}
"""
MASKS = """
  .masks { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: 14px 18px; }
  .masks { grid-template-rows: repeat(3, auto); }
  .masks figure { margin: 0; min-width: 0; display: grid; row-gap: 0; }
  .masks figure { grid-template-rows: subgrid; grid-row: span 3; }
  .masks figcaption { align-self: end; font-size: 1rem; line-height: 1.35; padding-bottom: 8px; }
  .masks figcaption b { display: block; }
  .masks img { display: block; width: 100%; height: auto; }
  .masks p { margin: 8px 0 0; font-size: 0.93rem; line-height: 1.45; }
  .masks .own { outline: 2.5px solid; outline-offset: 3px; }
  @media (max-width: 900px) { .masks { grid: auto-flow auto / 1fr 1fr; } }
  .masks-key { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 0.93rem; align-items: center; }
  .masks-key img { width: 1.07rem; height: 1.07rem; margin-right: 6px; vertical-align: -2px; }
"""
LAYERS = """
  .stack h4, .memory h4 { font-size: 0.93rem; font-weight: 600; margin: 6px 0 3px; padding: 0; }
  .stack h4 span { font-weight: 400; opacity: 0.8; font-size: 0.86rem; margin-left: 0.3rem; }
  .stack i { display: flex; gap: 1px; height: max(4px, calc(23rem / 64)); margin-bottom: 2px; }
  .stack s { display: block; border-radius: 2px; min-width: 1px; }
  .stack.one i { height: max(30px, 1.6rem); }
  .stack .key { display: flex; justify-content: space-between; font-size: 0.86rem; margin: 4px 0 0; }
  .stack p { font-size: 0.86rem; margin: 2px 0; }
  .memory .whole { height: 15rem; border: 2px solid; border-radius: 6px; overflow: hidden; }
  .memory .whole { display: flex; flex-direction: column; justify-content: flex-end; margin-bottom: 6px; }
  .memory p { font-size: 0.93rem; margin: 2px 0; }
  .memory u { display: inline-block; width: 0.9rem; height: 0.9rem; margin-right: 0.5rem; }
  .memory u { outline: 1px solid #8886; }
"""
MEMORIES = """
  .memories { display: flex; align-items: end; margin-top: 0.5rem; text-align: center; line-height: 1.3; }
  .memories figure { margin: 0; display: flex; flex-direction: column; align-items: center; gap: 0.4rem; }
  .memories figcaption { font-size: 0.93rem; white-space: nowrap; margin: 0 -1rem; }
  .memories figure > i { height: 8rem; align-content: center; }
  .square, .dot { display: block; box-sizing: border-box; width: var(--side); height: var(--side); }
  .square { background: color-mix(in srgb, var(--byte) 26%, transparent); border: 1px solid var(--byte); }
  .dot { background: var(--byte); min-width: 2px; min-height: 2px; margin: auto; }
  .memories p { flex: 1; height: 8rem; margin: 0; display: grid; grid-template-rows: 1fr auto 1fr; }
  .memories p { font-size: 0.93rem; align-items: end; }
  .memories p i { height: var(--thick); animation: pass 0.65s linear infinite; }
  .memories p i { background: radial-gradient(circle 2px, var(--byte) 95%, #0000) 0 50% / 30px 8px, #8883; }
  @keyframes pass { to { background-position-x: 30px; } }
  @keyframes fall { to { background-position-y: 30px; } }
  @media (max-width: 680px) {
    .memories { flex-direction: column; align-items: start; text-align: left; }
    .memories figure { flex-direction: row-reverse; gap: 2rem; }
    .memories figure > i { margin: 0 calc((8rem - var(--side)) / 2); height: var(--side); }
    .memories p { flex: none; height: 2.6rem; display: flex; flex-direction: row-reverse; }
    .memories p { gap: calc(6rem - var(--thick) / 2); align-items: center; }
    .memories p i { width: var(--thick); height: 100%; margin-left: calc(4rem - var(--thick) / 2); }
    .memories p i { background-size: 8px 30px; animation-name: fall; }
  }
  @media (prefers-reduced-motion: reduce) { .memories p i { animation: none; } }
  .growth { display: flex; gap: 12px; align-items: center; font-size: 0.86rem; line-height: 1.3; }
  .growth figure { flex: 0 1 17rem; margin: 0; }
  .growth .whole { display: block; position: relative; aspect-ratio: 1; overflow: hidden; }
  .growth .whole { outline: 1px dashed; }
  .growth s { position: absolute; bottom: 0; min-width: 2.5px; min-height: 2.5px; }
  .growth b { display: block; font-size: 1.07rem; }
  .growth .verdict { font-weight: 600; min-height: 3.9em; }
"""
CLAIMS = f"""
  .claims {{ columns: 2 27rem; column-gap: 1.2rem; }}
  .claim {{ break-inside: avoid; margin: 0 0 1rem; padding: 0.7rem 1rem; border: 1px solid {LINE}; }}
  .claim {{ border-left: 5px solid var(--verdict, #888); border-radius: 8px; }}
  .claim h3 {{ font-size: 1rem; line-height: 1.4; margin: 0 0 0.4rem; padding: 0; }}
  .claim p {{ margin: 0.3rem 0 0; }}
  .claim p b {{ font: 1.1rem {MONO}; }}
  .claim p span, .claim .note {{ font-size: 0.93rem; opacity: 0.85; }}
  .claim p .verdict {{ font-weight: 600; color: var(--verdict); opacity: 1; margin-right: 0.4rem; }}
  .claim.right {{ --verdict: light-dark(#008760, #2fbf92); }}
  .claim.depends {{ --verdict: light-dark(#7a4fc0, #b79bf0); }}
  .claim.wrong {{ --verdict: light-dark(#c4314b, #ff7b8a); }}
"""
RULES = TABLES + SMS + MASKS + LAYERS + MEMORIES + CLAIMS
