// How what is drawn in the browser hears from Streamlit.

const STEP = /[#&]step=(\d{1,5})\b/; // of a file that is to be opened there

/**
 * What Streamlit calls whenever the data or the theme change, without a word that the call before is over: what is
 * shown in a shadow root, a `Shown` with `update(data)` and `release()`, is made once.
 */
export function showing(Shown) {
  const views = new WeakMap();
  return ({ data, parentElement, setStateValue }) => {
    if (!data) return undefined;
    const there = views.get(parentElement);
    const view = there ?? new Shown(parentElement);
    views.set(parentElement, view);
    view.setStateValue = setStateValue; // by which it tells the page something; a file has none
    view.update(data);
    if (!there && !setStateValue)
      globalThis.addEventListener?.("message", ({ source, data: sent }) => {
        if (source === parent && sent?.moment) view.follow?.(sent.moment); // of a room's phone
        if (source !== parent || !sent?.beside) return; // of a file beside this one, whose clock it is now
        view.clock?.stop();
        view.meet?.(sent.beside);
      });
    const opened = there || setStateValue ? null : STEP.exec(location.hash);
    if (opened) view.seek(0);
    for (let step = 0; step < Number(opened?.[1] ?? 0); step += 1) view.step(1);
    return () => view.release();
  };
}
