// The controls of a report's pages. Without this script a page shows the same, but for the slider, the zoom and filters.
"use strict";

(() => {
  document.documentElement.classList.add("js");

  // --- a run: steps, pictures ---------------------------------------------------------------------------------------

  const steps = () => [...document.querySelectorAll(".step")].filter((step) => step.getClientRects().length);
  let here = null;

  function nearest() {
    const all = steps();
    if (here && here.isConnected) return all.indexOf(here);
    return all.findIndex((step) => `#${step.id}` === location.hash);
  }

  function go(by) {
    const all = steps();
    const target = all[Math.min(Math.max(nearest() + by, 0), all.length - 1)];
    if (!target) return;
    if (here) here.classList.remove("here");
    here = target;
    here.classList.add("here");
    here.scrollIntoView({ block: "start" });
    here.focus({ preventScroll: true });
    history.replaceState(null, "", `#${target.id}`);
  }

  function only(side) {
    for (const pair of document.querySelectorAll(".pair")) {
      const other = side === "left" ? "right" : "left";
      const both = pair.classList.contains(`only-${other}`);
      pair.classList.remove(`only-${other}`);
      if (!both) pair.classList.add(`only-${side}`);
    }
  }

  // A canvas is an SVG that shows a part, or a box with images that is scaled and moved.
  function show(pair, whole) {
    const [x, y, width, height] = pair.dataset.zoom.split(" ").map(Number);
    for (const canvas of pair.querySelectorAll(".canvas")) {
      if (canvas.dataset.whole) {
        canvas.setAttribute("viewBox", whole ? canvas.dataset.whole : pair.dataset.zoom);
        continue;
      }
      const image = canvas.querySelector("img");
      const size = [Number(image.getAttribute("width")), Number(image.getAttribute("height"))];
      const scale = Math.min(size[0] / width, size[1] / height);
      const left = Math.min(Math.max(x + width / 2 - size[0] / scale / 2, 0), size[0] - size[0] / scale);
      const top = Math.min(Math.max(y + height / 2 - size[1] / scale / 2, 0), size[1] - size[1] / scale);
      canvas.style.transformOrigin = "0 0";
      const move = `translate(${(-100 * left) / size[0]}%, ${(-100 * top) / size[1]}%)`;
      canvas.style.transform = whole ? "" : `scale(${scale}) ${move}`;
    }
  }

  let isWhole = { true: false, false: true };
  function zoom() {
    // the deciding pair begins with its difference, the others begin whole
    for (const zoomed of [true, false]) isWhole[zoomed] = !isWhole[zoomed];
    for (const pair of document.querySelectorAll(".pair[data-zoom]")) {
      show(pair, isWhole[pair.classList.contains("zoomed")]);
    }
    const button = document.querySelector("[data-do=zoom]");
    if (button) button.setAttribute("aria-pressed", String(isWhole.true));
  }

  function help() {
    const dialog = document.getElementById("help");
    if (!dialog) return;
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  const keys = {
    j: () => go(1),
    k: () => go(-1),
    ArrowLeft: () => only("left"),
    ArrowRight: () => only("right"),
    f: zoom,
    "?": help,
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, .film, pre, .wide");
    const action = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!action || typing || event.ctrlKey || event.metaKey || event.altKey || !document.querySelector(".pair")) return;
    if (document.body.classList.contains("session") && !document.body.classList.contains("run")) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) ({ zoom, help })[button.dataset.do]();
  });

  document.addEventListener("input", (event) => {
    if (event.target.name === "slide") {
      document.documentElement.style.setProperty("--slide", `${event.target.value}%`);
    }
    if (event.target.form && event.target.form.classList.contains("filters")) filter();
  });

  // --- a report in one file: a run is opened from its template ---------------------------------------------------------

  const opened = document.getElementById("opened");

  const addresses = new Map();

  function addressOf(name) {
    const held = document.getElementById(`picture-${name}`);
    if (held && !addresses.has(name)) {
      const bytes = Uint8Array.from(atob(held.textContent), (letter) => letter.charCodeAt(0));
      addresses.set(name, URL.createObjectURL(new Blob([bytes], { type: `image/${held.dataset.kind}` })));
    }
    return addresses.get(name);
  }

  function put(image) {
    const name = image.dataset.src === undefined ? "href" : "src";
    const address = addressOf(image.dataset[name]);
    if (address) image.setAttribute(name, address);
    image.removeAttribute(`data-${name}`);
  }

  const sight = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        sight.unobserve(target);
        put(target);
      }
    },
    { rootMargin: "100% 100%" },
  );

  // Pictures stay text until they come near the window. SVG images are few, and cannot be watched everywhere.
  function fill(within) {
    for (const image of within.querySelectorAll("[data-href]")) put(image);
    for (const image of within.querySelectorAll("[data-src]")) sight.observe(image);
  }

  addEventListener("beforeprint", () => {
    for (const image of document.querySelectorAll("[data-src]")) put(image);
  });

  // Steps get their height once they are near, so a step far down is found in a few frames.
  function settle(target, frames = 4) {
    target.scrollIntoView();
    if (frames) requestAnimationFrame(() => settle(target, frames - 1));
  }

  function open() {
    const [, key] = location.hash.match(/^#(run-\d+)/) || [];
    const template = key ? document.getElementById(key) : null;
    document.getElementById("session").hidden = Boolean(template);
    document.body.classList.toggle("run", Boolean(template));
    if (opened.dataset.key !== (key || "")) {
      opened.replaceChildren(...(template ? [template.content.cloneNode(true)] : []));
      opened.dataset.key = key || "";
      here = null;
      fill(opened);
    }
    const target = template && document.getElementById(location.hash.slice(1));
    if (!target || target === template) scrollTo(0, 0);
    else settle(target);
  }

  if (opened) {
    fill(document.getElementById("session"));
    addEventListener("hashchange", open);
    open();
  }

  // --- a session: filters, kept in the address -----------------------------------------------------------------------

  const form = document.querySelector(".filters");

  function filter() {
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const text = (given.get("q") || "").toLowerCase();
    let count = 0;
    for (const row of document.querySelectorAll(".tests tbody tr")) {
      const fits =
        row.textContent.toLowerCase().includes(text) &&
        ["result", "triage"].every((name) => !given.has(name) || row.dataset[name] === given.get(name));
      row.hidden = !fits;
      count += fits;
    }
    form.querySelector("output").textContent = `${count} shown`;
    history.replaceState(null, "", given.size ? `#${given}` : location.pathname + location.search);
  }

  if (form) {
    form.addEventListener("submit", (event) => event.preventDefault());
    const given = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of given) if (form.elements[name]) form.elements[name].value = value;
    if (given.size) filter();
  }
})();
