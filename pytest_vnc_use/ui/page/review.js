// The drifts of earlier runs, as of a CI job, or what a commit changes, in groups: what one group shows is the same
// difference in each of its tests.

import { fillDiff } from "./approve.js";
import { crop } from "./screens.js";

const $ = (id) => document.getElementById(id);

/** Show the groups; `choose` opens the question of a group, `replay` runs its tests here. */
export function renderGroups({ groups, left_out, revisions = "", texts = [] }, canReplay, choose, replay) {
  $("ci").hidden = !groups.length && !left_out.length && !revisions;
  const title = revisions ? `Recordings changed by ${revisions}` : "Runs to review";
  $("ci-heading").textContent = `${title}: ${groups.length} ${groups.length === 1 ? "difference" : "differences"} on the screen`;
  $("texts").replaceChildren(...texts.map(text));
  $("groups").replaceChildren(...groups.map((group) => card(group, canReplay, choose, replay)));
  $("left-out").replaceChildren(...left_out.map((text) => createElement("li", text)));
  $("left-out-heading").hidden = !left_out.length;
}

/** What changed in one recording beside its screens. */
function text({ test, diff, accepted }) {
  const item = createElement("li");
  const lines = createElement("pre");
  lines.className = "diff";
  fillDiff(lines, diff || "only screens changed");
  item.append(createElement("h3", test), lines, ...accepted.map((sentence) => createElement("p", sentence)));
  return item;
}

function card(group, canReplay, choose, replay) {
  const item = createElement("li");
  const shot = createElement("div");
  shot.className = "shot";
  const image = Object.assign(new Image(), { src: group.urls[1], alt: "what the run showed", onload: () => crop(image, group.boxes, false, group.boxes) });
  shot.append(image);
  const facts = createElement("div");
  const count = group.tests.length;
  facts.append(createElement("h3", group.diff ? "1 test that a model continued" : `${count} ${group.about === "commit" ? "screen" : "test"}${count === 1 ? "" : "s"}`), createElement("p", group.problem));
  const tests = createElement("ul");
  tests.append(...group.tests.map(({ test, result }) => createElement("li", result ? `${test}: ${result}` : test)));
  const controls = createElement("div");
  controls.className = "controls";
  const review = createElement("button", group.about === "commit" ? "Look…" : "Review…");
  review.onclick = () => choose(group.id);
  review.dataset.key = `review ${group.id}`;
  review.disabled = group.tests.every(({ result }) => /^(accepted|masked)/.test(result));
  controls.append(review);
  const accepted = group.tests.filter(({ result }) => /^(accepted|masked)/.test(result)).flatMap(({ replayed }) => replayed);
  if (accepted.length) {
    const again = createElement("button", "Replay here");
    again.title = "Replay these tests on this machine, and ask about what comes after that gate";
    again.disabled = !canReplay;
    again.dataset.key = `replay ${group.id}`;
    again.onclick = () => replay(accepted);
    controls.append(again);
  }
  facts.append(tests, controls);
  item.append(shot, facts);
  return item;
}

function createElement(name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
