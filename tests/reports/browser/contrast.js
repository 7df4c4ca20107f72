// Texts whose contrast with what is behind them is below 4.5 to 1 (WCAG 2.1, 1.4.3), or 3 to 1 if they are large.
if (typeof drawAll !== "undefined") drawAll();
for (const details of document.querySelectorAll("details")) details.open = true;
const parse = (color) => {
  const canvas = (parse.canvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const known = new Map();
function behind(element) {
  if (!element) return parse(getComputedStyle(document.documentElement).getPropertyValue("--paper"));
  if (!known.has(element)) known.set(element, over(parse(getComputedStyle(element).backgroundColor), behind(element.parentElement)));
  return known.get(element);
}
const bad = new Set();
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || element.closest("script, style, noscript, .drawn svg, title, .number, option")) continue;
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
  const style = getComputedStyle(element),
    inPicture = element instanceof SVGElement,
    color = parse(inPicture ? style.fill : style.color);
  let opacity = 1;
  for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
  color[3] *= opacity;
  const ground = behind(inPicture ? element.closest(".panel") : element),
    [a, b] = [light(over(color, ground)), light(ground)].sort((x, y) => y - x);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  texts += 1;
  if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) bad.add(`${element.tagName}.${element.className.baseVal ?? element.className}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
}
return { texts, bad: [...bad] };
