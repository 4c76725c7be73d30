// The moment to begin with: the share of the run that was noted before a reload, or what the opened link says.

const MOMENT = "attention moment"; // the name that the share is kept by

/** Notes the share of a run that is done, for when this tab is loaded again. */
function note(share) {
  try {
    sessionStorage.setItem(MOMENT, share);
  } catch {} // a browser may forbid it
}

/** The share that was noted, where the page was loaded again; else null. */
function noted() {
  try {
    const [opened] = performance.getEntriesByType("navigation"), share = sessionStorage.getItem(MOMENT);
    return opened?.type === "reload" && share !== null ? clamp(Number(share) || 0, 0, 1) : null;
  } catch {
    return null;
  }
}

/** The part of the opened link behind its #; Streamlit drops it when it writes the scenario to the address. */
function linkedMoment() {
  const [opened] = performance.getEntriesByType("navigation");
  const url = new URL(opened?.name || location.href);
  return new URLSearchParams(url.pathname === location.pathname ? url.hash.slice(1) : "");
}
