// Tells the server how large the page's type is here, in pixels: it draws the charts to match.

const SETTLED = 300; // ms after the type's last change
const rooms = new WeakMap();

class Room {
  constructor(parent, told) {
    this.told = told;
    this.letter = document.createElement("div"); // as wide as the type: styles may come later than this does
    this.letter.style.cssText = "position: absolute; width: 1rem; visibility: hidden";
    parent.append(this.letter);
    this.observer = new ResizeObserver(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell(), SETTLED);
    });
    this.observer.observe(this.letter);
  }

  tell() {
    const type = Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize));
    if (type === this.told) return;
    this.told = type;
    this.set("type", type);
  }

  release() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.letter.remove();
  }
}

export default function show({ data, parentElement, setStateValue }) {
  const room = rooms.get(parentElement) ?? new Room(parentElement, data);
  rooms.set(parentElement, room);
  room.set = setStateValue;
  room.tell();
  return () => {
    room.release();
    rooms.delete(parentElement);
  };
}
