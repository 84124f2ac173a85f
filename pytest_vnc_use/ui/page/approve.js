// Actions that wait for approval: the screen with the action's points, the action, the model's reason, and the rule.

const $ = (id) => document.getElementById(id);
const later = new Set(); // what the user puts off stays in the list behind the button of the header
let shown = "";
let reply = () => {};

/** Show the first action that waits, unless another dialog is open; `answer` takes a question's id and the answer. */
export function renderApprovals(questions, answer) {
  reply = answer;
  $("approvals").hidden = !questions.length;
  $("approvals").textContent = `Approve (${questions.length})`;
  const question = questions.find((each) => !later.has(each.id));
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
    ["the model says", question.explanation], ["ruled by", question.rule],
  ].filter(([, value]) => value !== "");
  $("approval-facts").replaceChildren(...facts.flatMap(([name, value]) => [made("dt", name), made("dd", String(value))]));
  $("approval-screen").hidden = !question.image;
  $("approval-image").src = question.image ? `data:image/png;base64,${question.image}` : "data:,";
  $("approval-screen").querySelectorAll(".point").forEach((point) => point.remove());
  for (const [x, y] of question.points) {
    const point = made("span", "");
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
    const row = made("span", `${line}\n`);
    row.className = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    return row;
  }));
}

function made(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

/** Show what a command has printed, and for which run. */
export function renderResult({ run, text }) {
  $("told").hidden = false;
  $("told-text").textContent = [run.split("/").at(-1), text].filter(Boolean).join("\n");
}

document.querySelectorAll("[data-approve]").forEach((button) => {
  button.onclick = () => {
    const id = $("approval").dataset.question;
    if (button.dataset.approve === "later") putOff(id);
    else reply(id, button.dataset.approve);
  };
});

function putOff(id) {
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
  putOff($("approval").dataset.question);
};
$("told-close").onclick = () => { $("told").hidden = true; };

/** Take back what was put off; the page then renders again. */
export function showAll() {
  later.clear();
}
