// Tells the server how large the page's type is here, in pixels: it draws the charts to match.

const SETTLED = 300; // ms after the last change of the window's size
const rooms = new WeakMap();

class Room {
  constructor(told) {
    this.told = told;
    this.onResize = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell(), SETTLED);
    };
    window.addEventListener("resize", this.onResize);
  }

  tell() {
    const type = Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize));
    if (type !== this.told) this.set("type", (this.told = type));
  }

  release() {
    clearTimeout(this.timer);
    window.removeEventListener("resize", this.onResize);
  }
}

export default function ({ data, parentElement, setStateValue }) {
  let room = rooms.get(parentElement);
  if (!room) rooms.set(parentElement, (room = new Room(data)));
  room.set = setStateValue;
  room.tell();
  return () => room.release();
}
