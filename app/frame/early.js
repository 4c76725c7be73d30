// What the document does before Streamlit's own script is there: it stands in the document's head.
{
  const BACK = "went_back"; // a value that only this writes and only the next run reads
  const PHONE = 768; // px of width, and less, where Streamlit lays the sidebar over the page

  // Else Streamlit looks for its server below a page first, and the console says that none is there.
  window.__streamlit = { BACKEND_BASE_URL: new URL(".", location).href };

  // Streamlit keeps whether the sidebar is open: over a phone's page it is not, on the next visit.
  if (innerWidth <= PHONE)
    for (const name of Object.keys(localStorage))
      if (name.startsWith("stSidebarCollapsed-")) localStorage.removeItem(name);

  // Streamlit writes a link's address anew, whole, and a page's twice, first without its values: Back would have
  // to be pressed once for each. What nobody here asked for takes the place of what is there.
  let asked = false; // by a key or a pointer, since an address was last written
  for (const kind of ["keydown", "pointerdown"])
    addEventListener(kind, () => (asked = true), { capture: true, passive: true });
  const push = history.pushState.bind(history);
  history.pushState = (state, unused, url) => {
    const to = new URL(url ?? location.href, location.href);
    const anew = asked && !(to.pathname === location.pathname && !location.search);
    if (anew) {
      asked = false;
      push(state, unused, url);
    } else history.replaceState(state, unused, url);
  };

  // Marks the address that the browser has gone back or forward to, before Streamlit asks for its run: only the
  // browser knows that its widgets are of another address.
  addEventListener("popstate", () => {
    asked = false;
    const there = new URL(location.href);
    there.searchParams.set(BACK, "true");
    history.replaceState(history.state, "", there);
  });
}
