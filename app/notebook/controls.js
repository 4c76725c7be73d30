// Sliders of values, and what the kernel answers on its way to the picture's frame in the same document.

function field({ name, options, value }, moved) {
  const label = document.createElement("label");
  const number = document.createElement("output");
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: options.length - 1, value: options.indexOf(value) });
  Object.assign(label.style, {
    display: "inline-flex",
    alignItems: "center",
    gap: "6px",
    marginRight: "18px",
  });
  const tell = () => (number.textContent = options[slider.value].toLocaleString("en-US"));
  slider.addEventListener("input", tell);
  slider.addEventListener("change", () => moved(name, options[slider.value]));
  tell();
  label.append(name, slider, number);
  return label;
}

function render({ model, el }) {
  const said = document.createElement("small");
  const moved = (name, value) => {
    said.textContent = "asking the kernel …";
    model.set("values", { ...model.get("values"), [name]: value });
    model.save_changes();
  };
  const frame = () => document.querySelector(`iframe[name="${model.get("frame")}"]`);
  el.append(...model.get("fields").map((each) => field(each, moved)), document.createElement("br"), said);
  const tell = () =>
    (said.textContent = frame() ? model.get("said") : "The picture of these sliders is not on this page.");
  model.on("change:said", tell);
  model.on("change:data", () => {
    const { buffer, byteOffset, byteLength } = model.get("data");
    frame()?.contentWindow.postMessage(
      new Uint8Array(buffer.slice(byteOffset, byteOffset + byteLength)),
      "*",
    );
  });
  model.on("change:document", () => {
    if (frame()) frame().srcdoc = model.get("document");
  });
  tell();
}

export default { render };
