// The lecturer's own window: what the audience sees, what comes next, and the time. Windows of one browser
// talk over a channel: the one that is presented tells what it shows, the lecturer's passes its keys on.

import { showing } from "../canvas/view.js";

const CHANNEL = "attention lectern",
  TURNS = ["ArrowRight", "ArrowLeft", "PageDown", "PageUp", " ", "1", "2", "3", "4", "5"],
  MINUTE = 60;

const clock = (seconds) =>
  `${Math.floor(seconds / MINUTE)}:${String(Math.floor(seconds % MINUTE)).padStart(2, "0")}`;

/** The window that is presented: says what it shows, also to a lecturer's window that opens later. */
class Stage {
  update({ told }) {
    if (!told) return this.release();
    this.told = told;
    this.channel ??= new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => {
      if (data.ask) this.tell();
      if (data.key) window.dispatchEvent(new KeyboardEvent("keydown", { key: data.key }));
    };
    this.tell();
  }

  tell() {
    this.channel.postMessage({ shown: this.told });
  }

  release() {
    this.channel?.close();
    this.channel = null;
  }
}

/** The lecturer's window. */
class Lectern {
  constructor(parent) {
    this.part = (name) => parent.querySelector(`[data-is="${name}"]`);
    this.press = (event) => this.pressed(event);
  }

  update() {
    if (this.channel) return;
    this.channel = new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => data.shown && this.follow(data.shown);
    window.addEventListener("keydown", this.press);
    this.beat = setInterval(() => this.tick(), 250);
    this.channel.postMessage({ ask: true });
    this.tick();
  }

  follow({ now, next, place, question = "", answer = "", votes = "", notes = "", minutes = 0, until = 0 }) {
    if (this.place && this.place !== place) this.started ??= performance.now(); // the lecture begins
    this.place = place;
    for (const [name, words] of Object.entries({ now, next, question, answer, votes, place }))
      this.part(name).textContent = words;
    this.part("notes").innerHTML = notes;
    this.until = MINUTE * until;
    this.part("plan").textContent = minutes
      ? `${minutes} min for this step, until ${clock(this.until)}.`
      : "";
    this.tick();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !TURNS.includes(event.key)) return;
    event.preventDefault();
    this.channel.postMessage({ key: event.key });
  }

  elapsed() {
    return this.started ? (performance.now() - this.started) / 1000 : 0;
  }

  tick() {
    const late = this.until ? this.elapsed() - this.until : 0;
    this.part("late").textContent = late >= 1 ? `${clock(late)} late` : "";
    this.part("time").textContent = clock(this.elapsed());
    this.part("clock").textContent = new Date().toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
    });
  }

  release() {
    clearInterval(this.beat);
    window.removeEventListener("keydown", this.press);
    this.channel.close();
    this.channel = null;
  }
}

export const stage = showing(Stage);
export default showing(Lectern);
