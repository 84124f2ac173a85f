// The live screens: each test's newest pixels on a canvas of its own, drawn from the changed parts in order.

const screens = new Map();

export function screenOf(test) {
  if (!screens.has(test)) screens.set(test, { canvas: document.createElement("canvas"), drawn: Promise.resolve() });
  return screens.get(test);
}

/** Draw a frame: the length of its header, the header, and a PNG. Parts of one test are drawn one after the other. */
export function drawFrame(buffer) {
  const length = new DataView(buffer).getUint32(0);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const image = createImageBitmap(new Blob([new Uint8Array(buffer, 4 + length)], { type: "image/png" }));
  const screen = screenOf(header.test);
  screen.drawn = screen.drawn.then(() => image).then((bitmap) => {
    const { canvas } = screen;
    if (canvas.width !== header.width || canvas.height !== header.height) {
      canvas.width = header.width;
      canvas.height = header.height;
    }
    canvas.getContext("2d").drawImage(bitmap, header.x, header.y);
    bitmap.close();
    canvas.dispatchEvent(new Event("drawn"));
  }).catch(() => {}); // an image that this browser cannot read leaves the screen as it was
  return header.test;
}

const MARGIN_PX = 60;

/** Show the part of a screen that holds the boxes, or the whole screen, with a frame around each of the marked boxes. */
export function crop(image, boxes, isWhole, marked) {
  const { naturalWidth: width, naturalHeight: height, parentElement: shot } = image;
  let [left, top, right, bottom] = [0, 0, width, height];
  if (boxes.length && !isWhole) {
    const side = (number) => boxes.map((box) => box[number]);
    [left, top] = [Math.min(...side(0)), Math.min(...side(1))].map((least) => Math.max(0, least - MARGIN_PX));
    [right, bottom] = [Math.min(width, Math.max(...side(2)) + MARGIN_PX), Math.min(height, Math.max(...side(3)) + MARGIN_PX)];
  }
  const across = (x) => `${(100 * x) / (right - left)}%`;
  const down = (y) => `${(100 * y) / (bottom - top)}%`;
  Object.assign(shot.style, { aspectRatio: `${right - left} / ${bottom - top}`, maxWidth: `${2 * (right - left)}px` });
  Object.assign(image.style, { width: across(width), left: across(-left), top: down(-top) });
  shot.querySelectorAll(".box").forEach((box) => box.remove());
  for (const [x, y, endX, endY] of marked) {
    const box = document.createElement("span");
    box.className = "box";
    Object.assign(box.style, { left: across(x - left), top: down(y - top), width: across(endX - x), height: down(endY - y) });
    shot.append(box);
  }
}

/** Show steps, each with a number, a text, the image of a place and perhaps a button, in a list; an item that is as before stays. */
export function listSteps(list, steps) {
  steps.forEach(({ number, text, crop, button }, index) => {
    const facts = `${number} ${text} ${crop} ${button?.title ?? ""}`;
    const before = list.children[index];
    if (before?.dataset.facts === facts) return;
    const item = document.createElement("li");
    item.textContent = text;
    item.dataset.facts = facts;
    item.setAttribute("value", number);
    if (crop) item.append(Object.assign(new Image(), { src: `data:image/png;base64,${crop}`, alt: "the place on the screen" }));
    if (button) item.append(" ", Object.assign(document.createElement("button"), button));
    if (before) before.replaceWith(item);
    else list.append(item);
  });
  while (list.children.length > steps.length) list.lastElementChild.remove();
}

/** Show a test's canvas, with the points of its newest step, in an element. */
export function show(element, test, points = []) {
  const { canvas } = screenOf(test);
  if (canvas.parentElement !== element) element.replaceChildren(canvas);
  element.querySelectorAll(".point").forEach((point) => point.remove());
  for (const [x, y] of points) {
    const point = document.createElement("span");
    point.className = "point";
    point.style.left = `${(100 * (x + 0.5)) / canvas.width}%`;
    point.style.top = `${(100 * (y + 0.5)) / canvas.height}%`;
    element.append(point);
  }
}
