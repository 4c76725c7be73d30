// How what is drawn in the browser hears from Streamlit.

/**
 * What Streamlit calls whenever the data or the theme change, without a word that the call before is over: what is
 * shown in a shadow root, a `Shown` with `update(data)` and `release()`, is made once. By a name the window offers
 * tests what they ask of it.
 */
export function showing(Shown, name = "") {
  const views = new WeakMap();
  return ({ data, parentElement, setStateValue }) => {
    if (!data) return undefined;
    const view = views.get(parentElement) ?? new Shown(parentElement);
    views.set(parentElement, view);
    view.setStateValue = setStateValue; // by which it tells the page something; a file has none
    view.update(data);
    if (name) window[name] = view.asked;
    return () => view.release();
  };
}
