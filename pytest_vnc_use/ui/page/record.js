// Recording: the pointer and the keyboard over the live screen go to the desktop, and the answers at its end.

import { listSteps, screenOf } from "./screens.js";

const $ = (id) => document.getElementById(id);
const BUTTONS = ["left", "middle", "right"];
const CHORDS = [
  "ctrl+w", "ctrl+t", "ctrl+n", "ctrl+q", "ctrl+tab", "ctrl+shift+tab", "alt+tab", "alt+f4", "ctrl+alt+delete",
  "super", "printscreen", "f11", "shift+escape",
];
const WHEEL_CLICK_PX = 100;
const VALUE = "\u0000"; // an option for a value begins with it, and no claim
const MAX_SHOWN = 0.25; // of the screen, which a place of a value may be
// A browser gives no character for these: the text comes later, by an input event.
const COMPOSES = new Set(["Dead", "Process", "Unidentified", "Compose"]);

let question = null;
let undone = ""; // the test in which steps were undone, until its fresh desktop is there
let kept = 0; // how many steps are repeated then
let send = () => {};
let canvas = null;
// [{ box: [left, top, right, bottom], claim, value, after }]: a mask without a claim and a value
let regions = [];
let button = ""; // the pointer's button that is down
let move = null; // the newest move that is not sent yet
let scrolled = { x: 0, y: 0 };

/** Send an input with the time at which it happened, in milliseconds since the page was opened. */
const sendInputAt = (timeStamp, ...event) => question && send({ type: "input", id: question.id, event, at: performance.timeOrigin + timeStamp });
const sendInput = (...event) => sendInputAt(performance.now(), ...event);

/** Show the recording that the question is about, or that it starts again; return whether there is one. */
export function renderRecord(asked, sender, isRunning) {
  send = sender;
  if (asked || !isRunning(undone)) undone = "";
  document.body.classList.toggle("recording", Boolean(asked || undone));
  $("record").hidden = !asked && !undone;
  $("record").inert = !asked;
  if (!asked) {
    if (question) leave();
    question = null;
    if (undone) $("record-notice").textContent = `Undo: a fresh desktop starts${kept ? `, on which ${stepsUpTo(kept)}` : ""}.`;
    return Boolean(undone);
  }
  if (question?.id !== asked.id) start(asked);
  question = asked;
  if (canvas.parentElement !== $("record-screen")) $("record-screen").prepend(canvas);
  if ($("record-notice").textContent !== asked.notice) $("record-notice").textContent = asked.notice;
  $("record-undo").disabled = Boolean(asked.no_undo) || !asked.steps.length;
  const captions = asked.steps.length ? asked.steps : ["Nothing yet: click into the program and do the task."];
  listSteps($("record-steps"), captions.map((text, index) => ({
    number: index + 1, text, crop: asked.crops[index] ?? "", button: undoButton(asked, index + 1) })));
  $("record-steps").classList.toggle("empty", !asked.steps.length);
  $("record-steps").lastElementChild.scrollIntoView({ block: "nearest" });
  return true;
}

const stepsUpTo = (number) => (number === 1 ? "step 1 is repeated" : `steps 1 to ${number} are repeated`);

/** Return the button by which all steps after one are undone; none for the last, and where undo is off. */
function undoButton(asked, number) {
  const later = asked.steps.length - number;
  if (asked.no_undo || later < 1) return undefined;
  return {
    textContent: "Undo to here", className: "small", onclick: () => undo(number),
    title: `On a fresh desktop ${stepsUpTo(number)}; ${later === 1 ? "the step after it is" : `the ${later} steps after it are`} undone`,
  };
}

function undo(keep) {
  [undone, kept] = [question.test, keep];
  send({ type: "answer", kind: "undo", keep, id: question.id });
}

function start(asked) {
  leave();
  [regions, question] = [[...(asked.marked ?? [])], asked];
  $("record").dataset.id = asked.id;
  canvas = screenOf(asked.test).canvas;
  canvas.onpointerdown = press;
  canvas.onpointermove = movePointer;
  canvas.onpointerup = canvas.onpointercancel = release;
  canvas.onwheel = scroll;
  canvas.oncontextmenu = (event) => event.preventDefault();
  $("record-test").textContent = asked.test;
  $("record-task").textContent = asked.by_hand ? `By hand, then the replay continues: ${asked.task}` : asked.task;
  $("record-done").textContent = asked.by_hand ? "Continue the replay" : "Done…";
  $("record-discard").textContent = asked.by_hand ? "Leave" : "Discard";
  $("record-region").hidden = Boolean(asked.by_hand);
  $("record-by-hand").hidden = !asked.by_hand;
  $("record-due").replaceChildren(...(asked.by_hand ?? []).map(due));
  $("record-no-undo").textContent = asked.no_undo ? `Undo is off: ${asked.no_undo}.` : "";
  const names = asked.secrets.map((name) => menuItem(name, () => sendInput("secret", name)));
  $("record-secrets").replaceChildren(...names);
  $("record-secret").hidden = !names.length;
  renderRegions();
  renderForm();
  keys.focus({ preventScroll: true });
}

/** A place where the replay can continue: its recorded screen, and what the user may want of it. The first one is here. */
function due({ number, text, gate, image }, index, all) {
  const item = createElement("li");
  const controls = createElement("div", "", { className: "controls" });
  const choice = (label, title, facts) => controls.append(createElement("button", label, { title, onclick: () => (
    send({ type: "answer", kind: "done", id: question.id, ...facts })) }));
  choice("Continue with it", index ? "The steps before it are left out, and its screen is waited for" : "Its screen is waited for", { until: number });
  if (index) choice("Stop before it", "The replay continues where its screen is shown, and stops again before this step", { stop: gate });
  else if (all.length > 1) choice("Skip it", "It is left out, and the screen of the next one is waited for", { until: all[1].number });
  const shot = new Image();
  Object.assign(shot, { src: `data:image/png;base64,${image}`, alt: `recorded ${text}`, title: "Larger", onclick: () => shot.classList.toggle("large") });
  item.append(shot, createElement("p", text), controls);
  return item;
}

function leave() {
  releaseKeys();
  markRegion(false);
  openForm(false);
  if ($("record-paste-form").open) $("record-paste-form").close();
}

function createElement(name, text = "", properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text, ...properties });
}

function menuItem(text, act) {
  return createElement("button", text, { onclick: (event) => {
    event.target.closest("details").open = false;
    act();
    keys.focus({ preventScroll: true });
  } });
}

// The pointer.

function at(event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left - canvas.clientLeft) * (canvas.width / canvas.clientWidth);
  const y = (event.clientY - box.top - canvas.clientTop) * (canvas.height / canvas.clientHeight);
  const inside = (value, size) => Math.min(Math.max(Math.floor(value), 0), size - 1);
  return [inside(x, canvas.width), inside(y, canvas.height)];
}

function press(event) {
  event.preventDefault();
  keys.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  if (isMarking()) return drawRegion(event, true);
  if (button) return;
  button = BUTTONS[event.button];
  sendMove();
  noteModifiers(event);
  sendModifiers();
  if (button) sendInputAt(event.timeStamp, "down", ...at(event), button);
}

function movePointer(event) {
  if (isMarking()) return drawRegion(event, false);
  noteModifiers(event);
  if (!move) requestAnimationFrame(sendMove);
  move = at(event);
}

function sendMove() {
  if (move) sendInput("move", ...move);
  move = null;
}

function release(event) {
  if (isMarking()) return drawRegion(event, false, true);
  sendMove();
  if (button && (event.type === "pointercancel" || BUTTONS[event.button] === button)) {
    sendInputAt(event.timeStamp, "up", ...at(event), button);
    button = "";
  }
}

function scroll(event) {
  event.preventDefault();
  const scale = event.deltaMode ? WHEEL_CLICK_PX / 3 : 1;
  for (const [axis, delta, less, more] of [["y", event.deltaY, "up", "down"], ["x", event.deltaX, "left", "right"]]) {
    scrolled[axis] += delta * scale;
    if (Math.abs(scrolled[axis]) >= WHEEL_CLICK_PX / 2) {
      noteModifiers(event);
      sendModifiers();
      sendInput("scroll", ...at(event), scrolled[axis] < 0 ? less : more);
      scrolled[axis] = 0;
    }
  }
}

// The keyboard: a textarea that is not seen has the focus, so that a browser composes characters in it.
// Browsers withhold releases: a Mac those of keys pressed with Cmd, a window manager all that follow alt+tab. So a key counts
// as pressed and released at once, and of the modifiers what the newest event says. The desktop gets them only with a key, a
// button or the wheel; Alt or Meta alone once its release is seen.

const MODIFIERS = ["Shift", "Control", "Alt", "Meta", "AltGraph"];
const INPUT_METHOD = 229; // the `keyCode` of what an input method handles, also after the end of its composition
const DELETES = { deleteContentBackward: "Backspace", deleteContentForward: "Delete" }; // of a keyboard on the screen
const keys = $("record-keys");
const down = new Set(); // the modifiers that are down, as "ControlLeft"
const sent = new Set(); // those of them that are down on the desktop
let alone = ""; // Alt or Meta that is down, if nothing else was done since
let owed = ""; // a key whose character the browser has not given yet
let layout = null; // what each key makes without modifiers; not in every browser
navigator.keyboard?.getLayoutMap?.().then((map) => { layout = map; });

keys.onkeydown = (event) => {
  const { key, code } = event;
  if (key === "Escape" && event.shiftKey) {
    event.preventDefault();
    releaseKeys();
    $("record-done").focus();
    return;
  }
  if (!event.repeat) alone = "";
  if (event.isComposing) return;
  if (event.keyCode === INPUT_METHOD || COMPOSES.has(key)) {
    owed = key;
    return;
  }
  event.preventDefault();
  sendText(keys.value); // of a composition whose end was withheld
  noteModifiers(event);
  if (MODIFIERS.includes(key)) return pressModifier(event);
  if (owed === "Dead" && /^[a-z]$/i.test(key)) sendInput("unknown", owed); // the accent is lost
  owed = "";
  const isText = isCharacter(key) && (isMadeByAlt(event) || !(event.ctrlKey || event.altKey || event.metaKey));
  if (isText && key.length > 1) return sendText(key);
  if (isText) lift();
  else sendModifiers();
  sendInput("key", key, code, !isText, event.repeat ? "repeat" : "down");
};
keys.onkeyup = (event) => {
  event.preventDefault();
  if (owed === "Unidentified" && event.key === owed) sendInput("unknown", owed);
  if (alone && alone === sided(event)) sendInput("chord", [alone]);
  alone = "";
  releaseKey(sided(event));
  noteModifiers(event);
};
keys.addEventListener("compositionend", () => sendText(keys.value));
keys.onbeforeinput = ({ inputType, isComposing }) => {
  owed = "";
  if (!isComposing && inputType in DELETES) sendInput("key", DELETES[inputType], "", false, "down");
};
keys.oninput = (event) => event.isComposing || sendText(keys.value);
keys.onpaste = (event) => {
  event.preventDefault();
  sendText(event.clipboardData.getData("text/plain"));
};
keys.onblur = releaseKeys;
window.addEventListener("blur", releaseKeys);
window.addEventListener("beforeunload", (event) => question?.steps.length && event.preventDefault()); // what was done ends with it
document.addEventListener("visibilitychange", () => document.hidden && releaseKeys());

/** Return a modifier with its side, as `code` names it on a keyboard whose keys are not swapped. */
const sided = ({ key, code }) => key + (code.endsWith("Right") ? "Right" : "Left");
const isCharacter = (key) => !/^[A-Z][A-Za-z0-9]+$/.test(key); // a key may make several, as lam-alef

/** Return whether Alt made a character, as Option does on a Mac. Else the key alone makes it too, and it is a chord. */
function isMadeByAlt({ key, code, altKey, ctrlKey, metaKey, shiftKey }) {
  if (!altKey || metaKey) return false;
  if (/^(Mac|iP)/.test(navigator.platform)) return !ctrlKey;
  const isOfOtherLayout = /\p{L}/u.test(key); // the map has only one
  return Boolean(layout?.has(code)) && layout.get(code) !== key && !shiftKey && !isOfOtherLayout;
}

function pressModifier(event) {
  if (event.repeat) return;
  releaseKey(sided(event));
  if (!down.size && ["Alt", "Meta"].includes(event.key)) alone = sided(event);
  down.add(sided(event));
}

/** Take over which modifiers are down: their own events may have been withheld. */
function noteModifiers(event) {
  for (const name of MODIFIERS) {
    if (name === event.key) continue;
    const sides = [`${name}Left`, `${name}Right`];
    if (!event.getModifierState(name)) sides.forEach(releaseKey);
    else if (!sides.some((key) => down.has(key))) down.add(sides[0]);
  }
}

/** Press the modifiers on the desktop too: they are used. */
function sendModifiers() {
  alone = "";
  for (const key of down) {
    if (!sent.has(key)) sendModifier(key, "down");
    sent.add(key);
  }
}

const sendModifier = (key, phase) => sendInput("key", key.replace(/Left$|Right$/, ""), key, true, phase);

/** Release the modifiers on the desktop, where a character needs none. */
function lift() {
  for (const key of [...sent].reverse()) sendModifier(key, "up");
  sent.clear();
}

function releaseKey(key) {
  if (sent.delete(key)) sendModifier(key, "up");
  down.delete(key);
}

/** Release all keys, and end a composition: what comes next elsewhere is not seen by this page. */
function releaseKeys() {
  alone = "";
  sendText(keys.value);
  lift();
  down.clear();
}

function sendText(text) {
  keys.value = "";
  if (!text) return;
  lift();
  sendInput("text", text);
}

// What a browser keeps for itself, pasted text, and the whole screen.

$("record-chords").replaceChildren(...CHORDS.map((chord) => menuItem(chord, () => sendInput("chord", chord.split("+")))));
$("record-full").onclick = async () => {
  await $("record").requestFullscreen();
  await navigator.keyboard?.lock?.(); // where it exists, alt+tab and ctrl+w come here too
  keys.focus();
};
$("record-full").hidden = !document.fullscreenEnabled;
$("record-paste").onclick = () => {
  $("record-text").value = "";
  $("record-paste-form").showModal();
};
$("record-paste-form").onclose = () => {
  if ($("record-paste-form").returnValue === "type") sendText($("record-text").value);
  $("record-paste-form").returnValue = "";
  keys.focus({ preventScroll: true });
};

// Regions: drawn on the screen, or typed, then a mask, the evidence of a claim, or the place of a value.

const corners = ["left", "top", "right", "bottom"].map((name) => $(`region-${name}`));
const isMarking = () => !$("region").hidden;
let drawnFrom = null;

function markRegion(on) {
  $("region").hidden = !on;
  $("record-region").setAttribute("aria-pressed", String(on));
  drawnFrom = null;
  showBoxes();
}

function drawRegion(event, begins, ends = false) {
  const [x, y] = at(event);
  if (begins) drawnFrom = [x, y];
  if (!drawnFrom) return;
  const [left, top] = drawnFrom;
  const box = [Math.min(left, x), Math.min(top, y), Math.max(left, x) + 1, Math.max(top, y) + 1];
  corners.forEach((input, number) => { input.value = box[number]; });
  if (ends) drawnFrom = null;
  showBoxes();
}

function drawnBox() {
  const box = corners.map((input) => (input.value === "" ? NaN : Number(input.value)));
  const [left, top, right, bottom] = box;
  return left >= 0 && top >= 0 && left < right && top < bottom && right <= canvas.width && bottom <= canvas.height ? box : null;
}

function showBoxes() {
  $("record-screen").querySelectorAll(".box").forEach((box) => box.remove());
  const drawn = isMarking() ? drawnBox() : null;
  for (const [left, top, right, bottom] of [...regions.map(({ box }) => box), ...(drawn ? [drawn] : [])]) {
    const box = createElement("span", "", { className: "box" });
    Object.assign(box.style, {
      left: `${(100 * left) / canvas.width}%`, top: `${(100 * top) / canvas.height}%`,
      width: `${(100 * (right - left)) / canvas.width}%`, height: `${(100 * (bottom - top)) / canvas.height}%`,
    });
    $("record-screen").append(box);
  }
  const isValue = $("region-kind").value.startsWith(VALUE);
  const isLarge = Boolean(drawn) && isValue && areaOf(drawn) > MAX_SHOWN * canvas.width * canvas.height;
  $("region-too-large").hidden = !isLarge;
  $("region-add").disabled = !drawn || isLarge;
}

const areaOf = ([left, top, right, bottom]) => (right - left) * (bottom - top);

function textOf({ claim, value }) {
  if (value) return `Shows the value ${value}`;
  return claim ? `Evidence of “${claim}”` : "Mask";
}

function renderRegions() {
  const claims = question.claims.map((claim) => createElement("option", `shows: ${claim}`, { value: claim }));
  const values = Object.entries(question.values ?? {}).map(([name, text]) => (
    createElement("option", `shows the value ${name}: ${text}`, { value: VALUE + name })));
  $("region-no-claim").hidden = claims.length + values.length > 0;
  $("region-values").hidden = !values.length;
  $("region-kind").replaceChildren(...values, ...claims, createElement("option", "is masked", { value: "" }));
  $("regions").replaceChildren(...regions.map((region) => {
    const item = createElement("li", `${textOf(region)}: ${region.box.join(", ")} `);
    item.append(createElement("button", "Remove", { onclick: () => {
      regions = regions.filter((other) => other !== region);
      sendInput("marked", ...regions);
      renderRegions();
    } }));
    return item;
  }));
  showBoxes();
}

corners.forEach((input) => { input.oninput = showBoxes; });
$("region-kind").onchange = showBoxes;
$("record-region").onclick = () => markRegion(!isMarking());
$("region").onsubmit = (event) => {
  event.preventDefault();
  const kind = $("region-kind").value;
  const value = kind.startsWith(VALUE) ? kind.slice(VALUE.length) : "";
  regions.push({ box: drawnBox(), claim: value ? "" : kind, value, after: question.steps.length });
  sendInput("marked", ...regions);
  corners.forEach((input) => { input.value = ""; });
  markRegion(false);
  renderRegions();
};

// The end.

function renderForm() {
  const isDone = createElement("fieldset");
  const lost = question.has_draft ? "nothing is recorded, and your steps are kept as a draft" : "nothing is recorded";
  isDone.append(createElement("legend", `Is this done: ${question.task}`), radio("is_done", "holds", "Yes"), radio("is_done", "fails", "No"));
  whenItFails(isDone, `The test fails: the task was not done; ${lost}.`);
  $("record-questions").replaceChildren(isDone, ...question.claims.map(claimFields));
  $("record-claims-label").hidden = !question.asks_claims;
  $("record-claims").value = "";
}

/** Return the question about a claim, whose text may be corrected where a draft keeps the answer. */
function claimFields(claim, number) {
  const fieldset = createElement("fieldset", "", { ariaLabel: claim });
  const text = createElement("textarea", "", { value: claim, rows: 2, readOnly: !question.has_draft, ariaLabel: "The claim, which you may correct" });
  fieldset.append(text, radio(`claim-${number}`, "holds", "It holds"), radio(`claim-${number}`, "fails", "It does not"));
  if (!question.has_draft) return fieldset;
  whenItFails(fieldset, "The test fails as product, nothing is recorded, and your steps are kept as a draft.");
  const hint = createElement("p", "", { className: "hint", hidden: true });
  hint.setAttribute("role", "status");
  text.oninput = () => {
    hint.hidden = claimNow(number) === claim;
    hint.textContent = `You correct the claim: nothing is recorded now. Your steps are kept as a draft. Write the new text into ${question.places[claim]}, run the test again, and continue the draft.`;
  };
  fieldset.append(hint);
  return fieldset;
}

/** Say in a question what follows, once its answer is chosen that lets the test fail. */
function whenItFails(fieldset, text) {
  const hint = createElement("p", text, { className: "hint", hidden: true });
  hint.setAttribute("role", "status");
  fieldset.append(hint);
  fieldset.addEventListener("change", () => { hint.hidden = fieldset.querySelector(":checked")?.value !== "fails"; });
}

/** Return the text of a claim as it is in the form; one that was emptied is as it was. */
function claimNow(number) {
  const text = $("record-questions").querySelectorAll("textarea")[number].value;
  return text.replace(/\s+/g, " ").trim() || question.claims[number];
}

function radio(name, value, text) {
  const label = createElement("label");
  label.append(createElement("input", "", { type: "radio", name, value }), text);
  return label;
}

/** Open the questions beside the screen, which then gets no input, or close them. */
function openForm(on) {
  $("record-form").open = $("record-screen").inert = $("record-controls").inert = on;
  if (on) $("record-answers").querySelector("input").focus();
  else keys.focus({ preventScroll: true });
}

$("record-done").onclick = () => {
  releaseKeys();
  if (question.by_hand) send({ type: "answer", kind: "done", id: question.id });
  else openForm(true);
};
$("record-back").onclick = () => openForm(false);
$("record-form").onkeydown = (event) => event.key === "Escape" && openForm(false);
$("record-answers").onsubmit = (event) => {
  event.preventDefault();
  const isAnswered = [...$("record-questions").children].every((fieldset) => fieldset.querySelector(":checked"));
  const lost = question.has_draft ? "nothing is recorded. Your steps are kept as a draft" : "what you did is lost";
  if (!isAnswered && !confirm(`A question is not answered, which counts as unsure: the test fails, and ${lost}. Continue?`)) return;
  const answers = new FormData($("record-answers"));
  const pairs = question.claims.map((claim, number) => [claim, claimNow(number)]).filter(([claim, now]) => claim !== now);
  const corrected = Object.fromEntries(pairs);
  const now = (claim) => corrected[claim] ?? claim;
  send({
    type: "answer", kind: "done", id: question.id,
    is_done: answers.get("is_done") ?? "unsure",
    verdicts: Object.fromEntries(question.claims.map((claim, number) => [now(claim), answers.get(`claim-${number}`) ?? "unsure"])),
    corrected,
    claims: $("record-claims").value.split("\n"),
    masks: regions.filter(({ claim, value }) => !claim && !value).map(({ box }) => box),
    values: regions.filter(({ value }) => value),
    regions: Object.fromEntries(regions.filter(({ claim }) => claim).map(({ box, claim }) => [now(claim), box])),
  });
  openForm(false);
};
$("record-undo").title = "Repeat all steps but the last one on a fresh desktop";
$("record-undo").onclick = () => undo(question.steps.length - 1);
$("record-discard").onclick = () => {
  if (question.by_hand) {
    const count = question.steps.length;
    if (count && !confirm(`Leave? Your ${count === 1 ? "step is" : `${count} steps are`} lost, and the test ends here, as what they did is still on the screen.`)) return;
    return send({ type: "answer", kind: "no", id: question.id, text: "the user left it" });
  }
  if (!confirm(`Discard this recording? What you did is lost${question.has_draft ? ", no draft is kept" : ""}, and nothing is written.`)) return;
  send({ type: "answer", kind: "discard", id: question.id, text: "the recording was discarded" });
};

/** Ask whether a claim holds on a screen. */
export function renderClaim(asked, sender) {
  if (!asked) {
    if ($("claim").open) $("claim").close();
    return;
  }
  $("claim-text").textContent = asked.claim;
  $("claim-problem").textContent = asked.problem ?? "";
  if ($("claim").dataset.id !== asked.id) {
    $("claim-image").src = `data:image/png;base64,${asked.image}`;
    showClaimBox(null);
  }
  $("claim").dataset.id = asked.id;
  document.querySelectorAll("[data-verdict]").forEach((choice) => {
    choice.onclick = () => sender({ type: "answer", kind: choice.dataset.verdict, id: asked.id, region: claimBox });
  });
  if (!$("claim").open) $("claim").showModal();
}

// Where the screen shows it: drawn on the image.

let claimBox = null; // [left, top, right, bottom] in pixels of the screen; null for none
let claimFrom = null;

function showClaimBox(box) {
  claimBox = box;
  $("claim-box").hidden = $("claim-whole").hidden = !box;
  if (!box) return;
  const { naturalWidth: width, naturalHeight: height } = $("claim-image");
  const [left, top, right, bottom] = box;
  Object.assign($("claim-box").style, {
    left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`, width: `${(100 * (right - left)) / width}%`, height: `${(100 * (bottom - top)) / height}%`,
  });
}

function drawClaimBox(event) {
  const image = $("claim-image");
  const area = image.getBoundingClientRect();
  const inside = (value, size) => Math.min(Math.max(Math.floor(value), 0), size - 1);
  const x = inside(((event.clientX - area.left) * image.naturalWidth) / area.width, image.naturalWidth);
  const y = inside(((event.clientY - area.top) * image.naturalHeight) / area.height, image.naturalHeight);
  if (event.type === "pointerdown") {
    event.preventDefault();
    image.setPointerCapture(event.pointerId);
    claimFrom = [x, y];
  }
  if (!claimFrom) return;
  const [fromX, fromY] = claimFrom;
  showClaimBox([Math.min(fromX, x), Math.min(fromY, y), Math.max(fromX, x) + 1, Math.max(fromY, y) + 1]);
  if (event.type === "pointerup") claimFrom = null;
}

for (const type of ["pointerdown", "pointermove", "pointerup"]) $("claim-image").addEventListener(type, drawClaimBox);
$("claim-whole").onclick = () => showClaimBox(null);
$("claim").oncancel = (event) => event.preventDefault(); // a question is answered by a button
