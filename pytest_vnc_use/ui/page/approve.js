// Actions that wait for approval: the screen with the action's points, the action, the model's reason, and the rule.

const $ = (id) => document.getElementById(id);
const later = new Set(); // what the user postpones stays in the list behind the button of the header
let shown = "";
let reply = () => {};

/** Show the first action that waits, unless another dialog is open; `answer` takes a question's id and the answer. */
export function renderApprovals(questions, answer) {
  reply = answer;
  $("approvals").hidden = !questions.length;
  $("approvals").textContent = `Approve (${questions.length})`;
  const question = questions.find(({ id }) => !later.has(id));
  if (!question) {
    shown = "";
    if ($("approval").open) $("approval").close();
    return;
  }
  const text = JSON.stringify(question);
  if (shown === text || (!$("approval").open && document.querySelector("dialog[open]"))) return;
  shown = text;
  fill(question);
  if (!$("approval").open) $("approval").showModal();
}

function fill(question) {
  $("approval").dataset.question = question.id;
  $("approval-action").textContent = question.action;
  const facts = [
    ["test", question.test], ["task", question.task], ["step", question.step], ["action", question.call],
    ["the model's explanation", question.explanation], ["ruled by", question.rule],
  ].filter(([, value]) => value !== "");
  $("approval-facts").replaceChildren(...facts.flatMap(([name, value]) => [createElement("dt", name), createElement("dd", String(value))]));
  $("approval-screen").hidden = !question.image;
  $("approval-image").src = question.image ? `data:image/png;base64,${question.image}` : "data:,";
  $("approval-screen").querySelectorAll(".point").forEach((point) => point.remove());
  for (const [x, y] of question.points) {
    const point = createElement("span", "");
    point.className = "point";
    point.style.left = `${(100 * (x + 0.5)) / question.size[0]}%`;
    point.style.top = `${(100 * (y + 0.5)) / question.size[1]}%`;
    $("approval-screen").append(point);
  }
  $("approval-always").disabled = !question.diff;
  $("approval-reason").textContent = question.reason ? `Allow always: ${question.reason}` : "";
  $("approval-rule").hidden = true;
  fillDiff($("approval-diff"), question.diff);
}

/** Show the lines of a diff. */
export function fillDiff(element, diff) {
  element.replaceChildren(...diff.split("\n").map((line) => {
    const row = createElement("span", `${line}\n`);
    row.className = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    return row;
  }));
}

function createElement(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

/** Show what a command has printed, and for which run. */
export function renderResult({ run, text }) {
  $("output").hidden = false;
  $("output-text").textContent = [run.split("/").at(-1), text].filter(Boolean).join("\n");
}

document.querySelectorAll("[data-approve]").forEach((button) => {
  button.onclick = () => {
    const id = $("approval").dataset.question;
    if (button.dataset.approve === "later") postpone(id);
    else reply(id, button.dataset.approve);
  };
});

function postpone(id) {
  later.add(id);
  shown = "";
  $("approval").close();
}

$("approval-always").onclick = () => {
  $("approval-rule").hidden = false;
  $("approval-rule").querySelector("button").focus();
};
$("approval").oncancel = (event) => {
  event.preventDefault();
  postpone($("approval").dataset.question);
};
$("output-close").onclick = () => { $("output").hidden = true; };

/** Show the postponed actions again; the page then renders. */
export function showAll() {
  later.clear();
}
