// What Streamlit's own frame of a page leaves undone: addresses that say nothing stay out of the history, a phone's drawer
// is closed when a page is opened, and one Tab leads past the navigation to the page.

const PHONE = 768; // px of width up to which Streamlit lays the sidebar over the page
const DRAWER = "stSidebarCollapsed-"; // how the names begin by which Streamlit keeps whether it is open
let done = false; // these rules are the window's: one of them is enough

/** Whether an address would only lead forward again: without a scenario, or at the root with one. */
function transient({ pathname, search }, base) {
  const values = new URLSearchParams(search);
  return pathname === base ? values.has("algorithm") || values.has("seq") : !values.has("algorithm");
}

/** Streamlit writes a page's address twice, first without its values: Back would have to be pressed twice. */
function tidyHistory() {
  const push = history.pushState.bind(history),
    base = location.pathname.replace(/[^/]*$/, "");
  history.pushState = (state, unused, url) => {
    const to = new URL(url ?? location.href, location.href);
    const same = to.pathname === location.pathname || location.pathname === base;
    if (same && transient(location, base)) history.replaceState(state, unused, url);
    else push(state, unused, url);
  };
}

/** On a phone an open drawer is not kept for the next visit: it would lie over the page. */
function closeDrawers() {
  const forget = () => {
    if (innerWidth > PHONE) return;
    for (const name of Object.keys(localStorage)) if (name.startsWith(DRAWER)) localStorage.removeItem(name);
  };
  new MutationObserver(forget).observe(document.querySelector("[data-testid=stApp]"), {
    subtree: true,
    attributeFilter: ["aria-expanded"],
  });
}

/** The first thing that Tab reaches: a link past the navigation and the sidebar. */
function skipLink() {
  const link = document.createElement("a");
  link.href = "#page";
  link.className = "skip";
  link.textContent = "Skip to the page";
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const main = document.querySelector("[data-testid=stMain]");
    main.tabIndex = -1;
    main.focus();
  });
  document.body.prepend(link);
}

export default function show() {
  if (done) return;
  done = true;
  document.documentElement.lang = "en";
  tidyHistory();
  closeDrawers();
  skipLink();
}
