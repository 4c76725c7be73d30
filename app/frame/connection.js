// What happens where the connection to the server is lost: our own words say what to do, and once it is back a run
// is asked for. A server that was started again has a session that knows nothing: its first run takes what the
// address says, and a control that was moved before that run would have been moved for nothing.

import { APP, CONNECTION } from "../canvas/streamlit.js";

const SOON = 1500; // ms that a connection may be away unsaid
const WORDS =
  "The connection to the dashboard is lost. Pictures still play; controls wait. It comes back by itself. If it " +
  "does not, see whether the dashboard still runs in its terminal and whether this device is in its network; " +
  "then reload this page.";

/** From now on; `ask` asks for a run. */
export function watchConnection(ask) {
  const app = document.querySelector(APP);
  let lost = false,
    timer;

  const tell = () => {
    const words = document.createElement("p");
    words.id = "connection-lost"; // which Streamlit's own dialog makes way for
    words.role = "alert";
    words.textContent = WORDS;
    document.body.append(words);
  };
  const look = () => {
    const connected = app.getAttribute(CONNECTION) === "CONNECTED";
    if (connected !== lost) return;
    lost = !connected;
    clearTimeout(timer);
    if (lost) timer = setTimeout(tell, SOON);
    else {
      document.getElementById("connection-lost")?.remove();
      ask();
    }
  };
  new MutationObserver(look).observe(app, { attributeFilter: [CONNECTION] });
}
