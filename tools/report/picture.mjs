// Takes pictures of the beginning of a run's report, light and dark: node picture.mjs REPORT PNG...
import { pathToFileURL } from "node:url";

import { emulate, launch } from "./browser.mjs";

const WIDTH = 1000;
const MARGIN = 6;

const [report, ...pictures] = process.argv.slice(2);
const browser = await launch();
try {
  for (const [place, path] of pictures.entries()) {
    const page = await browser.newPage();
    await page.setViewport({ width: WIDTH, height: 1000, deviceScaleFactor: 2 });
    await emulate(page, "screen", place ? "dark" : "light");
    await page.goto(pathToFileURL(report).href, { waitUntil: "load", timeout: 30_000 });
    const height = await page.evaluate(() => {
      const details = document.querySelectorAll("section")[1].querySelector("details");
      return details.getBoundingClientRect().top + scrollY;
    });
    await page.screenshot({ path, clip: { x: 0, y: 0, width: WIDTH, height: height - MARGIN }, captureBeyondViewport: true });
    await page.close();
  }
} finally {
  await browser.close();
}
