// The controls of a report's pages. Without this script a page shows the same, but for the slider, the zoom and filters.
"use strict";

(() => {
  document.documentElement.classList.add("js");

  // --- a run: steps, screenshots ---------------------------------------------------------------------------------------

  const steps = () => [...document.querySelectorAll(".step")].filter((step) => step.getClientRects().length);
  let current = null;

  function nearest() {
    const all = steps();
    if (all.includes(current)) return all.indexOf(current);
    return all.findIndex((step) => `#${step.id}` === location.hash);
  }

  function go(by) {
    const all = steps();
    const target = all[Math.min(Math.max(nearest() + by, 0), all.length - 1)];
    if (!target) return;
    if (current) current.classList.remove("here");
    current = target;
    current.classList.add("here");
    location.replace(`#${target.id}`); // in one file it is what shows the run
    current.focus({ preventScroll: true });
  }

  function only(side) {
    for (const pair of document.querySelectorAll(".pair")) {
      const other = side === "left" ? "right" : "left";
      const both = pair.classList.contains(`only-${other}`);
      pair.classList.remove(`only-${other}`);
      if (!both) pair.classList.add(`only-${side}`);
    }
  }

  // A canvas is an SVG that shows a part, or a box with a screenshot that is scaled and moved.
  function show(pair, whole) {
    const [x, y, width, height] = pair.dataset.zoom.split(" ").map(Number);
    for (const canvas of pair.querySelectorAll(".canvas")) {
      if (canvas.dataset.whole) {
        canvas.setAttribute("viewBox", whole ? canvas.dataset.whole : pair.dataset.zoom);
        continue;
      }
      const size = canvas.querySelector("svg").getAttribute("viewBox").split(" ").slice(2).map(Number);
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

  // In one file a run is text until its address, or that of one of its steps, is opened.
  function unpack(hash) {
    const run = document.getElementById((/^#(run-\d+)/.exec(hash) || ["", ""])[1]);
    const packed = run && run.querySelector(":scope > noscript");
    if (packed) packed.outerHTML = packed.textContent;
    return Boolean(packed);
  }

  function open() {
    if (unpack(location.hash)) location.replace(location.hash); // now its target is there
  }

  addEventListener("hashchange", open);
  open();

  const keys = {
    j: () => go(1),
    k: () => go(-1),
    ArrowLeft: () => only("left"),
    ArrowRight: () => only("right"),
    f: zoom,
    "?": help,
  };

  // --- a run's video: its steps are marks, and its controls are beside it, as the browser's would cover the screen ---------

  const partsOf = (inside) => {
    const section = inside.closest("main").querySelector(".video");
    const [video, slider, clock] = ["video", "[name=time]", ".clock"].map((part) => section.querySelector(part));
    return { video, slider, clock, marks: [...section.querySelectorAll("[data-seek]")] };
  };

  // Each mark is as wide as its step was long.
  function spread(event) {
    const { video, slider, marks } = partsOf(event.target);
    const times = [...marks.map((mark) => Number(mark.dataset.seek)), video.duration];
    marks.forEach((mark, index) => {
      mark.parentElement.style.flexGrow = Math.max(times[index + 1] - times[index], 0);
    });
    slider.max = video.duration;
    follow(event);
  }

  function follow(event) {
    const { video, slider, clock, marks } = partsOf(event.target);
    const shown = marks.filter((mark) => Number(mark.dataset.seek) <= video.currentTime + 0.001).pop();
    for (const mark of marks) mark.removeAttribute("aria-current");
    shown.setAttribute("aria-current", "true");
    slider.value = video.currentTime;
    slider.setAttribute("aria-valuetext", `${video.currentTime.toFixed(1)} s, ${shown.title}`);
    clock.textContent = `${video.currentTime.toFixed(1)} s of ${video.duration.toFixed(1)} s: ${shown.title}`;
  }

  function play(inside) {
    const { video } = partsOf(inside);
    if (video.paused) video.play();
    else video.pause();
  }

  function seek(inside, time) {
    const { video } = partsOf(inside);
    video.pause();
    video.currentTime = Number(time);
  }

  function seekStep(mark, isByPointer) {
    const { video, slider } = partsOf(mark);
    seek(mark, mark.dataset.seek);
    const isFar = !mark.closest(".video");
    if (isFar) video.scrollIntoView({ block: "center" });
    if (isFar || isByPointer) slider.focus({ preventScroll: true }); // for the arrows and the space bar
  }

  // these events do not bubble
  document.addEventListener("loadedmetadata", spread, true);
  for (const kind of ["timeupdate", "seeking"]) document.addEventListener(kind, follow, true);
  for (const kind of ["play", "pause"]) {
    const show = (event) => {
      event.target.closest(".video").querySelector("[data-do=play]").textContent = kind === "play" ? "pause" : "play";
    };
    document.addEventListener(kind, show, true);
  }
  for (const video of document.querySelectorAll("video")) if (video.readyState) spread({ target: video });

  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.closest("[name=time]")) {
      event.preventDefault();
      play(event.target);
    }
    const typing = event.target.closest("input, select, textarea, .film, .video, pre, .wide");
    const action = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    const isRun = [...document.querySelectorAll(".deciding")].some((part) => part.getClientRects().length);
    if (!action || typing || event.ctrlKey || event.metaKey || event.altKey || !isRun) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#run-']");
    if (link) unpack(link.hash);
    const button = event.target.closest("[data-do]");
    if (button) ({ zoom, help, play: () => play(button) })[button.dataset.do]();
    const mark = event.target.closest("[data-seek]");
    if (mark) seekStep(mark, event.detail > 0);
    if (event.target.closest("video")) play(event.target);
  });

  document.addEventListener("input", (event) => {
    if (event.target.name === "slide") {
      document.documentElement.style.setProperty("--slide", `${event.target.value}%`);
    }
    if (event.target.name === "time") seek(event.target, event.target.value);
    if (event.target.form && event.target.form.classList.contains("filters")) filter();
  });

  // --- a session: filters, kept in the address -----------------------------------------------------------------------

  const form = document.querySelector(".filters");

  function filter() {
    const params = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const text = (params.get("q") || "").toLowerCase();
    let count = 0;
    for (const row of document.querySelectorAll(".tests tbody tr")) {
      const fits =
        row.textContent.toLowerCase().includes(text) &&
        ["result", "triage"].every((name) => !params.has(name) || row.dataset[name] === params.get(name));
      row.hidden = !fits;
      count += fits;
    }
    form.querySelector("output").textContent = `${count} shown`;
    history.replaceState(null, "", params.size ? `#${params}` : location.pathname + location.search);
  }

  if (form) {
    form.addEventListener("submit", (event) => event.preventDefault());
    const params = new URLSearchParams(location.hash.slice(1));
    const values = [...params].filter(([name]) => form.elements[name]);
    for (const [name, value] of values) form.elements[name].value = value;
    if (values.length) filter();
  }
})();
