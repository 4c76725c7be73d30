// What Streamlit's own frame of a page leaves undone: addresses that say nothing stay out of the history,
// and the link that skips to the page skips the pages' names too.

let done = false; // these rules are the window's: one of them is enough

/** Streamlit writes a page's address twice, first without its values: Back would have to be pressed twice. */
function tidyHistory() {
  const push = history.pushState.bind(history);
  history.pushState = (state, unused, url) => {
    const to = new URL(url ?? location.href, location.href);
    if (to.pathname === location.pathname && !location.search) history.replaceState(state, unused, url);
    else push(state, unused, url);
  };
}

/** To what stands below the pages' names. */
function skip() {
  const names = document.querySelector(".st-key-navigation");
  const page = names?.closest("[data-testid=stLayoutWrapper]")?.nextElementSibling;
  if (!page) return;
  page.tabIndex = -1;
  page.focus();
}

export default function show() {
  if (done) return;
  done = true;
  tidyHistory();
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.("[data-testid=stSkipToContent]")) setTimeout(skip);
  });
}
