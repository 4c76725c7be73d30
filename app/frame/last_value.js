// While keys move a slider quickly, the server is asked for its first value and its last. What lies between
// would be drawn, keep the browser busy, and so show the last one late. Only the browser knows of keys that
// wait while it draws: it hears them before its timers.

const QUICK = 350, // ms within which one key after another moves a slider quickly
  LATE = 1.5, // times as long as between the last two keys a further one is awaited,
  LEAST = 50, // ms at least, as a busy browser hears two at once,
  MOST = 80, // and at most: one that is held repeats sooner
  RERUN = 0x5a, // the first byte of a message that asks for a run; it says whole what all widgets hold
  KEYS = /^(Arrow|Page|Home$|End$)/;

/** From now on, of every socket of that prototype; `target` hears keys and pointers. */
export function awaitLast(prototype, target, now = () => performance.now()) {
  const send = prototype.send;
  let [before, last] = [-Infinity, -Infinity], // when keys have moved a slider
    held = null,
    timer;

  const release = () => {
    clearTimeout(timer);
    const ready = held;
    held = null;
    if (ready) send.call(ready.socket, ready.data);
  };
  const awaited = () => Math.min(Math.max(LATE * (last - before), LEAST), MOST);
  const look = () => {
    const left = last + awaited() - now();
    if (left > 0) timer = setTimeout(look, left);
    else release();
  };
  const other = () => {
    [before, last] = [-Infinity, -Infinity];
    release();
  };

  target.addEventListener(
    "keydown",
    ({ target: on, key }) => {
      if (on.type === "range" && KEYS.test(key)) [before, last] = [last, now()];
      else other();
    },
    true,
  );
  target.addEventListener("pointerdown", other, true);

  prototype.send = function (data) {
    const moving = last - before < QUICK && now() - last < awaited();
    clearTimeout(timer);
    if (data[0] !== RERUN || !moving) {
      if (data[0] === RERUN) held = null; // it says what this says, and less
      release();
      return send.call(this, data);
    }
    held = { socket: this, data };
    look();
  };
}
