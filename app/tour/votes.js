// Votes of the tour's steps: each choice counts; with the answer the right one is marked, and wrong ones are replied to.

for (const step of document.querySelectorAll(".step:has(.tell)")) {
  const answer = step.querySelector(".answer"),
    tell = step.querySelector(".tell"),
    choices = [...step.querySelectorAll("[data-choice]")];
  const show = () => {
    for (const choice of choices) {
      const right = choice.dataset.choice === "right";
      choice.classList.toggle("right", right && !answer.hidden);
      choice.nextElementSibling.hidden = right || answer.hidden || !choice.dataset.votes;
    }
  };
  for (const choice of choices) {
    choice.addEventListener("click", () => {
      const votes = 1 + Number(choice.dataset.votes ?? 0);
      choice.dataset.votes = votes;
      choice.querySelector("span").textContent = ` · ${votes} ${votes === 1 ? "vote" : "votes"}`;
      show();
    });
  }
  tell.addEventListener("click", () => {
    answer.hidden = !answer.hidden;
    tell.setAttribute("aria-expanded", String(!answer.hidden));
    show();
  });
}
