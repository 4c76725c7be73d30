// Votes of the tour's steps: each choice counts, and the right one is marked with the answer.

for (const step of document.querySelectorAll(".step")) {
  const answer = step.querySelector(".answer"),
    tell = step.querySelector(".tell");
  for (const choice of step.querySelectorAll("[data-choice]")) {
    choice.addEventListener("click", () => {
      const votes = 1 + Number(choice.dataset.votes ?? 0);
      choice.dataset.votes = votes;
      choice.querySelector("span").textContent = ` · ${votes} ${votes === 1 ? "vote" : "votes"}`;
    });
  }
  tell.addEventListener("click", () => {
    answer.hidden = !answer.hidden;
    tell.setAttribute("aria-expanded", String(!answer.hidden));
    step.querySelector(`[data-choice="${step.dataset.right}"]`)?.classList.toggle("right", !answer.hidden);
  });
}
