// A phone in the room: follows the presenter by one stream of events, and votes.

const part = (id) => document.getElementById(id),
  here = location.pathname,
  frame = part("picture");
const DRAW = "Draw your prediction in the picture below.";
const SAID = {
  204: "Your vote is counted. You can change it until the answer is shown.",
  403: "Voting needs a cookie of this page: allow it, or open the page in another browser.",
  404: "This room has closed.",
  409: "This question is closed.",
  429: "Too many votes at once: wait a moment, then press again.",
};
let shown = { choices: [] },
  mine = {}, // choices by the question's number
  asked = "",
  picture = "",
  heard = false, // whether the picture has said how tall it is
  told = 0; // status of the last vote

async function vote(choice) {
  const number = shown.number,
    body = JSON.stringify({ question: number, [shown.draws ? "curve" : "choice"]: choice });
  told = await fetch(`${here}/vote`, { method: "POST", body }).then(
    ({ status }) => status,
    () => 1,
  );
  if (told === 204) mine[number] = choice;
  draw();
}

function choices() {
  const key = JSON.stringify([shown.number, shown.choices]);
  if (key === asked) return;
  asked = key;
  told = 0;
  part("asked").innerHTML = shown.asked;
  part("choices").replaceChildren(
    ...shown.choices.map((words, index) => {
      const button = document.createElement("button");
      button.innerHTML = `<span>${words}</span><b></b>`;
      button.onclick = () => vote(index);
      return button;
    }),
  );
}

function draw() {
  const own = mine[shown.number],
    votes = shown.votes ?? [],
    all = votes.reduce((sum, count) => sum + count, 0);
  for (const name of ["place", "title", "scenario"]) part(name).textContent = shown[name];
  choices();
  [...part("choices").children].forEach((button, index) => {
    button.disabled = shown.told;
    button.setAttribute("aria-pressed", index === own);
    button.className = index === shown.right ? "right" : "";
    button.style.setProperty("--share", all ? `${(100 * votes[index]) / all}%` : "0%");
    button.lastChild.textContent = shown.told ? (index === shown.right ? "✓ " : "") + votes[index] : "";
  });
  const reply = own !== undefined && own !== shown.right ? shown.replies?.[own] : "";
  if (shown.told) part("says").innerHTML = reply || "";
  else
    part("says").textContent = told
      ? (SAID[told] ?? "Not counted: press again.")
      : own === undefined
        ? shown.draws
          ? DRAW
          : ""
        : SAID[204];
  part("vote").hidden = !shown.number;
  part("making").hidden = !shown.making;
  move();
  frame.hidden = !shown.picture;
  if (shown.picture && shown.picture !== picture) {
    picture = shown.picture;
    load();
  }
}

/** The picture moves as the presenter's does. */
function move() {
  if (heard && shown.moment) frame.contentWindow.postMessage({ moment: shown.moment }, "*");
}

function load() {
  heard = false;
  frame.contentWindow.location.replace(`${here}/picture/${picture}`); // Back leads out of the room
}

function join() {
  const stream = new EventSource(`${here}/events`);
  stream.onopen = () => (part("line").textContent = `· room ${here.slice(1)}`);
  stream.onmessage = ({ data }) => {
    shown = JSON.parse(data);
    draw();
  };
  // all that the room knows: one that was started again has lost what was voted before
  stream.addEventListener("mine", ({ data }) => ([mine, told] = [JSON.parse(data), 0]));
  stream.onerror = () => {
    const gone = stream.readyState > 1; // closed for good: the answer was an error
    part("line").textContent = `· ${gone ? "room closed or full" : "connection lost"}, trying again…`;
    if (gone) setTimeout(join, 2e3 + 3e3 * Math.random());
  };
}

addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  if (data.curve && shown.draws) return vote(data.curve);
  if (!heard) {
    heard = true;
    move();
    if (shown.draws) frame.contentWindow.postMessage({ curve: mine[shown.number] }, "*");
  }
  if (data > 50) frame.style.height = `${Math.min(data, 9000)}px`;
});
// an answer that was lost on its way left a blank: ask again
frame.onload = () => picture && setTimeout(() => heard || load(), 1000);
join();
