// Looks at HTML files in a headless Chromium, and prints what it finds as JSON: {file: {view: {...}}}.
//
//   node look.mjs DIRECTORY FILE...     pictures go into DIRECTORY, as <file>-<view>.png and <file>.pdf
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

import { emulate, launch } from "../../tools/report/browser.mjs";

const VIEWS = [
  { name: "phone", width: 360, height: 740, scheme: "light" },
  { name: "phone-dark", width: 360, height: 740, scheme: "dark" },
  { name: "desktop", width: 1200, height: 900, scheme: "light" },
  { name: "desktop-dark", width: 1200, height: 900, scheme: "dark" },
  { name: "paper", width: 680, height: 960, scheme: "light", media: "print" },
];
const [directory, ...files] = process.argv.slice(2);

/** Runs inside the page: all that can be measured there. */
function measure() {
  const told = (element) => `<${element.tagName.toLowerCase()}> ${element.textContent.trim().slice(0, 60)}`;
  const parsed = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const luminance = ({ r, g, b }) => {
    const [red, green, blue] = [r, g, b].map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.a === 1) return colour;
    }
    return { r: 255, g: 255, b: 255, a: 1 };
  };
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const boxOf = (element) => element.getBoundingClientRect();

  const root = document.documentElement;
  const drawings = [...document.querySelectorAll("svg:not([aria-hidden=true])")];
  const texts = [...document.querySelectorAll("body *")].filter(
    (element) => shown(element) && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
  );
  const faint = [];
  for (const element of texts) {
    const style = getComputedStyle(element);
    const inDrawing = element.closest("svg");
    if (inDrawing && !["text", "tspan"].includes(element.tagName)) continue;
    const ratio = contrast(parsed(inDrawing ? style.fill : style.color), ground(element));
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${told(element)}: ${ratio.toFixed(2)}`);
  }
  const shapes = new Set();
  for (const shape of document.querySelectorAll("svg rect")) {
    if (!shown(shape)) continue;
    const { fill, stroke } = getComputedStyle(shape);
    const best = Math.max(
      ...[fill, stroke].filter((paint) => paint.startsWith("rgb")).map((paint) => contrast(parsed(paint), ground(shape))),
    );
    if (!(best >= 3)) shapes.add(`${shape.getAttribute("class")}: ${best.toFixed(2)}`);
  }
  const overlapping = [];
  for (const drawing of drawings) {
    const boxes = [...drawing.querySelectorAll("text")].filter((text) => text.textContent).map((text) => [text, boxOf(text)]);
    boxes.forEach(([text, a], place) => {
      for (const [other, b] of boxes.slice(place + 1)) {
        if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom) {
          overlapping.push(`${told(text)} and ${told(other)}`);
        }
      }
    });
  }
  const cut = [...texts, ...document.querySelectorAll("svg rect")]
    .filter(shown)
    .filter((element) => boxOf(element).right > root.clientWidth + 0.5 || boxOf(element).left < -0.5)
    .map(told);
  for (const element of texts) {
    if (element.closest("svg") || boxOf(element.parentElement.parentElement).width <= 1) continue;
    if (getComputedStyle(element).display !== "inline" && element.scrollWidth > element.clientWidth + 1) cut.push(told(element));
  }
  const levels = [...document.querySelectorAll("h1,h2,h3,h4,h5,h6")].map((heading) => Number(heading.tagName[1]));
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return {
    language: root.lang,
    media: matchMedia("print").matches ? "print" : "screen",
    title: document.title,
    text: document.body.innerText,
    ground: getComputedStyle(document.body).backgroundColor,
    width: root.clientWidth,
    overflow: root.scrollWidth - root.clientWidth,
    cut,
    overlapping,
    faint,
    shapes: [...shapes],
    drawings: drawings.length,
    nameless: drawings
      .filter(
        (drawing) =>
          drawing.getAttribute("role") !== "img" ||
          !(drawing.getAttribute("aria-labelledby") ?? "")
            .split(" ")
            .every((id) => document.getElementById(id)?.textContent.trim()),
      )
      .map(told),
    levels,
    disorder: levels.filter((level, place) => level > (levels[place - 1] ?? 0) + 1),
    swallowed: [...document.querySelectorAll("rect > *, line > *, path > *")].map(told),
    repeated: ids.filter((id, place) => ids.indexOf(id) !== place),
    scripts: document.scripts.length,
    columns: new Set([...(document.querySelector("svg.plot")?.querySelectorAll("rect") ?? [])].map((bar) => boxOf(bar).left)).size,
  };
}

async function look(browser, file) {
  const found = {};
  for (const view of VIEWS) {
    const page = await browser.newPage();
    const errors = [];
    const requests = [];
    page.on("console", (message) => errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("request", (request) => requests.push(request.url()));
    page.on("requestfailed", (request) => errors.push(`failed: ${request.url()}`));
    await page.setViewport({ width: view.width, height: view.height });
    await emulate(page, view.media ?? "screen", view.scheme);
    const address = pathToFileURL(file).href;
    await page.goto(address, { waitUntil: "load", timeout: 30_000 });
    const measured = await page.evaluate(measure);
    const name = `${basename(file, ".html")}-${view.name}`;
    await page.screenshot({ path: join(directory, `${name}.png`), fullPage: true });
    if (view.media === "print") {
      const paper = await page.pdf({ preferCSSPageSize: true, printBackground: false, timeout: 30_000 });
      writeFileSync(join(directory, `${basename(file, ".html")}.pdf`), paper);
    }
    found[view.name] = { ...measured, errors, requests: requests.filter((url) => url !== address) };
    await page.close();
  }
  return found;
}

const browser = await launch();
try {
  const found = {};
  for (const file of files) found[basename(file, ".html")] = await look(browser, file);
  console.log(JSON.stringify(found));
} finally {
  await browser.close();
}
