import { fillDiff, renderApprovals, renderResult, showAll } from "./approve.js";
import { renderClaim, renderRecord } from "./record.js";
import { canAccept, nextOpen, renderGroups, renderRounds } from "./review.js";
import { crop, drawFrame, listSteps, screenOf, show } from "./screens.js";

const $ = (id) => document.getElementById(id);
const tests = new Map();
const questions = new Map();
const session = { can_run: false, can_distribute: false, is_running: false, is_paused: false, problem: "" };
const STARTS = "its desktop and program start, please wait"; // what a test does before its first task
let selected = "";
let socket = null;
let ci = { groups: [], left_out: [] };
let finished = ""; // what the page says once the command has ended
let acts = []; // what the dialog says that the recording does there
let chosen = ""; // the group of CI's drifts that the dialog shows
let followsRunning = true; // the large screen shows the newest running test until the user selects one

const send = (message) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));

async function start() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", location.pathname);
    const answer = await fetch("login", { method: "POST", body: token });
    if (!answer.ok && !(await canConnect())) return status(await answer.text());
  }
  connect();
}

const canConnect = () => new Promise((resolve) => {
  const probe = new WebSocket(pageUrl());
  probe.onopen = () => { probe.close(); resolve(true); };
  probe.onerror = () => resolve(false);
});

const pageUrl = () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/page`;

function connect() {
  socket = new WebSocket(pageUrl());
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => (typeof data === "string" ? handleMessage(JSON.parse(data)) : showFrame(data));
  socket.onclose = () => {
    status(finished || "Not connected: connecting again. Or open the URL that the terminal shows.");
    if (!finished) setTimeout(connect, 2000);
  };
}

function status(text) {
  $("status").textContent = text;
}

function handleMessage(message) {
  switch (message.type) {
    case "state":
      tests.clear();
      questions.clear();
      message.tests.forEach((test) => tests.set(test.id, test));
      message.questions.forEach((question) => questions.set(question.id, question));
      Object.assign(session, message);
      break;
    case "tests":
      message.tests.forEach((test) => tests.set(test.id, test));
      break;
    case "session":
      Object.assign(session, message);
      break;
    case "test": {
      const previous = tests.get(message.id) ?? { steps: [] };
      const begins = message.state === "running" && previous.state !== "running";
      tests.set(message.id, { ...previous, ...message });
      if (begins && followsRunning) selected = message.id;
      break;
    }
    case "step": {
      const test = tests.get(message.test);
      if (!test) break;
      test.steps = [...test.steps.filter((step) => step.number !== message.number), message];
      break;
    }
    case "recorded":
      if (questions.has(message.id)) {
        const { steps, notice, crops } = message;
        const question = questions.get(message.id);
        Object.assign(question, { steps, notice, crops: { ...question.crops, ...crops } });
      }
      break;
    case "question":
      questions.set(message.id, message);
      break;
    case "answered":
      questions.delete(message.id);
      break;
    case "groups":
      ci = message;
      break;
    case "result":
      renderResult(message);
      break;
    case "finished":
      finished = "The command has ended. You can close this page.";
      document.body.classList.add("finished");
      renderResult({ run: "", text: message.text });
      break;
  }
  schedule();
}

function showFrame(buffer) {
  const test = drawFrame(buffer);
  if (!screenOf(test).canvas.isConnected) schedule();
}

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(renderUnlessPressed);
}

function renderUnlessPressed() {
  if (document.querySelector("button:active")) return requestAnimationFrame(renderUnlessPressed); // else its click is lost
  scheduled = false;
  render();
}

function createElement(name, text = "", properties = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  return Object.assign(element, properties);
}

const running = () => [...tests.values()].filter((test) => test.state === "running");
const isBad = (test) => test.state === "failed" || test.state === "error";

function render() {
  const focused = document.activeElement?.dataset?.key;
  if (!tests.has(selected)) selected = running()[0]?.id ?? tests.keys().next().value ?? "";
  const all = [...tests.values()];
  const count = (state) => all.filter((test) => test.state === state).length;
  const bad = all.filter(isBad).length;
  const figures = [[count("passed"), "passed"], [bad, "failed"], [running().length, "running"]];
  const text = figures.filter(([number]) => number).map(([number, word]) => `${number} ${word}`).join(", ");
  if (socket?.readyState === WebSocket.OPEN) {
    status(`${all.length} ${all.length === 1 ? "test" : "tests"}${text ? `: ${text}` : ""}${session.is_running ? "" : `; ${session.problem || "no session runs"}`}`);
  }
  $("run-all").hidden = $("run-failed").hidden = !session.can_run;
  $("run-all").disabled = session.is_running;
  $("run-failed").disabled = session.is_running || !bad;
  $("stop").disabled = !session.is_running;
  $("pause").setAttribute("aria-pressed", session.is_paused);
  renderTests(all);
  const open = [...questions.values()];
  if (!renderRecord(open.find(({ about }) => about === "record"), send, (id) => tests.get(id)?.state === "running")) renderScreen();
  renderClaim(open.find(({ about }) => about === "claim"), send);
  renderChoice(open.find(({ about }) => about === "choice"));
  renderQuestion();
  renderGroups(ci, session.can_run && !session.is_running, (id) => { chosen = id; schedule(); }, (ids) => send({ type: "run", tests: ids, accept: true }));
  renderRounds(ci.rounds, session.can_run && !session.is_running, session.can_distribute, (count) => { followsRunning = true; send({ type: "replay", at_once: count }); });
  const approvals = open.filter(({ about }) => about === "approval");
  renderApprovals(approvals, (id, kind) => send({ type: "answer", id, kind }));
  if (focused && document.activeElement === document.body) { // its list was rendered again
    [...document.querySelectorAll("[data-key]")].find((button) => button.dataset.key === focused)?.focus({ preventScroll: true });
  }
}

function renderTests(all) {
  const filter = $("filter").value.toLowerCase();
  const rows = [];
  let file = null;
  for (const test of all.filter(({ id }) => id.toLowerCase().includes(filter))) {
    const [path, ...names] = test.id.split("::");
    if (path !== file) {
      file = path;
      const row = createElement("li", path, { className: "file" });
      if (session.can_run) row.append(runButton(path, [path]));
      rows.push(row);
    }
    const row = createElement("li");
    const state = test.is_waiting ? "waiting" : test.state;
    const choose = createElement("button", "", { onclick: () => { selected = test.id; followsRunning = false; schedule(); } });
    choose.dataset.key = `choose ${test.id}`;
    choose.setAttribute("aria-current", String(test.id === selected));
    choose.append(createElement("span", state || "not run", { className: `mark ${state}` }), names.join("::"));
    row.append(choose);
    if (session.can_run) row.append(runButton(names.join("::"), [test.id]));
    if (session.can_run && test.is_recorded) row.append(editButton(names.join("::"), test.id));
    rows.push(row);
  }
  $("tests").replaceChildren(...rows);
}

function runButton(name, ids) {
  const button = createElement("button", "Run", { disabled: session.is_running, onclick: () => run(ids) });
  button.setAttribute("aria-label", `Run ${name}`);
  button.dataset.key = `run ${ids[0]}`;
  return button;
}

function editButton(name, id) {
  const button = createElement("button", "Edit", {
    disabled: session.is_running, title: "Replay it, and act before its first step or another one", onclick: () => { followsRunning = true; send({ type: "edit", test: id }); } });
  button.setAttribute("aria-label", `Edit ${name}`);
  button.dataset.key = `edit ${id}`;
  return button;
}

function run(ids) {
  followsRunning = true;
  send({ type: "run", tests: ids });
}

function renderScreen() {
  const test = tests.get(selected);
  $("screen-heading").textContent = test ? selected : "No test selected";
  $("task").textContent = test?.task ?? "";
  const isAsked = [...questions.values()].some((question) => question.about === undefined && question.test === selected);
  const doing = isAsked ? "waits for your answer" : test?.is_waiting ? "paused before this step" : test?.doing || (test?.task ? "" : STARTS);
  $("doing").textContent = test?.state === "running" ? doing : "";
  $("next").disabled = !test?.is_waiting;
  const steps = [...(test?.steps ?? [])].sort((one, other) => one.number - other.number);
  if (test) show($("large"), selected, test.state === "running" ? steps.at(-1)?.points : []);
  $("others").replaceChildren(...running().filter(({ id }) => id !== selected).map(thumbnail));
  listSteps($("steps"), steps.map(({ number, caption, error, is_done, crop }) => (
    { number, text: `${caption}${error ? `: ${error}` : ""}${is_done ? "" : " …"}`, crop: crop ?? "" })));
  renderPlan(test, steps.length);
  const facts = test ? [
    ["result", test.state], ["triage", test.triage], ["message", test.message], ["claim", test.claim],
    ["verdict", test.verdict], ["reason", test.reason], ["draft", test.state === "running" ? "" : test.draft],
    ["seconds", test.seconds],
    ["cost", test.dollars ? `$${test.dollars.toFixed(4)}` : ""],
  ] : [];
  const shown = facts.filter(([, value]) => value !== undefined && value !== "");
  $("result").replaceChildren(...shown.flatMap(([name, value]) => [createElement("dt", name), createElement("dd", String(value))]));
}

/** Show the recorded steps that a replay has not reached, each with a button that has it stop there. */
function renderPlan(test, done) {
  const plan = test?.state === "running" && test.plan ? test.plan.slice(done) : [];
  $("plan").hidden = !plan.length;
  const facts = `${test?.id} ${done} ${plan.length} ${test?.stops}`;
  if ($("plan").dataset.facts === facts) return;
  $("plan").dataset.facts = facts;
  $("plan-steps").replaceChildren(...plan.map(({ gate, text, image }) => {
    const on = !(test.stops ?? []).includes(gate);
    const button = createElement("button", on ? "Stop before it" : "Will stop before it", { onclick: () => send({ type: "stop_before", test: test.id, gate, on }) });
    button.setAttribute("aria-pressed", String(!on));
    button.dataset.key = `stop ${gate}`;
    const item = createElement("li", "");
    item.append(Object.assign(new Image(), { src: `data:image/webp;base64,${image}`, alt: "" }), createElement("p", text), button);
    return item;
  }));
}

function thumbnail(test) {
  const item = createElement("li");
  const button = createElement("button", test.id.split("::").slice(1).join("::"), { onclick: () => { selected = test.id; followsRunning = false; schedule(); } });
  button.dataset.key = `other ${test.id}`;
  const screen = createElement("div", "", { className: "screen" });
  screen.append(screenOf(test.id).canvas);
  item.append(screen, button);
  return item;
}

function renderQuestion() {
  const question = [...questions.values()].find(({ about }) => about === undefined)
    ?? ci.groups.find(({ id }) => id === chosen);
  if (!question) {
    $("question").dataset.id = "";
    if ($("question").open) $("question").close();
    return;
  }
  if ($("question").dataset.id === question.id) return;
  $("question").dataset.id = question.id;
  const isOfCommit = question.about === "commit"; // no user answers
  const isOfCi = isOfCommit || question.about === "ci" || question.about === "round";
  const isHeal = Boolean(question.diff);
  $("question-heading").textContent = question.claim ? `Does this hold now: ${question.claim}` : isHeal ? "A model continued this test in CI" : isOfCommit ? "The recorded screen changed" : question.transient ? "The screen showed this briefly" : `The screen differs from its recording${question.boxes.length > 1 ? `, in ${question.boxes.length} places` : ""}`;
  $("question-diff").hidden = !isHeal;
  fillDiff($("question-diff"), question.diff ?? "");
  $("whole").setAttribute("aria-pressed", String(Boolean(question.claim)));
  $("question-test").textContent = isOfCi ? question.tests.map(({ test }) => test).join("\n") : question.test;
  $("question-problem").textContent = question.problem;
  acts = question.acts;
  const hints = [...acts.map((act) => `The recording acts there: ${act}`), ...question.moved.map((target) => `It cannot be accepted: ${target}.`)];
  $("question-acts").replaceChildren(...hints.map((hint) => createElement("li", hint)));
  ["recorded", "now", "difference"].forEach((id, number) => {
    $(id).onload = () => cropped($(id), question.boxes);
    $(id).src = isOfCi ? question.urls[number] : `data:image/png;base64,${question.images[number]}`;
  });
  $("whole").onclick = () => {
    $("whole").setAttribute("aria-pressed", String(!isWhole()));
    $("pair").querySelectorAll(".shot img").forEach((image) => cropped(image, question.boxes));
  };
  const answer = (kind) => document.querySelector(`[data-answer="${kind}"]`);
  answer("accept").disabled = question.moved.length > 0;
  answer("accept").textContent = question.claim ? "Yes, it holds" : isHeal ? "Accept: record these steps" : question.transient ? "Accept: it may show" : "Accept: the screen now is right";
  answer("no").textContent = isHeal ? "Reject" : isOfCi ? "Leave it" : "No";
  $("later").hidden = !isOfCi;
  $("later").textContent = isOfCommit ? "Close" : "Later";
  $("recorded-name").textContent = isOfCommit ? "before" : "recorded";
  $("now-name").textContent = isOfCommit ? "after" : question.transient ? "in between" : "now";
  $("bug-send").textContent = isOfCi ? "Note it" : "Fail the test";
  for (const kind of ["accept", "bug", "no"]) answer(kind).hidden = isOfCommit;
  for (const kind of ["mask", "mask_gate"]) answer(kind).hidden = !(kind in question.concerned);
  $("question-values").replaceChildren(...Object.entries(question.values ?? {}).map(([name, text]) => (
    createElement("button", `It shows the value ${name}`, { title: text, onclick: () => reply("value", name) }))));
  answer("mask").textContent = `Mask it in the test (${question.masked_px.toLocaleString("en")} px)`;
  $("question-masks").textContent = Object.entries(question.concerned).map(([kind, gates]) => `${answer(kind).textContent}: ${gates}.`).join(" ");
  const rejected = Object.entries(question.refused);
  for (const kind of ["hand", "model"]) {
    answer(kind).hidden = isOfCi || Boolean(question.claim) || question.transient;
    answer(kind).disabled = kind in question.refused;
  }
  $("question-refused").textContent = isOfCi || question.claim || question.transient ? (question.note ?? "") : rejected.map(([kind, why]) => `${answer(kind).textContent}: ${why}.`).join(" ");
  $("bug").hidden = true;
  $("bug-text").value = "";
  $("question").setAttribute("closedby", isOfCi ? "closerequest" : "none"); // a second Escape closes despite `oncancel`
  if (!$("question").open) $("question").showModal();
}

/** Ask where the recording continues: after steps by hand, or with a draft. */
function renderChoice(question) {
  if (!question) {
    if ($("choice").open) $("choice").close();
    return;
  }
  if ($("choice").open && $("choice").dataset.id === question.id) return;
  $("choice").dataset.id = question.id;
  $("choice-heading").textContent = question.title;
  $("choice-text").textContent = question.text ?? "Where does the recording continue?";
  const choices = [...question.choices, { number: "no", text: question.none ?? "Nowhere: the test fails" }];
  $("choice-now").parentElement.hidden = !question.now;
  $("choice-now").src = `data:image/png;base64,${question.now ?? ""}`;
  $("choices").replaceChildren(...choices.map(({ number, text, image }) => {
    const button = createElement("button", text, { onclick: () => send({ type: "answer", id: question.id, kind: String(number) }) });
    if (image) button.prepend(Object.assign(new Image(), { src: `data:image/png;base64,${image}`, alt: "" }));
    return button;
  }));
  if (!$("choice").open) $("choice").showModal();
}
$("choice").oncancel = (event) => event.preventDefault();

const isWhole = () => $("whole").getAttribute("aria-pressed") === "true";
const cropped = (image, boxes) => crop(image, boxes, isWhole(), image.id === "difference" ? [] : boxes);

function reply(kind, text = "") {
  send({ type: "answer", id: $("question").dataset.id, kind, text, acts });
  chosen = "";
  schedule();
}

function view(name) {
  $("pair").dataset.view = name;
  document.querySelectorAll("[data-view][aria-pressed]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.view === name)));
  $("slider-label").hidden = name !== "slide";
  $("now").parentElement.style.clipPath = name === "slide" ? `inset(0 0 0 ${$("slider").value}%)` : "";
}

$("run-all").onclick = () => run([]);
$("run-failed").onclick = () => run([...tests.values()].filter(isBad).map((test) => test.id));
$("pause").onclick = () => send({ type: "pause", on: !session.is_paused });
$("next").onclick = () => send({ type: "next", test: selected });
$("stop").onclick = () => send({ type: "stop" });
$("filter").oninput = schedule;
$("slider").oninput = () => view("slide");
document.querySelectorAll("[data-view][aria-pressed]").forEach((button) => { button.onclick = () => view(button.dataset.view); });
document.querySelectorAll("[data-answer]").forEach((button) => {
  button.onclick = () => {
    if (button.dataset.answer !== "bug") return reply(button.dataset.answer);
    $("bug").hidden = false;
    $("bug-text").focus();
  };
});
$("bug").onsubmit = (event) => { event.preventDefault(); reply("bug", $("bug-text").value); };
$("later").onclick = () => { chosen = ""; schedule(); };
$("question").oncancel = (event) => { // a question of a test that waits is answered by a button
  event.preventDefault();
  $("later").onclick();
};
setInterval(() => $("pair").classList.toggle("off"), 600);

/** Accept the group that is selected, in the dialog or by the focus, and go to the next; or ask what the bug is. */
function answerGroup(key) {
  const isShown = $("question").open;
  const id = isShown ? $("question").dataset.id : document.activeElement?.closest("#groups > li")?.dataset.key?.slice("group ".length);
  const group = ci.groups.find((each) => each.id === id && each.about !== "commit");
  const next = nextOpen(ci.groups, id);
  if (isShown && !group) return; // a test that waits is answered by a button
  if (!group) return focusGroup(next?.id);
  const isRead = group.claim || group.diff; // before it is accepted
  if (key === "b" || (isRead && !isShown)) {
    chosen = id;
    render();
    if (key === "b") document.querySelector('[data-answer="bug"]').click();
    return;
  }
  if (!canAccept(group)) return;
  send({ type: "answer", id, kind: "accept", acts: isShown ? acts : group.acts });
  if (isShown) chosen = next?.id ?? "";
  else focusGroup(next?.id);
  schedule();
}

function focusGroup(id) {
  document.querySelector(`#groups > li[data-key="group ${id}"]`)?.focus();
}

document.onkeydown = (event) => {
  if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const isOfGroup = $("question").open || !document.querySelector("dialog[open]");
  if (isOfGroup && (event.key === "a" || event.key === "b")) {
    event.preventDefault(); // else the letter is typed into the text of a bug
    answerGroup(event.key);
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "p") $("pause").click();
  if (event.key === "n") $("next").click();
};
$("approvals").onclick = () => { showAll(); schedule(); };
start();
