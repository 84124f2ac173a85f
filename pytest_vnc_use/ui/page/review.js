// The drifts of earlier runs, as of a CI job, or what a commit changes, in groups: what one group shows is the same
// difference in each of its tests.

import { fillDiff } from "./approve.js";
import { crop } from "./screens.js";

const $ = (id) => document.getElementById(id);

const isAccepted = ({ result }) => /^(accepted|masked)/.test(result);
export const canAccept = (group) => !group.moved.length && !group.tests.every(isAccepted);
const isOpen = ({ about, tests }) => about !== "commit" && tests.some(({ result }) => !result);

/** Return the first group without an answer after another one, else the first; undefined if there is none. */
export function nextOpen(groups, id) {
  const number = groups.findIndex((group) => group.id === id);
  return [...groups.slice(number + 1), ...groups.slice(0, Math.max(number, 0))].find(isOpen);
}

/** Show how far the rounds are; `start` starts the next one, with so many tests at once. */
export function renderRounds(rounds, canReplay, canDistribute, start) {
  $("rounds").hidden = !rounds;
  if (!rounds) return;
  const { number, is_running, due, passed, left, bugs } = rounds;
  const round = is_running ? `Round ${number} runs. ` : number ? `After round ${number}: ` : "";
  const counts = [`${passed} ${passed === 1 ? "test passes" : "tests pass"} now`, `${left} left`, `${bugs} with a bug`];
  $("rounds-text").textContent = `${round}${counts.join(", ")}.`;
  $("replay-these").textContent = due ? `Replay these (${due} ${due === 1 ? "test" : "tests"})` : "Replay these";
  $("replay-these").disabled = !canReplay || !due;
  $("at-once").disabled = !canDistribute;
  $("no-xdist").hidden = canDistribute;
  $("replay-these").onclick = () => start(canDistribute ? Math.max(1, Math.trunc($("at-once").valueAsNumber) || 1) : 1);
}

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

/** Return the card of a group; one that is as before stays, with its images. */
function card(group, canReplay, choose, replay) {
  const known = JSON.stringify([group, canReplay]);
  const before = [...$("groups").children].find((item) => item.dataset.facts === known);
  if (before) return before;
  const item = createElement("li");
  item.dataset.facts = known;
  const shots = createElement("div");
  shots.className = "shots";
  if (group.about === "commit") shots.append(shot(group, 1, "what the run showed"));
  else {
    item.tabIndex = 0; // so that a key can answer it
    item.dataset.key = `group ${group.id}`;
    shots.append(figure(shot(group, 0, "the recorded screen"), "recorded"), figure(shot(group, 1, "what the run showed"), group.transient ? "in between" : "now"));
  }
  const facts = createElement("div");
  facts.className = "facts";
  facts.append(createElement("h3", heading(group)), createElement("p", group.problem));
  facts.append(...group.acts.map((act) => createElement("p", `The recording acts there: ${act}`)));
  const tests = createElement("ul");
  tests.append(...group.tests.map(({ test, result }) => createElement("li", result ? `${test}: ${result}` : test)));
  const controls = createElement("div");
  controls.className = "controls";
  const review = createElement("button", group.about === "commit" ? "Look…" : "Review…");
  review.onclick = () => choose(group.id);
  review.dataset.key = `review ${group.id}`;
  review.disabled = group.tests.every(isAccepted);
  controls.append(review);
  const accepted = group.tests.filter(isAccepted).flatMap(({ replayed }) => replayed);
  if (accepted.length && group.about === "ci") {
    const again = createElement("button", "Replay here");
    again.title = "Replay these tests on this machine, and ask about what comes after that gate";
    again.disabled = !canReplay;
    again.dataset.key = `replay ${group.id}`;
    again.onclick = () => replay(accepted);
    controls.append(again);
  }
  facts.append(tests, controls);
  item.append(shots, facts);
  return item;
}

function heading(group) {
  const count = group.tests.length;
  const tests = `${count} ${group.about === "commit" ? "screen" : "test"}${count === 1 ? "" : "s"}`;
  if (group.claim) return `Does this hold now: ${group.claim} (${tests}, round ${group.round})`;
  if (group.diff) return "1 test that a model continued";
  if (group.transient) return `${tests}, shown briefly`;
  return group.about === "round" ? `${tests}, round ${group.round}` : tests;
}

/** An image of a group, cut to its differences. */
function shot(group, number, alt) {
  const element = createElement("div");
  element.className = "shot";
  const image = Object.assign(new Image(), { src: group.urls[number], alt, onload: () => crop(image, group.boxes, false, group.boxes) });
  element.append(image);
  return element;
}

function figure(content, caption) {
  const element = createElement("figure");
  element.append(createElement("figcaption", caption), content);
  return element;
}

function createElement(name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
