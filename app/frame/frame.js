// What Streamlit's own frame of a page leaves undone: addresses that say nothing stay out of the history, a phone's drawer
// is closed on the next visit, and the link that skips to the page skips the pages' names too.

const PHONE = 768; // px of width up to which Streamlit lays the sidebar over the page
const DRAWER = "stSidebarCollapsed-"; // how the names begin by which Streamlit keeps whether it is open
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

/** On a phone an open drawer is not kept for the next visit: it would lie over the page. */
function forgetDrawer() {
  if (innerWidth > PHONE) return;
  for (const name of Object.keys(localStorage)) if (name.startsWith(DRAWER)) localStorage.removeItem(name);
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
    setTimeout(forgetDrawer); // once Streamlit has noted what was clicked
    if (target.closest?.("[data-testid=stSkipToContent]")) setTimeout(skip);
  });
}
