// What the presenter sees of the room: how many phones are here, how they vote, and what to do where none comes.

import { plural } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";

const HEARD = "room/live", // from the document's own address
  CROWD = 10; // phones of one address that are told
const hearing = new Set(); // all that are shown in this window hear one stream
let stream,
  heard = null,
  since = 0; // ms of this window's clock at which the room was first led

function hear(data) {
  heard = JSON.parse(data);
  since = performance.now() - 1000 * heard.waited;
  for (const live of hearing) live.draw();
}

function join(live) {
  hearing.add(live);
  if (stream) return;
  stream = new EventSource(HEARD);
  stream.onmessage = ({ data }) => hear(data);
}

function leave(live) {
  hearing.delete(live);
  if (hearing.size) return;
  stream.close();
  stream = null;
}

const OFTEN = 150, // ms between two moments of a picture that is dragged, for phones to follow
  SELDOM = 2000; // and of one that plays, as theirs play too
let passed = { at: 0, part: null, rest: "" },
  waiting;

/** Passes the moment of the picture in this window on to the phones. */
function pass(moment) {
  clearTimeout(waiting);
  const { part, ...others } = moment,
    rest = JSON.stringify(others),
    now = performance.now();
  if (rest === passed.rest && part === passed.part) return;
  const left = rest === passed.rest ? passed.at + (moment.playing ? SELDOM : OFTEN) - now : 0;
  if (left > 0) {
    waiting = setTimeout(pass, left, moment);
    return;
  }
  passed = { at: now, part, rest };
  fetch(HEARD, { method: "POST", body: JSON.stringify(moment) }).catch(() => {}); // the next one may arrive
}

/** A class behind one access point looks so, and so does one script that plays many phones. */
function crowd(count) {
  return count >= CROWD ? ` (${count.toLocaleString("en")} from one address)` : "";
}

function element(name, words, kind = "") {
  const made = document.createElement(name);
  made.textContent = words;
  made.className = kind;
  return made;
}

class Live {
  constructor(parent) {
    this.root = parent.querySelector(".live");
    this.part = (name) => this.root.querySelector(`.${name}`);
  }

  update(data) {
    join(this);
    this.data = data;
    this.root.dataset.view = data.view;
    if (data.view === "badge") window.attentionRoom = data.leads ? pass : undefined;
    const { link, code, qr } = data;
    if (this.qr !== qr) this.part("qr").innerHTML = this.qr = qr;
    this.part("link").replaceChildren(link.slice(0, -code.length), element("b", code));
    this.draw();
  }

  draw() {
    const { data } = this;
    if (!data) return;
    const alone = heard && !heard.joined,
      left = 1000 * data.patience - (performance.now() - since);
    clearTimeout(this.timer);
    if (alone && left > 0) this.timer = setTimeout(() => this.draw(), left);
    const troubled = alone && left <= 0;
    this.part("count").textContent = this.counted(troubled);
    this.trouble(troubled ? data.trouble : []);
    this.tally();
  }

  counted(troubled) {
    const { view, code, leads } = this.data,
      before = view === "badge" ? `Room ${code} · ` : "";
    if (view !== "lectern" && !leads)
      return before + "another window leads the room; p twice leads it from here";
    if (!heard) return before;
    if (troubled && view === "badge") return before + "no phone yet: press a";
    const votes = heard.votes.reduce((sum, count) => sum + count, 0),
      phones = plural(heard.phones, "phone") + crowd(heard.crowd);
    return before + phones + (heard.asks ? ` · ${plural(votes, "vote")}${crowd(heard.pressed)}` : "");
  }

  trouble(sentences) {
    const key = sentences.join("\n");
    if (this.troubles === key) return;
    this.troubles = key;
    const [first, ...others] = sentences,
      list = document.createElement("ul");
    list.append(...others.map((words) => element("li", words)));
    this.part("trouble").replaceChildren(...(first ? [element("p", first), list] : []));
  }

  /** The histogram, for the lecturer alone: it grows before the answer is shown. */
  tally() {
    if (this.data.view !== "lectern" || !heard) return;
    const all = Math.max(
      1,
      heard.votes.reduce((sum, count) => sum + count, 0),
    );
    this.part("tally").replaceChildren(
      ...heard.choices.map((words, index) => {
        const line = element("li", "", index === heard.right ? "right" : ""),
          name = document.createElement("span");
        name.innerHTML = words;
        line.style.setProperty("--share", `${(100 * heard.votes[index]) / all}%`);
        line.append(name, element("span", heard.votes[index]));
        return line;
      }),
    );
  }

  release() {
    clearTimeout(this.timer);
    if (this.data?.view === "badge") window.attentionRoom = undefined;
    leave(this);
  }
}

export default showing(Live);
