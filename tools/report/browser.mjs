// A headless Chromium for looking at a report: the one that @sparticuz/chromium brings, which needs neither root nor
// libraries of the machine. It is unpacked into TMPDIR. That one is for x64 only: CHROMIUM names another. Nothing of it
// reaches a network, not even this machine's own.
const FLAGS = [
  "--no-sandbox", // root has no other way
  "--no-zygote",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-domain-reliability",
  "--disable-sync",
  "--no-first-run",
  "--no-pings",
  "--font-render-hinting=none",
  "--host-resolver-rules=MAP * ~NOTFOUND",
];

/** Start one; whoever does closes it. */
export async function launch() {
  let executablePath = process.env.CHROMIUM;
  if (!executablePath) {
    process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs20.x"; // so that it brings its own libraries too
    const { default: chromium } = await import("@sparticuz/chromium");
    executablePath = await chromium.executablePath();
  }
  const { default: puppeteer } = await import("puppeteer-core");
  return puppeteer.launch({ executablePath, args: FLAGS, headless: "shell", pipe: true, timeout: 60_000 });
}

/** Show a page as a medium and a colour scheme have it: at once, for each of Puppeteer's two calls undoes the other's. */
export async function emulate(page, media, scheme) {
  const client = await page.createCDPSession();
  const features = [{ name: "prefers-color-scheme", value: scheme }];
  await client.send("Emulation.setEmulatedMedia", { media, features });
}
