// Changes a page that nobody here wrote. CHANGE is put before this: {does, selector, when, presses, after_s, for_s, box, colour, text}.
(() => {
  const css = { colour: "color: #b01030", move: "position: relative; left: 5px", hide: "visibility: hidden", size: "font-size: 135%" };
  const alike = { a: "e", c: "o", e: "c", i: "l", l: "i", m: "n", n: "m", o: "c", r: "n", s: "z", t: "f", u: "v", v: "u" };
  const edits = {
    text: (text) => text.replace(/[A-Za-z]+/, "Sundry"),
    character: (text) => (/\d/.test(text) ? text.replace(/\d/, (digit) => (Number(digit) + 1) % 10)
      : text.replace(/[aceilmnorstuv](?=[^aceilmnorstuv]*$)/, (letter) => alike[letter])),
  };
  const written = new WeakMap();
  let presses = 0, begun = false, told = false;

  const tell = () => {
    if (told) return;
    told = true;
    const request = new XMLHttpRequest();
    request.open("POST", "/happened", false);
    request.send();
  };
  const texts = (element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  const rewrite = (element) => {
    const node = texts(element)[0];
    if (!node || written.get(node) === node.data) return;
    node.data = edits[CHANGE.does](node.data);
    written.set(node, node.data);
    tell();
  };
  const restyle = () => {
    const rule = document.createElement("style");
    rule.textContent = `${CHANGE.selector} { ${css[CHANGE.does]} !important }`;
    document.head.append(rule);
  };
  const paint = () => {
    const [left, top, right, bottom] = CHANGE.box, box = document.createElement("div");
    box.style.cssText = `position: fixed; z-index: 99999; left: ${left}px; top: ${top}px; width: ${right - left}px;
      height: ${bottom - top}px; background: ${CHANGE.colour}; font: 14px/${bottom - top}px sans-serif; text-align: center`;
    box.textContent = CHANGE.text;
    document.body.append(box);
    if (CHANGE.for_s) setTimeout(() => box.remove(), 1000 * CHANGE.for_s);
  };
  const apply = () => {
    if (!begun || CHANGE.does === "paint") return;
    for (const element of document.querySelectorAll(CHANGE.selector)) {
      if (CHANGE.does in edits) return rewrite(element);
      tell();
    }
  };
  const begin = () => {
    begun = true;
    if (CHANGE.does === "paint") paint();
    else if (CHANGE.does in css) restyle();
    apply();
  };
  const press = (event) => {
    presses += event.repeat ? 0 : 1;
    if (begun || presses !== CHANGE.presses) return;
    tell();
    if (CHANGE.after_s) setTimeout(begin, 1000 * CHANGE.after_s); else begin();
  };

  if (CHANGE.presses) {
    addEventListener("keydown", press, true);
    addEventListener("mousedown", press, true);
  } else begin();
  new MutationObserver(apply).observe(document, { childList: true, subtree: true, characterData: true });
})();
